//! Staging: events and credentials that are marked, and a simulator in the place of the marketplaces.

use chrono::TimeDelta;
use mercato::app::{App, Workers};
use mercato::clock::Clock;
use mercato::config::{ListenOptions, SimulationOptions};
use mercato::marketplace::accounts::Account;
use mercato::model::environment::Environment;
use mercato::model::id::OrganizationId;
use mercato::model::scope::Scope;
use mercato::model::vendor::Vendor;
use mercato::resolvers::marketplaces;
use mercato::store::Store;
use mercato::store::connect::Target;
use mercato::store::migrate::Resume;
use serde_json::{Value, json};

use crate::harness::{Party, Reply, TestApp, listen_options, new_customer, target};

/// The settings of a test in staging: our own simulator on a free port.
fn options() -> ListenOptions {
    let simulation =
        SimulationOptions { simulator_listen: Some(([127, 0, 0, 1], 0).into()), ..SimulationOptions::default() };
    let mut options = ListenOptions { simulation, ..listen_options() };
    // What calls the simulator is allowed to by itself.
    options.marketplaces.marketplace_allow_subnet.clear();
    options
}

async fn in_environment(environment: Environment, options: ListenOptions) -> TestApp {
    let (clock, target) = (Clock::manual(), Target { environment, ..target("mem://") });
    let store = Store::open(&target, clock.clone(), Resume::Refuse).await.expect("the database opens");
    let app = App::start(store.clone(), &options, Workers::ByHand).await.expect("the service starts");
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    TestApp { app, clock, store, http }
}

async fn staging() -> TestApp {
    in_environment(Environment::Staging, options()).await
}

/// One mutation of rehearsals, and what came of it.
async fn mutate(party: &Party, field: &str) -> Value {
    let document =
        format!("mutation {{ it: {field} {{ simulation {{ id token answer }} userErrors {{ message }} }} }}");
    party.graphql(&document, json!({})).await.json()
}

async fn simulate(party: &Party, field: &str) -> Value {
    let body = mutate(party, field).await;
    assert_eq!(body["data"]["it"]["userErrors"], json!([]), "{field}: {body}");
    body["data"]["it"]["simulation"].clone()
}

async fn offer(app: &TestApp, party: &Party, vendor: &str, account: &str) -> String {
    let field = if vendor == "cloud_a" { "cloudAccountId" } else { "tenantId" };
    let customer = json!({ "vendor": vendor, field: account, "companyName": "Northwind" });
    let customer = party.post("/api/v1/customers", &customer).await.created();
    let offer = json!({
        "vendor": vendor, "listingId": "lst_1", "customerId": customer["id"],
        "details": { "pricing": { "discountPercentage": 10, "duration": 12 } },
    });
    let id = party.post("/api/v1/private-offers", &offer).await.created()["id"].as_str().expect("an id").to_owned();
    app.app.clerk.run().await.expect("the outbox's work");
    id
}

async fn read(party: &Party, offer: &str) -> Value {
    party.get(&format!("/api/v1/private-offers/{offer}")).await.data()
}

/// Publishes what was asked for: the simulator's clock, then ours, then the outbox.
async fn publish(app: &TestApp, party: &Party) {
    simulate(party, "advanceSimulator(seconds: 60)").await;
    app.advance(TimeDelta::minutes(5));
    app.app.clerk.run().await.expect("the outbox's work");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_staging_are_tests_and_no_others() {
    for (environment, test) in
        [(Environment::Production, false), (Environment::Staging, true), (Environment::Demo, false)]
    {
        let settings = if environment == Environment::Production { listen_options() } else { options() };
        let app = in_environment(environment, settings).await;
        let party = app.party().await;
        party.post("/api/v1/customers", &new_customer("1")).await.created();
        let events = app.events(party.organization()).await;
        assert_eq!(events.len(), 1);
        assert_eq!(events[0]["test"], json!(test), "{environment}");
        assert_eq!(party.get("/api/v1/events").await.data()["items"][0]["test"], json!(test), "{environment}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_another_environment_are_told_where_they_belong() {
    let (production, staging) = (TestApp::new().await, staging().await);
    let demo = in_environment(Environment::Demo, options()).await;
    let (ours, theirs, shown) = (production.party().await, staging.party().await, demo.party().await);
    for (party, mark) in [(&ours, ""), (&theirs, "test_"), (&shown, "demo_")] {
        let token = party.token.as_deref().expect("a token");
        assert!(token.starts_with(&format!("mct_{mark}")), "{token}");
        assert_eq!(token.len(), 53 + mark.len());
        assert!(party.client_id().starts_with(&format!("mci_{mark}")), "{}", party.client_id());
        assert!(party.application.client_secret.starts_with(&format!("mcs_{mark}")));
        party.get("/api/v1/customers").await.ok();
    }
    for (party, at, of, here) in [
        (&ours, &staging, "production", "staging"),
        (&theirs, &production, "staging", "production"),
        (&shown, &production, "demo", "production"),
        (&shown, &staging, "demo", "staging"),
    ] {
        let mut stray = at.stranger();
        stray.token.clone_from(&party.token);
        let reply = stray.get("/api/v1/customers").await;
        let text = format!("It is a token of {of}; this is {here}");
        assert_eq!(reply.refused(401, "UNAUTHORIZED"), text);
        let challenge = reply.header("www-authenticate");
        assert!(challenge.contains("error=\"invalid_token\"") && challenge.contains(&text), "{challenge}");
        let body = stray.graphql("{ customers { nodes { id } } }", json!({})).await.json();
        assert_eq!(body["errors"][0]["message"], json!(text));

        let refused = stray.form("/oauth/token", &party.grant()).await.expect(401);
        assert_eq!(refused["error"], json!("invalid_client"));
        assert_eq!(refused["error_description"], json!(format!("They are client credentials of {of}; this is {here}")));
    }
}

/// Nothing is said of credentials that only look as if: the checksum has to fit.
#[tokio::test(flavor = "multi_thread")]
async fn a_mark_without_a_checksum_is_no_mark() {
    let app = TestApp::new().await;
    let mut stranger = app.stranger();
    for token in [format!("mct_test_{}", "A".repeat(49)), "mct_test_".to_owned(), "mct_test_é".to_owned()] {
        stranger.token = Some(token);
        let request = stranger.get("/api/v1/customers").await;
        assert_eq!(request.refused(401, "UNAUTHORIZED"), "Invalid or revoked token");
    }
    // Its own client with a wrong secret is not told more than before.
    let party = app.party().await;
    let mut grant = party.grant();
    grant[2].1 = "mcs_test_x".to_owned();
    let refused = party.form("/oauth/token", &grant).await.expect(401);
    assert_eq!(refused["message"], json!("Invalid client credentials"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_is_rehearsed_from_its_creation_to_its_acceptance() {
    let app = staging().await;
    let party = app.party().await;
    // New since the start: it is connected when that is first needed.
    simulate(&party, "advanceSimulator(seconds: 0)").await;
    for (vendor, account, terms) in [
        ("cloud_a", "123456789012", "dimensions: [{ key: \"seats\", value: 5 }]"),
        ("cloud_b", "11111111-5c1e-4b7a-9d20-000000000001", "planId: \"gold\", quantity: 5"),
    ] {
        let id = offer(&app, &party, vendor, account).await;
        let early = mutate(&party, &format!("simulateDecision(offerId: \"{id}\", decision: ACCEPT)")).await;
        let message = early["data"]["it"]["userErrors"][0]["message"].as_str().expect("a message").to_owned();
        assert!(message.contains("not published yet"), "{message}");
        assert_eq!(read(&party, &id).await["details"]["cloud"]["publication"]["state"], json!("pending"), "{vendor}");
        publish(&app, &party).await;
        let live = read(&party, &id).await;
        assert_eq!(live["details"]["cloud"]["publication"]["state"], json!("live"), "{vendor}: {live}");

        let decide = format!("simulateDecision(offerId: \"{id}\", decision: ACCEPT, terms: {{ {terms} }})");
        let accepted = simulate(&party, &decide).await;
        let made = accepted["id"].as_str().expect("an agreement or a subscription").to_owned();
        // Only its own organization reaches it.
        let stranger = app.party().await;
        let acted = mutate(&stranger, &format!("simulateAction(id: \"{made}\", action: RENEW)")).await;
        assert_eq!(acted["errors"][0]["extensions"]["status"], json!(404), "{acted}");
        let decided = mutate(&stranger, &decide).await;
        assert_eq!(decided["errors"][0]["extensions"]["status"], json!(404), "{decided}");
        let again = mutate(&party, &decide).await;
        let message = again["data"]["it"]["userErrors"][0]["message"].as_str().expect("a message").to_owned();
        assert!(message.contains("not live"), "{message}");
        // What one marketplace has, the other may not.
        let (own, foreign) = if vendor == "cloud_a" { ("CANCEL", "UNSUBSCRIBE") } else { ("UNSUBSCRIBE", "CANCEL") };
        let wrong = mutate(&party, &format!("simulateAction(id: \"{made}\", action: {foreign})")).await;
        assert_eq!(wrong["data"]["it"]["userErrors"][0]["message"], json!(format!("is unknown at {vendor}")));
        let acted = simulate(&party, &format!("simulateAction(id: \"{made}\", action: {own})")).await;
        assert_eq!(acted["id"], json!(made), "{vendor}: {acted}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_and_purchases_are_simulated() {
    let app = staging().await;
    let party = app.party().await;
    simulate(&party, "setSimulatorFaults(input: { failPublications: 1 })").await;
    let id = offer(&app, &party, "cloud_a", "123456789012").await;
    publish(&app, &party).await;
    let failed = read(&party, &id).await;
    assert_eq!(failed["details"]["cloud"]["publication"]["state"], json!("failed"), "{failed}");

    let input = "input: { listingId: \"lst_1\", planId: \"gold\", tenantId: \"t1\" }";
    let bought = simulate(&party, &format!("simulateSubscription({input})")).await;
    assert!(bought["token"].is_string(), "{bought}");
    assert_eq!(bought["answer"]["subscription"]["planId"], json!("gold"));
    let agreed =
        simulate(&party, "simulateAgreement(input: { listingId: \"lst_1\", cloudAccountId: \"123456789012\" })").await;
    assert_eq!(agreed["answer"]["publisher"], json!(party.organization()));
    let refused = mutate(&party, "advanceSimulator(seconds: -1)").await;
    assert!(refused["data"]["it"]["userErrors"][0]["message"].as_str().is_some_and(|text| text.contains("seconds")));
}

#[tokio::test(flavor = "multi_thread")]
async fn production_simulates_nothing() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let refused = mutate(&party, "advanceSimulator(seconds: 60)").await;
    assert_eq!(refused["errors"][0]["extensions"]["status"], json!(404));
    let text = "Marketplaces are simulated in staging and in the demo only; this is production";
    assert_eq!(refused["errors"][0]["message"], json!(text));
    assert!(app.app.services.stage.is_none());

    let without = SimulationOptions { no_simulator: true, ..SimulationOptions::default() };
    let bare = in_environment(Environment::Staging, ListenOptions { simulation: without, ..listen_options() }).await;
    let refused = mutate(&bare.party().await, "advanceSimulator(seconds: 60)").await;
    assert_eq!(refused["errors"][0]["message"], json!("This service runs without a simulator"));

    let reader = app.party_in(party.organization(), &[Scope::ReadPrivateOffers]).await;
    let refused = mutate(&reader, "advanceSimulator(seconds: 60)").await;
    assert_eq!(refused["errors"][0]["extensions"]["status"], json!(403));
}

async fn account(app: &TestApp, organization: OrganizationId, vendor: Vendor) -> Account {
    let stored = app.tenant(organization).marketplace_account(vendor).await.expect("the store answers");
    serde_json::from_str(&stored.expect("it is connected").account).expect("an account")
}

/// A simulator that begins anew is told of everybody; what was connected by hand is left alone.
#[tokio::test(flavor = "multi_thread")]
async fn organizations_are_registered_at_every_start() {
    let first = staging().await;
    let (own, other) = (first.organization("A").await, first.organization("B").await);
    let stage = first.app.services.stage.as_deref().expect("a simulator");
    stage.enrol(own).await.expect("it is registered");
    let Account::CloudB(mut by_hand) = account(&first, own, Vendor::CloudB).await else { panic!("of cloud_b") };
    by_hand.client_id = "mine".to_owned();
    let by_hand = Account::CloudB(by_hand);
    let text = serde_json::to_string(&by_hand).expect("plain data");
    marketplaces::connect(&first.operator(other), Vendor::CloudB, &text).await.expect("it is kept");

    let again = App::start(first.store.clone(), &options(), Workers::ByHand).await.expect("the service starts");
    let url = again.services.stage.as_deref().expect("a simulator").url().to_owned();
    assert_ne!(url, stage.url());
    let world: Value = Reply::of(first.http.get(format!("{url}/control"))).await.json();
    let mut known: Vec<String> = world["publishers"].as_object().expect("publishers").keys().cloned().collect();
    known.sort();
    let mut all = vec![own.to_string(), other.to_string()];
    all.sort();
    assert_eq!(known, all);
    let told = &world["publishers"][own.to_string()]["cloudB"]["notificationUrl"];
    assert_eq!(*told, json!(format!("{}/marketplace/cloud_b/{own}", again.base_url)));
    let Account::CloudB(moved) = account(&first, own, Vendor::CloudB).await else { panic!("of cloud_b") };
    assert!(moved.base_url.starts_with(&url), "{}", moved.base_url);
    assert_eq!(account(&first, other, Vendor::CloudB).await, by_hand);
    assert!(matches!(account(&first, other, Vendor::CloudA).await, Account::CloudA(_)));

    // One simulator elsewhere serves as well.
    let simulation = SimulationOptions { simulator_url: Some(format!("{url}/")), ..SimulationOptions::default() };
    let third = App::start(first.store.clone(), &ListenOptions { simulation, ..options() }, Workers::ByHand).await;
    let third = third.expect("the service starts");
    assert_eq!(third.services.stage.as_deref().map(|stage| stage.url().to_owned()), Some(url));
}

#[tokio::test(flavor = "multi_thread")]
async fn production_takes_no_simulator() {
    let app = TestApp::new().await;
    let refused = App::start(app.store.clone(), &options(), Workers::ByHand).await.err().expect("it does not start");
    assert!(refused.0.contains("--simulator-url"), "{}", refused.0);
}
