//! Bearer tokens by client credentials: one per scope, asked for once however many calls need it, and again shortly before
//! it expires or when it was refused.

use std::sync::{Arc, Mutex, PoisonError};

use chrono::TimeDelta;
use http::{HeaderValue, Method, header};
use reqwest::Request;
use serde::Deserialize;

use super::refusal;
use crate::marketplace::accounts::CloudBAccount;
use crate::marketplace::http::flight::{Flight, start};
use crate::marketplace::http::{Answer, Client, MarketplaceError, Repeat, Result, parse};
use crate::model::time::Timestamp;

/// How long before its end a token is not used any more, in seconds: a call may take so long.
const MARGIN: i64 = 60;
/// The longest that a token is believed to be good, in seconds.
const LONGEST: i64 = 24 * 3600;

#[derive(Clone)]
pub(super) struct Token {
    header: HeaderValue,
    usable_until: Timestamp,
}

impl Token {
    pub fn carried_by(&self, mut request: Request) -> Request {
        request.headers_mut().insert(header::AUTHORIZATION, self.header.clone());
        request
    }
}

pub(super) struct Tokens {
    client: Client,
    account: Arc<CloudBAccount>,
    scope: &'static str,
    flight: Mutex<Option<Flight<Token>>>,
}

impl Tokens {
    pub fn new(client: Client, account: Arc<CloudBAccount>, scope: &'static str) -> Self {
        Self { client, account, scope, flight: Mutex::default() }
    }

    /// A token that is good for now and is not `refused`.
    pub async fn get(&self, refused: Option<&Token>) -> Result<Token> {
        self.flight(refused).await
    }

    /// The call that brings or brought one.
    fn flight(&self, refused: Option<&Token>) -> Flight<Token> {
        let now = self.client.clock().now();
        let serves = |flight: &&Flight<Token>| match flight.peek() {
            None => true,
            Some(Ok(token)) => now < token.usable_until && refused.is_none_or(|other| other.header != token.header),
            Some(Err(_)) => false,
        };
        let mut current = self.flight.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = current.as_ref().filter(serves) {
            return flight.clone();
        }
        let flight = start(fetch(self.client.clone(), Arc::clone(&self.account), self.scope));
        *current = Some(flight.clone());
        flight
    }
}

async fn fetch(client: Client, account: Arc<CloudBAccount>, scope: &'static str) -> Result<Token> {
    #[derive(Deserialize)]
    struct Granted {
        access_token: String,
        expires_in: i64,
    }
    let url = parse(&account.token_url)?;
    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "client_credentials")
        .append_pair("client_id", &account.client_id)
        .append_pair("client_secret", account.client_secret.expose())
        .append_pair("scope", scope)
        .finish();
    let make = || {
        let mut request = Request::new(Method::POST, url.clone());
        let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers_mut().insert(header::CONTENT_TYPE, form_type);
        *request.body_mut() = Some(form.clone().into());
        Ok(request)
    };
    let asked_at = client.clock().now();
    let granted: Granted = client.send(Repeat::Freely, no_grant, make).await?.json()?;
    let seconds = granted.expires_in.clamp(0, LONGEST);
    let mut header = HeaderValue::from_str(&format!("Bearer {}", granted.access_token))
        .map_err(|_| MarketplaceError::garbled("a token that cannot stand in a header"))?;
    header.set_sensitive(true);
    let usable = TimeDelta::seconds(seconds - MARGIN.min(seconds / 2));
    Ok(Token { header, usable_until: asked_at.plus(usable) })
}

/// Some refusals of credentials come as bad requests (RFC 6749 §5.2).
fn no_grant(answer: &Answer) -> MarketplaceError {
    match refusal(answer) {
        MarketplaceError::Refused { status: 400 | 403, code, message } => {
            MarketplaceError::Unauthorized { message: if message.is_empty() { code } else { message } }
        }
        error => error,
    }
}
