//! Where a webhook may point (`contract.md` §14): a public address, reached by https, that no trick of notation and no
//! answer of a name server turns into one of ours.
//!
//! The rules apply twice: to the text of a URL when it is written down, and to the addresses behind it at every attempt.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, LazyLock};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use tokio::sync::Semaphore;
use url::{Host, Url};

use crate::model::webhook::AttemptError;

pub const URL_MAX: usize = 2_048;
const NO_URL: &str = "must be a URL such as https://example.com/hooks (RFC 3986: other characters are percent-encoded, those \
    of a host name written as xn--)";
const ODD_HOST: &str = "must have its host in the usual form, such as example.com or 203.0.113.9";
const PRIVATE: &str = "must not point to a private or reserved address";

/// Subnets that may be connected to although they are not public: receivers of tests and private networks.
#[derive(Clone, Debug, Default)]
pub struct Allowed(pub Vec<IpNet>);

/// Everything in IPv4 that is not somebody's public host (IANA's special-purpose registry, RFC 6890), the relay of 6to4,
/// whatever answers there, and the address at which Azure's machines reach their own host.
const RESERVED_V4: [Ipv4Net; 17] = [
    v4([0, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([127, 0, 0, 0], 8),
    v4([168, 63, 129, 16], 32),
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 0, 0, 0], 24),
    v4([192, 0, 2, 0], 24),
    v4([192, 31, 196, 0], 24),
    v4([192, 88, 99, 0], 24),
    v4([192, 168, 0, 0], 16),
    v4([198, 18, 0, 0], 15),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
    v4([224, 0, 0, 0], 4),
    v4([240, 0, 0, 0], 4),
];

/// All that is handed out of IPv6 is in here …
const GLOBAL_V6: Ipv6Net = v6([0x2000, 0, 0, 0], 3);
/// … but for these: protocol assignments with Teredo, documentation, 6to4.
const RESERVED_V6: [Ipv6Net; 4] =
    [v6([0x2001, 0, 0, 0], 23), v6([0x2001, 0xdb8, 0, 0], 32), v6([0x2002, 0, 0, 0], 16), v6([0x3fff, 0, 0, 0], 20)];
/// Where a translator puts IPv4 addresses (RFC 6052).
const TRANSLATED: Ipv6Net = v6([0x64, 0xff9b, 0, 0], 96);

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6([a, b, c, d]: [u16; 4], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), prefix)
}

/// Whether an address is somebody's public host. An IPv4 address inside an IPv6 one counts as what it is.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !RESERVED_V4.iter().any(|net| net.contains(&address)),
        IpAddr::V6(address) => match embedded(address) {
            Some(inner) => is_public(inner.into()),
            None => GLOBAL_V6.contains(&address) && !RESERVED_V6.iter().any(|net| net.contains(&address)),
        },
    }
}

/// The IPv4 address that a mapped or a translated one stands for.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [.., a, b, c, d] = address.octets();
    address.to_ipv4_mapped().or_else(|| TRANSLATED.contains(&address).then_some(Ipv4Addr::new(a, b, c, d)))
}

impl Allowed {
    fn admits(&self, address: IpAddr) -> bool {
        is_public(address) || self.0.iter().any(|net| net.contains(&address.to_canonical()))
    }

    /// Checks a URL as it is written down; `Err` says what is wrong with it.
    pub fn check(&self, text: &str) -> Result<(), &'static str> {
        if text.len() > URL_MAX {
            return Err("must not be longer than 2048 bytes");
        }
        // Whoever reads the URL back must read it as we do: nothing that only some parsers put right.
        let (written, url) = fluent_uri::Uri::parse(text).ok().zip(Url::parse(text).ok()).ok_or(NO_URL)?;
        if url.scheme() != "https" {
            return Err("must be an https URL");
        }
        // `https:host` and `https:\\host` are read as URLs by some and as paths by others.
        if !text.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://")) {
            return Err("must begin with https://");
        }
        // Also an empty user, which the parsed URL does not show.
        let has_user = text[8..].split(['/', '?', '#', '\\']).next().is_some_and(|host| host.contains('@'));
        if has_user || !url.username().is_empty() || url.password().is_some() {
            return Err("must not contain credentials");
        }
        if url.fragment().is_some() {
            return Err("must not have a fragment");
        }
        if url.port() == Some(0) {
            return Err("must not have the port 0");
        }
        match literal(&url) {
            Some(address) if !self.admits(address) => Err(PRIVATE),
            None if is_local_name(&url) && !self.admits(Ipv4Addr::LOCALHOST.into()) => Err(PRIVATE),
            _ if !names_its_host(&written, &url) => Err(ODD_HOST),
            Some(_) | None => Ok(()),
        }
    }

    /// The addresses behind a URL, all of them checked. One that is not admitted refuses them all: a name that points
    /// both outside and inside is an attack or a mistake.
    pub async fn resolve(&self, url: &Url) -> Result<Vec<SocketAddr>, AttemptError> {
        let port = url.port_or_known_default().unwrap_or(443);
        let addresses: Vec<SocketAddr> = match (literal(url), url.domain()) {
            (Some(address), _) => vec![(address, port).into()],
            (None, Some(name)) => look_up(name.to_owned(), port).await?,
            (None, None) => Vec::new(),
        };
        self.admit(addresses)
    }

    /// All of these, or why none of them.
    pub fn admit(&self, addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, AttemptError> {
        if addresses.is_empty() {
            return Err(AttemptError::Dns);
        }
        if addresses.iter().all(|address| self.admits(address.ip())) {
            Ok(addresses)
        } else {
            Err(AttemptError::Blocked)
        }
    }
}

/// Lookups under way. Each holds a thread until its name server answers, also when nobody waits for it any more.
static LOOKUPS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(256)));

async fn look_up(name: String, port: u16) -> Result<Vec<SocketAddr>, AttemptError> {
    let place = Arc::clone(&LOOKUPS).acquire_owned().await.map_err(|_| AttemptError::Dns)?;
    let lookup = tokio::spawn(async move {
        let found = tokio::net::lookup_host((name, port)).await.map(Iterator::collect);
        drop(place);
        found
    });
    lookup.await.ok().and_then(Result::ok).ok_or(AttemptError::Dns)
}

/// The address that a host is, in whatever notation: the URL standard reads `0x7f.1` and `2130706433` as `127.0.0.1`.
fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(_) => None,
    }
}

/// Whether the host is written as it is connected to: not as a number, not percent-encoded, not behind a third slash. An IPv6
/// address has several forms that all read alike.
fn names_its_host(written: &fluent_uri::Uri<&str>, url: &Url) -> bool {
    let host = written.authority().map_or("", |authority| authority.host());
    host.starts_with('[') || url.host_str().is_some_and(|read| host.eq_ignore_ascii_case(read))
}

/// Names that mean this machine wherever they are asked (RFC 6761).
fn is_local_name(url: &Url) -> bool {
    let name = url.domain().unwrap_or_default().trim_end_matches('.');
    name == "localhost" || name.ends_with(".localhost")
}
