//! Token check and GET of one customer, against a bare axum handler that returns the same bytes. Both stand behind the
//! same accept loop, `http::server::serve`, so that the ratio is of what we do with a request and not of two ways to
//! accept one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http::HeaderMap;
use mercato::http::server::{Limits, serve};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::client::{Load, drive};
use crate::report::{Line, Round};
use crate::scale::{Scale, median};
use crate::service::Running;

const LEAST: f64 = 0.25;
const CUSTOMERS: usize = 240;

pub async fn measure(scale: &Scale) -> Vec<Line> {
    let service = Running::start(CUSTOMERS).await;
    let path = customer_path(&service).await;
    let bare = Bare::start(&path, answer(&service, &path).await).await;
    let request = format!("GET {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\n\r\n", service.token);
    let (mut rounds, mut shares) = (Vec::new(), Vec::new());
    for round in 0..=scale.rounds {
        let floor = load(bare.address, &request, scale.read_time).await;
        let ours = load(service.address(), &request, scale.read_time).await;
        // The first round warms up.
        if round > 0 {
            shares.push((floor.own_share, ours.own_share));
            rounds.push(Round { floor: floor.per_second, ours: ours.per_second });
        }
    }
    service.app.stop().await;
    let share =
        |pick: fn(&(f64, f64)) -> f64| format!("{:.0} %", 100.0 * median(&shares.iter().map(pick).collect::<Vec<_>>()));
    let mut told = Line::note("  processor that the load generator took", share(|shares| shares.1));
    told.floor = share(|shares| shares.0);
    vec![Line::rate_ratio("token check + GET one customer, 32 connections", &rounds, LEAST), told]
}

async fn load(address: SocketAddr, request: &str, time: Duration) -> Load {
    let request = request.to_owned();
    let driven = tokio::task::spawn_blocking(move || drive(address, &request, time)).await;
    driven.expect("the load generator does not panic")
}

async fn get_as_client(service: &Running, path: &str) -> reqwest::Response {
    let request = reqwest::Client::new().get(format!("{}{path}", service.app.base_url)).bearer_auth(&service.token);
    request.send().await.and_then(reqwest::Response::error_for_status).expect("the service answers")
}

async fn customer_path(service: &Running) -> String {
    let page: serde_json::Value =
        get_as_client(service, "/api/v1/customers?limit=50").await.json().await.expect("a page is JSON");
    let id = page["data"]["items"][25]["id"].as_str().expect("the sample has more customers");
    format!("/api/v1/customers/{id}")
}

/// The service's answer, without the headers that the HTTP library adds by itself.
async fn answer(service: &Running, path: &str) -> (HeaderMap, Bytes) {
    let response = get_as_client(service, path).await;
    let mut headers = response.headers().clone();
    headers.remove("date");
    headers.remove("content-length");
    (headers, response.bytes().await.expect("the answer has a body"))
}

/// The floor: routing and hyper, and nothing behind them.
struct Bare {
    address: SocketAddr,
    _stop: watch::Sender<bool>,
}

impl Bare {
    async fn start(path: &str, answer: (HeaderMap, Bytes)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port can be had");
        let address = listener.local_addr().expect("a bound listener has an address");
        let router = Router::new().route(path, get(move || std::future::ready(answer.clone())));
        let stop = watch::Sender::new(false);
        tokio::spawn(serve(listener, router, Limits::default(), Arc::default(), stop.subscribe()));
        Self { address, _stop: stop }
    }
}
