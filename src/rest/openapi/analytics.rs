//! The parameters, schemas and examples of contract analytics.

use serde_json::{Value, json};

use super::parts::{Schemas, record, reference, utc};
use crate::model::tally::ContractStatus;
use crate::resolvers::analytics::REVENUE;

pub fn schemas() -> Schemas {
    let count = |description: &str| json!({ "type": "integer", "minimum": 0, "description": description });
    let statistics = record(json!({
        "totalContracts": count("Contracts whose term overlaps the range."),
        "newContracts": count("Those of them that start in the range; without a range, in the last 30 days."),
        "expiringContracts": count("Active ones that end within 30 days from now, or by `endDate` if that is later."),
    }));
    vec![("ContractStatistics", statistics)]
}

fn parameter(name: &str, schema: Value, description: &str) -> Value {
    json!({ "name": name, "in": "query", "schema": schema, "description": description })
}

/// The query parameters of the statistics.
pub fn parameters() -> [Value; 4] {
    let status = json!({ "type": "string", "enum": ContractStatus::ALL });
    [
        parameter("startDate", utc("RFC 3339, UTC."), "The range begins here; open if absent."),
        parameter("endDate", utc("RFC 3339, UTC."), "The range ends here, not before `startDate`; open if absent."),
        parameter("vendor", reference("Vendor"), "Contracts on this marketplace only."),
        parameter("status", status, "Contracts in this state only; `active` covers pending, active and suspended."),
    ]
}

pub fn example() -> Value {
    json!({ "newContracts": 3, "totalContracts": 42, "expiringContracts": 5 })
}

/// Exactly a message, without the envelope.
pub fn revenue() -> Value {
    json!({ "schema": record(json!({ "message": { "type": "string" } })), "example": { "message": REVENUE } })
}
