//! What both clients share: one attempt within its time and its memory, and when there is another.
//!
//! - `Client`: sends a request, again where that is harmless.
//! - `error`: what can go wrong, in words for people.
//! - `lenient`: numbers and moments as marketplaces write them.
//! - `flight`: one call that many wait for.

pub mod error;
pub mod flight;
pub mod lenient;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header;
use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::de::DeserializeOwned;
use url::{Host, Url};

use crate::clock::Clock;
use crate::courier::target::Allowed;
pub use error::{MarketplaceError, Result, Unreached};

/// The longest answer that is read, in bytes.
pub const ANSWER_MAX: usize = 1024 * 1024;
/// The longest wait that a marketplace may ask for within a call; what is longer is the caller's to wait.
pub const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(4);

/// How calls are made.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    pub connect_timeout: Duration,
    /// For a whole attempt: name, connection, request, answer.
    pub timeout: Duration,
    /// Before the second, third and fourth attempt, more or less.
    pub pauses: [Duration; 3],
    /// Subnets that may be connected to although they are not public: where the simulator is.
    pub allowed: Vec<IpNet>,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
            pauses: [200, 1000, 3000].map(Duration::from_millis),
            allowed: Vec::new(),
        }
    }
}

/// Makes calls. Cheap to clone; the clones share their connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    allowed: Arc<Allowed>,
    pauses: [Duration; 3],
    clock: Clock,
}

/// When a call may be made again after an attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Doing it twice is the same as doing it once.
    Freely,
    /// Only when the marketplace certainly did nothing.
    IfNotDone,
    Never,
}

impl Repeat {
    fn allows(self, error: &MarketplaceError) -> bool {
        let not_done =
            matches!(error, MarketplaceError::Throttled { .. } | MarketplaceError::Unreachable(Unreached::Connect));
        match self {
            Self::Freely => not_done || error.may_have_happened(),
            Self::IfNotDone => not_done,
            Self::Never => false,
        }
    }
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// What the marketplace asked to wait.
    pub retry_after: Option<Duration>,
    pub body: Bytes,
}

impl Answer {
    fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(|error| MarketplaceError::garbled(error.to_string()))
    }
}

/// Names are looked up anew for each connection, and what they point to is checked: an account's URLs are a tenant's words.
struct Checked(Arc<Allowed>);

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = Arc::clone(&self.0);
        Box::pin(async move {
            let url = Url::parse(&format!("https://{}/", name.as_str()))?;
            let found = allowed.resolve(&url).await.map_err(|error| error.to_string())?;
            // Without a port: the connector knows it.
            let addresses = found.into_iter().map(|address| SocketAddr::new(address.ip(), 0));
            Ok(Box::new(addresses.collect::<Vec<_>>().into_iter()) as Addrs)
        })
    }
}

impl Client {
    /// Fails when the machine's TLS cannot be set up.
    pub fn new(settings: ClientSettings, clock: Clock) -> Result<Self, String> {
        let allowed = Arc::new(Allowed(settings.allowed));
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("mercato/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(settings.connect_timeout)
            .timeout(settings.timeout)
            .pool_idle_timeout(IDLE)
            .dns_resolver(Arc::new(Checked(Arc::clone(&allowed))))
            .build()
            .map_err(|error| format!("the client for marketplaces cannot be made: {error}"))?;
        Ok(Self { http, allowed, pauses: settings.pauses, clock })
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Sends what `make` makes, anew for each attempt, until it is answered with success. `refusal` says what any other
    /// answer means.
    pub async fn send(
        &self,
        repeat: Repeat,
        refusal: fn(&Answer) -> MarketplaceError,
        make: impl Fn() -> Result<reqwest::Request> + Send,
    ) -> Result<Answer> {
        let mut round = 0;
        loop {
            let (error, asked) = match self.attempt(make()?).await {
                Ok(answer) if answer.is_success() => return Ok(answer),
                Ok(answer) => (refusal(&answer), answer.retry_after.unwrap_or_default()),
                Err(error) => (error, Duration::ZERO),
            };
            if round == self.pauses.len() || asked > LONGEST_WAIT || !repeat.allows(&error) {
                return Err(error);
            }
            self.pause(round, asked).await;
            round += 1;
        }
    }

    /// Waits as before attempt `round + 2`, and not shorter than `asked`.
    pub(super) async fn pause(&self, round: usize, asked: Duration) {
        let pause = self.pauses.get(round).copied().unwrap_or_default().mul_f64(0.5 + self.clock.fraction());
        tokio::time::sleep(pause.max(asked)).await;
    }

    async fn attempt(&self, request: reqwest::Request) -> Result<Answer> {
        self.admit(request.url())?;
        let mut response = self.http.execute(request).await.map_err(|error| unreached(&error))?;
        let status = response.status().as_u16();
        let retry_after = self.retry_after(response.headers());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| unreached(&error))? {
            if body.len() + chunk.len() > ANSWER_MAX {
                return Err(MarketplaceError::garbled(format!("status {status} with more than {ANSWER_MAX} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, retry_after, body: body.into() })
    }

    /// Addresses that are written out pass no resolver.
    fn admit(&self, url: &Url) -> Result<()> {
        let address: IpAddr = match url.host() {
            Some(Host::Ipv4(address)) => address.into(),
            Some(Host::Ipv6(address)) => address.into(),
            _ => return Ok(()),
        };
        match self.allowed.admit(vec![SocketAddr::new(address, 0)]) {
            Ok(_) => Ok(()),
            Err(_) => Err(MarketplaceError::Unreachable(Unreached::Blocked)),
        }
    }

    /// Seconds, or a moment (RFC 9110 §10.2.3).
    fn retry_after(&self, headers: &http::HeaderMap) -> Option<Duration> {
        let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
        if let Ok(seconds) = text.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let moment = chrono::DateTime::parse_from_rfc2822(text).ok()?;
        (moment.to_utc() - self.clock.now().as_datetime()).to_std().ok()
    }
}

fn unreached(error: &reqwest::Error) -> MarketplaceError {
    // A connection that takes too long is both; what counts is that nothing was sent.
    MarketplaceError::Unreachable(if error.is_connect() {
        Unreached::Connect
    } else if error.is_timeout() {
        Unreached::Timeout
    } else {
        Unreached::Broken
    })
}

/// `base` with these segments after its path, each encoded. A segment that would be read as a path of its own, as ids of
/// the other side could be, is no id.
pub fn place(base: &str, segments: &[&str]) -> Result<Url> {
    if segments.iter().any(|segment| matches!(*segment, "" | "." | "..")) {
        return Err(MarketplaceError::Refused { status: 404, code: String::new(), message: "not an id".to_owned() });
    }
    let mut url = parse(base)?;
    match url.path_segments_mut() {
        // Without segments the path ends in a slash: the service itself.
        Ok(mut path) if segments.is_empty() => drop(path.pop_if_empty().push("")),
        Ok(mut path) => drop(path.pop_if_empty().extend(segments)),
        Err(()) => return Err(MarketplaceError::Unreachable(Unreached::Blocked)),
    }
    Ok(url)
}

/// A URL of an account or of an answer.
pub fn parse(url: &str) -> Result<Url> {
    Url::parse(url).map_err(|_| MarketplaceError::Unreachable(Unreached::Blocked))
}
