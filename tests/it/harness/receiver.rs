//! A receiver of webhooks: a real HTTPS server on a loopback port, with a certificate of a test authority, that answers as
//! it is told and remembers what it was sent.

#![allow(dead_code, reason = "tests and benchmarks share it, and each needs a part")]

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// The authority that the certificates of receivers come from.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// What is wrong with a receiver's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificate {
    Valid,
    Expired,
    WrongHost,
    SelfSigned,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    /// The authority's certificate, for `--webhook-extra-ca`.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    fn server(&self, certificate: Certificate) -> ServerConfig {
        let mut params = CertificateParams::default();
        params.subject_alt_names = match certificate {
            Certificate::WrongHost => vec![SanType::DnsName("other.example".try_into().expect("a name"))],
            _ => vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))],
        };
        if certificate == Certificate::Expired {
            params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        let key = KeyPair::generate().expect("a key");
        let signed = match certificate {
            Certificate::SelfSigned => params.self_signed(&key),
            _ => params.signed_by(&key, &self.0),
        };
        let chain = vec![signed.expect("a certificate").der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a private key");
        ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key))
            .expect("a TLS server")
    }
}

/// How a receiver treats what it is sent.
#[derive(Clone, Debug)]
pub enum Manner {
    Answer(u16),
    AnswerWith(u16, Vec<(&'static str, String)>, String),
    /// Never answers.
    Silent,
    /// Answers a byte a second.
    Trickle,
    /// Answers without end.
    Flood,
    /// Closes the connection instead of answering.
    Reset,
}

/// One request that was received.
#[derive(Clone, Debug)]
pub struct Received {
    pub at: Instant,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub fn sequence(&self) -> i64 {
        self.json()["sequence"].as_i64().unwrap_or_default()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

struct Inner {
    manner: Mutex<Manner>,
    received: Mutex<Vec<Received>>,
    count: watch::Sender<usize>,
}

/// A running receiver; it ends with its runtime.
#[derive(Clone)]
pub struct Receiver {
    address: SocketAddr,
    inner: Arc<Inner>,
}

impl Receiver {
    pub async fn start(authority: &Authority) -> Self {
        Self::with(authority, Certificate::Valid).await
    }

    pub async fn with(authority: &Authority, certificate: Certificate) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let inner = Arc::new(Inner {
            manner: Mutex::new(Manner::Answer(200)),
            received: Mutex::default(),
            count: watch::Sender::new(0),
        });
        let acceptor = TlsAcceptor::from(Arc::new(authority.server(certificate)));
        let serving = Arc::clone(&inner);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, inner) = (acceptor.clone(), Arc::clone(&serving));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| answer(Arc::clone(&inner), request));
                    // However the connection ends, what was received is noted.
                    drop(
                        hyper::server::conn::http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service)
                            .await,
                    );
                });
            }
        });
        Self { address, inner }
    }

    pub fn url(&self) -> String {
        format!("https://{}/hook", self.address)
    }

    pub fn behave(&self, manner: Manner) {
        *self.inner.manner.lock().unwrap_or_else(PoisonError::into_inner) = manner;
    }

    pub fn received(&self) -> Vec<Received> {
        self.inner.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets what was received so far, and gives it out in the order of the log. (Several attempts are under way at once,
    /// so they arrive in any order.)
    pub fn take(&self) -> Vec<Received> {
        let mut received = std::mem::take(&mut *self.inner.received.lock().unwrap_or_else(PoisonError::into_inner));
        received.sort_by_key(Received::sequence);
        received
    }

    /// The sequences of what was received, in the order of the log.
    pub fn sequences(&self) -> Vec<i64> {
        let mut sequences: Vec<i64> = self.received().iter().map(Received::sequence).collect();
        sequences.sort_unstable();
        sequences
    }

    /// Waits until so many requests came in all.
    pub async fn wait_for(&self, count: usize) {
        let mut counted = self.inner.count.subscribe();
        let arrived = tokio::time::timeout(Duration::from_secs(30), counted.wait_for(|seen| *seen >= count)).await;
        assert!(arrived.is_ok(), "{count} deliveries arrive; {} did", self.received().len());
    }
}

type Body = BoxBody<Bytes, Infallible>;

async fn answer(inner: Arc<Inner>, request: Request<Incoming>) -> Result<Response<Body>, &'static str> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| "a broken request")?.to_bytes();
    inner.received.lock().unwrap_or_else(PoisonError::into_inner).push(Received {
        at: Instant::now(),
        headers: parts.headers,
        body,
    });
    inner.count.send_modify(|count| *count += 1);
    let manner = inner.manner.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (status, headers, body) = match manner {
        Manner::Answer(status) => (status, Vec::new(), whole(String::new())),
        Manner::AnswerWith(status, headers, body) => (status, headers, whole(body)),
        Manner::Silent => std::future::pending().await,
        Manner::Trickle => (200, Vec::new(), endless(Bytes::from_static(b"."), Duration::from_secs(1))),
        Manner::Flood => (500, Vec::new(), endless(Bytes::from(vec![b'x'; 64 * 1024]), Duration::ZERO)),
        Manner::Reset => return Err("closed on purpose"),
    };
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    Ok(response.body(body).expect("a response"))
}

fn whole(text: String) -> Body {
    Full::new(Bytes::from(text)).boxed()
}

fn endless(piece: Bytes, pause: Duration) -> Body {
    let pieces = stream::repeat(piece).then(move |piece| async move {
        tokio::time::sleep(pause).await;
        Ok(Frame::data(piece))
    });
    BodyExt::boxed(StreamBody::new(Box::pin(pieces)))
}
