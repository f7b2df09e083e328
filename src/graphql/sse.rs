//! Server-Sent Events: graphql-sse, "distinct connections". One request, one operation, one stream of `next` events and
//! a `complete` at its end. An event's `id:` is its sequence, so a browser that comes back resumes by itself.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::Endpoint;
use super::answer::errors_json;
use super::document::refused;
use super::negotiate::Form;
use super::stream::Followed;
use super::summary::{LOOK, Summary};
use crate::auth::vigil::Vigil;
use crate::call::Caller;
use crate::error::Error;
use crate::http::request::authorization;
use crate::http::server::stopped;
use crate::model::event::Sequence;

const COMPLETE: &str = "event: complete\ndata:\n\n";
/// A comment: a sign of life that no client sees.
const COMMENT: &str = ":\n\n";

/// Where a browser says that it stands.
pub fn resumed(headers: &HeaderMap) -> Result<Option<Sequence>, Error> {
    let Some(value) = headers.get("last-event-id").filter(|value| !value.is_empty()) else { return Ok(None) };
    let sequence = value.to_str().ok().and_then(Sequence::parse);
    let wrong = || Error::malformed("Last-Event-ID", "must be the id of an event of this stream, its sequence");
    sequence.map(Some).ok_or_else(wrong)
}

/// A result that is known, as a stream.
pub fn once(result: &str) -> Response {
    respond(Body::from(format!("event: next\ndata: {result}\n\n{COMPLETE}")))
}

/// A subscription as a stream, until the log, the token, the service or the client ends it.
pub async fn stream(
    endpoint: &Arc<Endpoint>,
    headers: &HeaderMap,
    followed: Followed,
    caller: &Caller,
) -> Result<Response, Error> {
    let (vigil, _) = Vigil::begin(&endpoint.services.store, authorization(headers)).await?;
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let feed = Feed {
        endpoint: Arc::clone(endpoint),
        stop: endpoint.services.stop.clone(),
        summary: Summary::new("graphql.sse", Some(caller)),
        followed,
        vigil,
        look,
        told: Instant::now(),
    };
    let stage = Stage::Opening(Box::new(feed));
    Ok(respond(Body::from_stream(unfold(stage, |stage| async {
        stage.next().await.map(|(bytes, stage)| (Ok::<_, Infallible>(bytes), stage))
    }))))
}

fn respond(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(Form::Stream.content_type())),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // nginx would hold the events back.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}

enum Stage {
    /// Nothing was sent yet: a comment makes every proxy pass the head on.
    Opening(Box<Feed>),
    Running(Box<Feed>),
    Ended,
}

impl Stage {
    async fn next(self) -> Option<(Bytes, Self)> {
        match self {
            Self::Opening(feed) => {
                // An event without data is none, but its id counts: a browser that is cut off before the first event comes
                // back to where it began.
                let opening = format!("{COMMENT}id: {}\n\n", feed.followed.position());
                Some((opening.into(), Self::Running(feed)))
            }
            Self::Running(mut feed) => match feed.next().await {
                Ok(bytes) => Some((bytes, Self::Running(feed))),
                Err(None) => None,
                Err(Some(error)) => {
                    let result = errors_json(&[refused(&error)]);
                    Some((format!("event: next\ndata: {result}\n\n{COMPLETE}").into(), Self::Ended))
                }
            },
            Self::Ended => None,
        }
    }
}

/// What a stream is fed from.
struct Feed {
    endpoint: Arc<Endpoint>,
    followed: Followed,
    vigil: Vigil,
    look: Interval,
    stop: watch::Receiver<bool>,
    /// When something was sent last.
    told: Instant,
    summary: Summary,
}

impl Feed {
    /// What is sent next. An error ends the stream; so does the order to stop, which the client hears nothing of, so that
    /// it comes back.
    async fn next(&mut self) -> Result<Bytes, Option<Error>> {
        let ended = loop {
            tokio::select! {
                next = self.followed.next() => match next {
                    Ok(rendered) => {
                        if let Err(error) = self.check().await {
                            break Some(error);
                        }
                        self.summary.sent += 1;
                        self.told = Instant::now();
                        return Ok(rendered.framed());
                    }
                    Err(error) => break Some(error),
                },
                _ = self.look.tick() => {
                    if let Err(error) = self.check().await {
                        break Some(error);
                    }
                    if self.told.elapsed() >= self.endpoint.services.settings.streams.keep_alive {
                        self.told = Instant::now();
                        return Ok(Bytes::from_static(COMMENT.as_bytes()));
                    }
                }
                () = stopped(&mut self.stop) => break None,
            }
        };
        self.summary.why = ended.as_ref().map_or_else(|| "the service stops".to_owned(), ToString::to_string);
        Err(ended)
    }

    async fn check(&self) -> Result<(), Error> {
        let services = &self.endpoint.services;
        self.vigil.check(&services.store, &services.vigilance).await
    }
}
