//! Refused notifications, as the audit trail has them: the first of a kind at once, the others counted and written down
//! once an hour, so that whoever is refused a thousand times fills no table.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::TimeDelta;

use crate::model::id::OrganizationId;
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;

/// How often those of one organization, marketplace and reason are written down.
const BETWEEN: TimeDelta = TimeDelta::hours(1);
/// How many are counted at a time. More than that means very many organizations: the log has what is left out.
const KINDS_MAX: usize = 10_000;

/// What refusals are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    pub organization: OrganizationId,
    pub vendor: Vendor,
    pub why: &'static str,
}

/// Those that were not written down yet.
#[derive(Clone, Copy)]
struct Count {
    since: Timestamp,
    times: u32,
}

#[derive(Default)]
pub struct Refusals(Mutex<HashMap<Kind, Count>>);

impl Refusals {
    /// Counts one, and answers whether it is to be written down now.
    pub fn count(&self, kind: Kind, now: Timestamp) -> bool {
        let mut counts = self.lock();
        if let Some(count) = counts.get_mut(&kind) {
            count.times = count.times.saturating_add(1);
            return false;
        }
        if counts.len() >= KINDS_MAX {
            tracing::warn!(organization = %kind.organization, vendor = %kind.vendor, why = kind.why, "a refused notification");
            return false;
        }
        counts.insert(kind, Count { since: now, times: 0 });
        true
    }

    /// What is to be written down by now, in words. What did not happen again for an hour begins anew.
    pub fn due(&self, now: Timestamp) -> Vec<(Kind, String)> {
        self.take(now, BETWEEN)
    }

    /// What is left when the process ends.
    pub fn rest(&self, now: Timestamp) -> Vec<(Kind, String)> {
        self.take(now, TimeDelta::zero())
    }

    fn take(&self, now: Timestamp, age: TimeDelta) -> Vec<(Kind, String)> {
        let mut due = Vec::new();
        self.lock().retain(|kind, count| {
            if now < count.since.plus(age) {
                return true;
            }
            let Count { since, times } = std::mem::replace(count, Count { since: now, times: 0 });
            if times > 0 {
                due.push((*kind, format!("{}: {times} more since {since}", kind.why)));
            }
            times > 0
        });
        due
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Kind, Count>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
