//! A marketplace that answers as a test says, and remembers what it was asked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use mercato::clock::Clock;
use mercato::marketplace::accounts::{CloudAAccount, CloudBAccount};
use mercato::marketplace::cloud_a::CloudA;
use mercato::marketplace::cloud_b::CloudB;
use mercato::marketplace::http::{Client, ClientSettings};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    /// With the query.
    pub path: String,
    pub headers: HeaderMap,
    pub text: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {:?}", self.text))
    }

    pub fn is_for_token(&self) -> bool {
        self.path.starts_with("/token")
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub struct Says {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
    delay: Duration,
}

pub fn says(status: u16, body: Value) -> Says {
    says_text(status, body.to_string())
}

pub fn says_text(status: u16, body: impl Into<String>) -> Says {
    Says { status, headers: Vec::new(), body: body.into(), delay: Duration::ZERO }
}

impl Says {
    pub fn with(mut self, header: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((header, value.into()));
        self
    }

    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// The marketplace. It ends with the test.
pub struct Stub {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stub {
    /// `answer` is given the request and how many of its kind (tokens, others) came before.
    pub async fn start(answer: impl Fn(usize, &Asked) -> Says + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
        let router = Router::new().fallback(move |request: Request| {
            let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
            async move {
                let request = read(request).await;
                let before = {
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    let before = log.iter().filter(|it| it.is_for_token() == request.is_for_token()).count();
                    log.push(request.clone());
                    before
                };
                let says = answer(before, &request);
                tokio::time::sleep(says.delay).await;
                says.into_response()
            }
        });
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("the stub serves") });
        Self { url, asked, task }
    }

    /// One of `cloud_b`, which grants tokens `t0`, `t1` … for an hour each.
    pub async fn cloud_b(answer: impl Fn(usize, &Asked) -> Says + Send + Sync + 'static) -> Self {
        Self::start(move |before, asked| if asked.is_for_token() { grants(before) } else { answer(before, asked) })
            .await
    }

    /// What it was asked but for tokens.
    pub fn asked(&self) -> Vec<Asked> {
        let log = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        log.iter().filter(|asked| !asked.is_for_token()).cloned().collect()
    }

    /// The requests for tokens.
    pub fn asked_for_tokens(&self) -> Vec<Asked> {
        let log = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        log.iter().filter(|asked| asked.is_for_token()).cloned().collect()
    }
}

pub fn grants(before: usize) -> Says {
    says(200, json!({ "token_type": "Bearer", "access_token": format!("t{before}"), "expires_in": 3600 }))
}

async fn read(request: Request) -> Asked {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1024 * 1024).await.expect("a body");
    Asked {
        method: parts.method.to_string(),
        path: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: parts.headers,
        text: String::from_utf8_lossy(&body).into_owned(),
    }
}

impl IntoResponse for Says {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).expect("a status");
        let mut response = (status, self.body).into_response();
        for (name, value) in self.headers {
            response.headers_mut().insert(name, value.parse().expect("a header"));
        }
        response
    }
}

/// Settings without pauses, for this machine.
pub fn settings() -> ClientSettings {
    ClientSettings {
        connect_timeout: Duration::from_secs(2),
        timeout: Duration::from_secs(5),
        pauses: [Duration::ZERO; 3],
        allowed: vec!["127.0.0.0/8".parse().expect("a subnet")],
    }
}

pub fn client(clock: &Clock) -> Client {
    Client::new(settings(), clock.clone()).expect("a client")
}

pub fn account_b(url: &str) -> CloudBAccount {
    CloudBAccount {
        tenant_id: "tenant-1".to_owned(),
        client_id: "client-1".to_owned(),
        client_secret: "s3cret&=".into(),
        token_url: format!("{url}/token"),
        base_url: format!("{url}/b"),
        ingestion_url: format!("{url}/b"),
        keys_url: format!("{url}/keys"),
        audience: "client-1".to_owned(),
        publisher_id: "publisher-1".to_owned(),
    }
}

pub fn account_a(url: &str) -> CloudAAccount {
    CloudAAccount {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: "s3cret/key".into(),
        region: "us-east-1".to_owned(),
        metering_url: format!("{url}/a"),
        catalog_url: format!("{url}/a/"),
        agreements_url: format!("{url}/a"),
        notification_secret: "told".into(),
    }
}

pub fn cloud_b(stub: &Stub) -> CloudB {
    CloudB::new(account_b(&stub.url), client(&Clock::manual()))
}

pub fn cloud_a(stub: &Stub) -> CloudA {
    CloudA::new(account_a(&stub.url), client(&Clock::manual()))
}
