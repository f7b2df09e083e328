//! What a lane does with results: written down many at once, while others are under way; the last of them together with
//! the lease.

use std::sync::Arc;

use tokio::time::{Duration, Instant};

use super::{Lane, Writing};
use crate::error::{Error, Result};
use crate::store::recording::{Recording, Written};

/// Results that are written down at once.
const BATCH: usize = 512;
/// How long a result waits for others while more are under way. (With a shorter patience a hundred busy lanes write a few
/// results at a time, and spend their time on that.)
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// The same of a failed one: its retry has to be written down before it is due.
pub(super) const PATIENCE_FAILED: Duration = Duration::from_millis(200);

impl Lane {
    /// When what has landed has waited long enough.
    pub(super) fn writing_due(&self) -> Option<Instant> {
        self.write_by.filter(|_| self.writing.is_none())
    }

    /// Something has landed that waits no longer than that.
    pub(super) fn write_within(&mut self, patience: Duration) {
        let by = Instant::now() + patience;
        self.write_by = Some(self.write_by.map_or(by, |known| known.min(by)));
    }

    /// Begins to write down what has landed, when it is enough or has waited long enough.
    pub(super) fn write_when_due(&mut self) {
        let Some(due) = self.writing_due() else { return };
        let alone = self.flying.is_empty() && self.queue.is_none();
        if alone || self.book.landed.len() >= BATCH || due <= Instant::now() {
            let recording = Arc::new(self.recording(false));
            self.writing = Some(self.write(recording));
        }
    }

    fn recording(&mut self, released: bool) -> Recording {
        self.write_by = None;
        let deliveries = std::mem::take(&mut self.book.landed);
        let progress = self.book.progress();
        if progress.replay.is_none() {
            self.book.replay = None;
        }
        Recording { deliveries, progress, disabled: self.book.giving_up, released }
    }

    fn write(&self, recording: Arc<Recording>) -> Writing {
        let (tenant, stored, holder) = (self.tenant.clone(), self.stored.clone(), self.holder.clone());
        let until = tenant.clock().now().plus(self.shared.settings.lease());
        let written = Arc::clone(&recording);
        let task = tokio::spawn(async move { tenant.record_dispatch(&stored, (&holder, until), &written).await });
        Writing { recording, task }
    }

    /// Writes down what is left and gives the lease back; false when the webhook was changed meanwhile.
    pub(super) async fn finish(&mut self) -> Result<bool> {
        let recording = Arc::new(self.recording(true));
        let Writing { recording, task } = self.write(recording);
        let written = task.await.map_err(Error::internal)??;
        self.settle(recording, written).await?;
        Ok(written != Written::Changed)
    }

    /// What became of a recording; false when the lease is lost.
    pub(super) async fn settle(&mut self, recording: Arc<Recording>, written: Written) -> Result<bool> {
        match written {
            Written::Lost => return Ok(false),
            Written::Changed => {
                // To be written again, from what the webhook is now.
                let recording =
                    Arc::into_inner(recording).ok_or_else(|| Error::internal("a recording is still held"))?;
                self.book.landed.extend(recording.deliveries);
                self.write_within(Duration::ZERO);
                self.refresh().await?;
            }
            Written::Done => {
                self.done += recording.deliveries.len();
                self.book.written(&recording.deliveries);
                let next = recording.deliveries.iter().filter_map(|recorded| recorded.delivery.next_attempt_at).min();
                self.look_at = [self.look_at, next].into_iter().flatten().min();
                if recording.disabled.is_some() {
                    self.refresh().await?;
                }
            }
        }
        Ok(true)
    }
}

/// Waits for the recording that is being written. Dropping the future loses nothing.
pub(super) async fn finished(writing: &mut Option<Writing>) -> Result<(Arc<Recording>, Written)> {
    let Some(Writing { recording, task }) = writing else { return std::future::pending().await };
    let written = task.await.map_err(Error::internal)??;
    let recording = Arc::clone(recording);
    *writing = None;
    Ok((recording, written))
}
