//! What a dispatcher knows of one webhook and writes down: the lease on it, where it is in the log, what is due again.
//! Every record of results is guarded by the lease and by the webhook's revision, in the transaction itself, so a process
//! that lost the one or missed the other changes nothing.

use surrealdb::types::{Object, RecordId, RecordIdKey, SurrealValue, Value};

use super::documents::{never, parse};
use super::errors::{self, WriteFailure};
use super::webhooks::{DISPATCH, StoredWebhook, TABLE};
use super::{Store, Tenant, organization_of, own_key, vars};
use crate::error::{Error, Result};
use crate::model::delivery::{Delivery, DeliveryStatus};
use crate::model::event::Sequence;
use crate::model::id::{OrganizationId, WebhookId};
use crate::model::time::Timestamp;

/// Tries of a record that collides with a caller's change.
const MAX_TRIES: u32 = 20;

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
    cursor: i64,
    failures: i64,
    paused_until: Option<Timestamp>,
    replay: Option<Vec<i64>>,
}

impl DispatchRow {
    fn replay(&self) -> Option<ReplayState> {
        match self.replay.as_deref()? {
            [after, until, only] => {
                Some(ReplayState { after: Sequence(*after), until: Sequence(*until), only_undelivered: *only != 0 })
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

/// What is written down at once.
#[derive(Default)]
pub struct Recording {
    /// Deliveries as they are now.
    pub deliveries: Vec<Recorded>,
    pub progress: Progress,
    /// The webhook gave up: it is disabled now, for this reason.
    pub disabled: Option<&'static str>,
    /// The work is over: the lease is given back, and the dispatch is looked at again when its next retry is due or its
    /// pause is over.
    pub released: bool,
}

/// Where the dispatch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub cursor: Sequence,
    pub failures: u32,
    pub last_triggered_at: Option<Timestamp>,
    pub paused_until: Option<Timestamp>,
    pub replay: Option<ReplayState>,
}

/// A delivery, and what of it is in the store already.
pub struct Recorded {
    pub delivery: Delivery,
    /// Its status there, if it has a row.
    pub known: Option<DeliveryStatus>,
    /// The retry that this was.
    pub retried: Option<Timestamp>,
}

/// What became of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    Done,
    /// The webhook was changed: read it again.
    Changed,
    /// Somebody else has the lease, or the webhook is gone.
    Lost,
}

/// The end of a recording that gives the lease back. What is due next is read here, so that a resend of the same moment is
/// not missed.
const RELEASE: &str = "
    LET $next = SELECT VALUE record::id(id)[2] FROM type::record('retry', [$org, $key]..[$org, $key, ..]) LIMIT 1;
    UPDATE ONLY $dispatch SET holder = NONE, wake_at = IF $state.paused_until != NONE { $state.paused_until }
        ELSE IF array::len($next) > 0 { time::from_millis($next[0]) } ELSE { $never } RETURN NONE;
    RETURN 'done' }";

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
            RETURN UPDATE $dispatch SET holder = $holder, lease_until = $until, wake_at = $until RETURN AFTER;
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
            stored,
            cursor: Sequence(row.cursor),
            failures: u32::try_from(row.failures).unwrap_or_default(),
            paused_until: row.paused_until,
            replay: row.replay(),
            settled: self.settled_after(id, Sequence(row.cursor)).await?,
        }))
    }

    async fn settled_after(&self, id: WebhookId, cursor: Sequence) -> Result<Vec<i64>> {
        const SETTLED: &str = "SELECT VALUE record::id(id)[2] FROM
            type::record('delivery', [$org, $key]..[$org, $key, $place]) LIMIT 10000";
        let vars = vars! { "org" => self.organization.to_string(), "key" => id.key(), "place" => place(cursor.0) };
        let places: Vec<i64> = self.store.ask(SETTLED, vars).await?;
        Ok(places.into_iter().map(place).collect())
    }

    /// The dispatch as it is now, after a change by a caller.
    pub async fn look_at_dispatch(&self, id: WebhookId) -> Result<Option<(StoredWebhook, u32, Option<ReplayState>)>> {
        let vars = vars! { "dispatch" => self.record(DISPATCH, id.key()) };
        let row: Option<DispatchRow> = self.store.ask("SELECT * FROM ONLY $dispatch", vars).await?;
        let (Some(row), Some(stored)) = (row, self.find_webhook(id).await?) else { return Ok(None) };
        let failures = u32::try_from(row.failures).unwrap_or_default();
        Ok(Some((stored, failures, row.replay())))
    }

    /// What is due again until a moment, in the order in which it became due.
    pub async fn due_retries(&self, id: WebhookId, until: Timestamp, limit: usize) -> Result<Vec<Retry>> {
        const DUE: &str = "{
            LET $found = SELECT VALUE record::id(id) FROM
                type::record('retry', [$org, $key]..[$org, $key, $until]) LIMIT $limit;
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
        let read = |row: Row| {
            let body = row.body.ok_or_else(|| Error::internal("a retry has no delivery"))?;
            Ok(Retry { due: Timestamp::from_millis(row.due), delivery: parse(&body)? })
        };
        rows.into_iter().map(read).collect()
    }

    /// Writes results down, all of them or nothing.
    pub async fn record_dispatch(
        &self,
        stored: &StoredWebhook,
        (holder, until): (&str, Timestamp),
        recording: &Recording,
    ) -> Result<Written> {
        let id = stored.webhook.id;
        let (text, mut vars) = self.recording_block(id, recording)?;
        let progress = &recording.progress;
        let replay = progress.replay.map(|replay| vec![replay.after.0, replay.until.0, replay.only_undelivered.into()]);
        vars.extend(vars! {
            "webhook" => self.record(TABLE, id.key()), "dispatch" => self.record(DISPATCH, id.key()),
            "holder" => holder, "revision" => stored.revision,
            "state" => vars! {
                "cursor" => progress.cursor.0, "failures" => i64::from(progress.failures),
                "paused_until" => progress.paused_until.map_or(Value::None, SurrealValue::into_value),
                "replay" => replay.map_or(Value::None, SurrealValue::into_value),
                "lease_until" => until, "wake_at" => until,
            },
            "org" => self.organization.to_string(), "key" => id.key(), "never" => never(),
            "triggered" => progress.last_triggered_at.map_or(Value::None, SurrealValue::into_value),
        });
        for _ in 0..MAX_TRIES {
            match self.run_recording(text.clone(), vars.clone()).await {
                Ok(word) => return Ok(word),
                Err(WriteFailure::Conflict) => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
                Err(WriteFailure::Final(error)) => return Err(error),
                Err(WriteFailure::AlreadyDone) => return Err(Error::internal("a recording has no idempotency row")),
            }
        }
        Err(Error::Unavailable(format!("{MAX_TRIES} attempts to write deliveries of {id} collided")))
    }

    async fn run_recording(&self, text: String, vars: Object) -> Result<Written, WriteFailure> {
        let mut response = self.store.db().query(text).bind(vars).await.map_err(errors::write)?;
        let word: Option<String> = response.take(0).map_err(errors::write)?;
        Ok(match word.as_deref() {
            Some("done") => Written::Done,
            Some("changed") => Written::Changed,
            _ => Written::Lost,
        })
    }

    fn recording_block(&self, id: WebhookId, recording: &Recording) -> Result<(String, Object)> {
        let mut rows = Rows::default();
        for recorded in &recording.deliveries {
            rows.add(self, id, recorded)?;
        }
        let mut text = String::from(
            "{ IF $webhook.id = NONE OR $dispatch.holder != $holder { RETURN 'lost' };
             IF $webhook.revision != $revision { RETURN 'changed' };",
        );
        let mut vars = Object::new();
        let mut part = |statement: &str, name: &str, values: Value, is_empty: bool| {
            if !is_empty {
                text.push_str(statement);
                vars.insert(name.to_owned(), values);
            }
        };
        part("DELETE $gone;", "gone", rows.gone.clone().into_value(), rows.gone.is_empty());
        part(
            "INSERT INTO delivery $fresh RETURN NONE;",
            "fresh",
            rows.fresh.clone().into_value(),
            rows.fresh.is_empty(),
        );
        part(
            "FOR $row IN $again { UPSERT ONLY $row.id CONTENT $row.content RETURN NONE };",
            "again",
            rows.again.clone().into_value(),
            rows.again.is_empty(),
        );
        part(
            "FOR $mark IN $marks { UPSERT ONLY $mark RETURN NONE };",
            "marks",
            rows.marks.clone().into_value(),
            rows.marks.is_empty(),
        );
        if let Some(reason) = recording.disabled {
            text.push_str(
                "UPDATE ONLY $webhook SET status = 'disabled', disabled_at = $now, updated_at = $now, revision += 1 RETURN NONE;
                 CREATE ONLY $audit CONTENT { actor: 'mercato', action: $reason, target: $target } RETURN NONE;",
            );
            let audit = crate::model::id::AuditId(self.clock().mint());
            vars.extend(vars! {
                "now" => self.clock().now(), "audit" => self.record("audit", audit.key()), "reason" => reason,
                "target" => id.to_string(),
            });
        }
        text.push_str(
            "UPDATE ONLY $dispatch MERGE $state RETURN NONE;
             IF $triggered != NONE { UPDATE ONLY $dispatch SET last_triggered_at = $triggered RETURN NONE };",
        );
        text.push_str(if recording.released { RELEASE } else { "RETURN 'done' }" });
        Ok((text, vars))
    }
}

/// The rows of a recording, by what happens to them.
#[derive(Default)]
struct Rows {
    gone: Vec<RecordId>,
    fresh: Vec<Object>,
    again: Vec<Object>,
    marks: Vec<RecordId>,
}

impl Rows {
    fn add(&mut self, tenant: &Tenant, id: WebhookId, recorded: &Recorded) -> Result<()> {
        let Recorded { delivery, known, retried } = recorded;
        let row = |table: &'static str, rest: Vec<Value>| {
            let mut parts = vec![tenant.organization.to_string().into_value(), id.key().into_value()];
            parts.extend(rest);
            RecordId::new(table, surrealdb::types::Array::from(parts))
        };
        let at = place(delivery.sequence);
        let mark = |status: DeliveryStatus| row("undelivered", vec![status.as_str().into_value(), at.into_value()]);
        let retry = |due: Timestamp| row("retry", vec![due.as_millis().into_value(), delivery.sequence.into_value()]);
        let content = vars! {
            "status" => delivery.status.as_str(), "kind" => delivery.event_type,
            "body" => super::documents::body(delivery)?,
        };
        let key = row("delivery", vec![at.into_value()]);
        match known {
            None => {
                let mut fresh = content;
                fresh.insert("id".to_owned(), key.into_value());
                self.fresh.push(fresh);
            }
            Some(_) => self.again.push(vars! { "id" => key, "content" => content }),
        }
        if let Some(status) = known.filter(|status| *status != DeliveryStatus::Delivered && *status != delivery.status)
        {
            self.gone.push(mark(status));
        }
        if delivery.status != DeliveryStatus::Delivered && *known != Some(delivery.status) {
            self.marks.push(mark(delivery.status));
        }
        if let Some(due) = retried {
            self.gone.push(retry(*due));
        }
        if let Some(due) = delivery.next_attempt_at {
            self.marks.push(retry(due));
        }
        Ok(())
    }
}

fn owner(id: &RecordId) -> Result<(OrganizationId, WebhookId)> {
    debug_assert!(matches!(id.key, RecordIdKey::Array(_)), "a dispatch has two parts in its key");
    let webhook =
        WebhookId::from_key(own_key(id)?).ok_or_else(|| Error::internal("the key of a dispatch is broken"))?;
    Ok((organization_of(id)?, webhook))
}
