//! A sample of each kind of event: what a receiver is tested with. The records are made up and exist nowhere.

use serde_json::{Value, json};

use super::event::{EventKind, NewEvent};
use super::id::{EventId, OrganizationId};
use super::vendor::Vendor;
use crate::error::Result;

const CUSTOMER: &str = "cus_00000000000000000000000000";
const ENTITLEMENT: &str = "ent_00000000000000000000000000";

/// An event that did not happen.
pub fn sample(kind: EventKind, id: EventId, organization: OrganizationId) -> Result<NewEvent> {
    let about = kind.as_str();
    let mut data = match about.split_once('.').map(|(resource, _)| resource) {
        Some("entitlement") => entitlement(status_of(kind)),
        Some("private_offer") => offer(status_of(kind)),
        Some("customer") => customer(status_of(kind)),
        _ => metering(status_of(kind)),
    };
    data["organizationId"] = json!(organization);
    data["createdAt"] = json!(id.created_at());
    data["updatedAt"] = json!(id.created_at());
    NewEvent::about(kind, id, (organization, Vendor::CloudA), &data, None)
}

/// The status that a record has after such an event.
fn status_of(kind: EventKind) -> &'static str {
    match kind {
        EventKind::EntitlementCreated
        | EventKind::EntitlementRenewed
        | EventKind::EntitlementUpdated
        | EventKind::CustomerCreated
        | EventKind::CustomerUpdated => "active",
        EventKind::EntitlementExpired | EventKind::PrivateOfferExpired => "expired",
        EventKind::EntitlementCancelled | EventKind::PrivateOfferCancelled => "cancelled",
        EventKind::PrivateOfferCreated | EventKind::PrivateOfferUpdated => "created",
        EventKind::PrivateOfferAccepted => "accepted",
        EventKind::CustomerDeleted => "deleted",
        EventKind::MeteringSubmitted => "submitted",
        EventKind::MeteringConfirmed => "confirmed",
        EventKind::MeteringFailed => "failed",
    }
}

fn customer(status: &str) -> Value {
    json!({
        "id": CUSTOMER, "organizationId": null, "vendor": "cloud_a", "cloudAccountId": "123456789012", "tenantId": null,
        "email": "ops@example.com", "companyName": "Sample Company", "status": status, "createdAt": null,
        "updatedAt": null, "entitlements": [],
    })
}

fn entitlement(status: &str) -> Value {
    json!({
        "id": ENTITLEMENT, "organizationId": null, "customerId": CUSTOMER, "listingId": "lst_sample",
        "vendor": "cloud_a", "status": status, "startDate": "2026-01-01T00:00:00.000Z",
        "endDate": "2027-01-01T00:00:00.000Z",
        "dimensions": [{ "key": "seats", "value": 10, "description": "Seats" }], "planId": "sample",
        "privateOfferId": null, "agreementId": null, "vendorSubscriptionId": null, "autoRenew": false,
        "createdAt": null, "updatedAt": null,
    })
}

fn offer(status: &str) -> Value {
    json!({
        "id": "off_00000000000000000000000000", "organizationId": null, "listingId": "lst_sample", "customerId": CUSTOMER,
        "vendor": "cloud_a", "status": status, "vendorOfferId": null, "expiresAt": "2027-01-01T00:00:00.000Z",
        "entitlementId": (status == "accepted").then_some(ENTITLEMENT),
        "details": {
            "summary": { "offerName": "Sample offer", "companyName": "Sample Company", "buyerNotifications": [] },
            "pricing": {
                "discountPercentage": 10, "discountAmount": null, "duration": 12, "annualValue": null, "currency": "USD",
            },
            "cloud": {
                "offerType": "direct", "agreementId": null, "isReplacement": false,
                "publication": { "state": "live", "message": null },
            },
        },
        "createdAt": null, "updatedAt": null,
    })
}

fn metering(status: &str) -> Value {
    let verdict = match status {
        "submitted" => None,
        "confirmed" => Some("CONFIRMED"),
        _ => Some("INVALID_DIMENSION"),
    };
    json!({
        "id": "mtr_00000000000000000000000000", "organizationId": null, "vendor": "cloud_a", "status": status,
        "message": "A sample", "listingId": "lst_sample",
        "details": {
            "customer": { "id": CUSTOMER }, "reportingDate": "2026-01-01T00:00:00.000Z",
            "usage": [{
                "dimension": "api_calls", "quantity": 12, "startTime": "2026-01-01T00:00:00.000Z",
                "billedQuantity": 12, "carriedQuantity": 0, "verdict": verdict, "message": null,
            }],
        },
        "createdAt": null, "updatedAt": null,
    })
}
