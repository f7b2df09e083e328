//! A WebSocket that speaks `graphql-transport-ws`. One task per socket reads, looks after the token and writes; each
//! operation has a task of its own ([`super::operation`]), which ends with the socket.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use http::header;
use http::request::Parts;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, Interval, MissedTickBehavior, interval, timeout};
use tracing::Instrument;

use super::Endpoint;
use super::answer::Refused;
use super::document::refused;
use super::message::{self, Incoming, PROTOCOL};
use super::operation::{Operation, Said, What};
use super::parameters::Parameters;
use super::summary::{LOOK, Summary};
use crate::auth::vigil::Vigil;
use crate::error::{Error, TokenProblem};
use crate::http::request::{Place, authorization, charge_client, client_address};
use crate::http::server::stopped;
use crate::model::event::Sequence;

/// The largest message. (A document may have 64 KiB; the rest is for variables.)
const MESSAGE: usize = 1024 * 1024;
/// A larger one is not even read to its end, and so cannot be answered either.
const FRAME: usize = 2 * MESSAGE;
/// Bytes that are read at once: small, because most sockets are silent most of the time.
const READ: usize = 4 * 1024;
/// What operations have said and the client has not taken yet.
const QUEUE: usize = 16;
/// Operations that one socket runs at once.
const OPERATIONS: usize = 1_000;
/// Pings without an answer after which a client is given up.
const UNANSWERED: u32 = 2;
/// Time for the closing handshake.
const GOODBYE: Duration = Duration::from_secs(1);
/// The longest reason of a close, in bytes (RFC 6455 §5.5).
const REASON: usize = 123;

/// Why a socket ends.
pub enum End {
    /// The other side went, or there is nobody to say anything to.
    Left(String),
    Close(u16, String),
    /// The client takes nothing of what is sent.
    Slow,
}

impl End {
    fn close(code: u16, reason: impl Into<String>) -> Self {
        Self::Close(code, reason.into())
    }
}

/// Whether a request asks for a WebSocket.
pub fn is_wanted(parts: &Parts) -> bool {
    let upgrade = parts.headers.get(header::UPGRADE).and_then(|value| value.to_str().ok());
    upgrade.is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
}

/// Takes the connection over. The token may come now or with `connection_init`, so nobody is asked for it here.
pub async fn upgrade(endpoint: Arc<Endpoint>, mut parts: Parts) -> Result<Response, Refused> {
    let address = client_address(&endpoint.services.settings, &parts);
    let (authorization, place) =
        (authorization(&parts.headers).map(str::to_owned), parts.extensions.get::<Place>().cloned());
    let offered = match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => Ok(upgrade.protocols([PROTOCOL])),
        Err(rejection) => Err(Error::malformed("Upgrade", rejection.body_text())),
    };
    let missing = |upgrade: &WebSocketUpgrade| upgrade.selected_protocol().is_none();
    let upgrade = match offered {
        Ok(upgrade) if missing(&upgrade) => {
            charge_client(&endpoint.services, address)?;
            return Err(Error::malformed("Sec-WebSocket-Protocol", format!("must offer {PROTOCOL}")).into());
        }
        Ok(upgrade) => upgrade,
        Err(error) => {
            charge_client(&endpoint.services, address)?;
            return Err(error.into());
        }
    };
    let span = tracing::Span::current();
    let upgrade = upgrade
        .read_buffer_size(READ)
        .write_buffer_size(0)
        .max_message_size(FRAME)
        .max_frame_size(FRAME)
        .on_failed_upgrade(|error| tracing::debug!(%error, "a socket was not taken over"));
    Ok(upgrade.on_upgrade(move |socket| {
        let (sender, queue) = mpsc::channel(QUEUE);
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let connection = Connection {
            stop: endpoint.services.stop.clone(),
            endpoint,
            socket,
            address,
            operations: HashMap::new(),
            turns: 0,
            sender,
            queue,
            look,
            pinged: Instant::now(),
            unanswered: 0,
            summary: Summary::new("graphql.ws", None),
        };
        async move {
            connection.run(authorization).await;
            drop(place);
        }
        .instrument(span)
    }))
}

/// An operation that runs. It ends when this is dropped.
struct Running {
    turn: u64,
    task: JoinHandle<()>,
    /// The last event that was sent.
    sent: Option<Sequence>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Connection {
    endpoint: Arc<Endpoint>,
    socket: WebSocket,
    address: IpAddr,
    operations: HashMap<Arc<str>, Running>,
    /// Operations that were ever begun.
    turns: u64,
    sender: mpsc::Sender<Said>,
    queue: mpsc::Receiver<Said>,
    look: Interval,
    stop: watch::Receiver<bool>,
    /// When the client was last asked for a sign of life, and how often since it gave one.
    pinged: Instant,
    unanswered: u32,
    summary: Summary,
}

impl Connection {
    async fn run(mut self, authorization: Option<String>) {
        let end = match self.greet(authorization).await {
            Ok(vigil) => loop {
                if let Err(end) = self.turn(&vigil).await {
                    break end;
                }
            },
            Err(end) => match charge_client(&self.endpoint.services, self.address) {
                // It was not the order to stop that kept the client from its turn.
                Err(error) if !*self.stop.borrow() => End::close(4403, format!("Forbidden: {error}")),
                _ => end,
            },
        };
        self.close(end).await;
    }

    /// From the upgrade to the acknowledgement.
    async fn greet(&mut self, authorization: Option<String>) -> Result<Vigil, End> {
        let deadline = Instant::now() + self.endpoint.services.settings.streams.init_timeout;
        loop {
            let incoming = tokio::select! {
                received = self.socket.recv() => self.received(received)?,
                () = stopped(&mut self.stop) => return Err(going_away()),
                () = tokio::time::sleep_until(deadline) => {
                    return Err(End::close(4408, "Connection initialisation timeout"));
                }
            };
            match incoming {
                Some(Incoming::Init(payload)) => {
                    let given = payload.as_ref().and_then(|payload| payload.as_object()).and_then(|payload| {
                        payload.iter().find(|(name, _)| name.eq_ignore_ascii_case("authorization"))
                    });
                    let given = given.map(|(_, value)| value.as_str().unwrap_or_default());
                    return self.admit(given.or(authorization.as_deref())).await;
                }
                Some(Incoming::Subscribe { .. }) => return Err(End::close(4401, "Unauthorized")),
                Some(Incoming::Ping(payload)) => self.send(message::pong(payload)).await?,
                Some(Incoming::Pong | Incoming::Complete { .. }) | None => {}
            }
        }
    }

    async fn admit(&mut self, authorization: Option<&str>) -> Result<Vigil, End> {
        match Vigil::begin(&self.endpoint.services.store, authorization).await {
            Ok((vigil, caller)) => {
                self.summary.set_caller(caller);
                self.send(message::ack()).await?;
                Ok(vigil)
            }
            Err(Error::Unauthenticated(TokenProblem::Missing)) => {
                Err(End::close(4403, "Forbidden: connection_init must carry {\"Authorization\": \"Bearer ...\"}"))
            }
            Err(error @ Error::Unauthenticated(_)) => Err(End::close(4403, format!("Forbidden: {error}"))),
            Err(error) => {
                tracing::error!(cause = error.cause(), "a socket could not be admitted");
                Err(End::close(4500, error.to_string()))
            }
        }
    }

    /// Whatever comes first.
    async fn turn(&mut self, vigil: &Vigil) -> Result<(), End> {
        tokio::select! {
            received = self.socket.recv() => match self.received(received)? {
                Some(incoming) => self.answer(vigil, incoming).await,
                None => Ok(()),
            },
            Some(said) = self.queue.recv() => self.deliver(vigil, said).await,
            _ = self.look.tick() => self.look_after(vigil).await,
            () = stopped(&mut self.stop) => Err(going_away()),
        }
    }

    fn received(&mut self, received: Option<Result<Message, axum::Error>>) -> Result<Option<Incoming>, End> {
        self.unanswered = 0;
        match received {
            None | Some(Ok(Message::Close(_))) => Err(End::Left("the client left".to_owned())),
            Some(Ok(Message::Text(text))) if text.len() > MESSAGE => {
                Err(End::close(4400, "Invalid message: it is larger than 1 MiB"))
            }
            Some(Ok(Message::Text(text))) => Incoming::read(&text).map(Some).map_err(|reason| End::close(4400, reason)),
            Some(Ok(Message::Binary(_))) => Err(End::close(4400, "Invalid message: it is binary")),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(None),
            Some(Err(error)) if is_lost(&error) => Err(End::Left(error.to_string())),
            Some(Err(error)) => Err(End::close(4400, format!("Invalid message: {error}"))),
        }
    }

    async fn answer(&mut self, vigil: &Vigil, incoming: Incoming) -> Result<(), End> {
        match incoming {
            Incoming::Init(_) => Err(End::close(4429, "Too many initialisation requests")),
            Incoming::Ping(payload) => self.send(message::pong(payload)).await,
            Incoming::Pong => Ok(()),
            Incoming::Complete { id } => {
                self.operations.remove(id.as_str());
                Ok(())
            }
            Incoming::Subscribe { id, parameters } => self.begin(vigil, id, parameters).await,
        }
    }

    async fn begin(&mut self, vigil: &Vigil, id: String, parameters: Parameters) -> Result<(), End> {
        if self.operations.contains_key(id.as_str()) {
            return Err(End::close(4409, format!("Subscriber for {id} already exists")));
        }
        let services = &self.endpoint.services;
        let caller = match vigil.caller(&services.store, &services.vigilance).await {
            Ok(_) if self.operations.len() >= OPERATIONS => {
                Err(Error::Crowded("This connection has as many operations open as it may; end one first"))
            }
            caller => caller,
        };
        let caller = match caller {
            Ok(caller) => caller,
            Err(error @ Error::Unauthenticated(_)) => return Err(End::close(4401, error.to_string())),
            Err(error) => return self.send(message::error(&id, &[refused(&error)])).await,
        };
        self.turns += 1;
        let (turn, id) = (self.turns, Arc::<str>::from(id));
        let (endpoint, queue) = (Arc::clone(&self.endpoint), self.sender.clone());
        let operation = Operation { endpoint, caller, id: Arc::clone(&id), turn, queue };
        let task = tokio::spawn(operation.run(parameters).in_current_span());
        self.operations.insert(id, Running { turn, task, sent: None });
        Ok(())
    }

    /// Sends what an operation has said, unless the client has ended it since.
    async fn deliver(&mut self, vigil: &Vigil, Said { id, turn, what }: Said) -> Result<(), End> {
        if self.operations.get(&id).is_none_or(|running| running.turn != turn) {
            return Ok(());
        }
        match what {
            What::Event(rendered) => {
                self.check(vigil).await?;
                self.send(message::next(&id, &rendered.json)).await?;
                self.summary.sent += 1;
                if let Some(running) = self.operations.get_mut(&id) {
                    running.sent = Some(rendered.sequence);
                }
                Ok(())
            }
            What::Result(result) => self.send(message::next(&id, &result)).await,
            What::Failed(errors) => {
                self.operations.remove(&id);
                self.send(message::error(&id, &errors)).await
            }
            What::Complete => {
                self.operations.remove(&id);
                self.send(message::complete(&id)).await
            }
        }
    }

    async fn look_after(&mut self, vigil: &Vigil) -> Result<(), End> {
        self.check(vigil).await?;
        if self.pinged.elapsed() < self.endpoint.services.settings.streams.ping_interval {
            return Ok(());
        }
        if self.unanswered == UNANSWERED {
            return Err(End::Left("the client was silent for too long".to_owned()));
        }
        self.pinged = Instant::now();
        self.unanswered += 1;
        self.send(Message::Ping(bytes::Bytes::new())).await
    }

    async fn check(&mut self, vigil: &Vigil) -> Result<(), End> {
        let services = &self.endpoint.services;
        let checked = vigil.check(&services.store, &services.vigilance).await;
        checked.map_err(|error| End::close(4401, error.to_string()))
    }

    /// Gives up on a client that takes nothing. What then is left of the write timeout is for the goodbye.
    async fn send(&mut self, message: impl Into<Message>) -> Result<(), End> {
        let patience = self.endpoint.services.settings.streams.write_timeout * 3 / 4;
        tokio::select! {
            sent = timeout(patience, self.socket.send(message.into())) => match sent {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(End::Left(error.to_string())),
                Err(_) => Err(End::Slow),
            },
            () = stopped(&mut self.stop) => Err(going_away()),
        }
    }

    async fn close(mut self, end: End) {
        let last = self.operations.values().filter_map(|running| running.sent).min();
        self.operations.clear();
        let goodbye = match end {
            End::Left(why) => {
                self.summary.why = why;
                None
            }
            End::Close(code, reason) => Some((code, reason, GOODBYE)),
            End::Slow => {
                let patience = self.endpoint.services.settings.streams.write_timeout / 4;
                let reason = last.map_or_else(String::new, |last| format!("{{\"lastSequence\":{last}}}"));
                Some((1013, reason, patience))
            }
        };
        if let Some((code, reason, patience)) = goodbye {
            let reason = fitting(&reason);
            self.summary.why = format!("{code} {reason}");
            let frame = CloseFrame { code, reason: reason.into() };
            let sent = timeout(patience, self.socket.send(Message::Close(Some(frame)))).await;
            tracing::debug!(said = matches!(sent, Ok(Ok(()))), "goodbye");
        }
        // The other side's part of the handshake; without it the kernel might throw our part away.
        let rest = async { while let Some(Ok(_)) = self.socket.recv().await {} };
        if timeout(GOODBYE, rest).await.is_err() {
            tracing::debug!("the client did not say goodbye");
        }
    }
}

fn going_away() -> End {
    End::close(1001, "Going Away")
}

/// Whether the connection broke, rather than that it carried what is no message.
fn is_lost(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(here) = cause {
        if here.is::<std::io::Error>() {
            return true;
        }
        cause = here.source();
    }
    error.to_string().contains("closing handshake")
}

/// As much of a reason as a close can carry.
fn fitting(reason: &str) -> &str {
    let end = (0..=REASON.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end));
    &reason[..end.unwrap_or_default()]
}
