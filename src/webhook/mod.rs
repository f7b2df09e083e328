//! The life of an event after its commit. Actors, in the order one meets them:
//!
//! - [`dispatcher::Dispatcher`]: one per process. Finds webhooks that have something to do and starts a lane for each.
//! - `lane`: one webhook at work, under a lease that one process has at a time. It reads the log from the webhook's
//!   cursor as a subscription does, and what is due again; it keeps a bounded number of attempts under way; it writes down
//!   what became of them, many at once, in one transaction that the lease guards.
//! - `book`: what a lane knows of its webhook: how far it is, what is under way, how often in a row it failed.
//! - [`backoff`]: the schedule.
//! - the attempt itself is [`crate::courier`]'s.
//!
//! A delivery is written down once something was done for it. What a process that dies has not written down is done again
//! by whoever takes the lease next, from the cursor: the same bytes under the same `webhook-id`.

pub mod backoff;
mod book;
pub mod dispatcher;
mod lane;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use chrono::TimeDelta;
use tokio::sync::{Semaphore, watch};

use crate::courier::Courier;
use crate::model::id::OrganizationId;
use crate::store::Store;
use backoff::Schedule;

/// How events are dispatched.
#[derive(Clone, Debug)]
pub struct DispatchSettings {
    pub schedule: Schedule,
    /// Consecutive failures after which a webhook is disabled.
    pub failures: u32,
    /// Attempts under way at one webhook, at those of one organization, and in all.
    pub per_webhook: usize,
    pub per_organization: usize,
    pub in_all: usize,
    /// How long a lane waits for more before it gives its lease back.
    pub linger: Duration,
    /// Time for one attempt.
    pub timeout: Duration,
}

impl DispatchSettings {
    /// How long a lease lasts: the longest time in which a lane writes nothing, and some more.
    fn lease(&self) -> TimeDelta {
        TimeDelta::seconds(20) + TimeDelta::from_std(self.timeout).unwrap_or_default()
    }
}

/// What the lanes of a process share.
struct Shared {
    store: Store,
    courier: Courier,
    settings: DispatchSettings,
    slots: Slots,
    stop: watch::Sender<bool>,
}

/// Bounds on attempts under way. Whoever waits is served in the order of coming, so nobody is held up by others for ever.
struct Slots {
    all: Arc<Semaphore>,
    per_organization: usize,
    organizations: Mutex<HashMap<OrganizationId, Weak<Semaphore>>>,
}

impl Slots {
    fn of(&self, organization: OrganizationId) -> Arc<Semaphore> {
        let mut organizations = self.organizations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slots) = organizations.get(&organization).and_then(Weak::upgrade) {
            return slots;
        }
        organizations.retain(|_, slots| slots.strong_count() > 0);
        let slots = Arc::new(Semaphore::new(self.per_organization));
        organizations.insert(organization, Arc::downgrade(&slots));
        slots
    }
}
