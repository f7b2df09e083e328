//! The clients against the simulator: both ends of each protocol, written apart, understand each other.

use std::time::Duration;

use chrono::TimeDelta;
use mercato::clock::Clock;
use mercato::marketplace::accounts::Account;
use mercato::marketplace::adapter::Adapter;
use mercato::marketplace::cloud_b::CloudB;
use mercato::marketplace::jwt::{Keys, verify};
use mercato::marketplace::simulator::{MOST, Simulator, SimulatorSettings};
use mercato::marketplace::terms::{ContractStatus, Draft, Job, JobState, RowVerdict, UsageItem};
use mercato::model::entitlement::EntitlementStatus;
use mercato::model::metering::Verdict;
use serde_json::{Value, json};

use super::offers::{customer, offer};
use super::stub::{Stub, account_a, account_b, client, says_text};

/// A simulator with one publisher, and a machine's clock that both ends go by.
struct Rehearsal {
    simulator: Simulator,
    clock: Clock,
    http: reqwest::Client,
    /// Where notifications come to.
    inbox: Stub,
}

impl Rehearsal {
    async fn new() -> Self {
        let clock = Clock::manual();
        let listen = ([127, 0, 0, 1], 0).into();
        let settings = SimulatorSettings { listen, publish: TimeDelta::seconds(60), clock: clock.clone(), most: MOST };
        let simulator = Simulator::start(settings).await.expect("a simulator");
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let inbox = Stub::start(|_, _| says_text(200, "")).await;
        let rehearsal = Self { simulator, clock, http, inbox };
        let (a, b) = (account_a(""), account_b(""));
        let told = rehearsal.inbox.url.clone();
        let publisher = json!({
            "cloudA": { "accessKeyId": a.access_key_id, "secretAccessKey": a.secret_access_key, "region": a.region,
                        "secret": a.notification_secret, "notificationUrl": format!("{told}/a") },
            "cloudB": { "tenantId": b.tenant_id, "clientId": b.client_id, "clientSecret": b.client_secret,
                        "publisherId": b.publisher_id, "notificationUrl": format!("{told}/b") },
        });
        rehearsal.control("PUT", "publishers/acme", publisher).await;
        rehearsal
    }

    async fn control(&self, method: &str, path: &str, body: Value) -> Value {
        let method = method.parse().expect("a method");
        let url = format!("{}/control/{path}", self.simulator.url());
        let response = self.http.request(method, url).json(&body).send().await.expect("an answer");
        let (status, text) = (response.status(), response.text().await.expect("text"));
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    fn cloud_a(&self) -> Adapter {
        let mut account = account_a("");
        let url = format!("{}/cloud_a", self.simulator.url());
        (account.metering_url, account.catalog_url, account.agreements_url) = (url.clone(), url.clone(), url);
        Adapter::new(Account::CloudA(account), client(&self.clock))
    }

    fn cloud_b(&self) -> Adapter {
        let mut account = account_b("");
        let url = format!("{}/cloud_b", self.simulator.url());
        account.token_url = format!("{url}/{}/oauth2/v2.0/token", account.tenant_id);
        account.keys_url = format!("{url}/keys");
        (account.base_url, account.ingestion_url) = (url.clone(), url);
        Adapter::new(Account::CloudB(account), client(&self.clock))
    }

    async fn advance(&self, seconds: i64) {
        self.control("POST", "advance", json!({ "seconds": seconds })).await;
    }

    fn usage(&self, customer: &str, dimension: &str, quantity: i64) -> UsageItem {
        UsageItem {
            product: "prod-code".to_owned(),
            customer: customer.to_owned(),
            plan: Some("gold".to_owned()),
            dimension: dimension.to_owned(),
            quantity: quantity.into(),
            at: self.clock.now().plus(TimeDelta::minutes(-5)),
            licence: None,
        }
    }
}

fn verdicts(said: &[RowVerdict]) -> Vec<Verdict> {
    said.iter().map(|(verdict, _)| *verdict).collect()
}

/// Publishes, waits, and answers the vendor's id of the offer; then moves its expiry and takes it back.
async fn live_and_withdrawn(rehearsal: &Rehearsal, cloud: &Adapter, vendor: &str, account: &str) {
    let buyer = customer(vendor, account);
    let draft = offer(vendor, &json!({}));
    let job = cloud.publish(&Draft::of(&draft, &buyer)).await.expect("a job");
    assert_eq!(cloud.job(&job).await, Ok(JobState::Pending));
    rehearsal.advance(60).await;
    let Ok(JobState::Live { vendor_offer_id }) = cloud.job(&job).await else { panic!("{:?}", cloud.job(&job).await) };
    // The job was lost: what was made is found.
    let again = cloud.publish(&Draft::of(&draft, &buyer)).await.expect("a job");
    assert_eq!(cloud.job(&again).await, Ok(JobState::Live { vendor_offer_id: vendor_offer_id.clone() }));

    let known = offer(vendor, &json!({ "vendorOfferId": vendor_offer_id, "expiresAt": "2026-03-01T00:00:00Z" }));
    for job in [cloud.change_expiry(&Draft::of(&known, &buyer)).await, cloud.withdraw(&Draft::of(&known, &buyer)).await]
    {
        let job = job.expect("a job");
        rehearsal.advance(60).await;
        assert_eq!(cloud.job(&job).await, Ok(JobState::Live { vendor_offer_id: vendor_offer_id.clone() }));
    }
    let held = rehearsal.http.get(format!("{}/control", rehearsal.simulator.url())).send().await.expect("an answer");
    let held: Value = serde_json::from_str(&held.text().await.expect("text")).expect("JSON");
    let text = held["offers"].to_string();
    assert_eq!(held["offers"].as_array().map(Vec::len), Some(1), "{text}");
    // One of cloud_a is taken back by an expiry that is over.
    assert!(["withdrawn", "expired"].iter().any(|state| held["offers"][0]["state"] == **state), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn offers_are_published_changed_and_taken_back() {
    let rehearsal = Rehearsal::new().await;
    live_and_withdrawn(&rehearsal, &rehearsal.cloud_a(), "cloud_a", "123456789012").await;
    let rehearsal = Rehearsal::new().await;
    live_and_withdrawn(&rehearsal, &rehearsal.cloud_b(), "cloud_b", "buyer-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_publication_can_be_begun_again() {
    let rehearsal = Rehearsal::new().await;
    for (cloud, vendor, account) in
        [(rehearsal.cloud_a(), "cloud_a", "123456789012"), (rehearsal.cloud_b(), "cloud_b", "buyer-1")]
    {
        rehearsal.control("PUT", "faults", json!({ "failPublications": 1 })).await;
        let (draft, buyer) = (offer(vendor, &json!({})), customer(vendor, account));
        let mut jobs: Vec<Job> = Vec::new();
        for failed in [true, false] {
            let job = cloud.publish(&Draft::of(&draft, &buyer)).await.expect("a job");
            assert!(!jobs.contains(&job));
            rehearsal.advance(60).await;
            assert_eq!(matches!(cloud.job(&job).await, Ok(JobState::Failed { .. })), failed, "{vendor}");
            jobs.push(job);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_of_cloud_a_is_metered_around_poison_and_throttling() {
    let rehearsal = Rehearsal::new().await;
    let agreement = json!({ "publisher": "acme", "accountId": "123456789012", "productId": "prod-1",
                            "productCode": "prod-code", "licence": "before" });
    rehearsal.control("POST", "cloud_a/agreements", agreement).await;
    rehearsal.control("PUT", "faults", json!({ "poison": "bad", "throttle": 2, "serverErrors": 1 })).await;
    let cloud = rehearsal.cloud_a();
    let mut items: Vec<UsageItem> =
        (0..25).map(|index| rehearsal.usage("123456789012", &format!("d{index}"), index)).collect();
    items[3].dimension = "bad".to_owned();
    items[20].customer = "999999999999".to_owned();
    let said = cloud.report_usage(items.clone()).await;
    let mut expected = [Verdict::Confirmed; 25];
    (expected[3], expected[20]) = (Verdict::InvalidDimension, Verdict::NotSubscribed);
    assert_eq!(verdicts(&said), expected);
    assert_eq!(verdicts(&cloud.report_usage(items.clone()).await), expected, "the same again is confirmed again");
    items[0].quantity = 100.into();
    assert_eq!(cloud.report_usage(items).await[0].0, Verdict::Duplicate);

    let contracts = cloud.contracts().await.expect("a list");
    assert_eq!(contracts.len(), 1);
    assert_eq!(contracts[0].status, ContractStatus::Known(EntitlementStatus::Active));
    assert_eq!(contracts[0].customer, "123456789012");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_of_cloud_b_lives() {
    let rehearsal = Rehearsal::new().await;
    let bought =
        json!({ "publisher": "acme", "offerId": "lst_1", "planId": "gold", "quantity": 5, "tenantId": "buyer-1" });
    let bought = rehearsal.control("POST", "cloud_b/subscriptions", bought).await;
    let Adapter::CloudB(cloud) = rehearsal.cloud_b() else { panic!("another cloud") };
    let resolved = cloud.resolve(bought["token"].as_str().expect("a token")).await.expect("a subscription");
    assert_eq!((resolved.plan_id.as_str(), resolved.quantity()), ("gold", Some(5.into())));
    cloud.resolve("nonsense").await.expect_err("no such token");
    for _ in 0..2 {
        cloud.activate(&resolved.id, "gold", Some(5.into())).await.expect("it begins");
    }
    let change = json!({ "quantity": 7 });
    let path = format!("cloud_b/subscriptions/{}/ChangeQuantity", resolved.id);
    let operation = rehearsal.control("POST", &path, change).await["operationId"].as_str().expect("an id").to_owned();
    assert_eq!(cloud.operation(&resolved.id, &operation).await.expect("an operation").status, "InProgress");
    cloud.patch_operation(&resolved.id, &operation, true).await.expect("it is settled");
    assert_eq!(cloud.operation(&resolved.id, &operation).await.expect("an operation").status, "Succeeded");
    assert_eq!(cloud.subscription(&resolved.id).await.expect("a subscription").quantity(), Some(7.into()));

    let adapter = Adapter::CloudB(cloud);
    let items: Vec<UsageItem> = (0..30)
        .map(|index| {
            let mut item = rehearsal.usage(&resolved.id, &format!("d{index}"), index + 1);
            item.quantity = "12.5".parse().expect("a number");
            item
        })
        .collect();
    assert_eq!(verdicts(&adapter.report_usage(items.clone()).await), [Verdict::Confirmed; 30]);
    assert_eq!(verdicts(&adapter.report_usage(items.clone()).await), [Verdict::Confirmed; 30]);
    let other = UsageItem { quantity: 2.into(), ..items[0].clone() };
    assert_eq!(verdicts(&adapter.report_usage(vec![other]).await), [Verdict::Duplicate]);
    let used = adapter.accepted_usage(rehearsal.clock.now().plus(TimeDelta::days(-1))).await.expect("a list");
    assert_eq!(used.map(|used| used.len()), Some(30));
    let contracts = adapter.contracts().await.expect("a list");
    assert_eq!(contracts[0].status, ContractStatus::Known(EntitlementStatus::Active));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tokens_of_its_notifications_are_accepted() {
    let rehearsal = Rehearsal::new().await;
    let bought = json!({ "publisher": "acme", "offerId": "lst_1", "planId": "gold", "tenantId": "buyer-1" });
    rehearsal.control("POST", "cloud_b/subscriptions", bought).await;
    let mut told = Vec::new();
    for _ in 0..100 {
        told = rehearsal.inbox.asked();
        if !told.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let bearer = told.first().expect("a notification").header("authorization").to_owned();
    let token = bearer.strip_prefix("Bearer ").expect("a bearer token");
    let mut account = account_b("");
    account.keys_url = format!("{}/cloud_b/keys", rehearsal.simulator.url());
    let expected = CloudB::expected(&account);
    let keys = Keys::new(client(&rehearsal.clock), account.keys_url);
    assert_eq!(verify(&keys, token, &expected).await, Ok(()));
}
