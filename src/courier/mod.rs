//! Carrying a signed body to an address outside: one attempt, from the check of its target to the class of its outcome.
//!
//! - [`target`]: which URLs may be named, which addresses may be connected to.
//! - [`sign`]: the Standard Webhooks signature.
//! - [`Courier`]: the attempt itself, within its time and its memory.

pub mod sign;
pub mod target;

use std::collections::HashMap;
use std::error::Error as StdError;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::clock::Clock;
use crate::error::Error;
use crate::model::time::Timestamp;
use crate::model::webhook::{AttemptError, SigningSecret};
use sign::Signer;
use target::Allowed;

/// How much of an answer is read, and how much of that is kept, in bytes.
const READ: usize = 64 * 1024;
const KEPT: usize = 16 * 1024;
/// How long an idle connection is kept: shorter than the servers that close theirs soonest.
const IDLE: Duration = Duration::from_secs(4);
/// Connections kept open to one receiver.
const IDLE_CONNECTIONS: usize = 32;
/// Hosts whose checked addresses are remembered for the connector.
const HOSTS: usize = 10_000;

/// How attempts are made.
#[derive(Clone, Debug)]
pub struct CourierSettings {
    /// Subnets that may be connected to although they are not public.
    pub allowed: Vec<IpNet>,
    /// Certificates, in PEM, that are trusted besides the public ones.
    pub extra_ca: Option<Vec<u8>>,
    /// For a whole attempt: name, connection, request, answer.
    pub timeout: Duration,
}

impl Default for CourierSettings {
    fn default() -> Self {
        Self { allowed: Vec::new(), extra_ca: None, timeout: Duration::from_secs(5) }
    }
}

/// To whom it is carried, and what signs for it.
pub struct Recipient {
    url: Url,
    signer: Signer,
}

impl Recipient {
    /// With one signature for each secret, the current one first.
    pub fn new(url: &str, secrets: &[SigningSecret]) -> Result<Self, Error> {
        let url = Url::parse(url).map_err(|error| Error::internal(format!("a webhook's URL is broken: {error}")))?;
        Ok(Self { url, signer: Signer::new(secrets) })
    }
}

/// What is carried: the same bytes and the same id at every attempt.
pub struct Parcel {
    pub to: Arc<Recipient>,
    /// `webhook-id`: the event's id.
    pub id: String,
    pub body: Bytes,
}

/// What became of an attempt.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub started_at: Timestamp,
    pub duration: Duration,
    /// The receiver's status, if it answered.
    pub status: Option<u16>,
    /// Why it counts as failed.
    pub error: Option<AttemptError>,
    /// What the receiver asked to wait.
    pub retry_after: Option<Duration>,
    /// The beginning of a refusal's body.
    pub answer: Option<String>,
}

/// Makes attempts. Connections are kept and used again; each goes to an address that was checked.
#[derive(Clone)]
pub struct Courier {
    http: reqwest::Client,
    checked: Arc<Checked>,
    answered: Arc<Answered>,
    allowed: Arc<Allowed>,
    timeout: Duration,
    clock: Clock,
}

/// The addresses of each host, as they were last checked: all that the connector is ever given.
#[derive(Default)]
struct Checked(RwLock<HashMap<String, Vec<SocketAddr>>>);

impl Checked {
    fn put(&self, host: &str, addresses: Vec<SocketAddr>) {
        let known = |hosts: &HashMap<String, Vec<SocketAddr>>| hosts.get(host) == Some(&addresses);
        if known(&self.0.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut hosts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= HOSTS
            && let Some(other) = hosts.keys().next().cloned()
        {
            hosts.remove(&other);
        }
        hosts.insert(host.to_owned(), addresses);
    }
}

struct Pinned(Arc<Checked>);

impl Resolve for Pinned {
    fn resolve(&self, name: Name) -> Resolving {
        let hosts = self.0.0.read().unwrap_or_else(PoisonError::into_inner);
        let addresses = hosts.get(name.as_str()).cloned().unwrap_or_default();
        Box::pin(async move { Ok(Box::new(addresses.into_iter()) as Addrs) })
    }
}

impl Courier {
    /// Fails when the extra certificates are not PEM.
    pub fn new(settings: CourierSettings, clock: Clock) -> Result<Self, String> {
        let checked = Arc::new(Checked::default());
        let mut client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .https_only(true)
            .user_agent(concat!("mercato/", env!("CARGO_PKG_VERSION")))
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE)
            .dns_resolver(Arc::new(Pinned(Arc::clone(&checked))));
        if let Some(pem) = &settings.extra_ca {
            let certificates = reqwest::Certificate::from_pem_bundle(pem)
                .map_err(|error| format!("the extra certificates cannot be read: {error}"))?;
            client = client.tls_certs_merge(certificates);
        }
        let http = client.build().map_err(|error| format!("the client for webhooks cannot be made: {error}"))?;
        let allowed = Arc::new(Allowed(settings.allowed));
        Ok(Self { http, checked, answered: Arc::default(), allowed, timeout: settings.timeout, clock })
    }

    /// What may be connected to although it is not public.
    pub fn allowed(&self) -> &Allowed {
        &self.allowed
    }

    /// One attempt. Ends within its time, whatever the receiver does.
    pub async fn attempt(&self, parcel: &Parcel) -> Outcome {
        let started_at = self.clock.now();
        let started = Instant::now();
        let answered = self.carry(parcel, started_at, started + self.timeout).await;
        let mut outcome = Outcome {
            started_at,
            duration: started.elapsed(),
            status: None,
            error: None,
            retry_after: None,
            answer: None,
        };
        match answered {
            Err(error) => outcome.error = Some(error),
            Ok(answer) => {
                outcome.status = Some(answer.status.as_u16());
                if !answer.status.is_success() {
                    outcome.error = Some(AttemptError::Http);
                    outcome.retry_after = answer.retry_after;
                    outcome.answer = Some(answer.text);
                }
            }
        }
        outcome
    }

    /// Sends the request. One that meets a kept connection in the moment in which the receiver closes it is sent once more:
    /// the receiver knows it by its id.
    async fn send(&self, parcel: &Parcel, now: Timestamp) -> Result<reqwest::Response, AttemptError> {
        let url = &parcel.to.url;
        let request = || self.http.post(url.clone()).headers(headers(parcel, now)).body(parcel.body.clone()).send();
        let mut sent = request().await;
        if sent.as_ref().is_err_and(was_cut) && self.answered.take(url) {
            sent = request().await;
        }
        let response = sent.map_err(|error| classify(&error))?;
        self.answered.note(url);
        Ok(response)
    }

    async fn carry(&self, parcel: &Parcel, now: Timestamp, until: Instant) -> Result<Answer, AttemptError> {
        let url = &parcel.to.url;
        let answered = async {
            let addresses = self.allowed.resolve(url).await?;
            if let Some(host) = url.domain() {
                self.checked.put(host, addresses);
            }
            self.send(parcel, now).await
        };
        let mut response = timeout_at(until, answered).await.unwrap_or(Err(AttemptError::Timeout))?;
        let (status, retry_after) = (response.status(), retry_after(response.headers(), now));
        let mut read = 0;
        let mut kept = Vec::new();
        while read < READ {
            // What a receiver says after its status may break off or never end; the status counts.
            let Ok(Ok(Some(chunk))) = timeout_at(until, response.chunk()).await else { break };
            read += chunk.len();
            kept.extend_from_slice(&chunk[..chunk.len().min(KEPT - kept.len())]);
        }
        Ok(Answer { status, retry_after, text: String::from_utf8_lossy(&kept).into_owned() })
    }
}

/// Hosts that answered lately.
#[derive(Default)]
struct Answered(Mutex<HashMap<String, Instant>>);

impl Answered {
    fn note(&self, url: &Url) {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= HOSTS {
            hosts.retain(|_, at| at.elapsed() < IDLE);
        }
        match hosts.get_mut(url.authority()) {
            Some(at) => *at = Instant::now(),
            None => drop(hosts.insert(url.authority().to_owned(), Instant::now())),
        }
    }

    /// Whether a connection may be open that was kept since then.
    fn take(&self, url: &Url) -> bool {
        let at = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(url.authority());
        at.is_some_and(|at| at.elapsed() < IDLE)
    }
}

struct Answer {
    status: StatusCode,
    retry_after: Option<Duration>,
    text: String,
}

fn headers(parcel: &Parcel, now: Timestamp) -> HeaderMap {
    let timestamp = now.as_seconds();
    let signature = parcel.to.signer.signatures(&parcel.id, timestamp, &parcel.body);
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in [
        ("webhook-id", parcel.id.clone()),
        ("webhook-timestamp", timestamp.to_string()),
        ("webhook-signature", signature),
    ] {
        let value = HeaderValue::try_from(value).expect("ids, numbers and base64 are plain ASCII");
        headers.insert(HeaderName::from_static(name), value);
    }
    headers
}

/// Seconds, or a moment (RFC 9110 §10.2.3).
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let moment = chrono::DateTime::parse_from_rfc2822(text).ok()?;
    (moment.to_utc() - now.as_datetime()).to_std().ok()
}

/// Whether a connection ended before an answer came.
fn was_cut(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref::<hyper::Error>() {
            return error.is_incomplete_message() || error.is_canceled() || error.is_closed();
        }
        cause = inner.source();
    }
    false
}

/// Coarse on purpose: what stands behind an address is not for the caller to explore.
fn classify(error: &reqwest::Error) -> AttemptError {
    if error.is_timeout() {
        return AttemptError::Timeout;
    }
    // The TLS library's refusals come as data that cannot be understood.
    let mut cause: Option<&(dyn StdError + 'static)> = error.source();
    while let Some(inner) = cause {
        let io = inner.downcast_ref::<std::io::Error>();
        if error.is_connect() && io.is_some_and(|io| io.kind() == std::io::ErrorKind::InvalidData) {
            return AttemptError::Tls;
        }
        // An I/O error is not the source of the one around it, but what that one is made of.
        cause = match io {
            Some(io) => io.get_ref().map(|made_of| made_of as &(dyn StdError + 'static)),
            None => inner.source(),
        };
    }
    AttemptError::Connect
}
