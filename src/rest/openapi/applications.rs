//! The schemas and examples of OAuth applications.

use serde_json::{Map, Value, json};

use super::parts::{Schemas, echo, id, object, only, record, reference, text, timestamp};
use crate::model::application::{DESCRIPTION_MAX, NAME_MAX, READ_ONLY};

pub fn schemas() -> Schemas {
    vec![
        ("Application", application(false)),
        ("ApplicationWithSecret", application(true)),
        ("NewApplication", input(&["name", "scopes"], Map::new())),
        ("ApplicationPatch", input(&[], echo(&READ_ONLY))),
    ]
}

fn application(with_secret: bool) -> Value {
    let mut fields = json!({
        "id": id("app"), "organizationId": id("org"),
        "name": { "type": "string" }, "description": { "type": "string" },
        "scopes": { "type": "array", "items": reference("Scope") },
        "clientId": { "type": "string" },
        "createdAt": timestamp(), "updatedAt": timestamp(), "secretRotatedAt": timestamp(),
        "lastUsedAt": {
            "type": ["string", "null"], "format": "date-time", "description": "When it last obtained a token.",
        },
    });
    if with_secret {
        fields["clientSecret"] = json!({ "type": "string", "description": "Shown once." });
    }
    record(fields)
}

fn input(required: &[&str], mut properties: Map<String, Value>) -> Value {
    properties.insert("name".to_owned(), text(NAME_MAX));
    let description = json!({ "anyOf": [{ "type": "string", "maxLength": 0 }, text(DESCRIPTION_MAX)] });
    properties.insert("description".to_owned(), description);
    let scopes = json!({ "type": "array", "minItems": 1, "items": reference("Scope") });
    properties.insert("scopes".to_owned(), scopes);
    object(required, properties.into())
}

pub fn example() -> Value {
    json!({
        "id": "app_01KE6X17G0C9ZQ4T8V2N5B7XKD", "organizationId": "org_01KE6X0MRGW3T5Y8J1R6F4HSAP",
        "name": "Billing sync", "description": "Nightly export", "scopes": ["read:customers"],
        "clientId": "mci_8q3Zt0vYb1xN4kLw7uFh2A", "createdAt": "2026-01-05T10:00:00.000Z",
        "updatedAt": "2026-01-05T10:00:00.000Z", "lastUsedAt": null, "secretRotatedAt": "2026-01-05T10:00:00.000Z",
    })
}

pub fn new_example() -> Value {
    only(&example(), &["name", "description", "scopes"])
}

pub fn patch_example() -> Value {
    only(&example(), &["name", "description"])
}

pub fn example_with_secret() -> Value {
    let mut example = example();
    example["clientSecret"] = json!("mcs_...");
    example
}
