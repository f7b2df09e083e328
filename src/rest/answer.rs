//! A successful answer: `{code, data}`, or `{code, data: {items, nextCursor}}` for lists (spec, Conventions).

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use super::endpoint::Ask;
use crate::error::{Error, Result};
use crate::http::failure::Failure;
use crate::model::page::{ListName, Page};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The status and the body of an answer.
pub struct Answer {
    pub status: StatusCode,
    content_type: HeaderValue,
    body: Body,
}

#[derive(Serialize)]
struct Envelope<T> {
    code: u16,
    data: T,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Items<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

impl Answer {
    pub fn one(status: StatusCode, data: impl Serialize) -> Result<Self> {
        let body = serde_json::to_vec(&Envelope { code: status.as_u16(), data }).map_err(Error::internal)?;
        Ok(Self { status, content_type: JSON, body: body.into() })
    }

    /// A page with the cursor of the next one.
    pub fn page<T: Serialize>(ask: &Ask, list: ListName, page: Page<T>) -> Result<Self, Failure> {
        let next_cursor = page.next().map(|last| ask.cursor_scope(list).encode(last));
        Ok(Self::one(StatusCode::OK, Items { items: page.items, next_cursor })?)
    }

    /// The body itself, without the envelope.
    pub fn bare(data: impl Serialize) -> Result<Self> {
        let body = serde_json::to_vec(&data).map_err(Error::internal)?;
        Ok(Self { status: StatusCode::OK, content_type: JSON, body: body.into() })
    }

    /// A body that is made while it is sent.
    pub fn streamed(content_type: HeaderValue, body: Body) -> Self {
        Self { status: StatusCode::OK, content_type, body }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        (self.status, [(header::CONTENT_TYPE, self.content_type)], self.body).into_response()
    }
}
