//! What a dispatcher writes down: many results in one transaction, which the lease and the webhook's revision guard.

use surrealdb::types::{Object, RecordId, SurrealValue, Value};

use super::dispatch::ReplayState;
use super::documents::never;
use super::errors::{self, WriteFailure};
use super::webhooks::{DISPATCH, StoredWebhook, TABLE};
use super::{Tenant, vars};
use crate::error::{Error, Result};
use crate::model::delivery::{Delivery, DeliveryStatus, Success};
use crate::model::event::Sequence;
use crate::model::id::WebhookId;
use crate::model::time::Timestamp;

/// Tries of a record that collides with a caller's change.
const MAX_TRIES: u32 = 20;

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

/// The end of a recording.
const KEEP: &str = "UPDATE ONLY $dispatch MERGE $state RETURN NONE; RETURN 'done' }";

/// The end of one that gives the lease back. What is due next is read here, so that a resend of the same moment is not
/// missed.
const RELEASE: &str = "
    LET $next = SELECT VALUE record::id(id)[2] FROM type::record('retry', [$org, $key]..[$org, $key, ..]) LIMIT 1;
    UPDATE ONLY $dispatch MERGE object::extend($state, {
        holder: NONE,
        wake_at: $state.paused_until ?? IF array::len($next) > 0 { time::from_millis($next[0]) } ELSE { $never }
    }) RETURN NONE;
    RETURN 'done' }";

impl Tenant {
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
        let mut state = vars! {
            "cursor" => progress.cursor.0, "failures" => i64::from(progress.failures),
            "paused_until" => progress.paused_until.map_or(Value::None, SurrealValue::into_value),
            "replay" => replay.map_or(Value::None, SurrealValue::into_value),
            "lease_until" => until, "wake_at" => until,
        };
        if let Some(at) = progress.last_triggered_at {
            state.insert("last_triggered_at".to_owned(), at.into_value());
        }
        vars.extend(vars! {
            "webhook" => self.record(TABLE, id.key()), "dispatch" => self.record(DISPATCH, id.key()),
            "holder" => holder, "revision" => stored.revision, "state" => state,
            "org" => self.organization.to_string(), "key" => id.key(), "never" => never(),
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
        part(
            "INSERT INTO delivered $successes RETURN NONE;",
            "successes",
            self.success_rows(id, &rows.successes)?.into_value(),
            rows.successes.is_empty(),
        );
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
                 UPDATE ONLY $dispatch SET epoch += 1 RETURN NONE;
                 CREATE ONLY $audit CONTENT { actor: 'mercato', action: $reason, target: $target } RETURN NONE;",
            );
            let audit = crate::model::id::AuditId(self.clock().mint());
            vars.extend(vars! {
                "now" => self.clock().now(), "audit" => self.record("audit", audit.key()), "reason" => reason,
                "target" => id.to_string(),
            });
        }
        text.push_str(if recording.released { RELEASE } else { KEEP });
        Ok((text, vars))
    }
}

/// The rows of a recording, by what happens to them.
#[derive(Default)]
struct Rows {
    successes: Vec<Success>,
    gone: Vec<RecordId>,
    fresh: Vec<Object>,
    again: Vec<Object>,
    marks: Vec<RecordId>,
}

impl Rows {
    fn add(&mut self, tenant: &Tenant, id: WebhookId, recorded: &Recorded) -> Result<()> {
        let Recorded { delivery, known, retried } = recorded;
        if let Some(success) = Success::of(delivery).filter(|_| known.is_none()) {
            self.successes.push(success);
            return Ok(());
        }
        let content = vars! {
            "status" => delivery.status.as_str(), "kind" => delivery.event_type,
            "body" => super::documents::body(delivery)?,
        };
        let key = tenant.delivery_record(id, Sequence(delivery.sequence));
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
            self.gone.push(tenant.mark_record(delivery, status));
        }
        if delivery.status != DeliveryStatus::Delivered && *known != Some(delivery.status) {
            self.marks.push(tenant.mark_record(delivery, delivery.status));
        }
        if let Some(due) = retried {
            self.gone.push(tenant.retry_record(delivery, *due));
        }
        if let Some(due) = delivery.next_attempt_at {
            self.marks.push(tenant.retry_record(delivery, due));
        }
        Ok(())
    }
}
