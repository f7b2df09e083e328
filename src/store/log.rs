//! The event log of an organization, and everybody who reads it forward: subscriptions, webhooks, pulls. The table is the
//! truth; what is in memory only saves reads and wakes.
//!
//! - [`Tail`]: one reader, which knows the last event it was given. It meets every later one, in order, once.
//! - `Channel`: what the tails of one organization share: the newest events, and the news that there are more.
//! - the pump: one task per channel, which reads what was committed by another process, or here with an unknown outcome.
//! - `Recent`: the newest events that this process committed itself, which it need not read again.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use quick_cache::sync::Cache;
use surrealdb::types::{SurrealValue, Value};
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;

use super::recent::Recent;
use super::{Store, Tenant, vars};
use crate::error::{Error, Result};
use crate::model::event::{Event, EventFilter, EventKind, Sequence};
use crate::model::id::{EventId, OrganizationId};

/// Events that a channel keeps for its tails.
const RING: usize = 512;
/// Events that are read, or given to a tail, at once.
const PORTION: usize = 200;
/// Portions of the table that are kept for readers who come the same way, all organizations.
const PORTIONS: usize = 100;
/// How often a pump looks by itself: for what other processes commit, or, where there are none, for what a commit of
/// unknown outcome left.
const LOOK_SHARED: Duration = Duration::from_millis(100);
const LOOK_EMBEDDED: Duration = Duration::from_secs(1);
/// Commits that may wait for whoever listens to [`Store::commits`].
const NEWS: usize = 4096;

/// A part of the log that everybody reads alike: an organization's events after a point and up to another.
type Portion = (OrganizationId, i64, i64);

/// The channels of this process, and the news of its commits.
pub(super) struct Log {
    channels: Mutex<HashMap<OrganizationId, Weak<Channel>>>,
    portions: Cache<Portion, Arc<[Arc<Event>]>>,
    recent: Recent,
    commits: broadcast::Sender<OrganizationId>,
    /// How many changes of webhooks this process has made.
    webhook_changes: AtomicU64,
}

impl Default for Log {
    fn default() -> Self {
        let webhook_changes = AtomicU64::new(0);
        Self {
            channels: Mutex::default(),
            portions: Cache::new(PORTIONS),
            recent: Recent::default(),
            commits: broadcast::Sender::new(NEWS),
            webhook_changes,
        }
    }
}

impl Log {
    /// Events of an organization were committed. Nothing depends on this call but the time until they are seen.
    pub(super) fn committed(&self, organization: OrganizationId, events: Vec<Arc<Event>>) {
        self.recent.keep(organization, &events);
        if let Some(channel) = self.find(organization) {
            channel.committed(events);
        }
        self.changed(organization);
    }

    /// There is something to look at in an organization.
    fn changed(&self, organization: OrganizationId) {
        // Nobody listens: no worker runs in this process.
        let _nobody = self.commits.send(organization);
    }

    /// Events were forgotten: what this process remembers of them counts no more.
    pub(super) fn swept(&self) {
        self.recent.clear();
        self.portions.clear();
    }

    fn find(&self, organization: OrganizationId) -> Option<Arc<Channel>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner).get(&organization).and_then(Weak::upgrade)
    }
}

/// What the tails of one organization share.
struct Channel {
    /// The newest events, without a gap.
    ring: Mutex<VecDeque<Arc<Event>>>,
    /// The last event that the pump has seen.
    head: watch::Sender<i64>,
    dirty: Arc<Notify>,
}

impl Drop for Channel {
    /// So that the pump sees that nobody needs it.
    fn drop(&mut self) {
        self.dirty.notify_one();
    }
}

impl Channel {
    /// What the ring has after a point; none when it does not reach back so far.
    fn after(&self, sequence: i64) -> Option<Vec<Arc<Event>>> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let skip = usize::try_from(sequence + 1 - ring.front()?.sequence.0).ok()?;
        Some(ring.iter().skip(skip).take(PORTION).cloned().collect())
    }

    /// Adds what is new of these events, which have no gap among them.
    fn push(&self, events: Vec<Arc<Event>>) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let head = *self.head.borrow();
        let mut new = events.into_iter().filter(|event| event.sequence.0 > head).peekable();
        if new.peek().is_some_and(|first| first.sequence.0 > head + 1) {
            ring.clear();
        }
        ring.extend(new);
        let spare = ring.len().saturating_sub(RING);
        ring.drain(..spare);
        if let Some(last) = ring.back().map(|event| event.sequence.0).filter(|last| *last > head) {
            self.head.send_replace(last);
        }
    }

    /// Events of this process. Where others were committed before them, the pump reads those first.
    fn committed(&self, events: Vec<Arc<Event>>) {
        let follows = events.first().is_some_and(|first| first.sequence.0 <= *self.head.borrow() + 1);
        if follows { self.push(events) } else { self.dirty.notify_one() }
    }
}

/// Reads what was committed, until nobody follows the organization any more.
async fn pump(tenant: Tenant, channel: Weak<Channel>, dirty: Arc<Notify>) {
    let look = if tenant.store.is_embedded() { LOOK_EMBEDDED } else { LOOK_SHARED };
    loop {
        let Some(channel) = channel.upgrade() else { return };
        let from = *channel.head.borrow();
        match tenant.events_after(Sequence(from), PORTION).await {
            Ok(events) => {
                let more = events.len() == PORTION;
                channel.push(events);
                if more {
                    continue;
                }
            }
            Err(error) => tracing::warn!(cause = error.cause(), "the event log could not be read; it is tried again"),
        }
        drop(channel);
        tokio::select! {
            () = dirty.notified() => {}
            () = tokio::time::sleep(look) => {}
        }
    }
}

/// One reader of the log.
pub struct Tail {
    tenant: Tenant,
    channel: Arc<Channel>,
    head: watch::Receiver<i64>,
    after: i64,
    /// What comes next, being read while the reader is busy with what it has.
    ahead: Option<JoinHandle<Result<Vec<Arc<Event>>>>>,
}

impl Tail {
    /// The last event that it has given out.
    pub fn position(&self) -> Sequence {
        Sequence(self.after)
    }

    /// The next events, at least one, in order; waits for them. [`Error::EventsExpired`] where the log does not reach back
    /// so far any more. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>> {
        loop {
            let events = self.ready().await?;
            if !events.is_empty() {
                return Ok(events);
            }
            self.changed().await;
        }
    }

    /// Returns when there may be more than [`Tail::ready`] gave. Dropping the future loses nothing.
    pub async fn changed(&mut self) {
        // The sender is in the channel that we hold.
        let _changed = self.head.changed().await;
    }

    /// The next events that are known by now.
    pub async fn ready(&mut self) -> Result<Vec<Arc<Event>>> {
        if *self.head.borrow_and_update() <= self.after {
            return Ok(Vec::new());
        }
        let events = match self.channel.after(self.after) {
            Some(events) => {
                self.ahead = None;
                events
            }
            None => self.read().await?,
        };
        match events.first().map(|event| event.sequence.0) {
            Some(first) if first == self.after + 1 => {}
            Some(oldest) => return Err(Error::EventsExpired { oldest }),
            None => return Err(Error::EventsExpired { oldest: *self.head.borrow() + 1 }),
        }
        self.after = events.last().map_or(self.after, |event| event.sequence.0);
        Ok(events)
    }
}

impl Tail {
    /// Events of the table, and the next ones meanwhile.
    async fn read(&mut self) -> Result<Vec<Arc<Event>>> {
        let head = *self.head.borrow();
        let events = match self.ahead.take() {
            Some(ahead) => ahead.await.map_err(Error::internal)??,
            None => self.tenant.portion_after(self.after, head).await?,
        };
        let last = events.last().map_or(self.after, |event| event.sequence.0);
        if last < head {
            let tenant = self.tenant.clone();
            self.ahead = Some(tokio::spawn(async move { tenant.portion_after(last, head).await }));
        }
        Ok(events)
    }
}

impl Store {
    /// The organizations in which something was committed by this process. Whoever lags looks at all of them.
    pub fn commits(&self) -> broadcast::Receiver<OrganizationId> {
        self.0.log.commits.subscribe()
    }

    /// Rises with every change of a webhook that this process makes, before the change is answered.
    pub fn webhook_changes(&self) -> u64 {
        self.0.log.webhook_changes.load(Ordering::SeqCst)
    }
}

impl Tenant {
    /// A webhook or what is due at it was changed: whoever dispatches looks at it.
    pub fn webhooks_changed(&self) {
        self.store.0.log.webhook_changes.fetch_add(1, Ordering::SeqCst);
        self.store.0.log.changed(self.organization);
    }

    /// A reader of what comes after a point, or after now.
    pub async fn tail(&self, after: Option<Sequence>) -> Result<Tail> {
        let channel = match self.store.0.log.find(self.organization) {
            Some(channel) => channel,
            None => self.open_channel().await?,
        };
        let after = match after {
            Some(Sequence(after)) => after,
            None => self.last_sequence().await?.0,
        };
        Ok(Tail { tenant: self.clone(), head: channel.head.subscribe(), channel, after, ahead: None })
    }

    async fn open_channel(&self) -> Result<Arc<Channel>> {
        let head = self.last_sequence().await?.0;
        let mut channels = self.store.0.log.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(&self.organization).and_then(Weak::upgrade) {
            return Ok(channel);
        }
        channels.retain(|_, channel| channel.strong_count() > 0);
        let dirty = Arc::new(Notify::new());
        let channel = Channel { ring: Mutex::default(), head: watch::Sender::new(head), dirty: Arc::clone(&dirty) };
        let channel = Arc::new(channel);
        channels.insert(self.organization, Arc::downgrade(&channel));
        drop(tokio::spawn(pump(self.clone(), Arc::downgrade(&channel), dirty)));
        Ok(channel)
    }

    /// The place of the organization's last event.
    pub async fn last_sequence(&self) -> Result<Sequence> {
        const LAST: &str = "SELECT VALUE sequence FROM ONLY $organization";
        let vars = vars! { "organization" => self.organization_record() };
        let last: Option<i64> = self.store.ask(LAST, vars).await?;
        last.map(Sequence).ok_or_else(|| Error::internal("the organization is gone"))
    }

    /// The next of what is committed up to `head`. A hundred webhooks that are behind read the table once.
    async fn portion_after(&self, after: i64, head: i64) -> Result<Vec<Arc<Event>>> {
        let recent = self.store.0.log.recent.after(self.organization, after, PORTION);
        if !recent.is_empty() {
            return Ok(recent);
        }
        let length = i64::try_from(PORTION).unwrap_or(i64::MAX);
        let from = after - after.rem_euclid(length);
        let until = head.min(from + length);
        let length = usize::try_from(until - from).unwrap_or_default();
        let read = async { self.events_after(Sequence(from), length).await.map(Arc::from) };
        let portion = self.store.0.log.portions.get_or_insert_async(&(self.organization, from, until), read).await?;
        Ok(portion.iter().filter(|event| event.sequence.0 > after).cloned().collect())
    }

    /// Events after a point, oldest first.
    pub async fn events_after(&self, after: Sequence, limit: usize) -> Result<Vec<Arc<Event>>> {
        const READ: &str = "SELECT VALUE envelope FROM type::record('event', [$org, $after]>..[$org, ..]) LIMIT $limit";
        let vars = vars! {
            "org" => self.organization.to_string(), "after" => after.0, "limit" => i64::try_from(limit).unwrap_or(i64::MAX),
        };
        read(self.store.ask(READ, vars).await?)
    }

    /// Those after a point and up to another that a filter admits, oldest first.
    pub async fn events_between(
        &self,
        (after, until): (Sequence, Sequence),
        filter: &EventFilter,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>> {
        const READ: &str = "SELECT VALUE envelope FROM type::record('event', [$org, $after]>..=[$org, $until])
            WHERE kind IN $kinds AND ($vendor = NONE OR vendor = $vendor) LIMIT $limit";
        let vars = vars! {
            "org" => self.organization.to_string(), "after" => after.0, "until" => until.0,
            "kinds" => filter.kinds.iter().map(EventKind::as_str).collect::<Vec<_>>(),
            "vendor" => filter.vendor.map_or(Value::None, SurrealValue::into_value),
            "limit" => i64::try_from(limit).unwrap_or(i64::MAX),
        };
        read(self.store.ask(READ, vars).await?)
    }

    /// The event of an id. Its moment is in the id, and the log has an index on moments.
    pub async fn get_event(&self, id: EventId) -> Result<Arc<Event>> {
        const FIND: &str = "SELECT VALUE envelope FROM event WITH INDEX event_age WHERE at = $at";
        let found = read(self.store.ask(FIND, vars! { "at" => id.created_at() }).await?)?;
        let own = |event: &Arc<Event>| event.id == id && event.organization_id == self.organization;
        found.into_iter().find(own).ok_or(Error::NOT_FOUND)
    }
}

fn read(envelopes: Vec<String>) -> Result<Vec<Arc<Event>>> {
    envelopes.into_iter().map(|envelope| Event::read(envelope).map(Arc::new)).collect()
}
