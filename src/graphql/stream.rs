//! A subscription that runs: its place among its application's, its reader of the log, the group that it shares its
//! bytes with. Whoever holds it (a socket, an event stream) pulls at its own pace.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use async_graphql::{Request, ServerError};

use super::Endpoint;
use super::plan::Plan;
use super::rendering::{Group, Rendered};
use crate::auth::meter::Meter;
use crate::call::{Call, Caller};
use crate::error::Error;
use crate::http::Services;
use crate::model::event::{Event, Sequence};
use crate::resolvers::events::{self, Following};

/// How many subscriptions each application runs.
#[derive(Default)]
pub struct Seats(Mutex<HashMap<String, usize>>);

/// The place of one subscription, until dropped.
struct Seat {
    endpoint: Arc<Endpoint>,
    application: String,
}

impl Seat {
    fn take(endpoint: &Arc<Endpoint>, caller: &Caller) -> Result<Self, Error> {
        let Services { settings, metrics, .. } = &*endpoint.services;
        let application = caller.name();
        let mut seats = endpoint.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = seats.entry(application.clone()).or_default();
        if *taken >= settings.streams.subscriptions_per_application {
            return Err(Error::Crowded("This application has as many subscriptions open as it may; end one first"));
        }
        *taken += 1;
        metrics.subscriptions.inc();
        Ok(Self { endpoint: Arc::clone(endpoint), application })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.endpoint.services.metrics.subscriptions.dec();
        let mut seats = self.endpoint.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = seats.get_mut(&self.application) {
            *taken -= 1;
            if *taken == 0 {
                seats.remove(&self.application);
            }
        }
    }
}

/// Why a subscription did not begin.
pub enum NotBegun {
    Failed(Error),
    /// The document is not one that can be followed.
    Invalid(Vec<ServerError>),
}

impl From<Error> for NotBegun {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A subscription that runs.
pub struct Followed {
    following: Following,
    group: Arc<Group>,
    /// Those that were read and not yet given out.
    ready: VecDeque<Arc<Event>>,
    _seat: Seat,
}

/// Begins to follow, for one unit of the rate limit. `request` is parsed and checked. `resumed` is where the transport
/// says that the client stands; it counts more than what the document says.
pub async fn follow(
    endpoint: &Arc<Endpoint>,
    (caller, meter): (&Caller, &Meter),
    request: Request,
    resumed: Option<Sequence>,
) -> Result<Followed, NotBegun> {
    meter.charge(1)?;
    let call = Call::new(endpoint.services.store.clone(), caller.clone(), None);
    let plan = Plan::make(&endpoint.graph, &call, request).await.map_err(NotBegun::Invalid)?;
    let mut asked = plan.asked.clone();
    asked.after = resumed.or(asked.after);
    let seat = Seat::take(endpoint, caller)?;
    let following = events::follow(&call, asked).await?;
    let group = endpoint.groups.join(&endpoint.services, &endpoint.graph, call, plan);
    Ok(Followed { following, group, ready: VecDeque::new(), _seat: seat })
}

impl Followed {
    /// The last event that was read.
    pub fn position(&self) -> Sequence {
        self.following.tail.position()
    }

    /// The next event that the client wants, rendered; waits for it. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Arc<Rendered>, Error> {
        loop {
            if let Some(event) = self.ready.front() {
                let rendered = self.group.show(event).await?;
                self.ready.pop_front();
                if self.ready.is_empty() {
                    // An idle subscriber holds on to no memory.
                    self.ready = VecDeque::new();
                }
                return Ok(rendered);
            }
            self.ready = self.following.next().await?.into();
        }
    }
}
