//! Idempotency (`contract.md` §6): the row that remembers what a request under a key led to. It commits in the same
//! transaction as the change, so a crash leaves both or neither.
//!
//! What is kept is the *operation's* outcome, not the HTTP bytes: GraphQL can carry several changes in one request, each
//! with its own transaction and so its own row; a facade makes the same answer from the same outcome.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::TimeDelta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use surrealdb::types::{Array, Bytes, RecordId, SurrealValue};

use super::{Store, vars};
use crate::error::{Error, Refusal, Result};
use crate::model::time::Timestamp;

/// How long a key is remembered.
pub const RETENTION: TimeDelta = TimeDelta::hours(24);

/// The idempotency key of one request, and what became of it.
pub struct Once {
    caller: String,
    key: String,
    /// SHA-256 over method, path and canonical body.
    request: [u8; 32],
    writes: AtomicU32,
    replayed: AtomicBool,
}

impl Once {
    pub fn new(caller: String, key: String, request: [u8; 32]) -> Self {
        Self { caller, key, request, writes: AtomicU32::new(0), replayed: AtomicBool::new(false) }
    }

    /// Whether an answer was given again instead of being made.
    pub fn was_replayed(&self) -> bool {
        self.replayed.load(Ordering::Relaxed)
    }

    /// The row of the request's next write.
    pub(super) fn next_row(&self) -> RecordId {
        let index = i64::from(self.writes.fetch_add(1, Ordering::Relaxed));
        let parts = vec![self.caller.as_str().into_value(), self.key.as_str().into_value(), index.into_value()];
        RecordId::new("idempotency", Array::from(parts))
    }
}

/// What a request under a key led to.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome<T> {
    Done(T),
    Refused(Refusal),
}

#[derive(SurrealValue)]
struct Row {
    request: Bytes,
    outcome: String,
    at: Timestamp,
}

/// What the store knows of a key.
pub(super) enum Memory<T> {
    Nothing,
    /// Older than [`RETENTION`]: the key is free again, but the row has to go first.
    Stale,
    Known(Outcome<T>),
}

impl Store {
    pub(super) async fn recall<T: DeserializeOwned>(&self, row: &RecordId, once: &Once) -> Result<Memory<T>> {
        let found: Option<Row> = self.ask("SELECT * FROM ONLY $row", vars! { "row" => row.clone() }).await?;
        let Some(found) = found else { return Ok(Memory::Nothing) };
        if found.at.plus(RETENTION) <= self.clock().now() {
            return Ok(Memory::Stale);
        }
        if found.request[..] != once.request {
            return Err(Error::invalid("Idempotency-Key", "was used with a different request"));
        }
        once.replayed.store(true, Ordering::Relaxed);
        serde_json::from_str(&found.outcome).map(Memory::Known).map_err(Error::internal)
    }

    /// The row as the block binds it.
    pub(super) fn memory<T: Serialize>(&self, once: &Once, outcome: &Outcome<T>) -> Result<surrealdb::types::Value> {
        let outcome = serde_json::to_string(outcome).map_err(Error::internal)?;
        Ok(Row { request: Bytes::from(once.request.to_vec()), outcome, at: self.clock().now() }.into_value())
    }
}

/// The keys whose requests are running in this process.
#[derive(Default)]
pub(super) struct Running(Arc<Mutex<HashSet<RecordId>>>);

/// Keeps a key marked as running until dropped.
pub(super) struct Mark {
    running: Arc<Mutex<HashSet<RecordId>>>,
    row: RecordId,
}

impl Running {
    pub(super) fn begin(&self, row: RecordId) -> Result<Mark> {
        let fresh = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(row.clone());
        if fresh { Ok(Mark { running: Arc::clone(&self.0), row }) } else { Err(Error::KeyInFlight) }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.row);
    }
}
