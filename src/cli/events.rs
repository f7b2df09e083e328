//! `events tail`: follows a running service's events as its developers do, over an event stream, and prints each on a line
//! of its own. A connection that ends is made again from the last event that was printed.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::config::TailOptions;

const DOCUMENT: &str = "subscription ($kinds: [EventKind!], $after: Sequence) \
    { events(kinds: $kinds, afterSequence: $after) { payload } }";
/// The service gives a sign of life each 15 seconds.
const SILENCE: Duration = Duration::from_secs(45);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Why a stream ended.
enum End {
    /// Worth another try.
    Lost(String),
    /// It would end the same way again.
    Refused(String),
    /// Nobody reads what we print.
    Unread,
}

impl From<reqwest::Error> for End {
    fn from(error: reqwest::Error) -> Self {
        if error.is_builder() {
            Self::Refused(format!("{error}: {}", cause(&error)))
        } else {
            Self::Lost(cause(&error))
        }
    }
}

/// What is behind an error, in its own words.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

pub async fn tail(options: TailOptions) -> Result<(), String> {
    let http = reqwest::Client::builder()
        .read_timeout(SILENCE)
        .build()
        .map_err(|error| format!("no client can be made: {error}"))?;
    let (mut after, mut pause) = (options.after, FIRST_PAUSE);
    loop {
        let before = after;
        match follow(&http, &options, &mut after).await {
            Err(End::Unread) => return Ok(()),
            Err(End::Refused(reason)) => return Err(reason),
            Err(End::Lost(reason)) => {
                if after != before {
                    pause = FIRST_PAUSE;
                }
                eprintln!("mercato: the connection was lost ({reason}); trying again in {} s", pause.as_secs());
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// One connection, until it ends.
async fn follow(http: &reqwest::Client, options: &TailOptions, after: &mut Option<u64>) -> Result<Never, End> {
    let token = token(http, options).await?;
    let kinds: Vec<String> = options.kinds.iter().map(|kind| kind.to_uppercase().replace('.', "_")).collect();
    let variables = json!({ "kinds": (!kinds.is_empty()).then_some(kinds), "after": after });
    let request = http
        .post(format!("{}/graphql", options.url.trim_end_matches('/')))
        .bearer_auth(token)
        .header("accept", "text/event-stream")
        .json(&json!({ "query": DOCUMENT, "variables": variables }));
    let mut response = request.send().await?;
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    let (mut text, mut reached) = (Vec::new(), *after);
    while let Some(chunk) = response.chunk().await? {
        text.extend_from_slice(&chunk);
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            if let Some(data) = line.strip_prefix(b"data:") {
                print(data)?;
            } else if let Some(id) = line.strip_prefix(b"id:") {
                // It comes before its data, and at the beginning of a stream without any.
                reached = std::str::from_utf8(id).ok().and_then(|id| id.trim().parse().ok()).or(reached);
            } else if line == b"\n" {
                *after = reached;
            }
        }
    }
    Err(End::Lost("the stream ended".to_owned()))
}

/// A stream that goes on for ever does not end well.
enum Never {}

/// Prints the event of a `data:` line.
fn print(data: &[u8]) -> Result<(), End> {
    // The end of a stream carries no data.
    let Ok(result) = serde_json::from_slice::<Value>(data) else { return Ok(()) };
    if let Some(error) = result["errors"].get(0) {
        let text = error["message"].as_str().unwrap_or("the subscription failed").to_owned();
        // A token that has expired, a service that is going: worth another try.
        let passing = error["extensions"]["status"].as_u64().is_none_or(|status| status == 401 || status >= 500);
        return Err(if passing { End::Lost(text) } else { End::Refused(text) });
    }
    let Some(payload) = result["data"]["events"]["payload"].as_str() else { return Ok(()) };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{payload}").and_then(|()| out.flush()).map_err(|_| End::Unread)
}

async fn token(http: &reqwest::Client, options: &TailOptions) -> Result<String, End> {
    let auth = options.auth_url.as_ref().unwrap_or(&options.url).trim_end_matches('/');
    let form = [
        ("grant_type", "client_credentials"),
        ("client_id", &options.client_id),
        ("client_secret", &options.client_secret),
    ];
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let request = http.post(format!("{auth}/oauth/token")).body(body);
    let response = request.header("content-type", "application/x-www-form-urlencoded").send().await?;
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    let answer: Value = response.json().await?;
    answer["access_token"]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| End::Refused("The answer holds no token.".to_owned()))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What an answer says that is no stream.
async fn refusal(response: reqwest::Response) -> End {
    let (status, url) = (response.status(), response.url().clone());
    let body: Value = response.json().await.unwrap_or_default();
    let message = body["message"].as_str().or(body["errors"][0]["message"].as_str()).unwrap_or("no reason was given");
    let problems = body["errors"][0]["extensions"]["errors"].as_array().into_iter().flatten();
    let problems = problems.map(|problem| format!("{} {}.", text(&problem["field"]), text(&problem["message"])));
    let said = std::iter::once(format!("{url} answered {status}: {message}.")).chain(problems);
    let text = said.collect::<Vec<_>>().join(" ");
    if status.is_server_error() || status == 429 { End::Lost(text) } else { End::Refused(text) }
}
