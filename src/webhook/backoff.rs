//! The schedule of attempts (`contract.md` §14): how long after which failure, with some jitter so that receivers that
//! come back are not met by everything at once.

use std::time::Duration;

use chrono::TimeDelta;

/// How much a pause varies to either side.
const JITTER: f64 = 0.1;

/// The pauses between attempts; there is one attempt more than there are pauses.
#[derive(Clone, Debug)]
pub struct Schedule(pub Vec<Duration>);

impl Schedule {
    /// The pause after so many failed attempts of a series; none when it is over. `chance` is from `0.0..1.0`.
    pub fn pause(&self, failed: u32, chance: f64) -> Option<TimeDelta> {
        let index = usize::try_from(failed).unwrap_or(usize::MAX).checked_sub(1)?;
        let pause = self.0.get(index)?;
        TimeDelta::from_std(pause.mul_f64(1.0 + JITTER * (2.0 * chance - 1.0))).ok()
    }

    /// The longest pause: what a receiver may ask for at most.
    pub fn longest(&self) -> Duration {
        self.0.iter().copied().max().unwrap_or_default()
    }
}
