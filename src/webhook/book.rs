//! What a lane knows of its webhook: how far it is in the log, what is under way, and how often in a row the receiver
//! failed. No I/O; the lane asks and tells.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;

use super::DispatchSettings;
use crate::clock::Clock;
use crate::courier::Outcome;
use crate::model::delivery::{Attempt, Delivery, DeliveryStatus};
use crate::model::event::{Event, Sequence};
use crate::model::time::Timestamp;
use crate::store::dispatch::{Leased, ReplayState};
use crate::store::recording::{Progress, Recorded};

/// Consecutive failures after which one attempt at a time probes whether the receiver is back.
const PROBING: u32 = 3;
/// A receiver that is gone for good says so.
const GONE: u16 = 410;

/// Where a job comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The log, for the first time.
    Head,
    /// A range of the log, again.
    Replay,
    /// It is due again.
    Retry,
}

/// One delivery to be attempted.
pub struct Job {
    pub event: Arc<Event>,
    pub delivery: Delivery,
    /// Its status in the store, if it has a row there.
    pub known: Option<DeliveryStatus>,
    /// When it would have been attempted again: what it does now takes the place of that.
    pub retried: Option<Timestamp>,
    pub source: Source,
}

/// A part of the log that is worked through in order, with some of it under way at once.
#[derive(Default)]
pub struct Stretch {
    /// The last one that was begun or passed over.
    passed: i64,
    open: BTreeSet<i64>,
    pub waiting: VecDeque<Arc<Event>>,
}

impl Stretch {
    pub fn from(after: Sequence) -> Self {
        Self { passed: after.0, ..Self::default() }
    }

    /// Everything up to it is settled.
    pub fn settled(&self) -> Sequence {
        Sequence(self.open.first().map_or(self.passed, |first| first - 1))
    }

    /// The last one that was begun or passed over.
    pub fn passed(&self) -> Sequence {
        Sequence(self.passed)
    }

    pub fn pass(&mut self, sequence: Sequence) {
        self.passed = self.passed.max(sequence.0);
    }
}

/// The state of a lane.
pub struct Book {
    settings: DispatchSettings,
    clock: Clock,
    pub head: Stretch,
    /// What was settled after the cursor before the lease changed hands.
    pub settled: HashSet<i64>,
    pub replay: Option<(ReplayState, Stretch)>,
    pub failures: u32,
    /// Counted failures so far: an attempt that began before the last one counts for nothing.
    era: u64,
    pub paused_until: Option<Timestamp>,
    last_triggered_at: Option<Timestamp>,
    /// Deliveries under way or not yet written down.
    in_hand: HashSet<i64>,
    pub landed: Vec<Recorded>,
    /// Why the webhook has to be disabled.
    pub giving_up: Option<&'static str>,
    /// The receiver is back: what waits for its time need not wait.
    pub recovered: bool,
}

impl Book {
    pub fn of(leased: &Leased, settings: DispatchSettings, clock: Clock) -> Self {
        Self {
            settings,
            clock,
            head: Stretch::from(leased.stored.cursor()),
            settled: leased.settled.iter().copied().collect(),
            replay: leased.stored.replay.map(|state| (state, Stretch::from(state.after))),
            failures: leased.stored.webhook.failure_count,
            era: 0,
            paused_until: leased.paused_until,
            last_triggered_at: None,
            in_hand: HashSet::new(),
            landed: Vec::new(),
            giving_up: None,
            recovered: false,
        }
    }

    /// How many attempts may be under way.
    pub fn room(&self) -> usize {
        if self.is_probing() { 1 } else { self.settings.per_webhook }
    }

    pub fn is_probing(&self) -> bool {
        self.failures >= PROBING
    }

    /// Whether the receiver is left alone for now. A pause that is over is forgotten.
    pub fn is_paused(&mut self) -> bool {
        self.paused_until = self.paused_until.filter(|until| *until > self.clock.now());
        self.paused_until.is_some()
    }

    pub fn is_in_hand(&self, sequence: Sequence) -> bool {
        self.in_hand.contains(&sequence.0)
    }

    pub fn era(&self) -> u64 {
        self.era
    }

    pub fn begin(&mut self, job: &Job) {
        let sequence = job.event.sequence;
        self.in_hand.insert(sequence.0);
        match (job.source, &mut self.replay) {
            (Source::Head, _) => {
                self.head.pass(sequence);
                self.head.open.insert(sequence.0);
            }
            (Source::Replay, Some((_, stretch))) => {
                stretch.pass(sequence);
                stretch.open.insert(sequence.0);
            }
            (Source::Replay | Source::Retry, _) => {}
        }
    }

    /// The webhook was enabled or disabled, by a caller or by us.
    pub fn changed(&mut self, failures: u32) {
        self.failures = failures;
        self.paused_until = None;
        self.giving_up = None;
        self.era += 1;
    }

    pub fn begin_replay(&mut self, replay: Option<ReplayState>) {
        self.replay = replay.map(|state| (state, Stretch::from(state.after)));
    }

    /// An attempt has ended. `era` is that in which it began.
    pub fn land(&mut self, mut job: Job, outcome: &Outcome, era: u64) {
        let now = self.clock.now();
        self.last_triggered_at = self.last_triggered_at.max(Some(outcome.started_at));
        job.delivery.log(attempt(outcome));
        if outcome.error.is_none() {
            self.recovered |= self.is_probing();
            self.failures = 0;
            self.paused_until = None;
            job.delivery.end(DeliveryStatus::Delivered);
        } else {
            self.count_failure(era, now);
            let gone = outcome.status == Some(GONE);
            if gone || self.failures >= self.settings.failures {
                self.giving_up = Some(if gone { "webhook.gone" } else { "webhook.failing" });
            }
            let pause = self.settings.schedule.pause(job.delivery.series, self.clock.fraction());
            match pause.filter(|_| !gone) {
                Some(pause) => job.delivery.postpone(now.plus(pause.max(self.asked(outcome)))),
                None => job.delivery.end(DeliveryStatus::Failed),
            }
        }
        self.settle(job);
    }

    fn count_failure(&mut self, era: u64, now: Timestamp) {
        if era != self.era {
            return;
        }
        self.era += 1;
        self.failures += 1;
        if self.is_probing() {
            let pause = self.settings.schedule.pause(self.failures, self.clock.fraction());
            self.paused_until = pause.map(|pause| now.plus(pause));
        }
    }

    /// What the receiver asked to wait, within bounds.
    fn asked(&self, outcome: &Outcome) -> TimeDelta {
        let asked = outcome.retry_after.unwrap_or(Duration::ZERO).min(self.settings.schedule.longest());
        TimeDelta::from_std(asked).unwrap_or_default()
    }

    /// A delivery that is over for now without an attempt.
    pub fn settle_as(&mut self, mut job: Job, status: DeliveryStatus) {
        job.delivery.end(status);
        job.delivery.updated_at = self.clock.now();
        self.settle(job);
    }

    fn settle(&mut self, job: Job) {
        let sequence = job.event.sequence.0;
        match (job.source, &mut self.replay) {
            (Source::Head, _) => drop(self.head.open.remove(&sequence)),
            (Source::Replay, Some((_, stretch))) => drop(stretch.open.remove(&sequence)),
            (Source::Replay | Source::Retry, _) => {}
        }
        self.landed.push(Recorded { delivery: job.delivery, known: job.known, retried: job.retried });
    }

    /// Where the dispatch is when all that has landed is written down. A replay that is over is none.
    pub fn progress(&self) -> Progress {
        let replay = self.replay.as_ref().and_then(|(state, stretch)| {
            let after = stretch.settled();
            (after < state.until).then_some(ReplayState { after, ..*state })
        });
        Progress {
            cursor: self.head.settled(),
            failures: self.failures,
            last_triggered_at: self.last_triggered_at,
            paused_until: self.paused_until,
            replay,
        }
    }

    /// These were written down.
    pub fn written(&mut self, recorded: &[Recorded]) {
        for recorded in recorded {
            self.in_hand.remove(&recorded.delivery.sequence);
        }
    }
}

fn attempt(outcome: &Outcome) -> Attempt {
    Attempt {
        number: 0,
        started_at: outcome.started_at,
        duration_ms: u32::try_from(outcome.duration.as_millis()).unwrap_or(u32::MAX),
        status_code: outcome.status,
        error: outcome.error,
        answer: outcome.answer.clone().filter(|answer| !answer.is_empty()),
    }
}
