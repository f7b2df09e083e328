//! The schemas and examples of usage reports.

use serde_json::{Value, json};

use super::parts::{Schemas, id, nullable, object, only, record, reference, text, timestamp, utc};
use crate::model::entitlement::{DIMENSION_MAX, LISTING_MAX};
use crate::model::metering::{MeteringStatus, ROWS_MAX, Verdict};

pub fn schemas() -> Schemas {
    let receipt = record(json!({
        "id": id("mtr"), "status": { "type": "string", "const": MeteringStatus::Accepted },
        "message": { "type": "string" },
    }));
    vec![
        ("MeteringReceipt", receipt),
        ("MeteringSubmission", submission()),
        ("UsageRow", usage_row()),
        ("NewMeteringSubmission", new_submission()),
        ("NewUsageRow", new_usage_row()),
    ]
}

fn submission() -> Value {
    let details = record(json!({
        "customer": record(json!({ "id": id("cus") })),
        "reportingDate": timestamp(),
        "usage": { "type": "array", "items": reference("UsageRow") },
    }));
    record(json!({
        "id": id("mtr"), "organizationId": id("org"), "vendor": reference("Vendor"),
        "status": { "type": "string", "enum": MeteringStatus::ALL }, "message": { "type": "string" },
        "listingId": { "type": ["string", "null"] }, "details": details,
        "createdAt": timestamp(), "updatedAt": timestamp(),
    }))
}

fn usage_row() -> Value {
    let quantity = |description: &str| json!({ "type": "number", "description": description });
    record(json!({
        "dimension": { "type": "string" }, "quantity": quantity("As it was reported."), "startTime": timestamp(),
        "billedQuantity": quantity("What the marketplace is sent; `cloud_a` takes whole numbers."),
        "carriedQuantity": quantity("What was carried over to the dimension's next row."),
        "verdict": nullable(json!({ "type": "string", "enum": Verdict::ALL })),
        "message": { "type": ["string", "null"], "description": "The marketplace's own words." },
    }))
}

fn new_submission() -> Value {
    let customer = record(json!({ "id": { "type": "string" } }));
    let usage = json!({
        "type": "array", "maxItems": ROWS_MAX, "uniqueItems": true, "items": reference("NewUsageRow"),
        "description": "At most one row for each dimension and hour (UTC). Absent: a report of no usage.",
    });
    let details = json!({
        "customer": customer, "reportingDate": utc("In the last 24 hours; now if absent."), "usage": usage,
    });
    object(&["details"], json!({ "listingId": nullable(text(LISTING_MAX)), "details": object(&["customer"], details) }))
}

fn new_usage_row() -> Value {
    object(
        &["dimension", "quantity"],
        json!({
            "dimension": text(DIMENSION_MAX), "quantity": reference("Decimal"),
            "startTime": utc("In the last 24 hours; `reportingDate` if absent."),
        }),
    )
}

/// A request that is right on any day.
pub fn new_example() -> Value {
    let report = example();
    let mut new = only(&report, &["listingId"]);
    new["details"] = only(&report["details"], &["customer"]);
    new["details"]["usage"] = json!([only(&report["details"]["usage"][0], &["dimension", "quantity"])]);
    new
}

pub fn receipt_example() -> Value {
    let status = MeteringStatus::Accepted;
    json!({ "id": example()["id"], "status": status, "message": status.message() })
}

pub fn example() -> Value {
    let status = MeteringStatus::Confirmed;
    json!({
        "id": "mtr_01KE6X5J9B4E7H0M3P6R9T2WYC", "organizationId": "org_01KE6X0MRGW3T5Y8J1R6F4HSAP", "vendor": "cloud_a",
        "status": status, "message": status.message(), "listingId": "lst_analytics_pro",
        "details": {
            "customer": { "id": "cus_01KE6X17G0C9ZQ4T8V2N5B7XKD" }, "reportingDate": "2026-01-05T10:00:00.000Z",
            "usage": [{
                "dimension": "api_calls", "quantity": 12.5, "startTime": "2026-01-05T09:00:00.000Z",
                "billedQuantity": 12, "carriedQuantity": 0.5, "verdict": Verdict::Confirmed, "message": null,
            }],
        },
        "createdAt": "2026-01-05T10:00:00.000Z", "updatedAt": "2026-01-05T10:00:04.000Z",
    })
}

pub const CSV: &str = "id,customerId,listingId,vendor,status,reportingDate,dimension,quantity,startTime,billedQuantity,\
    carriedQuantity,verdict,message,createdAt,updatedAt\r\n\
    mtr_01KE6X5J9B4E7H0M3P6R9T2WYC,cus_01KE6X17G0C9ZQ4T8V2N5B7XKD,lst_analytics_pro,cloud_a,confirmed,\
    2026-01-05T10:00:00.000Z,api_calls,12.5,2026-01-05T09:00:00.000Z,12,0.5,CONFIRMED,,\
    2026-01-05T10:00:00.000Z,2026-01-05T10:00:04.000Z\r\n";
