//! The schemas and examples of entitlements.

use serde_json::{Value, json};

use super::parts::{Schemas, id, nullable, object, record, reference, timestamp};
use crate::model::entitlement::{Entitlement, EntitlementStatus, HistoryAction};

pub fn schemas() -> Schemas {
    let summary = record(json!({ "id": id("ent"), "listingId": { "type": "string" }, "status": status() }));
    vec![("EntitlementSummary", summary), ("Entitlement", entitlement(false)), ("EntitlementDetail", entitlement(true))]
}

fn status() -> Value {
    json!({ "type": "string", "enum": EntitlementStatus::ALL })
}

fn entitlement(detail: bool) -> Value {
    let text = json!({ "type": ["string", "null"] });
    let mut fields = json!({
        "id": id("ent"), "organizationId": id("org"), "customerId": id("cus"), "listingId": { "type": "string" },
        "vendor": reference("Vendor"), "status": status(), "startDate": timestamp(),
        "endDate": { "type": ["string", "null"], "format": "date-time", "description": "Null for pay-as-you-go." },
        "dimensions": { "type": "array", "items": dimension(detail) },
        "planId": text, "agreementId": text, "vendorSubscriptionId": text,
        "privateOfferId": nullable(id("off")), "autoRenew": { "type": ["boolean", "null"] },
        "createdAt": timestamp(), "updatedAt": timestamp(),
    });
    if detail {
        fields["history"] = json!({ "type": "array", "items": history_entry(), "description": "Newest last." });
    }
    record(fields)
}

fn dimension(detail: bool) -> Value {
    let mut fields = json!({ "key": { "type": "string" }, "value": { "type": "number" } });
    if detail {
        fields["description"] = json!({ "type": "string" });
    }
    object(&["key", "value"], fields)
}

fn history_entry() -> Value {
    let change = record(json!({ "from": {}, "to": {} }));
    object(
        &["action", "timestamp"],
        json!({
            "action": { "type": "string", "enum": HistoryAction::ALL }, "timestamp": timestamp(),
            "changes": {
                "type": "object", "additionalProperties": change,
                "description": "By dotted field path: `dimensions.seats.value`.",
            },
        }),
    )
}

pub fn example() -> Value {
    json!(full_example().listed())
}

/// The single-entitlement form.
pub fn detailed_example() -> Value {
    let mut example = json!(full_example());
    example["history"] = json!([
        { "action": "created", "timestamp": "2026-01-05T10:00:00.000Z" },
        {
            "action": "updated", "timestamp": "2026-02-01T08:30:00.000Z",
            "changes": { "dimensions.seats.value": { "from": 10, "to": 20 } },
        },
    ]);
    example
}

fn full_example() -> Entitlement {
    let example = json!({
        "id": "ent_01KE6X2V5Z8M1P3R6T9W4YBCFH", "organizationId": "org_01KE6X0MRGW3T5Y8J1R6F4HSAP",
        "customerId": "cus_01KE6X17G0C9ZQ4T8V2N5B7XKD", "listingId": "lst_analytics_pro", "vendor": "cloud_a",
        "status": "active", "startDate": "2026-01-05T10:00:00.000Z", "endDate": "2027-01-05T10:00:00.000Z",
        "dimensions": [{ "key": "seats", "value": 20, "description": "Named users" }],
        "planId": "pro", "privateOfferId": null, "agreementId": "agmt-3kq7", "vendorSubscriptionId": null,
        "autoRenew": true, "createdAt": "2026-01-05T10:00:00.000Z", "updatedAt": "2026-02-01T08:30:00.000Z",
    });
    serde_json::from_value(example).expect("the example is an entitlement")
}

pub const CSV: &str = "id,customerId,listingId,vendor,status,startDate,endDate,dimensions,planId,privateOfferId,\
    agreementId,vendorSubscriptionId,autoRenew,createdAt,updatedAt\r\n\
    ent_01KE6X2V5Z8M1P3R6T9W4YBCFH,cus_01KE6X17G0C9ZQ4T8V2N5B7XKD,lst_analytics_pro,cloud_a,active,\
    2026-01-05T10:00:00.000Z,2027-01-05T10:00:00.000Z,seats: 20,pro,,agmt-3kq7,,true,\
    2026-01-05T10:00:00.000Z,2026-02-01T08:30:00.000Z\r\n";
