//! An answer, and what a test asks of it.

use reqwest::header::HeaderMap;
use serde_json::{Value, json};

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Reply {
    pub async fn of(request: reqwest::RequestBuilder) -> Self {
        Self::from(request.send().await.expect("the service answers")).await
    }

    pub async fn from(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.expect("the body is text");
        Self { status, headers, text }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {:?}", self.text))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }

    /// The whole body of a 200.
    #[track_caller]
    pub fn ok(&self) -> Value {
        self.expect(200)
    }

    /// The `data` of a 200.
    #[track_caller]
    pub fn data(&self) -> Value {
        self.ok()["data"].clone()
    }

    /// The `data` of a 201.
    #[track_caller]
    pub fn created(&self) -> Value {
        self.expect(201)["data"].clone()
    }

    /// Checks an error of `contract.md` §3 in both its forms, and gives its message.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> String {
        let body = self.expect(status);
        assert_eq!(body["code"], json!(status));
        assert_eq!(body["error"]["code"], json!(code));
        assert_eq!(body["error"]["message"], body["message"]);
        assert_eq!(body["error"]["errors"], body["errors"]);
        body["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The `field: message` lines of a refusal.
    #[track_caller]
    pub fn fields(&self) -> Vec<String> {
        let line = |error: &Value| {
            format!("{}: {}", error["field"].as_str().unwrap_or("?"), error["message"].as_str().unwrap_or("?"))
        };
        self.json()["errors"].as_array().map(|errors| errors.iter().map(line).collect()).unwrap_or_default()
    }
}
