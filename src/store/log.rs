//! The event log of an organization, and everybody who reads it forward: subscriptions, webhooks, pulls. The table is the
//! truth; what is in memory only saves reads and wakes.
//!
//! - [`Tail`]: one reader, which knows the last event it was given. It meets every later one, in order, once.
//! - `Channel`: what the tails of one organization share: the newest events, and the news that there are more.
//! - the pump: one task per channel, which reads what was committed, here or by another process.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use surrealdb::types::{RecordId, RecordIdKey, SurrealValue, Value};
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;

use super::{Store, Tenant, vars};
use crate::error::{Error, Result};
use crate::model::event::{Event, EventFilter, EventKind, Sequence};
use crate::model::id::{EventId, OrganizationId};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;

/// Events that a channel keeps for its tails.
const RING: usize = 512;
/// Events that are read, or given to a tail, at once.
const PORTION: usize = 200;
/// How often a pump looks by itself: for what other processes commit, or, where there are none, for what a commit of
/// unknown outcome left.
const LOOK_SHARED: Duration = Duration::from_millis(100);
const LOOK_EMBEDDED: Duration = Duration::from_secs(1);
/// Commits that may wait for whoever listens to [`Store::commits`].
const NEWS: usize = 4096;

#[derive(SurrealValue)]
struct Row {
    id: RecordId,
    kind: EventKind,
    vendor: Vendor,
    at: Timestamp,
    envelope: String,
}

impl Row {
    fn into_event(self) -> Result<Arc<Event>> {
        let sequence = match &self.id.key {
            RecordIdKey::Array(parts) => parts.get(1).and_then(|part| i64::from_value(part.clone()).ok()),
            _ => None,
        };
        let sequence = Sequence(sequence.ok_or_else(|| Error::internal("an event has a broken key"))?);
        let Self { kind, vendor, at: timestamp, envelope, .. } = self;
        Ok(Arc::new(Event { sequence, kind, vendor, timestamp, envelope: envelope.into() }))
    }
}

/// The channels of this process, and the news of its commits.
pub(super) struct Log {
    channels: Mutex<HashMap<OrganizationId, Weak<Channel>>>,
    commits: broadcast::Sender<OrganizationId>,
    /// How many changes of webhooks this process has made.
    webhook_changes: AtomicU64,
}

impl Default for Log {
    fn default() -> Self {
        let webhook_changes = AtomicU64::new(0);
        Self { channels: Mutex::default(), commits: broadcast::Sender::new(NEWS), webhook_changes }
    }
}

impl Log {
    /// Events of an organization were committed. Nothing depends on this call but the time until they are seen.
    pub(super) fn committed(&self, organization: OrganizationId) {
        if let Some(channel) = self.find(organization) {
            channel.dirty.notify_one();
        }
        // Nobody listens: no worker runs in this process.
        let _nobody = self.commits.send(organization);
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

    fn push(&self, events: Vec<Arc<Event>>) {
        let Some(last) = events.last().map(|event| event.sequence.0) else { return };
        {
            let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
            ring.extend(events);
            let spare = ring.len().saturating_sub(RING);
            ring.drain(..spare);
        }
        self.head.send_replace(last);
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
        let events = match self.ahead.take() {
            Some(ahead) => ahead.await.map_err(Error::internal)??,
            None => self.tenant.events_after(Sequence(self.after), PORTION).await?,
        };
        let last = events.last().map_or(self.after, |event| event.sequence.0);
        if last < *self.head.borrow() {
            let tenant = self.tenant.clone();
            self.ahead = Some(tokio::spawn(async move { tenant.events_after(Sequence(last), PORTION).await }));
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
        self.store.0.log.committed(self.organization);
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

    /// Events after a point, oldest first.
    pub async fn events_after(&self, after: Sequence, limit: usize) -> Result<Vec<Arc<Event>>> {
        const READ: &str = "SELECT * FROM type::record('event', [$org, $after]>..[$org, ..]) LIMIT $limit";
        let vars = vars! {
            "org" => self.organization.to_string(), "after" => after.0, "limit" => i64::try_from(limit).unwrap_or(i64::MAX),
        };
        let rows: Vec<Row> = self.store.ask(READ, vars).await?;
        rows.into_iter().map(Row::into_event).collect()
    }

    /// Of these places, the events that are still kept.
    pub async fn events_at(&self, sequences: &[Sequence]) -> Result<Vec<Arc<Event>>> {
        let records: Vec<RecordId> = sequences.iter().map(|sequence| self.record("event", sequence.0)).collect();
        let rows: Vec<Row> = self.store.ask("SELECT * FROM $records", vars! { "records" => records }).await?;
        rows.into_iter().map(Row::into_event).collect()
    }

    /// Those after a point and up to another that a filter admits, oldest first.
    pub async fn events_between(
        &self,
        (after, until): (Sequence, Sequence),
        filter: &EventFilter,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>> {
        const READ: &str = "SELECT * FROM type::record('event', [$org, $after]>..=[$org, $until])
            WHERE kind IN $kinds AND ($vendor = NONE OR vendor = $vendor) LIMIT $limit";
        let vars = vars! {
            "org" => self.organization.to_string(), "after" => after.0, "until" => until.0,
            "kinds" => filter.kinds.iter().map(EventKind::as_str).collect::<Vec<_>>(),
            "vendor" => filter.vendor.map_or(Value::None, SurrealValue::into_value),
            "limit" => i64::try_from(limit).unwrap_or(i64::MAX),
        };
        let rows: Vec<Row> = self.store.ask(READ, vars).await?;
        rows.into_iter().map(Row::into_event).collect()
    }

    /// The event of an id. Its moment is in the id, and the log has an index on moments.
    pub async fn get_event(&self, id: EventId) -> Result<Arc<Event>> {
        const FIND: &str = "SELECT * FROM event WITH INDEX event_age WHERE at = $at";
        let rows: Vec<Row> = self.store.ask(FIND, vars! { "at" => id.created_at() }).await?;
        for row in rows {
            let own = super::organization_of(&row.id)? == self.organization;
            let event = row.into_event()?;
            if own && event.id()? == id {
                return Ok(event);
            }
        }
        Err(Error::NOT_FOUND)
    }
}
