//! Forgetting what is past its retention: expired tokens, idempotency rows, events. Index-backed and in small portions,
//! so that a sweep never holds anybody up.

use chrono::TimeDelta;
use surrealdb::types::Object;

use super::idempotency::RETENTION;
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
}

impl Store {
    /// Removes everything that is past its time. Events are kept for `event_retention`.
    pub async fn sweep(&self, event_retention: TimeDelta) -> Result<Swept> {
        const TOKENS: &str =
            "DELETE (SELECT VALUE id FROM token WHERE expires_at < $limit LIMIT $portion) RETURN BEFORE";
        const KEYS: &str = "DELETE (SELECT VALUE id FROM idempotency WHERE at < $limit LIMIT $portion) RETURN BEFORE";
        const EVENTS: &str = "DELETE (SELECT VALUE id FROM event WHERE at < $limit LIMIT $portion) RETURN BEFORE";
        self.forget_hits_before(self.clock().now().plus(-TimeDelta::hours(1))).await?;
        Ok(Swept {
            tokens: self.remove_all(TOKENS, EXPIRED_RETENTION).await?,
            keys: self.remove_all(KEYS, RETENTION).await?,
            events: self.remove_all(EVENTS, event_retention).await?,
        })
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
