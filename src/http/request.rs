//! Reading a request: its caller, its body, its idempotency key. Both facades begin here.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::failure::Failure;
use super::{BODY_LIMIT, HttpSettings, Services};
use crate::auth;
use crate::auth::limiter::Key;
use crate::auth::meter::Meter;
use crate::call::{Call, Caller};
use crate::error::{Error, Result};
use crate::store::Once;

/// The other end of the connection, put on the request by the accept loop.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// The connection's place among those that the server admits; put on the request by the accept loop. Whoever takes the
/// connection over (a WebSocket) holds it to the end, so that bounds and the drain count it.
#[derive(Clone)]
pub struct Place(#[expect(dead_code, reason = "it is held, not read")] Arc<dyn std::any::Any + Send + Sync>);

impl Place {
    pub fn new(held: impl std::any::Any + Send + Sync) -> Self {
        Self(Arc::new(held))
    }
}

/// Who asks, for the log line; put on the response.
#[derive(Clone, Debug)]
pub struct AnsweredTo(pub Caller);

/// The name of the operation, for the log line and the metrics; put on the response.
#[derive(Clone, Copy, Debug)]
pub struct Operated(pub &'static str);

/// The caller of a request and its account with the limiter. Requests without a valid token are counted by address.
pub async fn identify(services: &Services, parts: &Parts) -> Result<(Caller, Meter)> {
    match auth::authenticate(&services.store, authorization(&parts.headers)).await {
        Ok(caller) => {
            let meter = Meter::new(Arc::clone(&services.limiter), services.store.clock().clone(), &caller);
            Ok((caller, meter))
        }
        Err(error @ Error::Unauthenticated(_)) => {
            charge_address(services, parts)?;
            Err(error)
        }
        Err(error) => Err(error),
    }
}

/// Counts a request that no application answers for.
pub fn charge_address(services: &Services, parts: &Parts) -> Result<()> {
    charge_client(services, client_address(&services.settings, parts))
}

/// The same where the request is gone.
pub fn charge_client(services: &Services, address: IpAddr) -> Result<()> {
    let now = services.store.clock().now();
    services.limiter.take(Key::address(address), services.settings.address_limits, 1, now).map(drop)
}

/// Whether an address may make a request that may turn out to be answered for: [`charge_address`] counts it if not.
pub fn peek_address(services: &Services, parts: &Parts) -> Result<()> {
    let key = Key::address(client_address(&services.settings, parts));
    services.limiter.peek(key, services.settings.address_limits, services.store.clock().now())
}

/// The client's address: the connection's, or what the nearest proxy that we trust says of it.
pub fn client_address(settings: &HttpSettings, parts: &Parts) -> IpAddr {
    let peer = parts.extensions.get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0.ip());
    let trusted = |address: &IpAddr| settings.trusted_proxies.iter().any(|net| net.contains(&address.to_canonical()));
    if !trusted(&peer) {
        return peer;
    }
    let forwarded = parts.headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let hops: Vec<&str> = forwarded.flat_map(|value| value.split(',')).map(str::trim).collect();
    let mut nearest = peer;
    for hop in hops.into_iter().rev() {
        let Ok(address) = hop.parse::<IpAddr>() else { break };
        nearest = address;
        if !trusted(&address) {
            break;
        }
    }
    nearest
}

/// The whole body, bounded in size and in time.
pub async fn read_body(settings: &HttpSettings, body: Body) -> Result<Bytes, Failure> {
    let collected = tokio::time::timeout(settings.body_timeout, Limited::new(body, BODY_LIMIT).collect()).await;
    match collected {
        Err(_) => Err(Failure::BodyTimeout),
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(Failure::BodyTooLarge),
        Ok(Err(_)) => Err(Error::malformed("body", "could not be read").into()),
    }
}

/// Whether the body is declared as `kind`, once (any `charset` but UTF-8 is something else).
pub fn is_media_type(headers: &HeaderMap, kind: &str) -> bool {
    let Some(text) = only(headers, &header::CONTENT_TYPE) else { return false };
    let mut parts = text.split(';').map(str::trim);
    parts.next().is_some_and(|declared| declared.eq_ignore_ascii_case(kind))
        && parts.filter_map(|parameter| parameter.split_once('=')).all(|(name, value)| {
            !name.eq_ignore_ascii_case("charset") || value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        })
}

/// A header that is given exactly once, as text.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    value.to_str().ok()
}

/// The `Authorization` header. Given twice or unreadable it is empty, and so refused: a proxy may have read another one.
pub fn authorization(headers: &HeaderMap) -> Option<&str> {
    headers.contains_key(header::AUTHORIZATION).then(|| only(headers, &header::AUTHORIZATION).unwrap_or_default())
}

/// The idempotency key of a request, with what makes it the same request: method, path and canonical body.
pub fn once(
    headers: &HeaderMap,
    caller: &Caller,
    method: &str,
    path: &str,
    body: &Result<Value, String>,
) -> Result<Option<Arc<Once>>> {
    let Some(key) = idempotency_key(headers)? else { return Ok(None) };
    let mut request = Sha256::new();
    for part in [method, path] {
        request.update(part.as_bytes());
        request.update([0]);
    }
    // Objects are ordered maps here, so equal JSON has equal bytes whatever order its fields came in.
    request.update(body.as_ref().map_or_else(ToString::to_string, Value::to_string).as_bytes());
    Ok(Some(Arc::new(Once::new(caller.name(), key, request.finalize().into()))))
}

/// `Idempotency-Key` and `X-Idempotency-Key` mean the same: 1 to 255 visible ASCII characters, quoted or bare; a quote
/// inside would make the two forms ambiguous.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>> {
    let mut found: Option<String> = None;
    for name in ["idempotency-key", "x-idempotency-key"] {
        for value in headers.get_all(name) {
            let key = clean_key(value).ok_or_else(|| {
                Error::malformed("Idempotency-Key", "must be 1 to 255 visible ASCII characters without quotes inside")
            })?;
            if found.as_ref().is_some_and(|other| *other != key) {
                return Err(Error::malformed("Idempotency-Key", "is given twice with different values"));
            }
            found = Some(key);
        }
    }
    Ok(found)
}

fn clean_key(value: &HeaderValue) -> Option<String> {
    let text = value.to_str().ok()?.trim_matches([' ', '\t']);
    let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let key = quoted.unwrap_or(text);
    let allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'"';
    let visible = (1..=255).contains(&key.len()) && key.bytes().all(allowed);
    visible.then(|| key.to_owned())
}

/// The headers of every authenticated answer: the rate windows, and whether it was given before.
pub fn seal(mut response: Response, meter: &Meter, call: Option<&Call>, caller: Caller) -> Response {
    const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
    const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
    const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
    const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
    let headers = response.headers_mut();
    if let Some(state) = meter.state() {
        headers.insert(LIMIT, state.limit.into());
        headers.insert(REMAINING, state.remaining.into());
        headers.insert(RESET, state.reset.into());
    }
    if call.is_some_and(Call::was_replayed) {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response.extensions_mut().insert(AnsweredTo(caller));
    response
}
