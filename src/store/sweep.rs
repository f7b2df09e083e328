//! Forgetting what is past its retention: expired tokens, idempotency rows, events with their deliveries, who was refused
//! in a marketplace's name. Index-backed and in small portions, so that a sweep never holds anybody up.

use chrono::TimeDelta;
use surrealdb::types::Object;

use super::idempotency::RETENTION;
use super::notifications;
use super::tokens::EXPIRED_RETENTION;
use super::{Store, vars};
use crate::error::Result;

const PORTION: i64 = 500;

/// What a sweep removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub tokens: usize,
    pub keys: usize,
    pub events: usize,
    pub deliveries: usize,
    pub refusals: usize,
}

impl Store {
    /// Removes everything that is past its time. Events are kept for `event_retention`.
    pub async fn sweep(&self, event_retention: TimeDelta) -> Result<Swept> {
        const TOKENS: &str =
            "DELETE (SELECT VALUE id FROM token WHERE expires_at < $limit LIMIT $portion) RETURN BEFORE";
        const KEYS: &str = "DELETE (SELECT VALUE id FROM idempotency WHERE at < $limit LIMIT $portion) RETURN BEFORE";
        const EVENTS: &str = "DELETE (SELECT VALUE id FROM event WHERE at < $limit LIMIT $portion) RETURN BEFORE";
        const REFUSALS: &str = "DELETE (SELECT VALUE id FROM audit WITH INDEX audit_action
            WHERE action = 'notification.refused' AND at < $limit LIMIT $portion) RETURN BEFORE";
        self.forget_hits_before(self.clock().now().plus(-TimeDelta::hours(1))).await?;
        let swept = Swept {
            tokens: self.remove_all(TOKENS, EXPIRED_RETENTION).await?,
            keys: self.remove_all(KEYS, RETENTION).await?,
            events: self.remove_all(EVENTS, event_retention).await?,
            deliveries: self.sweep_deliveries().await?,
            refusals: self.remove_all(REFUSALS, notifications::RETENTION).await?,
        };
        if swept.events > 0 {
            self.0.log.swept();
        }
        Ok(swept)
    }

    /// Deliveries whose events are no longer kept, and all of webhooks that are gone. Sequences are inverted in their
    /// keys, so the old ones are the end of each webhook's range.
    async fn sweep_deliveries(&self) -> Result<usize> {
        const KEPT: &str = "SELECT VALUE record::id(id) FROM dispatch";
        const GONE: &str = "SELECT VALUE record::id(id) FROM discarded";
        const OLDEST: &str =
            "RETURN (SELECT VALUE record::id(id)[1] FROM type::record('event', [$org]..[$org, ..]) LIMIT 1)[0]
            ?? type::record('organization', $org).sequence + 1";
        let mut removed = 0;
        for [org, key] in self.ask::<Vec<[String; 2]>>(KEPT, vars! {}).await? {
            let oldest: Option<i64> = self.ask(OLDEST, vars! { "org" => org.clone() }).await?;
            let first = super::dispatch::place(oldest.unwrap_or_default()) + 1;
            removed += self.remove_deliveries(&org, &key, first).await?;
        }
        for [org, key] in self.ask::<Vec<[String; 2]>>(GONE, vars! {}).await? {
            removed += self.remove_deliveries(&org, &key, 0).await?;
            self.run("DELETE type::record('discarded', [$org, $key])", vars! { "org" => org, "key" => key }).await?;
        }
        Ok(removed)
    }

    /// The rows of a webhook's deliveries from a place on, with what marks them; how many those were.
    async fn remove_deliveries(&self, org: &str, key: &str, first: i64) -> Result<usize> {
        const PORTION_OF: &str = "{
            LET $gone = SELECT id, record::id(id)[2] AS place, status FROM
                type::record('delivery', [$org, $key, $first]..[$org, $key, ..]) LIMIT $portion;
            LET $succeeded = SELECT VALUE id FROM type::record('delivered', [$org, $key, $first]..[$org, $key, ..]) LIMIT $portion;
            DELETE $gone.map(|$row| type::record('undelivered', [$org, $key, $row.status, $row.place]));
            DELETE $gone.id;
            DELETE $succeeded;
            RETURN [array::len($gone), array::len($succeeded)];
        }";
        let mut removed = 0;
        loop {
            let vars = vars! { "org" => org, "key" => key, "first" => first, "portion" => PORTION };
            let gone: Vec<i64> = self.ask(PORTION_OF, vars).await?;
            removed += usize::try_from(gone.iter().sum::<i64>()).unwrap_or_default();
            if gone.iter().all(|rows| *rows < PORTION) {
                return Ok(removed);
            }
        }
    }

    async fn remove_all(&self, portion: &'static str, age: TimeDelta) -> Result<usize> {
        let limit = self.clock().now().plus(-age);
        let mut removed = 0;
        loop {
            let gone: Vec<Object> = self.ask(portion, vars! { "limit" => limit, "portion" => PORTION }).await?;
            removed += gone.len();
            if gone.len() < usize::try_from(PORTION).unwrap_or(usize::MAX) {
                return Ok(removed);
            }
        }
    }
}
