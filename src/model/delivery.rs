//! Deliveries: what became of one event at one webhook, attempt by attempt (`contract.md` §14).

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use ulid::Ulid;

use super::event::{Event, EventKind};
use super::id::{DeliveryId, EventId, OrganizationId, WebhookId};
use super::time::Timestamp;
use super::webhook::AttemptError;
use crate::error::Result;

/// Attempts that a delivery's log keeps; of more, the newest.
pub const ATTEMPTS_KEPT: usize = 20;

super::wire_enum! {
    DeliveryStatus {
        /// Waits for its next attempt.
        Pending = "pending",
        /// The receiver answered with a 2xx status.
        Delivered = "delivered",
        /// No attempt is left. It can be sent again by hand.
        Failed = "failed",
        /// Its webhook is disabled. It can be replayed once the webhook is active again.
        Held = "held",
    }
}

/// Which deliveries of a webhook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    pub status: Option<DeliveryStatus>,
    pub kind: Option<EventKind>,
}

/// One event on its way to one webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    pub id: DeliveryId,
    pub organization_id: OrganizationId,
    pub webhook_id: WebhookId,
    pub event_id: EventId,
    pub event_type: EventKind,
    pub sequence: i64,
    pub status: DeliveryStatus,
    /// All that were made, also those that the log no longer shows.
    pub attempt_count: u32,
    /// Those since it was last begun, by its event or by hand: where it is in the schedule.
    #[serde(rename = "attemptsInSeries")]
    pub series: u32,
    pub next_attempt_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Oldest first.
    pub attempts: Vec<Attempt>,
}

/// One try to bring it there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, async_graphql::SimpleObject)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// 1, 2, 3 …
    pub number: u32,
    pub started_at: Timestamp,
    pub duration_ms: u32,
    /// What the receiver answered, if it did.
    pub status_code: Option<u16>,
    /// Why it counts as failed.
    pub error: Option<AttemptError>,
    /// The beginning of a refusal's body, at most 16 KiB; of the newest attempt only.
    pub answer: Option<String>,
}

/// What is left to say of a delivery that succeeded at its first attempt, as most do: event, kind, when it was begun and
/// attempted, how many milliseconds that took, what the receiver answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Success(pub i64, EventId, EventKind, Timestamp, Timestamp, u32, u16);

impl Success {
    pub fn of(delivery: &Delivery) -> Option<Self> {
        let Delivery { sequence, event_id, event_type, created_at, status, attempts, .. } = delivery;
        match &attempts[..] {
            [only] if *status == DeliveryStatus::Delivered && delivery.attempt_count == 1 => {
                let (started_at, took) = (only.started_at, only.duration_ms);
                Some(Self(*sequence, *event_id, *event_type, *created_at, started_at, took, only.status_code?))
            }
            _ => None,
        }
    }

    pub fn kind(&self) -> EventKind {
        self.2
    }

    /// The delivery in full.
    pub fn restore(self, organization_id: OrganizationId, webhook_id: WebhookId) -> Delivery {
        let Self(sequence, event_id, event_type, created_at, started_at, duration_ms, status) = self;
        let (status_code, error, answer) = (Some(status), None, None);
        Delivery {
            id: DeliveryId::of(webhook_id, event_id, sequence),
            organization_id,
            webhook_id,
            event_id,
            event_type,
            sequence,
            status: DeliveryStatus::Delivered,
            attempt_count: 1,
            series: 1,
            next_attempt_at: None,
            created_at,
            updated_at: started_at,
            attempts: vec![Attempt { number: 1, started_at, duration_ms, status_code, error, answer }],
        }
    }
}

impl DeliveryId {
    /// The id of an event's delivery to a webhook is made of both: it is the same however often it is made, and tells
    /// where the record is. Moment of the event; its sequence in 40 bits; 40 bits of the webhook's hash.
    pub fn of(webhook: WebhookId, event: EventId, sequence: i64) -> Self {
        let place = u128::from(sequence.unsigned_abs()) << 40 | u128::from(fingerprint(webhook));
        Self(Ulid::from_parts(event.0.timestamp_ms(), place))
    }

    /// The sequence that the id tells.
    pub fn sequence(self) -> i64 {
        i64::try_from((self.0.random() >> 40) & 0xff_ffff_ffff).unwrap_or_default()
    }

    /// Whether the id may be that of a delivery to this webhook.
    pub fn is_to(self, webhook: WebhookId) -> bool {
        self.0.random() & 0xff_ffff_ffff == u128::from(fingerprint(webhook))
    }
}

fn fingerprint(webhook: WebhookId) -> u64 {
    let hash: [u8; 32] = Sha256::digest(webhook.0.to_bytes()).into();
    hash[..5].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl Delivery {
    /// A delivery that nothing was done for yet.
    pub fn new(organization_id: OrganizationId, webhook_id: WebhookId, event: &Event, now: Timestamp) -> Result<Self> {
        let event_id = event.id;
        Ok(Self {
            id: DeliveryId::of(webhook_id, event_id, event.sequence.0),
            organization_id,
            webhook_id,
            event_id,
            event_type: event.kind,
            sequence: event.sequence.0,
            status: DeliveryStatus::Pending,
            attempt_count: 0,
            series: 0,
            next_attempt_at: None,
            created_at: now,
            updated_at: now,
            attempts: Vec::new(),
        })
    }

    /// Writes an attempt into the log.
    pub fn log(&mut self, mut attempt: Attempt) {
        self.attempt_count += 1;
        self.series += 1;
        attempt.number = self.attempt_count;
        self.updated_at = attempt.started_at;
        for earlier in &mut self.attempts {
            earlier.answer = None;
        }
        self.attempts.push(attempt);
        let spare = self.attempts.len().saturating_sub(ATTEMPTS_KEPT);
        self.attempts.drain(..spare);
    }

    /// It is over, well or not, or waits until somebody sends it again.
    pub fn end(&mut self, status: DeliveryStatus) {
        self.status = status;
        self.next_attempt_at = None;
    }

    /// It is tried again then.
    pub fn postpone(&mut self, until: Timestamp) {
        self.status = DeliveryStatus::Pending;
        self.next_attempt_at = Some(until);
    }

    /// Begins its schedule anew.
    pub fn restart(&mut self, now: Timestamp) {
        self.series = 0;
        self.postpone(now);
        self.updated_at = now;
    }
}
