//! Where a lane's next job comes from: what is due again, what is replayed, what is new in the log.

use std::sync::Arc;

use chrono::TimeDelta;

use super::Lane;
use super::results::PATIENCE_FAILED;
use crate::error::{Error, Result};
use crate::model::delivery::{Delivery, DeliveryStatus};
use crate::model::event::{Event, EventFilter, Sequence};
use crate::store::dispatch::Retry;
use crate::store::recording::Recorded;
use crate::webhook::book::{Job, Source};

/// Retries and replayed events that are read at once.
const PORTION: usize = 100;

impl Lane {
    /// What is due again comes first, then what is replayed, then what is new.
    pub(super) async fn next_job(&mut self) -> Result<Option<Job>> {
        if let Some(job) = self.next_retry().await? {
            return Ok(Some(job));
        }
        if let Some(job) = self.next_replayed().await? {
            return Ok(Some(job));
        }
        self.next_new().await
    }

    async fn next_retry(&mut self) -> Result<Option<Job>> {
        loop {
            while let Some(retry) = self.retries.pop_front() {
                if self.is_in_hand(&retry) {
                    continue;
                }
                let Retry { due, delivery, event } = retry;
                let (known, retried) = (Some(DeliveryStatus::Pending), Some(due));
                match event {
                    Some(event) => return Ok(Some(Job { event, delivery, known, retried, source: Source::Retry })),
                    None => self.give_up_expired(Recorded { delivery, known, retried }),
                }
            }
            let Some(at) = self.look_at else { return Ok(None) };
            let now = self.tenant.clock().now();
            // One that is back, gone or probed is not asked whether it is time.
            let eager = self.book.recovered || self.is_disabled() || self.book.is_probing();
            if at > now && !eager {
                return Ok(None);
            }
            let until = if eager { now.plus(TimeDelta::days(365)) } else { now };
            let found = self.tenant.due_retries(self.stored.webhook.id, until, PORTION).await?;
            let full = found.len() == PORTION;
            self.retries = found.into_iter().filter(|retry| !self.is_in_hand(retry)).collect();
            self.look_at = full.then_some(now);
            if self.retries.is_empty() {
                self.book.recovered &= full;
                return Ok(None);
            }
        }
    }

    fn is_in_hand(&self, retry: &Retry) -> bool {
        self.book.is_in_hand(Sequence(retry.delivery.sequence))
    }

    /// Its event is past its retention.
    fn give_up_expired(&mut self, mut expired: Recorded) {
        tracing::warn!(delivery = %expired.delivery.id, "an event was forgotten before it could be delivered");
        expired.delivery.end(DeliveryStatus::Failed);
        self.book.landed.push(expired);
        self.write_within(PATIENCE_FAILED);
    }

    async fn next_replayed(&mut self) -> Result<Option<Job>> {
        let id = self.stored.webhook.id;
        let filter = EventFilter { kinds: self.stored.webhook.events, vendor: None };
        loop {
            let Some((state, stretch)) = &mut self.book.replay else { return Ok(None) };
            let after = stretch.waiting.back().map_or_else(|| stretch.passed(), |event| event.sequence);
            if stretch.waiting.is_empty() {
                let events = self.tenant.events_between((after, state.until), &filter, PORTION).await?;
                if events.is_empty() {
                    stretch.pass(state.until);
                    return Ok(None);
                }
                stretch.waiting.extend(events);
            }
            let Some(event) = stretch.waiting.pop_front() else { return Ok(None) };
            let (only_undelivered, sequence) = (state.only_undelivered, event.sequence);
            let known = self.tenant.find_delivery(id, sequence).await?;
            let status = known.as_ref().map(|delivery| delivery.status);
            let wanted = !(only_undelivered && status == Some(DeliveryStatus::Delivered));
            if wanted && !self.book.is_in_hand(sequence) && sequence <= self.book.head.settled() {
                let mut job = self.new_job(event, Source::Replay)?;
                job.known = status;
                if let Some(delivery) = known {
                    job.retried = delivery.next_attempt_at;
                    job.delivery = Delivery { series: 0, ..delivery };
                }
                return Ok(Some(job));
            }
            if let Some((_, stretch)) = &mut self.book.replay {
                stretch.pass(sequence);
            }
        }
    }

    async fn next_new(&mut self) -> Result<Option<Job>> {
        loop {
            if self.book.head.waiting.is_empty() {
                match self.tail.ready().await {
                    Ok(events) => self.book.head.waiting.extend(events),
                    Err(Error::EventsExpired { oldest }) => self.skip_to(Sequence(oldest - 1)).await?,
                    Err(error) => return Err(error),
                }
            }
            let Some(event) = self.book.head.waiting.pop_front() else { return Ok(None) };
            let settled = self.book.settled.remove(&event.sequence.0);
            if self.stored.webhook.events.has(event.kind) && !settled {
                return self.new_job(event, Source::Head).map(Some);
            }
            self.book.head.pass(event.sequence);
        }
    }

    /// The log does not reach back to the cursor any more.
    async fn skip_to(&mut self, after: Sequence) -> Result<()> {
        let webhook = self.stored.webhook.id;
        tracing::warn!(%webhook, up_to = after.0, "events were forgotten before they could be delivered");
        self.book.head.pass(after);
        self.tail = self.tenant.tail(Some(after)).await?;
        Ok(())
    }

    fn new_job(&self, event: Arc<Event>, source: Source) -> Result<Job> {
        let (organization, webhook) = (self.tenant.organization(), self.stored.webhook.id);
        let delivery = Delivery::new(organization, webhook, &event, self.tenant.clock().now())?;
        Ok(Job { event, delivery, known: None, retried: None, source })
    }
}
