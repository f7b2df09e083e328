//! The schemas and examples of webhooks and their deliveries.

use serde_json::{Value, json};

use super::parts::{Schemas, echo, echoed, id, nullable, object, only, record, reference, text, timestamp};
use crate::courier::target::URL_MAX;
use crate::model::delivery::{ATTEMPTS_KEPT, DeliveryStatus};
use crate::model::event::Sequence;
use crate::model::webhook::{AttemptError, MOVING, NAME_MAX, READ_ONLY, SECRET_MAX, WebhookStatus};

pub fn schemas() -> Schemas {
    let mut with_secret = webhook();
    with_secret["properties"]["secret"] = json!({
        "type": "string", "description": "What deliveries are signed with. In this answer and never again.",
    });
    if let Some(required) = with_secret["required"].as_array_mut() {
        required.push(json!("secret"));
    }
    vec![
        ("Webhook", webhook()),
        ("WebhookWithSecret", with_secret),
        ("NewWebhook", object(&["name", "url", "events"], writable(true))),
        ("WebhookPatch", patch()),
        ("SecretRotation", object(&[], json!({ "secret": secret() }))),
        ("WebhookTest", object(&["webhookId"], json!({ "webhookId": id("whk") }))),
        ("WebhookTestResult", test_result()),
        ("ReplayRequest", replay_request()),
        ("Replay", replay()),
        ("Delivery", delivery()),
        ("Attempt", attempt()),
    ]
}

fn webhook() -> Value {
    record(json!({
        "id": id("whk"), "organizationId": id("org"), "name": { "type": "string" }, "url": { "type": "string" },
        "events": { "type": "array", "items": reference("EventKind") },
        "status": {
            "type": "string", "enum": WebhookStatus::ALL,
            "description": "A disabled webhook is sent nothing; its events are held and can be replayed.",
        },
        "failureCount": { "type": "integer", "description": "Consecutive failures; a success resets it." },
        "lastTriggeredAt": nullable(timestamp()), "disabledAt": nullable(timestamp()),
        "hasSecret": { "type": "boolean" },
        "lastSequence": {
            "type": "integer", "description": "Every event up to it was attempted or held, or is of another kind.",
        },
        "createdAt": timestamp(), "updatedAt": timestamp(),
    }))
}

/// `whsec_` with the padded base64 of 24 to 64 bytes.
const SECRET_PATTERN: &str = "^whsec_(?:(?:[A-Za-z0-9+/]{4}){8,21}(?:[A-Za-z0-9+/][AQgw]==)?\
    |(?:[A-Za-z0-9+/]{4}){8,20}[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)$";

fn secret() -> Value {
    json!({
        "anyOf": [
            { "type": "string", "pattern": SECRET_PATTERN },
            { "type": "string", "minLength": 1, "maxLength": SECRET_MAX, "pattern": "^(?!whsec_)" },
            { "type": "null" },
        ],
        "description": "`whsec_` with the base64 of 24 to 64 bytes, or any other text, which signs as its UTF-8 bytes. \
            Absent: we make one.",
    })
}

fn writable(creation: bool) -> Value {
    let mut fields = json!({
        "name": text(NAME_MAX),
        "url": {
            "type": "string", "format": "uri", "maxLength": URL_MAX, "pattern": "^https://[^@\\s#]+$",
            "description": "https only, without credentials or fragment, to a public address.",
        },
        "events": { "type": "array", "minItems": 1, "items": reference("EventKind") },
    });
    if creation {
        fields["secret"] = secret();
    } else {
        fields["status"] = json!({ "type": "string", "enum": WebhookStatus::ALL });
    }
    fields
}

fn patch() -> Value {
    let mut fields = writable(false);
    for (name, schema) in echo(&READ_ONLY) {
        fields[name] = schema;
    }
    for name in MOVING {
        fields[name] = json!({ "description": "May be sent back as it was read; is not changed by it." });
    }
    fields["hasSecret"] = echoed(json!({ "type": "boolean" }));
    object(&[], fields)
}

fn attempt_error() -> Value {
    nullable(json!({ "type": "string", "enum": AttemptError::ALL }))
}

fn test_result() -> Value {
    record(json!({
        "webhookId": id("whk"), "eventId": id("evt"), "success": { "type": "boolean" },
        "statusCode": { "type": ["integer", "null"] }, "durationMs": { "type": "integer" }, "error": attempt_error(),
    }))
}

fn sequence() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": Sequence::MAX })
}

fn replay_request() -> Value {
    let mut to = sequence();
    to["description"] = json!("The last event unless told.");
    let only = json!({ "type": "boolean", "default": false, "description": "Leave out what was delivered." });
    object(&["fromSequence"], json!({ "fromSequence": sequence(), "toSequence": to, "onlyUndelivered": only }))
}

fn replay() -> Value {
    record(json!({
        "webhookId": id("whk"), "fromSequence": sequence(), "toSequence": sequence(),
        "onlyUndelivered": { "type": "boolean" },
    }))
}

fn delivery() -> Value {
    record(json!({
        "id": id("dlv"), "organizationId": id("org"), "webhookId": id("whk"), "eventId": id("evt"),
        "eventType": reference("EventKind"), "sequence": sequence(),
        "status": { "type": "string", "enum": DeliveryStatus::ALL },
        "attemptCount": { "type": "integer" },
        "attemptsInSeries": {
            "type": "integer", "description": "Since it was last begun, by its event or by hand: where it is in the schedule.",
        },
        "nextAttemptAt": nullable(timestamp()), "createdAt": timestamp(), "updatedAt": timestamp(),
        "attempts": {
            "type": "array", "maxItems": ATTEMPTS_KEPT, "items": reference("Attempt"), "description": "Oldest first.",
        },
    }))
}

fn attempt() -> Value {
    record(json!({
        "number": { "type": "integer" }, "startedAt": timestamp(), "durationMs": { "type": "integer" },
        "statusCode": { "type": ["integer", "null"] }, "error": attempt_error(),
        "answer": {
            "type": ["string", "null"],
            "description": "The beginning of a refusal's body, at most 16 KiB; of the newest attempt only.",
        },
    }))
}

pub fn example() -> Value {
    json!({
        "id": "whk_01KE6X17G0C9ZQ4T8V2N5B7XKF", "organizationId": "org_01KE6X0MRGW3T5Y8J1R6F4HSAP",
        "name": "Billing", "url": "https://hooks.example.com/mercato",
        "events": ["entitlement.created", "entitlement.updated", "entitlement.cancelled"], "status": "active",
        "failureCount": 0, "lastTriggeredAt": "2026-01-05T10:00:00.000Z", "disabledAt": null, "hasSecret": true,
        "lastSequence": 4711, "createdAt": "2026-01-05T09:00:00.000Z", "updatedAt": "2026-01-05T09:00:00.000Z",
    })
}

pub fn example_with_secret() -> Value {
    let mut example = example();
    example["lastTriggeredAt"] = Value::Null;
    example["secret"] = json!("whsec_bWVyY2F0by1leGFtcGxlLXNlY3JldC0zMi1ieXRlcyE=");
    example
}

pub fn new_example() -> Value {
    only(&example(), &["name", "url", "events"])
}

pub fn patch_example() -> Value {
    json!({ "status": "active" })
}

pub fn test_example() -> Value {
    json!({ "webhookId": "whk_01KE6X17G0C9ZQ4T8V2N5B7XKF" })
}

pub fn test_result_example() -> Value {
    json!({
        "webhookId": "whk_01KE6X17G0C9ZQ4T8V2N5B7XKF", "eventId": "evt_01KE6X17G0C9ZQ4T8V2N5B7XKE", "success": true,
        "statusCode": 200, "durationMs": 84, "error": null,
    })
}

pub fn replay_example() -> Value {
    json!({
        "webhookId": "whk_01KE6X17G0C9ZQ4T8V2N5B7XKF", "fromSequence": 4700, "toSequence": 4711,
        "onlyUndelivered": true,
    })
}

pub fn replay_request_example() -> Value {
    only(&replay_example(), &["fromSequence", "onlyUndelivered"])
}

pub fn delivery_example() -> Value {
    json!({
        "id": "dlv_01KE6X17G00004JVXB7Q1RPKHF", "organizationId": "org_01KE6X0MRGW3T5Y8J1R6F4HSAP",
        "webhookId": "whk_01KE6X17G0C9ZQ4T8V2N5B7XKF", "eventId": "evt_01KE6X17G0C9ZQ4T8V2N5B7XKE",
        "eventType": "entitlement.created", "sequence": 4711, "status": "pending", "attemptCount": 1,
        "attemptsInSeries": 1, "nextAttemptAt": "2026-01-05T10:00:05.000Z", "createdAt": "2026-01-05T10:00:00.000Z",
        "updatedAt": "2026-01-05T10:00:00.000Z",
        "attempts": [{
            "number": 1, "startedAt": "2026-01-05T10:00:00.000Z", "durationMs": 84, "statusCode": 503, "error": "http",
            "answer": "try later",
        }],
    })
}
