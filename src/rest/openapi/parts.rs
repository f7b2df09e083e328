//! What the schemas of all resources are made of, and the forms that bodies and answers have in common.

use serde_json::{Map, Value, json};

use crate::model::decimal::{MAX_DIGITS, MAX_SCALE};
use crate::model::input::EMAIL_MAX;
use crate::model::operation::Operation;

/// Named schemas, for `components.schemas`.
pub type Schemas = Vec<(&'static str, Value)>;

pub fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Text for people: not blank, no control characters.
pub fn text(max: usize) -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": max,
        "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$",
    })
}

pub fn id(prefix: &str) -> Value {
    json!({ "type": "string", "pattern": format!("^{prefix}_[0-9A-HJKMNP-TV-Z]{{26}}$") })
}

/// A moment as we write it.
pub fn timestamp() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

/// A moment as we take it.
pub fn utc(description: &str) -> Value {
    json!({ "type": "string", "format": "date-time", "pattern": "(Z|\\+00:00)$", "description": description })
}

pub fn email() -> Value {
    json!({ "type": "string", "format": "email", "maxLength": EMAIL_MAX })
}

/// The same, or null.
pub fn nullable(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

/// A decimal as we take it: the more of its digits are decimals, the fewer are left before the point.
pub fn decimal() -> Value {
    let forms = (0..=MAX_SCALE.cast_signed()).map(|scale| {
        let (whole, parts) = (10_f64.powi(MAX_DIGITS.cast_signed()), 10_f64.powi(scale));
        json!({ "type": "number", "minimum": 0, "maximum": (whole - 1.0) / parts, "multipleOf": 1.0 / parts })
    });
    json!({
        "description": format!("At most {MAX_DIGITS} digits, {MAX_SCALE} of them decimals; not negative."),
        "anyOf": forms.collect::<Vec<_>>(),
    })
}

/// An object that has no other fields than these.
pub fn object(required: &[&str], properties: Value) -> Value {
    json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false })
}

/// An object with exactly these fields.
pub fn record(properties: Value) -> Value {
    let names: Vec<&str> = properties.as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect();
    object(&names, properties.clone())
}

/// What a client may send back as it read it: accepted with its current value, refused with another.
pub fn echo(fields: &[&str]) -> Map<String, Value> {
    let echoed = echoed(json!({ "type": ["string", "null"] }));
    fields.iter().map(|field| ((*field).to_owned(), echoed.clone())).collect()
}

pub fn echoed(mut schema: Value) -> Value {
    schema["description"] = json!("May be sent back as it was read; cannot be changed.");
    schema
}

/// Some fields of an example.
pub fn only(example: &Value, fields: &[&str]) -> Value {
    fields.iter().map(|field| ((*field).to_owned(), example[*field].clone())).collect::<Map<_, _>>().into()
}

pub fn json_body(schema: &str, example: Value) -> Value {
    json!({
        "required": true,
        "content": { "application/json": { "schema": reference(schema), "example": example } },
    })
}

/// A body that may be absent.
pub fn optional(mut body: Value) -> Value {
    body["required"] = json!(false);
    body
}

/// The answer `{code, data}`.
pub fn wrapped(operation: Operation, data: Value, example: Value) -> Value {
    let code = operation.route().status;
    json!({
        "schema": record(json!({ "code": { "type": "integer", "const": code }, "data": data })),
        "example": { "code": code, "data": example },
    })
}

/// A page of `item`s.
pub fn list(operation: Operation, item: &str, example: Value) -> Value {
    let data = record(json!({
        "items": { "type": "array", "items": reference(item) },
        "nextCursor": { "type": ["string", "null"], "description": "Null on the last page." },
    }));
    wrapped(operation, data, json!({ "items": [example], "nextCursor": null }))
}

/// What is left of a deleted record.
pub fn deleted(operation: Operation, prefix: &str, example: &Value) -> Value {
    let data = record(json!({ "id": id(prefix), "status": { "type": "string", "const": "deleted" } }));
    wrapped(operation, data, json!({ "id": example["id"], "status": "deleted" }))
}

/// Lines of CSV, of which `example` shows the first two.
pub fn csv(example: &str) -> Value {
    json!({ "schema": { "type": "string" }, "example": example })
}
