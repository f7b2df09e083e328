//! The messages of `graphql-transport-ws` (the protocol of the `graphql-ws` library, July 2022).

use async_graphql::ServerError;
use serde_json::{Map, Value, json};

use super::answer::listed;
use super::parameters::Parameters;
use crate::http::json;

/// The name under which it is offered.
pub const PROTOCOL: &str = "graphql-transport-ws";

/// What a client says.
pub enum Incoming {
    Init(Option<Value>),
    Ping(Option<Value>),
    Pong,
    Subscribe { id: String, parameters: Parameters },
    Complete { id: String },
}

impl Incoming {
    /// The message, or what is wrong with it in a few words: they have to fit into the reason of a close.
    pub fn read(text: &str) -> Result<Self, String> {
        let parsed = json::parse(text.as_bytes()).map_err(|reason| format!("Invalid message: it {reason}"))?;
        let Value::Object(mut message) = parsed else {
            return Err("Invalid message: it is not a JSON object".to_owned());
        };
        let kind = text_of(&mut message, "type")?;
        let payload = message.remove("payload").filter(|payload| !payload.is_null());
        if !matches!(payload, None | Some(Value::Object(_))) {
            return Err("Invalid message: payload must be an object".to_owned());
        }
        match kind.as_str() {
            "connection_init" => Ok(Self::Init(payload)),
            "ping" => Ok(Self::Ping(payload)),
            "pong" => Ok(Self::Pong),
            "complete" => Ok(Self::Complete { id: text_of(&mut message, "id")? }),
            "subscribe" => {
                let id = text_of(&mut message, "id")?;
                let Some(Value::Object(payload)) = payload else {
                    return Err("Invalid message: payload is required".to_owned());
                };
                let parameters = Parameters::from_object(payload).map_err(|error| {
                    let first = error.fields().first().map(|problem| format!("{} {}", problem.field, problem.message));
                    format!("Invalid message: payload.{}", first.unwrap_or_default())
                })?;
                Ok(Self::Subscribe { id, parameters })
            }
            other => Err(format!("Invalid message: its type {other:?} is unknown")),
        }
    }
}

fn text_of(message: &mut Map<String, Value>, name: &str) -> Result<String, String> {
    match message.remove(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        _ => Err(format!("Invalid message: {name} must be a string that is not empty")),
    }
}

pub fn ack() -> String {
    json!({ "type": "connection_ack" }).to_string()
}

pub fn pong(payload: Option<Value>) -> String {
    match payload {
        Some(payload) => json!({ "type": "pong", "payload": payload }).to_string(),
        None => json!({ "type": "pong" }).to_string(),
    }
}

/// `result` is an execution result as JSON, which is taken over byte for byte.
pub fn next(id: &str, result: &str) -> String {
    format!("{{\"id\":{},\"type\":\"next\",\"payload\":{result}}}", json!(id))
}

pub fn error(id: &str, errors: &[ServerError]) -> String {
    json!({ "id": id, "type": "error", "payload": listed(errors) }).to_string()
}

pub fn complete(id: &str) -> String {
    json!({ "id": id, "type": "complete" }).to_string()
}
