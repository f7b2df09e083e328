//! One webhook at work. A lane holds the lease, begins attempts while there is room, and writes down what became of them
//! while others are under way. It ends when nothing is left to do, or when it has lost the lease.

mod results;
mod sources;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::TimeDelta;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep_until};

use self::results::{PATIENCE, PATIENCE_FAILED};
use super::Shared;
use super::book::{Book, Job};
use crate::courier::{Outcome, Parcel, Recipient};
use crate::error::Result;
use crate::model::delivery::DeliveryStatus;
use crate::model::event::Event;
use crate::model::id::WebhookId;
use crate::model::time::Timestamp;
use crate::model::webhook::WebhookStatus;
use crate::store::Tenant;
use crate::store::dispatch::Retry;
use crate::store::log::Tail;
use crate::store::recording::{Recording, Written};
use crate::store::webhooks::StoredWebhook;

/// Deliveries under way or not yet written down.
const IN_HAND: usize = 1024;
/// A lane stays for what becomes due so soon; later, the dispatcher looks for it.
const SOON: TimeDelta = TimeDelta::seconds(10);
/// How often the webhook is read again where other processes may change it.
const REFRESH: Duration = Duration::from_millis(500);

/// An attempt that has ended.
struct Landed {
    job: Job,
    outcome: Outcome,
    era: u64,
}

/// A recording that is being written.
struct Writing {
    recording: Arc<Recording>,
    task: JoinHandle<Result<Written>>,
}

/// A timer that is set again only when its moment changes: most waits end before it does.
struct Alarm(Pin<Box<Sleep>>);

impl Default for Alarm {
    fn default() -> Self {
        Self(Box::pin(sleep_until(Instant::now())))
    }
}

impl Alarm {
    fn set(&mut self, due: Option<Instant>) {
        if let Some(due) = due.filter(|due| *due != self.0.deadline()) {
            self.0.as_mut().reset(due);
        }
    }
}

/// The right to make one attempt: a place among those of its organization, and among all.
type Slot = (OwnedSemaphorePermit, OwnedSemaphorePermit);

pub(super) struct Lane {
    shared: Arc<Shared>,
    /// Who we are in the lease. Each lane is somebody else, so that nothing of one that broke down counts for the next.
    holder: String,
    tenant: Tenant,
    stored: StoredWebhook,
    recipient: Arc<Recipient>,
    /// The changes of webhooks that were seen, and when.
    fresh_at: (u64, Instant),
    slots: Arc<Semaphore>,
    /// For the next attempt; it is begun at once when this is there.
    slot: Option<Slot>,
    queue: Option<BoxFuture<'static, Slot>>,
    /// Somebody deleted it.
    gone: bool,
    nudge: Arc<Notify>,
    tail: Tail,
    book: Book,
    retries: VecDeque<Retry>,
    /// When to look for retries next; the past to look at once.
    look_at: Option<Timestamp>,
    /// Attempts under way. They are polled here: a task for each would cost more than the attempt's own work.
    flying: FuturesUnordered<BoxFuture<'static, Landed>>,
    writing: Option<Writing>,
    /// When what has landed has to be written down, if something has.
    write_by: Option<Instant>,
    alarm: Alarm,
    done: usize,
}

impl Lane {
    /// Takes the lease; none when somebody else has it, or the webhook is gone.
    pub async fn enter(shared: Arc<Shared>, tenant: Tenant, id: WebhookId, nudge: Arc<Notify>) -> Result<Option<Self>> {
        let changes = shared.store.webhook_changes();
        let until = tenant.clock().now().plus(shared.settings.lease());
        let holder = tenant.clock().mint().to_string();
        let Some(leased) = tenant.lease_webhook(id, &holder, until).await? else { return Ok(None) };
        let book = Book::of(&leased, shared.settings.clone(), tenant.clock().clone());
        Ok(Some(Self {
            recipient: recipient(&tenant, &leased.stored)?,
            fresh_at: (changes, Instant::now()),
            slots: shared.slots.of(tenant.organization()),
            slot: None,
            queue: None,
            gone: false,
            holder,
            nudge,
            tail: tenant.tail(Some(leased.stored.cursor())).await?,
            stored: leased.stored,
            book,
            retries: VecDeque::new(),
            look_at: leased.next_retry,
            flying: FuturesUnordered::new(),
            writing: None,
            write_by: None,
            alarm: Alarm::default(),
            done: 0,
            shared,
            tenant,
        }))
    }

    /// Works until nothing is left. Answers how many deliveries were settled.
    pub async fn run(mut self) -> Result<usize> {
        loop {
            self.fill().await?;
            if self.is_over() && !self.linger().await {
                if self.finish().await? {
                    return Ok(self.done);
                }
            } else if !self.is_idle() {
                self.write_when_due();
                if !self.wait().await? {
                    return Ok(self.done);
                }
            }
        }
    }

    /// Whether nothing is under way. A lane that does not linger writes its last results when it gives the lease back,
    /// unless they disable the webhook: then there is more to hold.
    fn is_over(&self) -> bool {
        let last = self.shared.settings.linger.is_zero() && self.book.giving_up.is_none();
        self.is_at_rest() && (self.book.landed.is_empty() || last)
    }

    fn is_idle(&self) -> bool {
        self.is_at_rest() && self.book.landed.is_empty()
    }

    fn is_at_rest(&self) -> bool {
        self.flying.is_empty() && self.queue.is_none() && self.writing.is_none()
    }

    fn is_disabled(&self) -> bool {
        self.book.giving_up.is_some() || self.stored.webhook.status == WebhookStatus::Disabled
    }

    fn is_stopping(&self) -> bool {
        self.gone || *self.shared.stop.borrow()
    }

    /// Begins what there is room for.
    async fn fill(&mut self) -> Result<()> {
        self.refresh_when_due().await?;
        while self.has_room() {
            if !self.is_disabled() && !self.take_slot() {
                return Ok(());
            }
            let Some(job) = self.next_job().await? else { break };
            // What was changed while the job was read counts for it.
            self.refresh_when_due().await?;
            self.book.begin(&job);
            if self.is_disabled() || !self.stored.webhook.events.has(job.delivery.event_type) {
                self.book.settle_as(job, DeliveryStatus::Held);
                self.write_within(PATIENCE);
            } else if let Some(slot) = self.slot.take() {
                self.begin(job, slot);
            }
        }
        // Others may have it.
        (self.slot, self.queue) = (None, None);
        Ok(())
    }

    /// Whether the next attempt has its slot; if not, it is waited for, behind those that came before.
    fn take_slot(&mut self) -> bool {
        if self.slot.is_none() && self.queue.is_none() {
            self.slot = free(&self.slots).zip(free(&self.shared.slots.all));
        }
        if self.slot.is_none() {
            let (ours, all) = (Arc::clone(&self.slots), Arc::clone(&self.shared.slots.all));
            let queue = self.queue.get_or_insert_with(|| async move { (place(ours).await, place(all).await) }.boxed());
            self.slot = queue.now_or_never();
        }
        if self.slot.is_some() {
            self.queue = None;
        }
        self.slot.is_some()
    }

    fn has_room(&mut self) -> bool {
        let under_way = self.flying.len();
        let waiting =
            self.book.landed.len() + self.writing.as_ref().map_or(0, |writing| writing.recording.deliveries.len());
        let able = self.is_disabled() || (under_way < self.book.room() && !self.book.is_paused());
        able && under_way + waiting < IN_HAND && !self.is_stopping()
    }

    /// Sends a job on its way.
    fn begin(&mut self, job: Job, slot: Slot) {
        let parcel =
            Parcel { to: Arc::clone(&self.recipient), id: job.delivery.event_id.to_string(), body: body(&job.event) };
        let (shared, era) = (Arc::clone(&self.shared), self.book.era());
        let flight = async move {
            let outcome = shared.courier.attempt(&parcel).await;
            drop(slot);
            Landed { job, outcome, era }
        };
        self.flying.push(flight.boxed());
    }

    /// Waits for the next thing to happen; false when the lease is lost.
    async fn wait(&mut self) -> Result<bool> {
        if self.land_those_back() {
            return Ok(true);
        }
        let room = self.has_room();
        let next = self.next_due().filter(|_| room);
        let due = self.writing_due().into_iter().chain(next).min();
        self.alarm.set(due);
        tokio::select! {
            Some(landed) = self.flying.next(), if !self.flying.is_empty() => self.land(landed),
            written = results::finished(&mut self.writing), if self.writing.is_some() => {
                let (recording, written) = written?;
                return self.settle(recording, written).await;
            }
            slot = queued(&mut self.queue), if self.queue.is_some() => {
                (self.slot, self.queue) = (Some(slot), None);
            }
            () = self.tail.changed(), if room && self.queue.is_none() => {}
            () = self.nudge.notified() => {}
            () = &mut self.alarm.0, if due.is_some() => {}
        }
        Ok(true)
    }

    /// Takes in the attempts that have ended by now, if any have.
    fn land_those_back(&mut self) -> bool {
        let before = self.flying.len();
        while let Some(Some(landed)) = self.flying.next().now_or_never() {
            self.land(landed);
        }
        self.flying.len() < before
    }

    /// When the next retry is due, if that is soon.
    fn next_due(&self) -> Option<Instant> {
        let ahead = self.look_at?.as_datetime() - self.tenant.clock().now().as_datetime();
        let soon = ahead.to_std().ok().filter(|_| ahead < SOON)?;
        Some(Instant::now() + soon)
    }

    fn land(&mut self, Landed { job, outcome, era }: Landed) {
        let (webhook, micros) =
            (self.stored.webhook.id, u64::try_from(outcome.duration.as_micros()).unwrap_or(u64::MAX));
        let (event, status) = (job.delivery.event_id, outcome.status);
        match outcome.error {
            None => tracing::debug!(%webhook, %event, status, micros, "delivered"),
            Some(error) => tracing::info!(%webhook, %event, status, micros, %error, "not delivered"),
        }
        let patience = if outcome.error.is_none() { PATIENCE } else { PATIENCE_FAILED };
        self.book.land(job, &outcome, era);
        self.write_within(patience);
    }

    async fn refresh_when_due(&mut self) -> Result<()> {
        let (changes, at) = self.fresh_at;
        let others = !self.shared.store.is_embedded() && at.elapsed() >= REFRESH;
        if others || self.shared.store.webhook_changes() != changes { self.refresh().await } else { Ok(()) }
    }

    /// Reads the webhook again: somebody may have changed it, or what is due at it.
    async fn refresh(&mut self) -> Result<()> {
        self.fresh_at = (self.shared.store.webhook_changes(), Instant::now());
        // What was loaded may have been sent again by hand.
        self.retries.clear();
        self.look_at = Some(self.tenant.clock().now());
        let Some(stored) = self.tenant.find_webhook(self.stored.webhook.id).await? else {
            // The next recording says so.
            self.gone = true;
            return Ok(());
        };
        self.recipient = recipient(&self.tenant, &stored)?;
        if stored.epoch != self.stored.epoch {
            self.book.changed(stored.webhook.failure_count);
        }
        if self.book.replay.is_none() {
            self.book.begin_replay(stored.replay);
        }
        self.stored = stored;
        Ok(())
    }

    /// Waits a little for more to do; false when nothing came.
    async fn linger(&mut self) -> bool {
        if self.is_stopping() || self.shared.settings.linger.is_zero() || self.book.is_paused() {
            return false;
        }
        let enough = Instant::now() + self.shared.settings.linger;
        let next = self.next_due();
        tokio::select! {
            () = self.tail.changed() => true,
            () = self.nudge.notified() => true,
            () = until(next), if next.is_some() => true,
            () = sleep_until(enough), if next.is_none() => false,
        }
    }
}

fn recipient(tenant: &Tenant, stored: &StoredWebhook) -> Result<Arc<Recipient>> {
    Recipient::new(&stored.webhook.url, &tenant.signing_secrets(stored)?).map(Arc::new)
}

/// The event's stored bytes, without a copy.
fn body(event: &Event) -> Bytes {
    struct Envelope(Arc<str>);
    impl AsRef<[u8]> for Envelope {
        fn as_ref(&self) -> &[u8] {
            self.0.as_bytes()
        }
    }
    Bytes::from_owner(Envelope(Arc::clone(&event.envelope)))
}

/// A place that nobody waits for.
fn free(places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    Arc::clone(places).try_acquire_owned().ok()
}

/// A place in a semaphore of ours, which nobody closes.
async fn place(places: Arc<Semaphore>) -> OwnedSemaphorePermit {
    places.acquire_owned().await.unwrap_or_else(|_| unreachable!("nobody closes it"))
}

async fn queued(queue: &mut Option<BoxFuture<'static, Slot>>) -> Slot {
    match queue {
        Some(queue) => queue.await,
        None => std::future::pending().await,
    }
}

async fn until(due: Option<Instant>) {
    if let Some(due) = due {
        sleep_until(due).await;
    }
}
