//! The schemas and examples of the event log.

use serde_json::{Value, json};

use super::customers;
use super::parts::{Schemas, id, object, reference, timestamp};
use crate::model::event::{EventKind, Sequence};

pub fn schemas() -> Schemas {
    let change = object(&["from", "to"], json!({ "from": {}, "to": {} }));
    let event = object(
        &["id", "type", "timestamp", "sequence", "organizationId", "vendor", "test", "data"],
        json!({
            "id": id("evt"), "type": reference("EventKind"), "timestamp": timestamp(),
            "sequence": {
                "type": "integer", "minimum": 1, "maximum": Sequence::MAX,
                "description": "1, 2, 3 … in each organization without a gap, in the order of the commits.",
            },
            "organizationId": id("org"), "vendor": reference("Vendor"), "test": { "type": "boolean" },
            "data": { "type": "object", "description": "The resource in its single-object form, without history." },
            "changes": {
                "type": "object", "additionalProperties": change,
                "description": "On updates and status moves: what changed, by its path.",
            },
        }),
    );
    vec![("EventKind", json!({ "type": "string", "enum": EventKind::ALL })), ("Event", event)]
}

/// The parameter that the list of events has besides those of every list.
pub fn after() -> Value {
    json!({
        "name": "afterSequence", "in": "query",
        "schema": { "type": "integer", "minimum": 0, "maximum": Sequence::MAX },
        "description": "The last event that you know; without it, the oldest that is kept comes first. 410 when the \
            events after it are no longer kept.",
    })
}

pub fn example() -> Value {
    let customer = customers::detailed_example();
    json!({
        "id": "evt_01KE6X17G0C9ZQ4T8V2N5B7XKE", "type": "customer.created", "timestamp": customer["createdAt"],
        "sequence": 4711, "organizationId": customer["organizationId"], "vendor": customer["vendor"], "test": false,
        "data": customer,
    })
}
