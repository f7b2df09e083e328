//! Whether a notification is from `cloud_b`: its token's signature, by keys that are fetched and remembered, and its
//! claims. Only RS256: whoever may choose the algorithm chooses one that the public key signs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::TimeDelta;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use serde_json::Value;

use super::http::error::bounded;
use super::http::flight::{Flight, start};
use super::http::{Answer, Client, MarketplaceError, Repeat, Result, parse};
use crate::clock::Clock;
use crate::model::time::Timestamp;

/// How long keys are remembered before they are asked for again.
const FRESH: TimeDelta = TimeDelta::hours(1);
/// How often keys are asked for at most.
const BETWEEN: TimeDelta = TimeDelta::seconds(30);
/// How far the marketplace's clock may be from ours, in seconds.
const LEEWAY: i64 = 60;
/// The longest token that is looked at, in bytes.
const TOKEN_MAX: usize = 16 * 1024;
/// Keys of one set that are read.
const KEYS_MAX: usize = 100;

/// Whom a token must be for and from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// `aud`: our application.
    pub audience: String,
    /// `tid`.
    pub tenant: String,
    /// `appid`, or `azp` in newer tokens: the marketplace's application.
    pub caller: String,
}

/// Which check failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the token is not a JWT with an expiry")]
    Malformed,
    #[error("the token is not signed with RS256")]
    Algorithm,
    #[error("the token's key is not one of the marketplace's")]
    UnknownKey,
    #[error("the token's signature does not fit")]
    Signature,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    Early,
    #[error("the token's audience (aud) is another application")]
    Audience,
    #[error("the token's tenant (tid) is another one")]
    Tenant,
    #[error("the token's caller (appid or azp) is not the marketplace")]
    Caller,
    /// It may be good; ask again later.
    #[error("the marketplace's keys cannot be had: {0}")]
    NoKeys(MarketplaceError),
}

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    alg: Value,
    #[serde(default)]
    kid: Option<String>,
}

#[derive(Deserialize)]
struct Claims {
    exp: i64,
    #[serde(default)]
    nbf: Option<i64>,
    #[serde(default)]
    aud: Value,
    #[serde(default)]
    tid: Value,
    #[serde(default)]
    appid: Value,
    #[serde(default)]
    azp: Value,
}

/// Checks a notification's token: everything that it says is then so.
pub async fn verify(keys: &Keys, token: &str, expected: &Expected) -> Result<(), TokenError> {
    let key = keys.get(&key_of(token)?).await?;
    read_claims(token, &key)?.check(expected, keys.client.clock())
}

/// Whether a token is good by the keys that are at hand, however old.
pub fn recognizes(keys: &Keys, token: &str, expected: &Expected) -> bool {
    let key = key_of(token).ok().and_then(|kid| keys.lock().key(&kid));
    let claims = key.and_then(|key| read_claims(token, &key).ok());
    claims.is_some_and(|claims| claims.check(expected, keys.client.clock()).is_ok())
}

/// The name of the key that a token says it is signed with.
fn key_of(token: &str) -> Result<String, TokenError> {
    let (header, _) = token.split_once('.').filter(|_| token.len() <= TOKEN_MAX).ok_or(TokenError::Malformed)?;
    let header = BASE64_URL_SAFE_NO_PAD.decode(header).map_err(|_| TokenError::Malformed)?;
    let header: Header = serde_json::from_slice(&header).map_err(|_| TokenError::Malformed)?;
    if header.alg != "RS256" {
        return Err(TokenError::Algorithm);
    }
    header.kid.ok_or(TokenError::UnknownKey)
}

/// The claims of a token with this key's signature.
fn read_claims(token: &str, key: &DecodingKey) -> Result<Claims, TokenError> {
    // The library would ask the machine for the time: what has to do with time is checked here.
    let mut signature_only = Validation::new(Algorithm::RS256);
    signature_only.validate_exp = false;
    signature_only.validate_aud = false;
    signature_only.required_spec_claims.clear();
    let read = jsonwebtoken::decode::<Claims>(token, key, &signature_only);
    read.map(|read| read.claims).map_err(|error| match error.kind() {
        ErrorKind::InvalidSignature => TokenError::Signature,
        _ => TokenError::Malformed,
    })
}

impl Claims {
    fn check(&self, expected: &Expected, clock: &Clock) -> Result<(), TokenError> {
        let is_for = |aud: &Value| *aud == expected.audience;
        let caller = if self.appid.is_null() { &self.azp } else { &self.appid };
        let now = clock.now().as_seconds();
        if now >= self.exp.saturating_add(LEEWAY) {
            Err(TokenError::Expired)
        } else if self.nbf.is_some_and(|begin| now.saturating_add(LEEWAY) < begin) {
            Err(TokenError::Early)
        } else if !is_for(&self.aud) && !self.aud.as_array().is_some_and(|all| all.iter().any(is_for)) {
            Err(TokenError::Audience)
        } else if self.tid != expected.tenant {
            Err(TokenError::Tenant)
        } else if *caller != expected.caller {
            Err(TokenError::Caller)
        } else {
            Ok(())
        }
    }
}

/// The marketplace's keys. They change without notice: a key that is not known is asked for, though not too often.
pub struct Keys {
    client: Client,
    url: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    set: Option<Arc<KeySet>>,
    asked_at: Option<Timestamp>,
    /// Why the last answer brought none.
    failure: Option<MarketplaceError>,
    flight: Option<Flight<Arc<KeySet>>>,
}

struct KeySet {
    keys: HashMap<String, DecodingKey>,
    fetched_at: Timestamp,
}

enum Found {
    Key(DecodingKey),
    Missing(TokenError),
    Ask(Flight<Arc<KeySet>>),
}

impl Keys {
    pub fn new(client: Client, url: String) -> Self {
        Self { client, url, state: Mutex::default() }
    }

    async fn get(&self, kid: &str) -> Result<DecodingKey, TokenError> {
        let flight = match self.find(kid) {
            Found::Key(key) => return Ok(key),
            Found::Missing(error) => return Err(error),
            Found::Ask(flight) => flight,
        };
        let answer = flight.await;
        let mut state = self.lock();
        state.failure = answer.as_ref().err().cloned();
        if let Ok(set) = answer {
            state.set = Some(set);
        }
        state.key(kid).ok_or_else(|| state.missing())
    }

    /// What can be said without waiting. Keys of old are used when newer ones cannot be had.
    fn find(&self, kid: &str) -> Found {
        let now = self.client.clock().now();
        let mut state = self.lock();
        let known = state.key(kid);
        let is_fresh = state.set.as_ref().is_some_and(|set| now < set.fetched_at.plus(FRESH));
        if let Some(key) = known.clone().filter(|_| is_fresh) {
            return Found::Key(key);
        }
        if let Some(flight) = state.flight.as_ref().filter(|flight| flight.peek().is_none()) {
            return Found::Ask(flight.clone());
        }
        if state.asked_at.is_some_and(|asked| now < asked.plus(BETWEEN)) {
            return known.map_or_else(|| Found::Missing(state.missing()), Found::Key);
        }
        // Whoever has old keys does not wait for long.
        let repeat = if state.set.is_some() { Repeat::Never } else { Repeat::Freely };
        let flight = start(fetch(self.client.clone(), self.url.clone(), repeat));
        state.asked_at = Some(now);
        state.flight = Some(flight.clone());
        Found::Ask(flight)
    }

    /// Held for looks only: nobody waits for the network under it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn key(&self, kid: &str) -> Option<DecodingKey> {
        self.set.as_ref()?.keys.get(kid).cloned()
    }

    fn missing(&self) -> TokenError {
        self.failure.clone().map_or(TokenError::UnknownKey, TokenError::NoKeys)
    }
}

async fn fetch(client: Client, url: String, repeat: Repeat) -> Result<Arc<KeySet>> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    let url = parse(&url)?;
    let make = || Ok(reqwest::Request::new(http::Method::GET, url.clone()));
    let set: Set = client.send(repeat, refusal, make).await?.json()?;
    let keys: HashMap<_, _> = set.keys.into_iter().take(KEYS_MAX).filter_map(read_key).collect();
    if keys.is_empty() {
        return Err(MarketplaceError::garbled("a set of keys without an RSA key for signatures"));
    }
    Ok(Arc::new(KeySet { keys, fetched_at: client.clock().now() }))
}

fn refusal(answer: &Answer) -> MarketplaceError {
    let message = bounded(&String::from_utf8_lossy(&answer.body));
    MarketplaceError::Refused { status: answer.status, code: String::new(), message }
}

/// Keys for other purposes stand in the same set; they are passed over.
fn read_key(key: Value) -> Option<(String, DecodingKey)> {
    #[derive(Deserialize)]
    struct Jwk {
        kty: String,
        kid: String,
        n: String,
        e: String,
        #[serde(rename = "use")]
        purpose: Option<String>,
        alg: Option<String>,
    }
    let jwk: Jwk = serde_json::from_value(key).ok()?;
    let signs = jwk.purpose.is_none_or(|purpose| purpose == "sig") && jwk.alg.is_none_or(|alg| alg == "RS256");
    let key = DecodingKey::from_rsa_components(&jwk.n, &jwk.e).ok()?;
    (signs && jwk.kty == "RSA").then_some((jwk.kid, key))
}
