//! What a dispatcher knows of one webhook and writes down: the lease on it, where it is in the log, what is due again.
//! Every record of results is guarded by the lease and by the webhook's revision, in the transaction itself, so a process
//! that lost the one or missed the other changes nothing.

use std::sync::Arc;

use surrealdb::types::{Array, RecordId, SurrealValue, Value};

use super::documents::parse;
use super::webhooks::{DISPATCH, Row, StoredWebhook, TABLE, columns};
use super::{Store, Tenant, organization_of, own_key, vars};
use crate::error::{Error, Result};
use crate::model::delivery::{Delivery, DeliveryStatus};
use crate::model::event::{Event, Sequence};
use crate::model::id::{OrganizationId, WebhookId};
use crate::model::time::Timestamp;

/// A webhook that this process works for, until the lease runs out.
pub struct Leased {
    pub stored: StoredWebhook,
    pub paused_until: Option<Timestamp>,
    /// When the first retry is due.
    pub next_retry: Option<Timestamp>,
    /// Sequences after the cursor that were settled before the lease changed hands.
    pub settled: Vec<i64>,
}

/// How far a replay has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayState {
    pub after: Sequence,
    pub until: Sequence,
    pub only_undelivered: bool,
}

impl ReplayState {
    /// From its form in the store.
    pub(super) fn read(row: &[i64]) -> Option<Self> {
        match row {
            [after, until, only] => {
                Some(Self { after: Sequence(*after), until: Sequence(*until), only_undelivered: *only != 0 })
            }
            _ => None,
        }
    }
}

/// A delivery that is due again, where its row is, and its event, unless that is past its retention.
pub struct Retry {
    pub due: Timestamp,
    pub delivery: Delivery,
    pub event: Option<Arc<Event>>,
}

/// Where a delivery stands among those of its webhook: newest first.
pub(super) fn place(sequence: i64) -> i64 {
    Sequence::MAX - sequence
}

impl Tenant {
    /// A record of a table whose keys begin with the organization and the webhook.
    pub(super) fn webhooks_record<const N: usize>(
        &self,
        table: &'static str,
        webhook: WebhookId,
        rest: [Value; N],
    ) -> RecordId {
        let mut parts = vec![self.organization.to_string().into_value(), webhook.key().into_value()];
        parts.extend(rest);
        RecordId::new(table, Array::from(parts))
    }

    pub(super) fn delivery_record(&self, webhook: WebhookId, sequence: Sequence) -> RecordId {
        self.webhooks_record("delivery", webhook, [place(sequence.0).into_value()])
    }

    /// What finds a delivery by its status, unless it is delivered.
    pub(super) fn mark_record(&self, of: &Delivery, status: DeliveryStatus) -> RecordId {
        let rest = [status.as_str().into_value(), place(of.sequence).into_value()];
        self.webhooks_record("undelivered", of.webhook_id, rest)
    }

    /// What finds a delivery when it is due again.
    pub(super) fn retry_record(&self, of: &Delivery, due: Timestamp) -> RecordId {
        let rest = [due.as_millis().into_value(), of.sequence.into_value()];
        self.webhooks_record("retry", of.webhook_id, rest)
    }
}

impl Store {
    /// Webhooks that something became due for, all organizations.
    pub async fn webhooks_due(&self, limit: i64) -> Result<Vec<(OrganizationId, WebhookId)>> {
        const DUE: &str = "SELECT VALUE id FROM
            (SELECT id, wake_at FROM dispatch WITH INDEX dispatch_wake WHERE wake_at <= $now ORDER BY wake_at LIMIT $limit)";
        let vars = vars! { "now" => self.clock().now(), "limit" => limit };
        self.ask::<Vec<RecordId>>(DUE, vars).await?.iter().map(owner).collect()
    }

    /// All webhooks that have not come to the end of their organization's log and are not paused. For the look around at
    /// a start, and for what other processes commit. Where there are no others, a lease is that of a process that died.
    pub async fn webhooks_behind(&self) -> Result<Vec<(OrganizationId, WebhookId)>> {
        const BEHIND: &str = "SELECT VALUE id FROM dispatch WHERE ($alone AND holder != NONE)
            OR (cursor < organization.sequence AND (paused_until = NONE OR paused_until <= $now))";
        let vars = vars! { "now" => self.clock().now(), "alone" => self.is_embedded() };
        self.ask::<Vec<RecordId>>(BEHIND, vars).await?.iter().map(owner).collect()
    }
}

impl Tenant {
    /// The same of one organization, and what is due in it; and how many webhooks it has at all.
    pub async fn webhooks_to_serve(&self) -> Result<(Vec<WebhookId>, usize)> {
        const SERVE: &str = "{
            LET $all = SELECT id, wake_at, cursor, paused_until FROM type::record('dispatch', [$org]..[$org, ..]);
            RETURN {
                total: array::len($all),
                serve: SELECT VALUE id FROM $all WHERE wake_at <= $now
                    OR (cursor < $organization.sequence AND (paused_until = NONE OR paused_until <= $now))
            };
        }";
        #[derive(SurrealValue)]
        struct Found {
            total: i64,
            serve: Vec<RecordId>,
        }
        let vars = vars! {
            "org" => self.organization.to_string(), "organization" => self.organization_record(),
            "now" => self.clock().now(),
        };
        let found: Option<Found> = self.store.ask(SERVE, vars).await?;
        let found = found.ok_or_else(|| Error::internal("nothing was answered"))?;
        let serve = found.serve.iter().map(|id| owner(id).map(|(_, webhook)| webhook)).collect::<Result<_>>()?;
        Ok((serve, usize::try_from(found.total).unwrap_or_default()))
    }

    /// Takes the lease on a webhook, unless somebody else has it. An embedded database has no somebody else: what a dead
    /// process left counts for nothing.
    pub async fn lease_webhook(&self, id: WebhookId, holder: &str, until: Timestamp) -> Result<Option<Leased>> {
        const LEASE: &str = concat!(
            "{
                LET $was = UPDATE $dispatch SET holder = $holder, lease_until = $until, wake_at = $until
                    WHERE $alone OR holder = NONE OR holder = $holder OR lease_until <= $now RETURN BEFORE;
                IF array::len($was) = 0 { RETURN NONE };
                LET $next = SELECT VALUE record::id(id)[2] FROM type::record('retry', [$org, $key]..[$org, $key, ..]) LIMIT 1;
                RETURN { holder: $was[0].holder, paused_until: $was[0].paused_until, next: $next[0], webhook: (",
            columns!("ONLY $webhook"),
            ") } }"
        );
        #[derive(SurrealValue)]
        struct Found {
            holder: Option<String>,
            paused_until: Option<Timestamp>,
            next: Option<i64>,
            webhook: Row,
        }
        let vars = vars! {
            "org" => self.organization.to_string(), "key" => id.key(), "webhook" => self.record(TABLE, id.key()), "dispatch" => self.record(DISPATCH, id.key()),
            "alone" => self.store.is_embedded(), "holder" => holder, "now" => self.clock().now(), "until" => until,
        };
        let found: Option<Found> = match self.store.ask(LEASE, vars).await {
            // Another process was at it in the same moment.
            Err(Error::Unavailable(_)) => return Ok(None),
            found => found?,
        };
        let Some(found) = found else { return Ok(None) };
        let stored = found.webhook.into_model()?;
        // Whoever gave the lease back had settled everything up to the cursor, and nothing after it.
        let settled = match found.holder {
            Some(_) => self.settled_after(id, stored.cursor()).await?,
            None => Vec::new(),
        };
        let next_retry = found.next.map(Timestamp::from_millis);
        Ok(Some(Leased { stored, paused_until: found.paused_until, next_retry, settled }))
    }

    async fn settled_after(&self, id: WebhookId, cursor: Sequence) -> Result<Vec<i64>> {
        const SETTLED: &str = "SELECT VALUE record::id(id)[2] FROM
            type::record('delivery', [$org, $key]..[$org, $key, $place]) LIMIT 10000";
        let vars = vars! { "org" => self.organization.to_string(), "key" => id.key(), "place" => place(cursor.0) };
        let places: Vec<i64> = self.store.ask(SETTLED, vars).await?;
        let succeeded = self.successes_after(id, cursor).await?;
        Ok(places.into_iter().map(place).chain(succeeded).collect())
    }

    /// What is due again until a moment, in the order in which it became due.
    pub async fn due_retries(&self, id: WebhookId, until: Timestamp, limit: usize) -> Result<Vec<Retry>> {
        const DUE: &str = "{
            LET $found = SELECT VALUE record::id(id) FROM
                type::record('retry', [$org, $key]..[$org, $key, $until]) LIMIT $limit;
            -- One whose delivery the sweep has taken.
            FOR $retry IN $found {
                IF type::record('delivery', [$org, $key, $last - $retry[3]]).id = NONE {
                    DELETE type::record('retry', $retry)
                }
            };
            RETURN $found.map(|$retry| {
                due: $retry[2],
                body: type::record('delivery', [$org, $key, $last - $retry[3]]).body,
                event: type::record('event', [$org, $retry[3]]).envelope
            });
        }";
        #[derive(SurrealValue)]
        struct Found {
            due: i64,
            body: Option<String>,
            event: Option<String>,
        }
        let vars = vars! {
            "org" => self.organization.to_string(), "key" => id.key(), "until" => until.as_millis() + 1,
            "last" => Sequence::MAX, "limit" => i64::try_from(limit).unwrap_or(i64::MAX),
        };
        let found: Vec<Found> = self.store.ask(DUE, vars).await?;
        let retry = |Found { due, body, event }: Found| {
            let read = |body: String| {
                let (due, event) = (Timestamp::from_millis(due), event.map(Event::read).transpose()?.map(Arc::new));
                Ok(Retry { due, delivery: parse(&body)?, event })
            };
            body.map(read)
        };
        found.into_iter().filter_map(retry).collect()
    }
}

fn owner(id: &RecordId) -> Result<(OrganizationId, WebhookId)> {
    let webhook =
        WebhookId::from_key(own_key(id)?).ok_or_else(|| Error::internal("the key of a dispatch is broken"))?;
    Ok((organization_of(id)?, webhook))
}
