//! Keeps the rate windows of several processes (and of one process before and after a restart) in step, through the
//! database: at most a second behind, and never on a request's path.

use std::sync::{Arc, Mutex, PoisonError};

use chrono::TimeDelta;

use super::limiter::Limiter;
use crate::error::Result;
use crate::model::id::ApplicationId;
use crate::model::time::Timestamp;
use crate::store::Store;

/// How far back each look reaches beyond the last one: clocks differ a little, and a flush takes a moment to commit.
const OVERLAP: TimeDelta = TimeDelta::seconds(15);

pub struct Sharing {
    store: Store,
    limiter: Arc<Limiter>,
    /// Names this process among those that share the database.
    process: String,
    seen: Mutex<Seen>,
}

struct Seen {
    until: Timestamp,
    /// Flushes inside the overlap that were counted already, by the key of their row.
    counted: Vec<(i64, String, ApplicationId)>,
}

impl Sharing {
    pub fn new(store: Store, limiter: Arc<Limiter>) -> Self {
        let process = store.clock().mint().to_string();
        let until = store.clock().now().plus(-TimeDelta::hours(1));
        Self { store, limiter, process, seen: Mutex::new(Seen { until, counted: Vec::new() }) }
    }

    /// Writes down what was admitted here and counts what was admitted elsewhere.
    pub async fn exchange(&self) -> Result<()> {
        let flushes = self.limiter.drain();
        if !flushes.is_empty() {
            let written = self.store.put_hits(&self.process, flushes.clone()).await;
            if written.is_err() {
                self.limiter.undrain(flushes);
            }
            written?;
        }
        let (now, since) = (self.store.clock().now(), self.lock().until.plus(-OVERLAP));
        let others = self.store.hits_since(since).await?;
        let mut seen = self.lock();
        let mut counted = Vec::new();
        for flush in others.into_iter().filter(|flush| flush.process != self.process) {
            let mark = (flush.at, flush.process, flush.application);
            if !seen.counted.contains(&mark) {
                self.limiter.absorb(flush.application, &flush.hits);
            }
            counted.push(mark);
        }
        *seen = Seen { until: now, counted };
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
