//! What a dispatcher knows of one webhook and writes down: the lease on it, where it is in the log, what is due again.
//! Every record of results is guarded by the lease and by the webhook's revision, in the transaction itself, so a process
//! that lost the one or missed the other changes nothing.

use surrealdb::types::{RecordId, RecordIdKey, SurrealValue};

use super::documents::parse;
use super::webhooks::{DISPATCH, StoredWebhook, TABLE};
use super::{Store, Tenant, organization_of, own_key, vars};
use crate::error::{Error, Result};
use crate::model::delivery::Delivery;
use crate::model::event::Sequence;
use crate::model::id::{OrganizationId, WebhookId};
use crate::model::time::Timestamp;

/// A webhook that this process works for, until the lease runs out.
pub struct Leased {
    pub stored: StoredWebhook,
    /// Everything up to it is settled.
    pub cursor: Sequence,
    pub failures: u32,
    pub paused_until: Option<Timestamp>,
    pub replay: Option<ReplayState>,
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

#[derive(SurrealValue)]
struct DispatchRow {
    holder: Option<String>,
    cursor: i64,
    failures: i64,
    paused_until: Option<Timestamp>,
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

/// A delivery that is due again, and where its row is.
pub struct Retry {
    pub due: Timestamp,
    pub delivery: Delivery,
}

/// Where a delivery stands among those of its webhook: newest first.
pub(super) fn place(sequence: i64) -> i64 {
    Sequence::MAX - sequence
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
        const LEASE: &str = "{
            IF $webhook.id = NONE OR $dispatch.id = NONE { RETURN [] };
            IF !$alone AND $dispatch.holder != NONE AND $dispatch.holder != $holder AND $dispatch.lease_until > $now {
                RETURN []
            };
            RETURN UPDATE $dispatch SET holder = $holder, lease_until = $until, wake_at = $until RETURN BEFORE;
        }";
        let vars = vars! {
            "webhook" => self.record(TABLE, id.key()), "dispatch" => self.record(DISPATCH, id.key()),
            "alone" => self.store.is_embedded(), "holder" => holder, "now" => self.clock().now(), "until" => until,
        };
        let rows: Vec<DispatchRow> = match self.store.ask(LEASE, vars).await {
            // Another process was at it in the same moment.
            Err(Error::Unavailable(_)) => return Ok(None),
            rows => rows?,
        };
        let Some(row) = rows.into_iter().next() else { return Ok(None) };
        let Some(stored) = self.find_webhook(id).await? else { return Ok(None) };
        Ok(Some(Leased {
            cursor: Sequence(row.cursor),
            failures: u32::try_from(row.failures).unwrap_or_default(),
            paused_until: row.paused_until,
            replay: stored.replay,
            // Whoever gave the lease back had settled everything up to the cursor, and nothing after it.
            settled: match row.holder {
                Some(_) => self.settled_after(id, Sequence(row.cursor)).await?,
                None => Vec::new(),
            },
            stored,
        }))
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
                body: type::record('delivery', [$org, $key, $last - $retry[3]]).body
            });
        }";
        #[derive(SurrealValue)]
        struct Row {
            due: i64,
            body: Option<String>,
        }
        let vars = vars! {
            "org" => self.organization.to_string(), "key" => id.key(), "until" => until.as_millis() + 1,
            "last" => Sequence::MAX, "limit" => i64::try_from(limit).unwrap_or(i64::MAX),
        };
        let rows: Vec<Row> = self.store.ask(DUE, vars).await?;
        let known = rows.into_iter().filter_map(|row| row.body.map(|body| (row.due, body)));
        let read = |(due, body): (i64, String)| Ok(Retry { due: Timestamp::from_millis(due), delivery: parse(&body)? });
        known.map(read).collect()
    }
}

fn owner(id: &RecordId) -> Result<(OrganizationId, WebhookId)> {
    debug_assert!(matches!(id.key, RecordIdKey::Array(_)), "a dispatch has two parts in its key");
    let webhook =
        WebhookId::from_key(own_key(id)?).ok_or_else(|| Error::internal("the key of a dispatch is broken"))?;
    Ok((organization_of(id)?, webhook))
}
