//! The guard, for every operation of the catalogue and both facades: without a token 401, with each scope alone exactly
//! the operations of that scope. A new operation is in here by being in the catalogue.

use mercato::model::event::{EventKind, Kinds};
use mercato::model::operation::{Access, Method, Operation};
use mercato::model::scope::{Scope, Scopes};
use serde_json::json;

use crate::harness::{EventStream, Party, Reply, TestApp};

const UNKNOWN: &str = "cus_01KE6X17G0C9ZQ4T8V2N5B7XKD";

/// The status that REST answers with, where it has the operation.
async fn rest(party: &Party, operation: Operation) -> Option<u16> {
    let route = operation.spec().route?;
    let method = match route.method {
        Method::Get => reqwest::Method::GET,
        Method::Post => reqwest::Method::POST,
        Method::Put => reqwest::Method::PUT,
        Method::Delete => reqwest::Method::DELETE,
    };
    let request = party.request(method, &route.path.replace("{id}", UNKNOWN));
    let request = match route.method {
        // It takes no body.
        Method::Post if matches!(operation, Operation::DeliveriesResend | Operation::PrivateOffersPublish) => request,
        Method::Post | Method::Put => request.json(&json!({})),
        Method::Get | Method::Delete => request,
    };
    Some(Reply::of(request).await.status)
}

/// The shortest document that runs a root field. A new root field needs a line here.
fn document(field: &str) -> String {
    let one = |name: &str| format!("{{ {name}(id: \"{UNKNOWN}\") {{ id }} }}");
    let many = |name: &str| format!("{{ {name} {{ nodes {{ id }} }} }}");
    let about = |name: &str| format!("mutation {{ {name}(id: \"{UNKNOWN}\") {{ userErrors {{ code }} }} }}");
    let change =
        |name: &str| format!("mutation {{ {name}(id: \"{UNKNOWN}\", input: {{}}) {{ userErrors {{ code }} }} }}");
    let make =
        |name: &str, input: &str| format!("mutation {{ {name}(input: {{ {input} }}) {{ userErrors {{ code }} }} }}");
    let simulated = |field: &str| format!("mutation {{ {field} {{ userErrors {{ code }} }} }}");
    let (root, name) = field.split_once('.').expect("a root and a field");
    match name {
        "events" if root == "Subscription" => "subscription { events { id } }".to_owned(),
        "customers"
        | "entitlements"
        | "privateOffers"
        | "meteringSubmissions"
        | "events"
        | "applications"
        | "webhooks"
        | "notifications" => many(name),
        "customer" | "entitlement" | "privateOffer" | "meteringSubmission" | "event" | "application" | "webhook"
        | "delivery" | "notification" => one(name),
        "deliveries" => format!("{{ deliveries(webhookId: \"{UNKNOWN}\") {{ nodes {{ id }} }} }}"),
        "contractStatistics" => "{ contractStatistics { totalContracts } }".to_owned(),
        "contractSeries" => {
            let range = "startDate: \"2026-01-01T00:00:00Z\", endDate: \"2026-02-01T00:00:00Z\"";
            format!("{{ contractSeries({range}) {{ start }} }}")
        }
        "revenue" => "{ revenue { message } }".to_owned(),
        "createCustomer" => make(name, "vendor: CLOUD_A, companyName: \"\""),
        "createApplication" => make(name, "name: \"\", scopes: []"),
        "createPrivateOffer" => {
            make(name, "vendor: CLOUD_A, listingId: \"\", customerId: \"\", details: { pricing: { duration: 0 } }")
        }
        "submitMetering" => make(name, "details: { customer: { id: \"\" } }"),
        "createWebhook" => make(name, "name: \"\", url: \"\", events: []"),
        "testWebhook" => format!("mutation {{ testWebhook(webhookId: \"{UNKNOWN}\") {{ userErrors {{ code }} }} }}"),
        "replayWebhook" => {
            let input = "input: { fromSequence: 1 }";
            format!("mutation {{ replayWebhook(id: \"{UNKNOWN}\", {input}) {{ userErrors {{ code }} }} }}")
        }
        "marketplaceDifferences" => "{ marketplaceDifferences { subject } }".to_owned(),
        "adoptMarketplaceDifference" => {
            simulated("adoptMarketplaceDifference(vendor: CLOUD_A, kind: CONTRACT, subject: \"x\")")
        }
        "compareMarketplace" => "mutation { compareMarketplace(vendor: CLOUD_A) }".to_owned(),
        "advanceSimulator" => simulated("advanceSimulator(seconds: 1)"),
        "setSimulatorFaults" => simulated("setSimulatorFaults(input: {})"),
        "simulateSubscription" => {
            simulated("simulateSubscription(input: { listingId: \"\", planId: \"\", tenantId: \"\" })")
        }
        "simulateAgreement" => simulated("simulateAgreement(input: { listingId: \"\", cloudAccountId: \"\" })"),
        "simulateAction" => simulated("simulateAction(id: \"\", action: RENEW)"),
        "simulateDecision" => simulated("simulateDecision(offerId: \"\", decision: ACCEPT)"),
        "updateWebhook" | "updateCustomer" | "updatePrivateOffer" | "updateApplication" | "renewEntitlement" => {
            change(name)
        }
        _ if root == "Mutation" => about(name),
        other => panic!("write a document for {other}"),
    }
}

/// The status of a field: that of its error, or 200.
async fn graphql(party: &Party, field: &str) -> u16 {
    let document = document(field);
    if document.starts_with("subscription") {
        return subscription(party, &document).await;
    }
    let body = party.graphql(&document, json!({})).await.json();
    let status = body["errors"][0]["extensions"]["status"].as_u64().unwrap_or(200);
    u16::try_from(status).expect("a status")
}

/// The status that a subscription is refused with, or 200.
async fn subscription(party: &Party, document: &str) -> u16 {
    match EventStream::of(EventStream::post(party, document, &json!({}))).await {
        Ok(_) => 200,
        Err(reply) => reply.status,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_passes_without_a_token() {
    let app = TestApp::new().await;
    let stranger = app.stranger();
    for operation in Operation::ALL.iter().filter(|operation| operation.access() != Access::Public) {
        assert_eq!(rest(&stranger, *operation).await.unwrap_or(401), 401, "{operation:?}");
        if let Some(field) = operation.spec().graphql {
            assert_eq!(graphql(&stranger, field).await, 401, "{field}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_scope_opens_its_operations_and_no_others() {
    let app = TestApp::new().await;
    let organization = app.organization("A").await;
    for scope in Scope::ALL {
        let party = app.party_in(organization, &[*scope]).await;
        for operation in Operation::ALL {
            let refused = match operation.access() {
                Access::Scope(needed) => needed != *scope,
                Access::Events => Kinds::visible(Scopes::from_iter([*scope])).is_empty(),
                _ => continue,
            };
            if let Some(status) = rest(&party, *operation).await {
                assert_eq!(status == 403, refused, "{operation:?} with {scope}");
            }
            if let Some(field) = operation.spec().graphql {
                assert_eq!(graphql(&party, field).await == 403, refused, "{field} with {scope}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_person_or_oneself_is_closed_to_other_applications() {
    let app = TestApp::new().await;
    let organization = app.organization("A").await;
    let (party, sibling) = (app.party_in(organization, Scope::ALL).await, app.party_in(organization, Scope::ALL).await);
    for operation in Operation::ALL {
        let spec = operation.spec();
        if !matches!(spec.access, Access::Administrator | Access::Itself) {
            continue;
        }
        if let Some(field) = spec.graphql {
            let document = document(field).replace(UNKNOWN, &sibling.id());
            let body = party.graphql(&document, json!({})).await.json();
            assert_eq!(body["errors"][0]["extensions"]["status"], 403, "{field}");
        }
        let Some(route) = spec.route else { continue };
        let path = route.path.replace("{id}", &sibling.id());
        let reply = match route.method {
            Method::Delete => party.delete(&path).await,
            Method::Put => party.put(&path, &json!({})).await,
            _ if path.ends_with("secret") => Reply::of(party.request(reqwest::Method::POST, &path)).await,
            _ => party.post(&path, &json!({})).await,
        };
        reply.refused(403, "INSUFFICIENT_SCOPE");
    }
}

/// Naming a kind of event needs the scope that reads its resource, in a pull and in a subscription.
#[tokio::test(flavor = "multi_thread")]
async fn each_scope_opens_its_kinds_of_events() {
    let app = TestApp::new().await;
    let organization = app.organization("A").await;
    for scope in Scope::ALL {
        let party = app.party_in(organization, &[*scope]).await;
        for kind in EventKind::ALL {
            let name = kind.as_str().replace('.', "_").to_uppercase();
            let expected = if kind.scope() == *scope { 200 } else { 403 };
            let pull = format!("{{ events(kinds: [{name}]) {{ nodes {{ id }} }} }}");
            let body = party.graphql(&pull, json!({})).await.json();
            let status = body["errors"][0]["extensions"]["status"].as_u64().unwrap_or(200);
            assert_eq!(status, u64::from(expected), "{kind} with {scope}");
            let document = format!("subscription {{ events(kinds: [{name}]) {{ id }} }}");
            assert_eq!(subscription(&party, &document).await, expected, "{kind} with {scope}");
        }
    }
}
