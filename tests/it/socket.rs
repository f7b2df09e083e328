//! The WebSocket protocol (`graphql-transport-ws`): its messages, its close codes, its bounds.

use std::time::{Duration, Instant};

use chrono::TimeDelta;
use mercato::model::application::RateLimits;
use mercato::model::scope::Scope;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::harness::{Party, Reply, Socket, TestApp, listen_options, shared};

const ALL: &str = "subscription ($after: Sequence) { events(afterSequence: $after) { sequence } }";

/// Waits until this many connections are open.
async fn connections(app: &TestApp, count: i64) {
    let began = Instant::now();
    while app.app.services.metrics.connections.get() != count {
        assert!(began.elapsed().as_secs() < 20, "{} are open", app.app.services.metrics.connections.get());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn init(authorization: &str) -> Value {
    json!({ "type": "connection_init", "payload": { "Authorization": authorization } })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_must_offer_the_protocol() {
    let app = TestApp::new().await;
    let party = app.party().await;
    for protocol in [None, Some("graphql-ws"), Some("chat, soap")] {
        let mut request = party
            .request(reqwest::Method::GET, "/graphql")
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        if let Some(protocol) = protocol {
            request = request.header("sec-websocket-protocol", protocol);
        }
        let body = Reply::of(request).await.expect(400);
        let problem = &body["errors"][0]["extensions"]["errors"][0];
        assert_eq!(problem["message"], json!("must offer graphql-transport-ws"));
    }
    let bare = party.request(reqwest::Method::GET, "/graphql").header("upgrade", "websocket");
    Reply::of(bare).await.expect(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_must_begin_in_time() {
    let mut options = listen_options();
    options.socket_init_timeout = 1;
    let app = TestApp::with(options).await;
    let mut socket = Socket::open(&app.party().await).await;
    assert_eq!(socket.closed().await, (4408, "Connection initialisation timeout".to_owned()));
    connections_of_sockets(&app).await;
}

/// Only the kept-alive connections of the HTTP client are left.
async fn connections_of_sockets(app: &TestApp) {
    let began = Instant::now();
    while app.app.services.metrics.connections.get() > 1 {
        assert!(began.elapsed().as_secs() < 20, "{} are open", app.app.services.metrics.connections.get());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_valid_token_opens_a_socket() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let token = party.token.clone().expect("a token");
    for (message, reason) in [
        (
            json!({ "type": "connection_init" }),
            "Forbidden: connection_init must carry {\"Authorization\": \"Bearer ...\"}",
        ),
        (json!({ "type": "connection_init", "payload": null }), "Forbidden: connection_init must carry"),
        (init("Bearer nonsense"), "Forbidden: Invalid or revoked token"),
        (init(&token), "Forbidden: Invalid or revoked token"),
        (
            json!({ "type": "connection_init", "payload": { "Authorization": 7 } }),
            "Forbidden: Invalid or revoked token",
        ),
    ] {
        let mut socket = Socket::open(&party).await;
        socket.say(&message).await;
        let (code, text) = socket.closed().await;
        assert_eq!(code, 4403);
        assert!(text.starts_with(reason), "{text}");
    }
    for name in ["Authorization", "AUTHORIZATION"] {
        let mut socket = Socket::open(&party).await;
        let message = json!({ "type": "connection_init", "payload": { name: format!("bearer {token}") } });
        socket.say(&message).await;
        assert_eq!(socket.hear().await, json!({ "type": "connection_ack" }));
    }
    let mut socket = Socket::with_header(&party).await;
    socket.say(&json!({ "type": "connection_init" })).await;
    assert_eq!(socket.hear().await, json!({ "type": "connection_ack" }));
    app.advance(TimeDelta::hours(2));
    let mut socket = Socket::with_header(&party).await;
    socket.say(&json!({ "type": "connection_init" })).await;
    assert_eq!(socket.closed().await, (4403, "Forbidden: Token expired".to_owned()));
}

/// Sockets that nobody answers for are counted by address, like requests.
#[tokio::test(flavor = "multi_thread")]
async fn unsuccessful_sockets_are_counted_by_address() {
    let mut options = listen_options();
    options.address_limit = 2;
    let app = TestApp::with(options).await;
    let stranger = app.stranger();
    for reason in ["Invalid or revoked token", "Invalid or revoked token", "Rate limit exceeded"] {
        let mut socket = Socket::open(&stranger).await;
        socket.say(&init("Bearer x")).await;
        assert_eq!(socket.closed().await, (4403, format!("Forbidden: {reason}")));
    }
    stranger.get("/api/v1/customers").await.refused(429, "RATE_LIMITED");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_closes_the_socket() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let long = "x".repeat(300);
    for (message, code, reason) in [
        (Message::text("{"), 4400, "Invalid message: it is not complete JSON"),
        (Message::text("[]"), 4400, "Invalid message: it is not a JSON object"),
        (Message::text("{\"type\":\"ping\",\"type\":\"ping\"}"), 4400, "Invalid message: it has a field twice"),
        (Message::text("{\"type\":7}"), 4400, "Invalid message: type must be a string"),
        (Message::text("{\"type\":\"start\"}"), 4400, "Invalid message: its type \"start\" is unknown"),
        (Message::text(format!("{{\"type\":\"{long}\"}}")), 4400, "Invalid message: its type \"xxx"),
        (Message::text("{\"type\":\"connection_ack\"}"), 4400, "Invalid message: its type"),
        (Message::text("{\"type\":\"subscribe\",\"id\":\"1\"}"), 4400, "Invalid message: payload is required"),
        (Message::text("{\"type\":\"subscribe\",\"payload\":{}}"), 4400, "Invalid message: id must be a string"),
        (
            Message::text("{\"type\":\"subscribe\",\"id\":\"1\",\"payload\":{}}"),
            4400,
            "Invalid message: payload.query is required",
        ),
        (Message::text("{\"type\":\"complete\",\"id\":\"\"}"), 4400, "Invalid message: id must be a string"),
        (Message::text("{\"type\":\"ping\",\"payload\":1}"), 4400, "Invalid message: payload must be an object"),
        (Message::binary(b"{}".to_vec()), 4400, "Invalid message: it is binary"),
        (Message::text(format!("{{\"type\":\"{}\"}}", "x".repeat(1024 * 1024))), 4400, "Invalid message: it is larger"),
        (Message::text("{\"type\":\"connection_init\"}"), 4429, "Too many initialisation requests"),
    ] {
        let mut socket = Socket::ready(&party).await;
        socket.send(message).await;
        let (seen, text) = socket.closed().await;
        assert_eq!(seen, code, "{text}");
        assert!(text.starts_with(reason) && text.len() <= 123, "{text}");
    }
    let mut socket = Socket::open(&party).await;
    socket.subscribe("1", ALL, &json!({})).await;
    assert_eq!(socket.closed().await, (4401, "Unauthorized".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_free_again_when_its_operation_has_ended() {
    let app = TestApp::new().await;
    let party = app.party().await;
    party.customer("1").await;
    let mut socket = Socket::ready(&party).await;
    socket.subscribe("a", ALL, &json!({ "after": 0 })).await;
    let next = json!({ "id": "a", "type": "next", "payload": { "data": { "events": { "sequence": 1 } } } });
    assert_eq!(socket.hear().await, next);
    // A late `complete` of an unknown id is nothing to complain of.
    socket.say(&json!({ "id": "b", "type": "complete" })).await;
    socket.say(&json!({ "id": "a", "type": "complete" })).await;
    socket.subscribe("a", ALL, &json!({ "after": 0 })).await;
    assert_eq!(socket.hear().await, next);
    socket.subscribe("q", "{ __typename }", &json!({})).await;
    assert_eq!(socket.hear().await["type"], json!("next"));
    assert_eq!(socket.hear().await, json!({ "id": "q", "type": "complete" }));
    socket.subscribe("q", "{ __typename }", &json!({})).await;
    assert_eq!(socket.hear().await["type"], json!("next"));
    socket.subscribe("a", ALL, &json!({})).await;
    assert_eq!(socket.closed().await, (4409, "Subscriber for a already exists".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_are_answered() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let payload = json!({ "at": 1, "deep": { "er": [1, "x"] } });
    let mut socket = Socket::open(&party).await;
    socket.say(&json!({ "type": "ping", "payload": payload })).await;
    assert_eq!(socket.hear().await, json!({ "type": "pong", "payload": payload }));
    let mut socket = Socket::ready(&party).await;
    socket.say(&json!({ "type": "pong" })).await;
    socket.say(&json!({ "type": "ping" })).await;
    assert_eq!(socket.hear().await, json!({ "type": "pong" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_and_mutations_run_over_a_socket() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let mut socket = Socket::ready(&party).await;
    let create = "mutation ($input: CreateCustomerInput!) { createCustomer(input: $input) { customer { id } \
                  userErrors { code } } }";
    let input = json!({ "input": { "vendor": "CLOUD_A", "companyName": "X", "cloudAccountId": "1" } });
    socket.subscribe("m", create, &input).await;
    let made = socket.hear().await;
    assert_eq!(made["type"], json!("next"), "{made}");
    let id = made["payload"]["data"]["createCustomer"]["customer"]["id"].clone();
    assert_eq!(socket.hear().await, json!({ "id": "m", "type": "complete" }));
    socket.subscribe("q", "query ($id: ID!) { customer(id: $id) { id } }", &json!({ "id": id })).await;
    assert_eq!(socket.hear().await["payload"], json!({ "data": { "customer": { "id": id } } }));
    assert_eq!(socket.hear().await["type"], json!("complete"));
    // Errors of fields come with the result, errors of the request instead of it.
    socket.subscribe("f", "{ customer(id: \"x\") { id } }", &json!({})).await;
    let failed = socket.hear().await;
    assert_eq!(failed["payload"]["errors"][0]["extensions"]["code"], json!("NOT_FOUND"));
    assert_eq!(socket.hear().await["type"], json!("complete"));
    for query in
        ["{", "{ nothing }", "query A { __typename } query B { __typename }", "query ($x: ID!) { node(id: $x) { id } }"]
    {
        socket.subscribe("e", query, &json!({})).await;
        let error = socket.hear().await;
        assert_eq!((&error["type"], &error["id"]), (&json!("error"), &json!("e")), "{error}");
        assert!(error["payload"][0]["message"].is_string(), "{error}");
    }
}

/// What costs over HTTP costs over a socket.
#[tokio::test(flavor = "multi_thread")]
async fn operations_are_counted() {
    let app = TestApp::new().await;
    let limits = RateLimits { hour: 100, minute: 5 };
    let party = app.party_with(app.organization("A").await, Scope::ALL, limits).await;
    let mut socket = Socket::ready(&party).await;
    let three = "{ customers(first: 100) { nodes { id vendor } } }";
    for (query, kinds) in
        [(three, ["next", "complete"].as_slice()), ("{", &["error"]), ("{ __typename }", &["next", "complete"])]
    {
        socket.subscribe("1", query, &json!({})).await;
        for kind in kinds {
            assert_eq!(socket.hear().await["type"], json!(kind), "{query}");
        }
    }
    for query in ["{ __typename }", ALL] {
        socket.subscribe("1", query, &json!({})).await;
        let error = socket.hear().await;
        assert_eq!(error["payload"][0]["extensions"]["code"], json!("RATE_LIMITED"), "{error}");
        assert_eq!(error["payload"][0]["extensions"]["retryAfter"], json!(60));
    }
}

/// A socket keeps its place among the connections of its address, and gives it back.
#[tokio::test(flavor = "multi_thread")]
async fn sockets_are_connections() {
    let mut options = listen_options();
    options.max_connections_per_address = 3;
    let app = TestApp::with(options).await;
    let party = app.party().await;
    let sockets = (Socket::ready(&party).await, Socket::ready(&party).await);
    connections(&app, 3).await;
    let address = app.app.base_url.trim_start_matches("http://");
    let mut refused = tokio::net::TcpStream::connect(address).await.expect("a connection");
    let mut byte = [0];
    let read = tokio::io::AsyncReadExt::read(&mut refused, &mut byte);
    let read = tokio::time::timeout(Duration::from_secs(5), read).await.expect("it is closed");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    drop(sockets);
    connections(&app, 1).await;
    Socket::ready(&party).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_socket_is_asked_and_then_given_up() {
    let mut options = listen_options();
    options.socket_ping_interval = 1;
    let app = TestApp::with(options).await;
    let party = app.party().await;
    let (mut answering, silent) = (Socket::ready(&party).await, Socket::ready(&party).await);
    connections(&app, 3).await;
    // Reading answers pings; who does not read does not answer.
    for _ in 0..5 {
        assert!(answering.is_pinged().await);
    }
    connections(&app, 2).await;
    drop(silent);
}

/// A client that does not read is told where it stood, and loses nothing by it.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_client_is_closed_with_its_last_event() {
    let mut options = listen_options();
    options.write_timeout = 4;
    let app = shared(TestApp::with(options).await);
    let party = app.party().await;
    // More than the kernel takes in for the client.
    fill(&party, 240).await;
    let mut socket = Socket::ready(&party).await;
    socket.subscribe("1", &bulky(), &json!({})).await;
    // It takes some, and then nothing until the server has had enough of it.
    assert_eq!(socket.hear().await["type"], json!("next"));
    let began = Instant::now();
    while app.app.services.metrics.subscriptions.get() > 0 {
        assert!(began.elapsed().as_secs() < 20, "it is still running");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (seen, (code, reason)) = socket.drained().await;
    assert_eq!(code, 1013);
    let last = serde_json::from_str::<Value>(&reason).expect("JSON")["lastSequence"].as_i64().expect("a sequence");
    assert!(last < 240, "{last}");
    // One more may have been under way.
    assert!(seen.last().is_some_and(|seen| *seen == last || *seen == last + 1), "{seen:?} {last}");
    let mut again = Socket::ready(&party).await;
    again.subscribe("1", ALL, &json!({ "after": last })).await;
    for sequence in last + 1..=240 {
        assert_eq!(again.hear().await["payload"]["data"]["events"]["sequence"], json!(sequence));
    }
}

/// The log is swept while a client does not read: what it was not given is told to be gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_expires_under_a_slow_client_ends_its_subscription() {
    let app = TestApp::new().await;
    let party = app.party().await;
    // More than is read at once, and what is read ahead.
    fill(&party, 480).await;
    let mut socket = Socket::ready(&party).await;
    socket.subscribe("1", &bulky(), &json!({})).await;
    assert_eq!(socket.hear().await["type"], json!("next"));
    app.advance(TimeDelta::seconds(10));
    app.store.sweep(TimeDelta::seconds(1)).await.expect("the sweep runs");
    let mut last = 1;
    let error = loop {
        let message = socket.hear().await;
        if message["type"] == "error" {
            break message;
        }
        last += 1;
        assert_eq!(message["payload"]["data"]["events"]["sequence"], json!(last));
    };
    assert_eq!(error["id"], json!("1"));
    assert_eq!(
        error["payload"][0]["extensions"],
        json!({ "code": "EVENTS_EXPIRED", "status": 410, "oldestSequence": 481 })
    );
    assert!(last < 480, "{last}");
    // The socket goes on.
    socket.subscribe("1", "{ __typename }", &json!({})).await;
    assert_eq!(socket.hear().await["type"], json!("next"));
}

/// A subscription to the whole log that is much to take.
fn bulky() -> String {
    let copies = (0..29).map(|copy| format!("p{copy}: payload")).collect::<Vec<_>>().join(" ");
    format!("subscription {{ events(afterSequence: 0) {{ sequence {copies} }} }}")
}

/// Events that are large.
async fn fill(party: &Party, count: usize) {
    let made = futures_util::future::join_all((0..count).map(|account| async move {
        let name = format!("{account} {}", "x".repeat(190));
        let customer = json!({ "vendor": "cloud_a", "cloudAccountId": account.to_string(), "companyName": name });
        party.post("/api/v1/customers", &customer).await.created()
    }));
    assert_eq!(made.await.len(), count);
}
