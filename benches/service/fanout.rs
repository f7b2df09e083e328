//! One event to 100, 1,000 and 5,000 WebSocket subscribers, against an axum server that broadcasts bytes made beforehand;
//! what an idle subscriber holds; that nobody misses anything, also after coming back.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::ws::{Message, Utf8Bytes, WebSocketUpgrade};
use axum::routing::any;
use mercato::app::Workers;
use mercato::model::scope::Scope;
use serde_json::json;
use tokio::sync::broadcast;

use crate::dispatch::Stand;
use crate::place::Place;
use crate::process::Serve;
use crate::report::Line;
use crate::scale::{Scale, median};
use crate::service::{issue_token, made_offline};
use crate::sockets::Crowd;

const LEAST: f64 = 0.40;
const IDLE_KB: f64 = 40.0;
const DOCUMENT: &str = "subscription ($after: Sequence) { events(kinds: [CUSTOMER_CREATED], afterSequence: $after) \
    { id sequence type timestamp data { ... on Customer { id companyName status } } payload } }";

pub async fn measure(scale: &Scale) -> Vec<Line> {
    let mut lines = Vec::new();
    for subscribers in scale.subscribers {
        lines.push(fan_out(scale, subscribers).await);
    }
    lines.push(idle_memory(scale).await);
    lines
}

/// What a subscriber says: who it is, and what it wants.
fn greetings(token: &str) -> Vec<String> {
    let init = json!({ "type": "connection_init", "payload": { "Authorization": format!("Bearer {token}") } });
    let payload = json!({ "query": DOCUMENT, "variables": { "after": "AFTER" } });
    let subscribe = json!({ "id": "1", "type": "subscribe", "payload": payload });
    vec![init.to_string(), subscribe.to_string()]
}

/// Floor and service take turns, because both crowds at once would need more open files than many machines give.
async fn fan_out(scale: &Scale, subscribers: usize) -> Line {
    let stand = Stand::new(0, Workers::Running).await;
    let token = stand.token(&[Scope::ReadCustomers]).await;
    let (floor, bytes) = broadcaster().await;
    let (mut floor_ms, mut our_ms, mut ratios, mut happened) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..scale.fan_out_rounds {
        let mut crowd = Crowd::new(floor, greetings(&token));
        crowd.join(subscribers, 0).await;
        let mut theirs = Vec::new();
        for number in 1..=scale.fan_outs {
            let send = async || {
                bytes.send(prepared(number)).expect("there are subscribers");
            };
            theirs.push(reached(&crowd, subscribers, send).await);
        }
        drop(crowd);
        let mut crowd = Crowd::new(stand.address(), greetings(&token));
        crowd.join(subscribers, happened).await;
        let mut ours = Vec::new();
        for _ in 0..scale.fan_outs {
            ours.push(reached(&crowd, subscribers, async || stand.happen().await).await);
            happened += 1;
        }
        ratios.push(median(&theirs) / median(&ours));
        floor_ms.extend(theirs);
        our_ms.extend(ours);
    }
    come_back(&stand, &token, happened).await;
    stand.app.stop().await;
    let ratio = median(&ratios);
    Line {
        floor: format!("{:.1} ms", median(&floor_ms)),
        ratio: format!("{ratio:.3}"),
        target: format!(">= {LEAST:.2}"),
        passed: Some(ratio >= LEAST),
        ..Line::note(format!("one event to {subscribers} subscribers"), format!("{:.1} ms", median(&our_ms)))
    }
}

/// Milliseconds from when something has happened until everybody knows.
async fn reached(crowd: &Crowd, subscribers: usize, happen: impl AsyncFnOnce()) -> f64 {
    crowd.expect(subscribers);
    happen().await;
    let began = Instant::now();
    crowd.enough().await;
    began.elapsed().as_secs_f64() * 1000.0
}

/// Some that were away while things happened: each names the last event it has seen and checks every one after it.
async fn come_back(stand: &Stand, token: &str, after: i64) {
    const AWAY: usize = 50;
    const MISSED: usize = 20;
    for _ in 0..MISSED {
        stand.happen().await;
    }
    let mut crowd = Crowd::new(stand.address(), greetings(token));
    crowd.expect(AWAY * (MISSED + 1));
    crowd.join(AWAY, after).await;
    stand.happen().await;
    crowd.enough().await;
}

/// The floor: a socket of axum, and bytes that are the same for all.
async fn broadcaster() -> (SocketAddr, broadcast::Sender<Utf8Bytes>) {
    let sender = broadcast::Sender::new(64);
    let (listener, handed) = (tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port"), sender.clone());
    let address = listener.local_addr().expect("it is bound");
    let upgrade = move |upgrade: WebSocketUpgrade| {
        let mut bytes = handed.subscribe();
        async move {
            upgrade.protocols(["graphql-transport-ws"]).on_upgrade(async move |mut socket| {
                let first = socket.recv().await;
                assert!(matches!(first, Some(Ok(Message::Text(_)))), "the client introduces itself");
                socket.send(Message::Text("{\"type\":\"connection_ack\"}".into())).await.expect("it is there");
                loop {
                    tokio::select! {
                        message = bytes.recv() => {
                            let Ok(message) = message else { return };
                            if socket.send(Message::Text(message)).await.is_err() {
                                return;
                            }
                        }
                        heard = socket.recv() => if !matches!(heard, Some(Ok(_))) { return },
                    }
                }
            })
        }
    };
    let router = Router::new().route("/graphql", any(upgrade));
    tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
    (address, sender)
}

/// As long as what we send.
fn prepared(sequence: usize) -> Utf8Bytes {
    let filler = "x".repeat(1100);
    format!("{{\"id\":\"1\",\"type\":\"next\",\"payload\":{{\"sequence\":{sequence},\"payload\":\"{filler}\"}}}}")
        .into()
}

/// What a process holds for a subscriber to whom nothing happens.
async fn idle_memory(scale: &Scale) -> Line {
    let place = Place::new();
    let client = made_offline(&place).await;
    let serve = Serve::start(&place);
    let token = issue_token(&format!("http://{}", serve.address), &client.0, &client.1).await;
    let mut crowd = Crowd::new(serve.address, greetings(&token));
    crowd.join(100, 0).await;
    let before = serve.resident_mb();
    crowd.join(usize::try_from(scale.idle_subscribers - 100).expect("few"), 0).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let each = (serve.resident_mb() - before) * 1000.0 / f64::from(scale.idle_subscribers - 100);
    drop(crowd);
    serve.stop();
    Line::at_most("memory of an idle subscriber", each, IDLE_KB, "KB")
}
