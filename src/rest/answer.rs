//! A successful answer: `{code, data}`, or `{code, data: {items, nextCursor}}` for lists (spec, Conventions).

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::model::page::Page;

/// The status and the JSON of an answer.
pub struct Answer {
    pub status: StatusCode,
    body: Vec<u8>,
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
        Ok(Self { status, body })
    }

    pub fn list<T: Serialize>(page: Page<T>, cursor: impl FnOnce(&T) -> String) -> Result<Self> {
        let next_cursor = page.items.last().filter(|_| page.has_more).map(cursor);
        Self::one(StatusCode::OK, Items { items: page.items, next_cursor })
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        const JSON: HeaderValue = HeaderValue::from_static("application/json");
        (self.status, [(header::CONTENT_TYPE, JSON)], self.body).into_response()
    }
}
