//! What both facades share of HTTP: reading a request, knowing its caller, the headers of every answer, the server
//! itself. No operation is named here.

pub mod failure;
pub mod json;
pub mod metrics;
pub mod request;
pub mod server;
pub mod trace;

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::watch;

use crate::auth::limiter::Limiter;
use crate::auth::vigil::Vigilance;
use crate::courier::Courier;
use crate::marketplace::stage::Stage;
use crate::model::application::RateLimits;
use crate::store::Store;
use metrics::Metrics;

/// The largest request body, in bytes (`contract.md` §3: 413 above).
pub const BODY_LIMIT: usize = 1024 * 1024;

/// What a request can take hold of.
pub struct Services {
    pub store: Store,
    pub limiter: Arc<Limiter>,
    pub metrics: Metrics,
    pub courier: Courier,
    /// Where marketplaces are simulated.
    pub stage: Option<Arc<Stage>>,
    pub settings: HttpSettings,
    /// What keeps an eye on the tokens behind streams.
    pub vigilance: Vigilance,
    /// True once the order to stop was given. Streams end by it; everything else is drained.
    pub stop: watch::Receiver<bool>,
}

/// How the service presents itself over HTTP.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// `https://api.example.com`, without a slash at the end; `{base_url}` of the spec.
    pub base_url: String,
    /// `{auth_url}` of the spec.
    pub auth_url: String,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Requests without a valid token, and token requests, per address.
    pub address_limits: RateLimits,
    /// Time for a whole request body to arrive.
    pub body_timeout: Duration,
    /// Time for an answer to be made. Of a stream that is its head.
    pub answer_timeout: Duration,
    pub streams: StreamSettings,
}

/// The bounds of WebSockets and event streams.
#[derive(Clone, Debug)]
pub struct StreamSettings {
    /// Running subscriptions of one application, over both together.
    pub subscriptions_per_application: usize,
    /// Time for a socket to send its `connection_init`.
    pub init_timeout: Duration,
    /// Time between two pings; a socket that does not answer two in a row is given up.
    pub ping_interval: Duration,
    /// Time after which an idle event stream sends a comment.
    pub keep_alive: Duration,
    /// Time for a client to take some of what is sent.
    pub write_timeout: Duration,
}
