//! What each operation takes and gives. Limits come from the model, so that the document and the checks are one.

use serde_json::{Map, Value, json};

use super::parts::{self, Schemas, json_body, object, record, reference};
use super::{analytics, applications, customers, entitlements, events, metering, oauth, offers, webhooks};
use crate::model::offer::OfferStatus;
use crate::model::operation::Operation;
use crate::model::scope::Scope;
use crate::model::vendor::Vendor;

/// `components.schemas`.
pub fn all() -> Map<String, Value> {
    let named = [
        shared(),
        applications::schemas(),
        customers::schemas(),
        entitlements::schemas(),
        offers::schemas(),
        metering::schemas(),
        events::schemas(),
        webhooks::schemas(),
        analytics::schemas(),
    ];
    named.into_iter().flatten().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

fn shared() -> Schemas {
    let (integer, string) = (json!({ "type": "integer" }), json!({ "type": "string" }));
    let item = record(json!({ "field": string, "message": string }));
    let field_errors = json!({ "type": "array", "items": item });
    let inner = object(
        &["type", "message", "code"],
        json!({ "type": string, "message": string, "code": string, "errors": field_errors }),
    );
    let error = json!({
        "code": { "type": "integer", "description": "The HTTP status." },
        "message": string, "errors": field_errors, "error": inner,
        "retryAfter": { "type": "integer", "description": "Seconds; with 429." },
        "oldestSequence": { "type": "integer", "description": "The oldest event that is kept; with 410." },
    });
    let oauth_error = json!({
        "code": integer, "message": string, "error": string, "error_description": string, "retryAfter": integer,
    });
    vec![
        ("Vendor", json!({ "type": "string", "enum": Vendor::ALL })),
        ("Scope", json!({ "type": "string", "enum": Scope::ALL })),
        ("Decimal", parts::decimal()),
        ("Error", object(&["code", "message", "error"], error)),
        ("OAuthError", object(&["code", "message", "error", "error_description"], oauth_error)),
    ]
}

/// What an operation takes, if anything.
pub fn request_body(operation: Operation) -> Option<Value> {
    let body = match operation {
        Operation::TokenIssue => oauth::token_request(),
        Operation::TokenRevoke | Operation::TokenIntrospect => oauth::about_token(),
        Operation::ApplicationsCreate => json_body("NewApplication", applications::new_example()),
        Operation::ApplicationsUpdate => json_body("ApplicationPatch", applications::patch_example()),
        Operation::CustomersCreate => json_body("NewCustomer", customers::new_example()),
        Operation::CustomersUpdate => json_body("CustomerPatch", customers::patch_example()),
        Operation::PrivateOffersCreate => json_body("NewPrivateOffer", offers::new_example()),
        Operation::PrivateOffersUpdate => json_body("PrivateOfferPatch", offers::patch_example()),
        Operation::MeteringSubmit => json_body("NewMeteringSubmission", metering::new_example()),
        Operation::WebhooksCreate => json_body("NewWebhook", webhooks::new_example()),
        Operation::WebhooksUpdate => json_body("WebhookPatch", webhooks::patch_example()),
        Operation::WebhooksRotateSecret => parts::optional(json_body("SecretRotation", json!({}))),
        Operation::WebhooksTest => json_body("WebhookTest", webhooks::test_example()),
        Operation::WebhooksReplay => json_body("ReplayRequest", webhooks::replay_request_example()),
        Operation::WebhooksList
        | Operation::WebhooksGet
        | Operation::WebhooksDelete
        | Operation::DeliveriesList
        | Operation::DeliveriesGet
        | Operation::DeliveriesResend
        | Operation::ApplicationsList
        | Operation::ApplicationsGet
        | Operation::ApplicationsRegenerateSecret
        | Operation::ApplicationsDelete
        | Operation::CustomersList
        | Operation::CustomersGet
        | Operation::CustomersDelete
        | Operation::CustomersExport
        | Operation::EntitlementsList
        | Operation::EntitlementsGet
        | Operation::EntitlementsExport
        | Operation::EntitlementsSuspend
        | Operation::EntitlementsReinstate
        | Operation::EntitlementsRenew
        | Operation::EntitlementsCancel
        | Operation::PrivateOffersList
        | Operation::PrivateOffersGet
        | Operation::PrivateOffersDelete
        | Operation::PrivateOffersPublish
        | Operation::PrivateOffersExport
        | Operation::MeteringList
        | Operation::MeteringGet
        | Operation::MeteringExport
        | Operation::EventsList
        | Operation::EventsGet
        | Operation::EventsSubscribe
        | Operation::AnalyticsContracts
        | Operation::AnalyticsSeries
        | Operation::MarketplacesDifferences
        | Operation::MarketplacesAdopt
        | Operation::MarketplacesCompare
        | Operation::NotificationsList
        | Operation::NotificationsGet
        | Operation::NotificationsRerun
        | Operation::SimulatorAdvance
        | Operation::SimulatorFaults
        | Operation::SimulatorSubscribe
        | Operation::SimulatorAgree
        | Operation::SimulatorAct
        | Operation::SimulatorDecide
        | Operation::AnalyticsRevenue => return None,
    };
    Some(body)
}

/// Schema and example of an operation's success.
pub fn success(operation: Operation) -> Value {
    let one = |schema: &str, example: Value| parts::wrapped(operation, reference(schema), example);
    let list = |item: &str, example: Value| parts::list(operation, item, example);
    let deleted = |prefix: &str, example: Value| parts::deleted(operation, prefix, &example);
    match operation {
        Operation::TokenIssue => oauth::token(),
        Operation::TokenRevoke => oauth::revocation(),
        Operation::TokenIntrospect => oauth::introspection(),
        Operation::ApplicationsList => list("Application", applications::example()),
        Operation::ApplicationsGet | Operation::ApplicationsUpdate => one("Application", applications::example()),
        Operation::ApplicationsCreate | Operation::ApplicationsRegenerateSecret => {
            one("ApplicationWithSecret", applications::example_with_secret())
        }
        Operation::ApplicationsDelete => deleted("app", applications::example()),
        Operation::CustomersList => list("Customer", customers::example()),
        Operation::CustomersGet | Operation::CustomersCreate | Operation::CustomersUpdate => {
            one("CustomerDetail", customers::detailed_example())
        }
        Operation::CustomersDelete => deleted("cus", customers::example()),
        Operation::CustomersExport => parts::csv(customers::CSV),
        Operation::EntitlementsList => list("Entitlement", entitlements::example()),
        Operation::EntitlementsGet => one("EntitlementDetail", entitlements::detailed_example()),
        Operation::EntitlementsExport => parts::csv(entitlements::CSV),
        Operation::PrivateOffersList => list("PrivateOffer", offers::listed_example()),
        Operation::PrivateOffersGet
        | Operation::PrivateOffersCreate
        | Operation::PrivateOffersUpdate
        | Operation::PrivateOffersPublish => one("PrivateOfferDetail", offers::example(OfferStatus::Created)),
        Operation::PrivateOffersDelete => one("PrivateOfferDetail", offers::example(OfferStatus::Cancelled)),
        Operation::PrivateOffersExport => parts::csv(offers::CSV),
        Operation::MeteringList => list("MeteringSubmission", metering::example()),
        Operation::MeteringSubmit => one("MeteringReceipt", metering::receipt_example()),
        Operation::MeteringGet => one("MeteringSubmission", metering::example()),
        Operation::MeteringExport => parts::csv(metering::CSV),
        Operation::EventsList => list("Event", events::example()),
        Operation::EventsGet => one("Event", events::example()),
        Operation::WebhooksList => list("Webhook", webhooks::example()),
        Operation::WebhooksGet | Operation::WebhooksUpdate => one("Webhook", webhooks::example()),
        Operation::WebhooksCreate | Operation::WebhooksRotateSecret => {
            one("WebhookWithSecret", webhooks::example_with_secret())
        }
        Operation::WebhooksDelete => deleted("whk", webhooks::example()),
        Operation::WebhooksTest => one("WebhookTestResult", webhooks::test_result_example()),
        Operation::WebhooksReplay => one("Replay", webhooks::replay_example()),
        Operation::DeliveriesList => list("Delivery", webhooks::delivery_example()),
        Operation::DeliveriesGet | Operation::DeliveriesResend => one("Delivery", webhooks::delivery_example()),
        Operation::AnalyticsContracts => one("ContractStatistics", analytics::example()),
        Operation::AnalyticsRevenue => analytics::revenue(),
        Operation::EntitlementsSuspend
        | Operation::EntitlementsReinstate
        | Operation::EntitlementsRenew
        | Operation::EntitlementsCancel
        | Operation::EventsSubscribe
        | Operation::MarketplacesDifferences
        | Operation::MarketplacesAdopt
        | Operation::MarketplacesCompare
        | Operation::NotificationsList
        | Operation::NotificationsGet
        | Operation::NotificationsRerun
        | Operation::SimulatorAdvance
        | Operation::SimulatorFaults
        | Operation::SimulatorSubscribe
        | Operation::SimulatorAgree
        | Operation::SimulatorAct
        | Operation::SimulatorDecide
        | Operation::AnalyticsSeries => unreachable!("operations of GraphQL alone have no route"),
    }
}
