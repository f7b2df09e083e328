//! Reading requests and refusing them, in the words of each door.

use std::collections::HashMap;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::model::time::Timestamp;

/// What is answered instead of what was asked for.
#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    pub body: Value,
}

pub type Answer = Result<Json<Value>, Refusal>;

/// What was wrong with a request, in a sentence, before it is known at which door it was said.
#[derive(Debug)]
pub enum Wrong {
    Bad(String),
    Unknown(String),
    Conflict(String),
    /// There is no room for more.
    Full(String),
}

impl Wrong {
    pub fn bad(what: impl Into<String>) -> Self {
        Self::Bad(what.into())
    }

    pub fn unknown(what: impl Into<String>) -> Self {
        Self::Unknown(what.into())
    }

    pub fn conflict(what: impl Into<String>) -> Self {
        Self::Conflict(what.into())
    }

    fn parts(self) -> (StatusCode, String) {
        match self {
            Self::Bad(message) => (StatusCode::BAD_REQUEST, message),
            Self::Unknown(message) => (StatusCode::NOT_FOUND, message),
            Self::Conflict(message) => (StatusCode::CONFLICT, message),
            Self::Full(message) => (StatusCode::INSUFFICIENT_STORAGE, message),
        }
    }

    /// As cloud_a says it.
    pub fn for_cloud_a(self) -> Refusal {
        match self.parts() {
            (status @ StatusCode::INSUFFICIENT_STORAGE, message) => {
                refuse_a(status, "ServiceQuotaExceededException", &message)
            }
            (_, message) => invalid_a(&message),
        }
    }

    /// As the control's doors say it.
    pub fn plainly(self) -> Refusal {
        let (status, message) = self.parts();
        Refusal { status, body: json!({"message": message}) }
    }

    /// As cloud_b says it.
    pub fn for_cloud_b(self) -> Refusal {
        let (status, message) = self.parts();
        refuse_b(status, &message)
    }
}

pub fn refuse_b(status: StatusCode, message: &str) -> Refusal {
    let code = match status {
        StatusCode::BAD_REQUEST => "BadArgument",
        StatusCode::UNAUTHORIZED => "Unauthorized",
        StatusCode::FORBIDDEN => "Forbidden",
        StatusCode::NOT_FOUND => "EntityNotFound",
        StatusCode::CONFLICT => "Conflict",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        StatusCode::INSUFFICIENT_STORAGE => "InsufficientStorage",
        _ => "InternalServerError",
    };
    Refusal { status, body: json!({"error": {"code": code, "message": message}}) }
}

/// As cloud_a says it.
pub fn refuse_a(status: StatusCode, kind: &str, message: &str) -> Refusal {
    let kind = format!("com.amazonaws.marketplace#{kind}");
    Refusal { status, body: json!({"__type": kind, "message": message}) }
}

pub fn invalid_a(message: &str) -> Refusal {
    refuse_a(StatusCode::BAD_REQUEST, "ValidationException", message)
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(self.body)).into_response()
    }
}

pub async fn nothing_here() -> Refusal {
    Wrong::unknown("there is nothing here").plainly()
}

/// A body; none at all is an empty object.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Wrong> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| Wrong::bad(format!("the body cannot be read: {error}")))
}

/// The parameters of a query.
pub fn query(uri: &http::Uri) -> HashMap<String, String> {
    form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect()
}

/// Without the fields that have no value: optional fields of both protocols are absent, not null.
pub fn lean(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            Value::Object(fields.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, lean(v))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(lean).collect()),
        other => other,
    }
}

/// The end of a date, which is written `YYYY-MM-DD` and in no other way.
pub fn end_of(text: &str) -> Option<Timestamp> {
    let date = text.parse::<chrono::NaiveDate>().ok().filter(|date| date.to_string() == text)?;
    Some(Timestamp::from_datetime(date.succ_opt()?.and_time(chrono::NaiveTime::MIN).and_utc()))
}
