//! Client of `cloud_a` (`docs/marketplaces.md`): calls signed with version 4, and what its refusals mean.
//!
//! - `metering`: reports of usage.
//! - `catalog`: private offers, by change sets.
//! - `agreements`: what was bought.
//! - `notices`: what it tells of that; `known`: what that comes to.

pub mod agreements;
pub mod catalog;
mod known;
pub mod metering;
pub mod notices;

use std::sync::Arc;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use bytes::Bytes;
use http::{HeaderValue, Method, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use url::Url;

use super::accounts::CloudAAccount;
use super::http::error::bounded;
use super::http::{Answer, Client, MarketplaceError, Repeat, Result};
use crate::model::time::Timestamp;

/// The name that calls are signed for.
const SERVICE: &str = "aws-marketplace";
const TARGET: &str = "x-amz-target";
const JSON: &str = "application/json";
const JSON_1_0: &str = "application/x-amz-json-1.0";
const JSON_1_1: &str = "application/x-amz-json-1.1";

/// A seller's account at `cloud_a`. Cheap to clone.
#[derive(Clone)]
pub struct CloudA {
    client: Client,
    account: Arc<CloudAAccount>,
}

/// One call. Every call of this marketplace may be repeated: usage by its row, change sets by their token.
struct Call {
    method: Method,
    url: Url,
    target: Option<&'static str>,
    content_type: &'static str,
    body: Bytes,
}

impl CloudA {
    pub fn new(account: CloudAAccount, client: Client) -> Self {
        Self { client, account: Arc::new(account) }
    }

    /// Whether a notification with this secret is the marketplace's. Takes as long whatever is right about it.
    pub fn authenticate(&self, secret: &str) -> bool {
        let own = self.account.notification_secret.expose();
        // Of hashes, so that the length of the secret shows as little as its letters.
        let (given, own) = (Sha256::digest(secret.as_bytes()), Sha256::digest(own.as_bytes()));
        given.ct_eq(&own).into()
    }

    async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        let make = || self.sign(&call, self.client.clock().now());
        self.client.send(Repeat::Freely, refusal, make).await?.json()
    }

    /// The request with its signature, which is good for some minutes only.
    fn sign(&self, call: &Call, now: Timestamp) -> Result<reqwest::Request> {
        let mut request = reqwest::Request::new(call.method.clone(), call.url.clone());
        *request.body_mut() = Some(call.body.clone().into());
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(call.content_type));
        if let Some(target) = call.target {
            headers.insert(TARGET, HeaderValue::from_static(target));
        }
        let instructions = self.signature(call, now).map_err(|reason| MarketplaceError::Unauthorized {
            message: format!("the call cannot be signed: {reason}"),
        })?;
        headers.extend(instructions);
        Ok(request)
    }

    fn signature(&self, call: &Call, now: Timestamp) -> Result<http::HeaderMap, String> {
        let account = &self.account;
        let secret = account.secret_access_key.expose();
        let identity = Credentials::from_keys(&account.access_key_id, secret, None).into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&account.region)
            .name(SERVICE)
            .time(now.as_datetime().into())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| error.to_string())?
            .into();
        let headers = call.target.map(|target| (TARGET, target));
        let headers = headers.into_iter().chain([(header::CONTENT_TYPE.as_str(), call.content_type)]);
        let body = SignableBody::Bytes(&call.body);
        let signable = SignableRequest::new(call.method.as_str(), call.url.as_str(), headers, body);
        let signed = sign(signable.map_err(|error| error.to_string())?, &params).map_err(|error| error.to_string())?;
        let mut made = http::HeaderMap::new();
        for (name, value) in signed.into_parts().0.headers() {
            let name: http::HeaderName = name.parse().map_err(|_| "a header's name".to_owned())?;
            made.insert(name, HeaderValue::from_str(value).map_err(|_| "a header's value".to_owned())?);
        }
        Ok(made)
    }
}

fn write(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).expect("a body is plain data").into()
}

/// `{"__type": "namespace#Code", "message"}`.
fn refusal(answer: &Answer) -> MarketplaceError {
    let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let text = |names: [&str; 2]| bounded(names.iter().find_map(|name| said[*name].as_str()).unwrap_or_default());
    let kind = text(["__type", "code"]);
    let code = kind.rsplit('#').next().unwrap_or_default().to_owned();
    let message = text(["message", "Message"]);
    match (answer.status, code.as_str()) {
        (401 | 403, _) => MarketplaceError::Unauthorized { message: if message.is_empty() { code } else { message } },
        (429, _) | (_, "ThrottlingException") => MarketplaceError::Throttled { retry_after: answer.retry_after },
        (status, _) => MarketplaceError::Refused { status, code, message },
    }
}
