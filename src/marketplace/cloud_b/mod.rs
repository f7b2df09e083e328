//! Client of `cloud_b` (`docs/marketplaces.md`): bearer tokens, calls with them, and what its refusals mean.
//!
//! - `token`: tokens, remembered while they are good.
//! - `fulfillment`: subscriptions and what happens to them.
//! - `notices`: what it tells of them.
//! - `metering`: reports of usage.
//! - `offers`: private offers.

pub mod fulfillment;
pub mod metering;
pub mod notices;
pub mod offers;
mod token;

use std::sync::Arc;

use http::{HeaderValue, Method, header};
use reqwest::Request;
use serde::Serialize;
use serde_json::Value;
use url::Url;

use super::accounts::CloudBAccount;
use super::http::error::bounded;
use super::http::{Answer, Client, MarketplaceError, Repeat, Result};
use super::jwt::{self, Expected, Keys, TokenError};
use token::Tokens;

const API_VERSION: (&str, &str) = ("api-version", "2018-08-31");
/// The marketplace's own application: for whom tokens are asked, and from whom notifications come.
const MARKETPLACE: &str = "20e940b3-4c77-4b0b-9a53-9e16a1b010a7";
/// What tokens are asked for: subscriptions and metering, and private offers.
const FULFILLMENT_SCOPE: &str = "20e940b3-4c77-4b0b-9a53-9e16a1b010a7/.default";
const INGESTION_SCOPE: &str = "https://graph.microsoft.com/.default";

/// A publisher's account at `cloud_b`, with its tokens: make one per account and keep it. Cheap to clone.
#[derive(Clone)]
pub struct CloudB {
    client: Client,
    account: Arc<CloudBAccount>,
    fulfillment: Arc<Tokens>,
    ingestion: Arc<Tokens>,
    keys: Arc<Keys>,
}

/// One call.
struct Call {
    method: Method,
    url: Url,
    body: Option<Vec<u8>>,
    repeat: Repeat,
}

impl Call {
    fn get(url: Url) -> Self {
        Self { method: Method::GET, url, body: None, repeat: Repeat::Freely }
    }

    /// A call with a body that may be repeated.
    fn with(method: Method, url: Url, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).expect("a body is plain data");
        Self { method, url, body: Some(body), repeat: Repeat::Freely }
    }

    fn request(&self) -> Request {
        let mut request = Request::new(self.method.clone(), self.url.clone());
        if let Some(body) = &self.body {
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *request.body_mut() = Some(body.clone().into());
        }
        request
    }
}

impl CloudB {
    pub fn new(account: CloudBAccount, client: Client) -> Self {
        let account = Arc::new(account);
        let tokens = |scope| Arc::new(Tokens::new(client.clone(), Arc::clone(&account), scope));
        let (fulfillment, ingestion) = (tokens(FULFILLMENT_SCOPE), tokens(INGESTION_SCOPE));
        let keys = Arc::new(Keys::new(client.clone(), account.keys_url.clone()));
        Self { client, account, fulfillment, ingestion, keys }
    }

    /// Whether a notification with this token is the marketplace's, and for this account.
    pub async fn authenticate(&self, token: &str) -> std::result::Result<(), TokenError> {
        jwt::verify(&self.keys, token, &Self::expected(&self.account)).await
    }

    /// The same, if it can be said without a call.
    pub fn recognizes(&self, token: &str) -> bool {
        jwt::recognizes(&self.keys, token, &Self::expected(&self.account))
    }

    /// What tokens of notifications to this account must say.
    pub fn expected(account: &CloudBAccount) -> Expected {
        Expected {
            audience: account.audience.clone(),
            tenant: account.tenant_id.clone(),
            caller: MARKETPLACE.to_owned(),
        }
    }

    /// A call with a token. One that is refused is replaced once: it may have been withdrawn early.
    async fn call(&self, tokens: &Tokens, repeat: Repeat, make: impl Fn() -> Request + Send + Sync) -> Result<Answer> {
        let token = tokens.get(None).await?;
        let first = self.client.send(repeat, refusal, || Ok(token.carried_by(make()))).await;
        let Err(MarketplaceError::Unauthorized { .. }) = first else { return first };
        let token = tokens.get(Some(&token)).await?;
        self.client.send(repeat, refusal, || Ok(token.carried_by(make()))).await
    }

    async fn fulfill(&self, call: Call) -> Result<Answer> {
        self.call(&self.fulfillment, call.repeat, || call.request()).await
    }

    async fn ingest(&self, call: Call) -> Result<Answer> {
        self.call(&self.ingestion, call.repeat, || call.request()).await
    }
}

/// `{"error": {"code", "message"}}`, the same without the envelope, or `{"error", "error_description"}`.
fn refusal(answer: &Answer) -> MarketplaceError {
    let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let inner = if said["error"].is_object() { &said["error"] } else { &said };
    let text = |names: [&str; 2]| bounded(names.iter().find_map(|name| inner[*name].as_str()).unwrap_or_default());
    let (code, message) = (text(["code", "error"]), text(["message", "error_description"]));
    match answer.status {
        401 => MarketplaceError::Unauthorized { message: if message.is_empty() { code } else { message } },
        429 => MarketplaceError::Throttled { retry_after: answer.retry_after },
        status => MarketplaceError::Refused { status, code, message },
    }
}
