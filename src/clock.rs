//! Time and chance, as arguments: [`Clock::system`] for the service, [`Clock::manual`] for tests and rehearsals.
//!
//! Ids are minted here too, because an id *is* a moment and some chance (a ULID): `created_at` of a record is the moment
//! in its id, so that "newest first" and the order of the keys are the same thing.

use std::sync::atomic::{AtomicU64, Ordering};
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
}

impl Clock {
    pub fn system() -> Self {
        Self::from_source(Source::System)
    }

    /// A clock that moves only by [`Clock::advance`] and whose chance is counted: the same calls give the same ids.
    pub fn manual() -> Self {
        Self::from_source(Source::Manual { now: AtomicU64::new(MANUAL_START.unsigned_abs()), draws: AtomicU64::new(0) })
    }

    fn from_source(source: Source) -> Self {
        Self(Arc::new(Inner { source, last_minted: Mutex::new(Ulid::nil()) }))
    }

    pub fn now(&self) -> Timestamp {
        match &self.0.source {
            Source::System => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "this is the one place that asks the machine for the time"
                )]
                let now = std::time::SystemTime::now();
                Timestamp::from_system(now)
            }
            Source::Manual { now, .. } => Timestamp::from_millis(now.load(Ordering::SeqCst).cast_signed()),
        }
    }

    /// Moves a manual clock forward. A system clock moves by itself, so the call is a defect there.
    pub fn advance(&self, by: chrono::TimeDelta) {
        match &self.0.source {
            Source::Manual { now, .. } => now.fetch_add(by.num_milliseconds().unsigned_abs(), Ordering::SeqCst),
            Source::System => unreachable!("only a manual clock can be advanced"),
        };
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
            Source::System => {
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
