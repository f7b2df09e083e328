//! Time and chance, as arguments: [`Clock::system`] for the service, [`Clock::manual`] for tests, [`Clock::rehearsal`]
//! for a history that is made before the service goes live.
//!
//! Ids are minted here too, because an id *is* a moment and some chance (a ULID): `created_at` of a record is the moment
//! in its id, so that "newest first" and the order of the keys are the same thing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rand::TryRng;
use sha2::{Digest, Sha256};
use ulid::Ulid;

use crate::model::time::Timestamp;

/// 2026-01-05T10:00:00Z: where manual clocks start.
pub const MANUAL_START: i64 = 1_767_607_200_000;

#[derive(Clone)]
pub struct Clock(Arc<Inner>);

struct Inner {
    source: Source,
    last_minted: Mutex<Ulid>,
}

enum Source {
    System,
    /// Milliseconds since 1970, and how many random draws were made.
    Manual {
        now: AtomicU64,
        draws: AtomicU64,
    },
    /// Stands at `now` until it is live; from then on that is only the moment it never falls behind.
    Rehearsal {
        now: AtomicU64,
        live: AtomicBool,
    },
}

impl Clock {
    pub fn system() -> Self {
        Self::from_source(Source::System)
    }

    /// A clock that moves only by [`Clock::advance`] and whose chance is counted: the same calls give the same ids.
    pub fn manual() -> Self {
        Self::from_source(Source::Manual { now: AtomicU64::new(MANUAL_START.unsigned_abs()), draws: AtomicU64::new(0) })
    }

    /// A clock that stands at `start` and moves only by [`Clock::advance`], until [`Clock::go_live`] makes it the
    /// system's. Its chance is real from the beginning: secrets are made with it.
    pub fn rehearsal(start: Timestamp) -> Self {
        let now = AtomicU64::new(start.as_millis().unsigned_abs());
        Self::from_source(Source::Rehearsal { now, live: AtomicBool::new(false) })
    }

    fn from_source(source: Source) -> Self {
        Self(Arc::new(Inner { source, last_minted: Mutex::new(Ulid::nil()) }))
    }

    pub fn now(&self) -> Timestamp {
        match (self.standing(), &self.0.source) {
            (Some(now), _) => read(now),
            // A rehearsal may have gone past the present: time waits there, it never steps back.
            (None, Source::Rehearsal { now, .. }) => system_now().max(read(now)),
            (None, _) => system_now(),
        }
    }

    /// Whether this is a rehearsal that has not gone live.
    pub fn is_rehearsing(&self) -> bool {
        matches!(self.0.source, Source::Rehearsal { .. }) && self.standing().is_some()
    }

    /// Ends a rehearsal: the clock is the system's from now on. Any other clock stays what it is.
    pub fn go_live(&self) {
        if let Source::Rehearsal { live, .. } = &self.0.source {
            live.store(true, Ordering::SeqCst);
        }
    }

    /// Moves a manual or rehearsing clock forward. Any other clock moves by itself, so the call is a defect there.
    pub fn advance(&self, by: chrono::TimeDelta) {
        let now = self.standing().unwrap_or_else(|| unreachable!("only a standing clock can be advanced"));
        now.fetch_add(by.num_milliseconds().unsigned_abs(), Ordering::SeqCst);
    }

    /// Where the clock stands, if it does not move by itself.
    fn standing(&self) -> Option<&AtomicU64> {
        match &self.0.source {
            Source::Manual { now, .. } => Some(now),
            Source::Rehearsal { now, live } => (!live.load(Ordering::SeqCst)).then_some(now),
            Source::System => None,
        }
    }

    /// A fresh ULID. Within one clock they only grow, also inside a millisecond and when the machine's time steps back.
    pub fn mint(&self) -> Ulid {
        let fresh = Ulid::from_parts(self.now().as_millis().unsigned_abs(), self.random_u128());
        let mut last = self.0.last_minted.lock().unwrap_or_else(PoisonError::into_inner);
        let next = if fresh.timestamp_ms() > last.timestamp_ms() { fresh } else { Ulid(last.0 + 1) };
        *last = next;
        next
    }

    pub fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        match &self.0.source {
            Source::System | Source::Rehearsal { .. } => {
                rand::rngs::SysRng.try_fill_bytes(&mut bytes).expect("the operating system gives random bytes");
            }
            Source::Manual { draws, .. } => {
                let seed = Sha256::digest(draws.fetch_add(1, Ordering::SeqCst).to_be_bytes());
                bytes.iter_mut().zip(seed.iter().cycle()).for_each(|(byte, chance)| *byte = *chance);
            }
        }
        bytes
    }

    fn random_u128(&self) -> u128 {
        u128::from_be_bytes(self.random::<16>())
    }

    /// An even draw from `0.0..1.0`, for jitter.
    pub fn fraction(&self) -> f64 {
        f64::from(u32::from_be_bytes(self.random::<4>())) / (f64::from(u32::MAX) + 1.0)
    }
}

fn read(now: &AtomicU64) -> Timestamp {
    Timestamp::from_millis(now.load(Ordering::SeqCst).cast_signed())
}

fn system_now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the machine for the time")]
    let now = std::time::SystemTime::now();
    Timestamp::from_system(now)
}
