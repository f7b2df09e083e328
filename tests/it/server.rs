//! The server itself: timeouts, bounds, request ids, health, docs, and the end of a process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Reply, TestApp, listen_options, new_customer};

/// Reads to the end of the connection, within `patience`.
async fn read_all(stream: &mut TcpStream, patience: Duration) -> Option<String> {
    let mut text = String::new();
    let read = tokio::time::timeout(patience, stream.read_to_string(&mut text)).await;
    read.ok().map(|_| text)
}

async fn raw(app: &TestApp) -> TcpStream {
    TcpStream::connect(app.app.base_url.trim_start_matches("http://")).await.expect("a connection")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_never_ends_and_an_idle_connection_are_closed() {
    let mut options = listen_options();
    options.header_timeout = 1;
    let app = TestApp::with(options).await;
    let mut slow = raw(&app).await;
    slow.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\nX-Slow: ").await.expect("written");
    let mut idle = raw(&app).await;
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("written");
    let patience = Duration::from_secs(5);
    read_all(&mut slow, patience).await.expect("the slow connection is closed");
    let answered = read_all(&mut idle, patience).await.expect("the idle connection is closed");
    assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_must_arrive_in_time_and_in_size() {
    let mut options = listen_options();
    options.body_timeout = 1;
    let app = TestApp::with(options).await;
    let party = app.party().await;
    let token = party.token.clone().expect("a token");
    let head = format!(
        "POST /api/v1/customers HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    );
    let mut slow = raw(&app).await;
    slow.write_all(format!("{head}Content-Length: 100\r\n\r\n{{").as_bytes()).await.expect("written");
    let answer = read_all(&mut slow, Duration::from_secs(5)).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    let big = "x".repeat(1024 * 1024 + 1);
    let request = party.request(Method::POST, "/api/v1/customers").header("content-type", "application/json").body(big);
    Reply::of(request).await.refused(413, "BODY_TOO_LARGE");
    let exact = format!("{{\"companyName\":\"{}\"}}", "x".repeat(1024 * 1024 - 18));
    let request =
        party.request(Method::POST, "/api/v1/customers").header("content-type", "application/json").body(exact);
    Reply::of(request).await.refused(400, "INVALID_PARAMS");
    for headers in ["Content-Length: x\r\n", "Content-Length: 1\r\nContent-Length: 2\r\n", "Bad Header: x\r\n"] {
        let mut bad = raw(&app).await;
        bad.write_all(format!("{head}{headers}\r\n").as_bytes()).await.expect("written");
        let answer = read_all(&mut bad, Duration::from_secs(5)).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
}

/// A client that asks for much and reads nothing does not keep its place.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_nobody_reads_is_given_up() {
    let mut options = listen_options();
    options.write_timeout = 1;
    let app = TestApp::with(options).await;
    let mut deaf = raw(&app).await;
    let request = b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: a\r\n\r\n".repeat(60);
    deaf.write_all(&request).await.expect("written");
    let started = Instant::now();
    let open = || app.app.services.metrics.connections.get();
    while open() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(started.elapsed() < Duration::from_secs(5), "the connection is accepted");
    }
    while open() > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(started.elapsed() < Duration::from_secs(20), "the connection is closed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_has_a_bounded_number_of_connections() {
    let mut options = listen_options();
    options.max_connections_per_address = 5;
    let app = TestApp::with(options).await;
    let mut open = Vec::new();
    for _ in 0..5 {
        let mut stream = raw(&app).await;
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("written");
        let mut byte = [0];
        stream.read_exact(&mut byte).await.expect("an answer");
        open.push(stream);
    }
    let mut refused = raw(&app).await;
    let text = read_all(&mut refused, Duration::from_secs(5)).await.expect("it is closed");
    assert_eq!(text, "");
    let metrics = {
        drop(open);
        let started = Instant::now();
        loop {
            let reply = app.http.get(format!("{}/metrics", app.app.base_url)).send().await;
            if let Ok(reply) = reply {
                break reply.text().await.expect("text");
            }
            assert!(started.elapsed() < Duration::from_secs(5), "places become free again");
            tokio::task::yield_now().await;
        }
    };
    assert!(metrics.contains("mercato_connections"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_names_its_request() {
    let app = TestApp::new().await;
    let stranger = app.stranger();
    assert!(stranger.get("/api/v1/customers").await.header("x-request-id").starts_with("req_"));
    for (given, kept) in [("abc-123", true), ("a b", false), ("", false)] {
        let request = stranger.request(Method::GET, "/nothing").header("x-request-id", given);
        let reply = Reply::of(request).await;
        reply.refused(404, "NOT_FOUND");
        assert_eq!(reply.header("x-request-id") == given, kept, "{given}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_metrics_and_contracts_are_served() {
    let app = TestApp::new().await;
    let stranger = app.stranger();
    assert_eq!(stranger.get("/livez").await.text, "ok\n");
    assert_eq!(stranger.get("/readyz").await.text, "ready\n");
    stranger.get("/api/v1/customers").await;
    let metrics = stranger.get("/metrics").await.text;
    assert!(metrics.contains("mercato_requests_total{operation=\"customers.list\",status=\"401\"} 1"), "{metrics}");
    assert_eq!(stranger.get("/schema.graphql").await.text, mercato::graphql::sdl());
    let document = stranger.get("/openapi.json").await.ok();
    assert_eq!(document["openapi"], json!("3.1.0"));
    assert_eq!(document["servers"][0]["url"], json!(app.app.base_url));
    let page = stranger.get("/docs").await;
    assert!(page.text.contains("swagger-ui"), "{}", page.text);
    assert!(page.header("content-security-policy").starts_with("default-src 'none'"));
    for file in ["index.html", "swagger-initializer.js"] {
        let text = stranger.get(&format!("/docs/{file}")).await.text;
        assert!(!text.contains("src=\"http") && !text.contains("href=\"http"), "{text}");
    }
    stranger.put("/livez", &json!({})).await.refused(405, "METHOD_NOT_ALLOWED");
    stranger.get("/docs/../../Cargo.toml").await.refused(404, "NOT_FOUND");
}

/// A `mercato` process of a test; killed when dropped.
struct Process(Child);

impl Process {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mercato"));
        let child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Self(child.expect("the process starts"))
    }

    fn terminate(&self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    }

    fn wait(&mut self, patience: Duration) -> std::process::ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("the process can be waited for") {
                return status;
            }
            assert!(started.elapsed() < patience, "the process ends within {patience:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            self.0.kill().expect("a running process can be killed");
        }
    }
}

fn wait_for_file(path: &std::path::Path) -> Value {
    let started = Instant::now();
    loop {
        if let Ok(text) = std::fs::read_to_string(path) {
            return serde_json::from_str(&text).expect("the ready file is JSON");
        }
        assert!(started.elapsed() < Duration::from_mins(1), "the service becomes ready");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The demo as a newcomer meets it, its secrets nowhere in the log, and its end while a request is under way.
#[tokio::test(flavor = "multi_thread")]
async fn the_demo_serves_and_drains() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, ready) = (folder.path().join("data"), folder.path().join("ready.json"));
    let arguments = ["demo", "--customers", "20", "--listen", "127.0.0.1:0", "--log", "json", "--data"];
    let paths = [data.to_str().expect("UTF-8"), "--ready-file", ready.to_str().expect("UTF-8")];
    let mut process = Process::start(&[&arguments[..], &paths[..]].concat());
    let said = wait_for_file(&ready);
    let text = |name: &str| said[name].as_str().unwrap_or_else(|| panic!("{name} in {said}")).to_owned();
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let body =
        format!("grant_type=client_credentials&client_id={}&client_secret={}", text("clientId"), text("clientSecret"));
    let request = http.post(format!("{}/oauth/token", text("authUrl"))).body(body);
    let reply = Reply::of(request.header("content-type", "application/x-www-form-urlencoded")).await;
    let token = reply.ok()["access_token"].as_str().expect("a token").to_owned();
    let url = format!("{}/api/v1/customers", text("baseUrl"));
    let list = Reply::of(http.get(format!("{url}?limit=100")).bearer_auth(&token)).await.data();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(20));
    let vendors: std::collections::BTreeSet<_> =
        list["items"].as_array().into_iter().flatten().map(|item| item["vendor"].to_string()).collect();
    assert_eq!(vendors.len(), 2);
    let writes = (0..20).map(|index| {
        let request = http.post(&url).bearer_auth(&token).json(&new_customer(&format!("late-{index}")));
        tokio::spawn(request.send())
    });
    let writes: Vec<_> = writes.collect();
    process.terminate();
    for write in writes {
        // Refused before it began, or answered in full.
        if let Ok(response) = write.await.expect("the task ends") {
            assert_eq!(response.status().as_u16(), 201);
        }
    }
    assert!(process.wait(Duration::from_secs(10)).success());
    let log: Vec<String> =
        BufReader::new(process.0.stderr.take().expect("stderr")).lines().map_while(Result::ok).collect();
    let answered = log.iter().filter(|line| line.contains("\"message\":\"answered\"")).count();
    assert!(answered >= 2, "{log:#?}");
    for secret in [token, text("clientSecret"), text("loadClientSecret")] {
        assert!(!log.iter().any(|line| line.contains(&secret)));
    }
}
