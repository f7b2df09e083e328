//! Clients of the streaming transports: a WebSocket that speaks `graphql-transport-ws`, and an event stream (SSE).

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::{Party, Reply};

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    /// After the upgrade, without a token.
    pub async fn open(party: &Party) -> Self {
        Self::with(party, false).await
    }

    /// After the upgrade, with the token in its header.
    pub async fn with_header(party: &Party) -> Self {
        Self::with(party, true).await
    }

    async fn with(party: &Party, header: bool) -> Self {
        let address = party.base.trim_start_matches("http://");
        let mut request = format!("ws://{address}/graphql").into_client_request().expect("a request");
        let headers = request.headers_mut();
        headers.insert("sec-websocket-protocol", "graphql-transport-ws".parse().expect("a header"));
        if let (true, Some(token)) = (header, &party.token) {
            headers.insert("authorization", format!("Bearer {token}").parse().expect("a header"));
        }
        let tcp = TcpSocket::new_v4().expect("a socket");
        // Small, so that a client that does not read is soon noticed.
        tcp.set_recv_buffer_size(16 * 1024).expect("a small buffer");
        let stream = tcp.connect(address.parse().expect("an address")).await.expect("a connection");
        let (socket, response) = client_async(request, stream).await.expect("an upgrade");
        assert_eq!(response.headers()["sec-websocket-protocol"], "graphql-transport-ws");
        Self(socket)
    }

    /// After the acknowledgement.
    pub async fn ready(party: &Party) -> Self {
        let mut socket = Self::open(party).await;
        let token = party.token.as_deref().expect("a token");
        socket
            .say(&json!({ "type": "connection_init", "payload": { "authorization": format!("Bearer {token}") } }))
            .await;
        assert_eq!(socket.hear().await, json!({ "type": "connection_ack" }));
        socket
    }

    pub async fn say(&mut self, message: &Value) {
        self.send(Message::text(message.to_string())).await;
    }

    pub async fn send(&mut self, message: Message) {
        self.0.send(message).await.expect("the message is sent");
    }

    pub async fn subscribe(&mut self, id: &str, query: &str, variables: &Value) {
        let payload = json!({ "query": query, "variables": variables });
        self.say(&json!({ "id": id, "type": "subscribe", "payload": payload })).await;
    }

    async fn receive(&mut self) -> Message {
        let received = tokio::time::timeout(PATIENCE, self.0.next()).await.expect("something comes");
        received.expect("the socket is open").expect("the socket works")
    }

    /// The next message of the protocol.
    pub async fn hear(&mut self) -> Value {
        loop {
            match self.receive().await {
                Message::Text(text) => return serde_json::from_str(&text).expect("JSON"),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?} is no message of the protocol"),
            }
        }
    }

    /// Whether the server asks for a sign of life.
    pub async fn is_pinged(&mut self) -> bool {
        matches!(self.receive().await, Message::Ping(_))
    }

    /// The code and the reason that the server closes with; what comes before is left out.
    pub async fn closed(&mut self) -> (u16, String) {
        loop {
            if let Message::Close(frame) = self.receive().await {
                let frame = frame.expect("a close with a code");
                return (frame.code.into(), frame.reason.to_string());
            }
        }
    }

    /// The sequences of the events that come before the close, and the close.
    pub async fn drained(&mut self) -> (Vec<i64>, (u16, String)) {
        let mut sequences = Vec::new();
        loop {
            match self.receive().await {
                Message::Text(text) => {
                    let message: Value = serde_json::from_str(&text).expect("JSON");
                    sequences.extend(message["payload"]["data"]["events"]["sequence"].as_i64());
                }
                Message::Close(frame) => {
                    let frame = frame.expect("a close with a code");
                    return (sequences, (frame.code.into(), frame.reason.to_string()));
                }
                _ => {}
            }
        }
    }
}

/// The answer to a request that accepts an event stream.
pub struct EventStream {
    response: reqwest::Response,
    buffer: String,
}

/// One event of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StreamEvent {
    pub event: String,
    pub id: Option<String>,
    pub data: String,
}

impl EventStream {
    /// What a POST of this body is answered with.
    pub fn post(party: &Party, query: &str, variables: &Value) -> reqwest::RequestBuilder {
        let body = json!({ "query": query, "variables": variables });
        party.request(Method::POST, "/graphql").header("accept", "text/event-stream").json(&body)
    }

    /// The stream, if there is one; else the answer.
    pub async fn of(request: reqwest::RequestBuilder) -> Result<Self, Reply> {
        let response = request.send().await.expect("the service answers");
        let kind = response.headers()["content-type"].to_str().unwrap_or_default().to_owned();
        if !kind.starts_with("text/event-stream") {
            return Err(Reply::from(response).await);
        }
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Ok(Self { response, buffer: String::new() })
    }

    /// The next block, whatever it is; none at the end.
    pub async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.find("\n\n") {
                let rest = self.buffer.split_off(end + 2);
                let block = std::mem::replace(&mut self.buffer, rest);
                return Some(block.trim_end().to_owned());
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("something comes");
            let chunk = chunk.expect("the stream works")?;
            self.buffer.push_str(std::str::from_utf8(&chunk).expect("text"));
        }
    }

    /// The next event; comments are left out.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            let block = self.block().await?;
            if block.starts_with(':') {
                continue;
            }
            let mut event = StreamEvent::default();
            for line in block.lines() {
                let (name, value) = line.split_once(':').expect("a field");
                let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
                match name {
                    "event" => event.event = value,
                    "id" => event.id = Some(value),
                    "data" => event.data = value,
                    other => panic!("{other} is no field of an event"),
                }
            }
            // Without data it is none; only its id counts.
            if !event.event.is_empty() {
                return Some(event);
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Socket,
    Stream,
}

impl Transport {
    pub const BOTH: [Self; 2] = [Self::Socket, Self::Stream];
}

/// One subscription over either transport.
pub enum Feed {
    Socket(Socket),
    Stream(EventStream),
}

impl Feed {
    /// A subscription that was accepted, or the errors.
    pub async fn open(transport: Transport, party: &Party, query: &str, variables: Value) -> Self {
        match transport {
            Transport::Socket => {
                let mut socket = Socket::ready(party).await;
                socket.subscribe("1", query, &variables).await;
                Self::Socket(socket)
            }
            Transport::Stream => match EventStream::of(EventStream::post(party, query, &variables)).await {
                Ok(stream) => Self::Stream(stream),
                Err(reply) => panic!("{reply:?}"),
            },
        }
    }

    /// The `extensions` of the error that a subscription is refused with.
    pub async fn refused(transport: Transport, party: &Party, query: &str, variables: Value) -> Value {
        match transport {
            Transport::Socket => {
                let mut socket = Socket::ready(party).await;
                socket.subscribe("1", query, &variables).await;
                let message = socket.hear().await;
                assert_eq!((&message["type"], &message["id"]), (&json!("error"), &json!("1")), "{message}");
                message["payload"][0]["extensions"].clone()
            }
            Transport::Stream => match EventStream::of(EventStream::post(party, query, &variables)).await {
                Ok(_) => panic!("it was not refused"),
                Err(reply) => {
                    let extensions = reply.json()["errors"][0]["extensions"].clone();
                    if let Some(status) = extensions["status"].as_u64() {
                        assert_eq!(u64::from(reply.status), status);
                    }
                    extensions
                }
            },
        }
    }

    /// The next execution result.
    pub async fn result(&mut self) -> Value {
        match self {
            Self::Socket(socket) => {
                let message = socket.hear().await;
                assert_eq!((&message["type"], &message["id"]), (&json!("next"), &json!("1")), "{message}");
                message["payload"].clone()
            }
            Self::Stream(stream) => {
                let event = stream.next().await.expect("the stream goes on");
                assert_eq!(event.event, "next", "{event:?}");
                let result: Value = serde_json::from_str(&event.data).expect("JSON");
                if let Some(sequence) = result["data"]["events"]["sequence"].as_i64() {
                    assert_eq!(event.id, Some(sequence.to_string()));
                }
                result
            }
        }
    }

    /// The next event.
    pub async fn event(&mut self) -> Value {
        let result = self.result().await;
        assert!(result.get("errors").is_none(), "{result}");
        result["data"]["events"].clone()
    }

    /// The sequences of the next events.
    pub async fn sequences(&mut self, count: usize) -> Vec<i64> {
        let mut sequences = Vec::new();
        while sequences.len() < count {
            sequences.push(self.event().await["sequence"].as_i64().expect("a sequence"));
        }
        sequences
    }
}
