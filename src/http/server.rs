//! The server itself: our own accept loop, because the usual one installs no timer and so waits for ever on a client
//! that sends its header a byte at a time. Connections are bounded in number, per address and in all; every wait is
//! bounded in time.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt;

use super::request::{Peer, Place};

/// The bounds of a server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections in all; the next one waits in the kernel's queue.
    pub connections: usize,
    /// Connections of one address; the next one is closed.
    pub connections_per_address: usize,
    /// Time for a whole request header to arrive, and for an idle connection to say something.
    pub header_timeout: Duration,
    /// Time for a client to take some of its answer.
    pub write_timeout: Duration,
    /// Time for running requests to end after the order to stop.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_address: 2_000,
            header_timeout: Duration::from_secs(15),
            write_timeout: Duration::from_secs(15),
            drain_timeout: Duration::from_secs(8),
        }
    }
}

/// Serves until `stop` says so, then lets running requests end within the drain time.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    gauge: Arc<Gauge>,
    mut stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let crowd = Arc::new(Crowd::default());
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = stopped(&mut stop) => break,
        };
        let Some((stream, peer, place)) = accepted else { continue };
        let Some(entry) = Entry::new(&crowd, peer.ip(), limits.connections_per_address, &gauge) else {
            tracing::warn!(address = %peer.ip(), "too many connections of one address");
            continue;
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "TCP_NODELAY was refused");
        }
        let place = Place::new((entry, place));
        let (router, held) = (router.clone(), place.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            request.extensions_mut().insert(held.clone());
            router.clone().oneshot(request)
        });
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(limits.write_timeout));
        let stream = TokioIo::new(Box::pin(stream));
        let connection = protocol(&limits).serve_connection(stream, service).with_upgrades();
        let mut stop = stop.clone();
        tokio::spawn(async move {
            let mut connection = pin!(connection);
            let ended = tokio::select! {
                ended = &mut connection => ended,
                () = stopped(&mut stop) => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%peer, %error, "connection ended early");
            }
            drop(place);
        });
    }
    drop(listener);
    // Once every place is free again, every connection has ended.
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    if tokio::time::timeout(limits.drain_timeout, places.acquire_many(all)).await.is_err() {
        tracing::warn!("requests were still running when the drain time ended");
    }
}

/// Returns when the order to stop is given, or nobody is left who could give it.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    while !*stop.borrow_and_update() {
        if stop.changed().await.is_err() {
            return;
        }
    }
}

fn protocol(limits: &Limits) -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_headers(100)
        .max_buf_size(64 * 1024);
    protocol
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, place)),
        Err(error) => {
            // Out of file descriptors, or a client that left in the queue: neither is a reason to stop.
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(Duration::from_millis(20)).await;
            None
        }
    }
}

/// How many connections each address has.
#[derive(Default)]
struct Crowd(Mutex<HashMap<IpAddr, usize>>);

/// One connection's place in the crowd, until dropped.
struct Entry {
    crowd: Arc<Crowd>,
    address: IpAddr,
    gauge: Arc<Gauge>,
}

impl Entry {
    fn new(crowd: &Arc<Crowd>, address: IpAddr, most: usize, gauge: &Arc<Gauge>) -> Option<Self> {
        let mut counts = crowd.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        gauge.inc();
        Some(Self { crowd: Arc::clone(crowd), address, gauge: Arc::clone(gauge) })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.gauge.dec();
        let mut counts = self.crowd.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}
