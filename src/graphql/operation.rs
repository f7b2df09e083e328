//! One operation of a socket: a task of its own, which says what comes of it to the socket's queue. The queue is short, so
//! a subscription goes no faster than its client reads.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_graphql::ServerError;
use async_graphql::parser::types::OperationType;
use futures_util::FutureExt;
use tokio::sync::mpsc;

use super::Endpoint;
use super::answer::{ran, result_json};
use super::document::{check_source, refused, understand};
use super::parameters::Parameters;
use super::rendering::Rendered;
use super::stream::{NotBegun, follow};
use crate::auth::meter::Meter;
use crate::call::{Call, Caller};
use crate::error::Error;

/// What comes of an operation.
pub enum What {
    Event(Arc<Rendered>),
    /// An execution result as JSON.
    Result(String),
    /// It ended with errors, or did not begin.
    Failed(Vec<ServerError>),
    Complete,
}

pub struct Said {
    pub id: Arc<str>,
    /// Which of the operations that had this id, one after the other.
    pub turn: u64,
    pub what: What,
}

pub struct Operation {
    pub endpoint: Arc<Endpoint>,
    pub caller: Caller,
    pub id: Arc<str>,
    pub turn: u64,
    pub queue: mpsc::Sender<Said>,
}

/// The socket is gone, and nobody waits for what would be said.
struct Gone;

enum Stopped {
    Gone,
    Failed(Vec<ServerError>),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        if let Some(cause) = error.cause() {
            tracing::error!(cause, "operation failed");
        }
        Self::Failed(vec![refused(&error)])
    }
}

impl From<Gone> for Stopped {
    fn from(Gone: Gone) -> Self {
        Self::Gone
    }
}

impl From<NotBegun> for Stopped {
    fn from(reason: NotBegun) -> Self {
        match reason {
            NotBegun::Failed(error) => error.into(),
            NotBegun::Invalid(errors) => Self::Failed(errors),
        }
    }
}

impl Operation {
    pub async fn run(self, parameters: Parameters) {
        let running = AssertUnwindSafe(self.operate(parameters)).catch_unwind();
        let ended = running.await.unwrap_or_else(|_| Err(Error::internal("an operation panicked").into()));
        let what = match ended {
            Ok(()) => What::Complete,
            Err(Stopped::Failed(errors)) => What::Failed(errors),
            Err(Stopped::Gone) => return,
        };
        // Where nobody listens any more, nothing is left to do.
        let _gone = self.say(what).await;
    }

    async fn say(&self, what: What) -> Result<(), Gone> {
        let said = Said { id: Arc::clone(&self.id), turn: self.turn, what };
        self.queue.send(said).await.map_err(|_| Gone)
    }

    async fn operate(&self, parameters: Parameters) -> Result<(), Stopped> {
        let services = &self.endpoint.services;
        let meter = Arc::new(Meter::new(Arc::clone(&services.limiter), services.store.clock().clone(), &self.caller));
        let ended = match understood(parameters) {
            // Much is needed to begin and little to go on, so the former is put away from the latter.
            Ok((request, Some(OperationType::Subscription))) => {
                let mut followed = Box::pin(follow(&self.endpoint, (&self.caller, &meter), request, None)).await?;
                loop {
                    self.say(What::Event(followed.next().await?)).await?;
                }
            }
            Ok((request, _)) => Box::pin(self.execute(request, &meter)).await,
            Err(refused) => Err(refused),
        };
        // A document that never came to be admitted costs one unit.
        if meter.state().is_none() {
            meter.charge(1)?;
        }
        ended
    }

    async fn execute(&self, request: async_graphql::Request, meter: &Arc<Meter>) -> Result<(), Stopped> {
        let call = Call::new(self.endpoint.services.store.clone(), self.caller.clone(), None);
        let response = self.endpoint.execute(call, meter, request).await;
        if !ran(&response) {
            return Err(Stopped::Failed(response.errors));
        }
        Ok(self.say(What::Result(result_json(&response)?)).await?)
    }
}

fn understood(parameters: Parameters) -> Result<(async_graphql::Request, Option<OperationType>), Stopped> {
    check_source(&parameters.query)?;
    let mut request = parameters.into_request();
    let kind = understand(&mut request).map_err(|error| Stopped::Failed(vec![error]))?;
    Ok((request, kind))
}
