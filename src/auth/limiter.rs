//! Exact sliding windows (`contract.md` §7): in *any* hour at most so many units, in *any* minute at most so many. A
//! refused request costs nothing. (A cell-rate limiter admits up to twice the quota in a window, so none is used.)

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::model::application::RateLimits;
use crate::model::id::ApplicationId;
use crate::model::time::Timestamp;
use crate::store::rates::Hit;

const HOUR: i64 = 3_600_000;
const MINUTE: i64 = 60_000;
/// Above this many units a window keeps seconds instead of milliseconds, which bounds its memory. Rounding up the moment
/// a unit was taken can only return it later, so the limit still holds.
const COARSE_ABOVE: u32 = 10_000;
/// How many windows are kept. Those that nobody used for their span go first; beyond that, strangers share one.
const MAX_GAUGES: usize = 100_000;

/// Whose requests are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// An application's authenticated requests.
    Application(ApplicationId),
    /// An application's token requests: as many as its other requests, counted for themselves.
    Client(ApplicationId),
    /// Requests without a valid token, by address.
    Address(IpAddr),
    /// All addresses that came when the table was full.
    Strangers,
}

impl Key {
    /// An IPv6 customer holds a whole /64, so that is what is counted.
    pub fn address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) => Self::Address(IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into())),
            v4 @ IpAddr::V4(_) => Self::Address(v4),
        }
    }
}

/// What the `X-RateLimit-*` headers say: of the two windows, the one with fewer units left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateState {
    pub limit: u32,
    pub remaining: u32,
    /// Unix seconds when the next unit returns.
    pub reset: i64,
}

/// The units taken in one span of time, oldest first.
#[derive(Default)]
struct Window {
    hits: VecDeque<Hit>,
    used: u64,
}

impl Window {
    fn forget_until(&mut self, limit: i64) {
        while let Some((_, units)) = self.hits.front().copied().filter(|(at, _)| *at <= limit) {
            self.used -= u64::from(units);
            self.hits.pop_front();
        }
    }

    /// Adds units at a moment; those of other processes may come late, so the place is looked for from the end.
    fn add(&mut self, at: i64, units: u32) {
        self.used += u64::from(units);
        match self.hits.iter_mut().rev().find(|(seen, _)| *seen <= at) {
            Some((seen, sum)) if *seen == at => *sum = sum.saturating_add(units),
            _ => {
                let place = self.hits.partition_point(|(seen, _)| *seen <= at);
                self.hits.insert(place, (at, units));
            }
        }
    }

    /// When `units` will fit under `limit`, if they do not now.
    fn fits_at(&self, units: u32, limit: u32, span: i64) -> Option<i64> {
        let mut excess = (self.used + u64::from(units)).saturating_sub(u64::from(limit));
        if excess == 0 {
            return None;
        }
        for (at, hit) in &self.hits {
            excess = excess.saturating_sub(u64::from(*hit));
            if excess == 0 {
                return Some(at + span);
            }
        }
        // More than the whole window: never.
        Some(i64::MAX)
    }

    fn state(&self, limit: u32, span: i64, now: i64) -> RateState {
        let remaining = u64::from(limit).saturating_sub(self.used);
        let returns = self.hits.front().map_or(now, |(at, _)| at + span);
        RateState {
            limit,
            remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
            reset: returns.div_euclid(1000) + i64::from(returns.rem_euclid(1000) > 0),
        }
    }
}

#[derive(Default)]
struct Gauge {
    hour: Window,
    minute: Window,
    /// Taken here since the last [`Limiter::drain`].
    fresh: Vec<Hit>,
}

impl Gauge {
    fn forget(&mut self, now: i64) {
        self.hour.forget_until(now - HOUR);
        self.minute.forget_until(now - MINUTE);
    }

    fn add(&mut self, at: i64, units: u32, limits: RateLimits) {
        let round = |limit: u32| if limit > COARSE_ABOVE { (at + 999).div_euclid(1000) * 1000 } else { at };
        self.hour.add(round(limits.hour), units);
        self.minute.add(round(limits.minute), units);
    }

    /// Whether `units` fit now, or when to come back.
    fn admit(&self, limits: RateLimits, units: u32, now: i64) -> Result<()> {
        let hour = self.hour.fits_at(units, limits.hour, HOUR);
        let minute = self.minute.fits_at(units, limits.minute, MINUTE);
        let Some(at) = hour.max(minute) else { return Ok(()) };
        let retry_after = at.saturating_sub(now).clamp(1, HOUR).unsigned_abs().div_ceil(1000);
        Err(Error::RateLimited { retry_after })
    }

    fn state(&self, limits: RateLimits, now: i64) -> RateState {
        let hour = self.hour.state(limits.hour, HOUR, now);
        let minute = self.minute.state(limits.minute, MINUTE, now);
        if minute.remaining < hour.remaining { minute } else { hour }
    }
}

/// All windows of this process.
#[derive(Default)]
pub struct Limiter(Mutex<HashMap<Key, Gauge>>);

impl Limiter {
    /// Takes `units`, or says when to come back. Either way the state is that after the call.
    pub fn take(&self, key: Key, limits: RateLimits, units: u32, now: Timestamp) -> Result<RateState> {
        self.try_take(key, limits, units, now).map_err(|(error, _)| error)
    }

    /// As [`Limiter::take`], with the state of the windows also when refused.
    pub fn try_take(
        &self,
        key: Key,
        limits: RateLimits,
        units: u32,
        now: Timestamp,
    ) -> Result<RateState, (Error, RateState)> {
        let now = now.as_millis();
        let mut gauges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = admit_key(&mut gauges, key, now);
        let gauge = gauges.entry(key).or_default();
        gauge.forget(now);
        if let Err(error) = gauge.admit(limits, units, now) {
            return Err((error, gauge.state(limits, now)));
        }
        gauge.add(now, units, limits);
        if let Key::Application(_) = key {
            match gauge.fresh.last_mut() {
                Some((at, sum)) if *at == now => *sum = sum.saturating_add(units),
                _ => gauge.fresh.push((now, units)),
            }
        }
        Ok(gauge.state(limits, now))
    }

    /// Whether a unit would be admitted now; takes nothing.
    pub fn peek(&self, key: Key, limits: RateLimits, now: Timestamp) -> Result<()> {
        let now = now.as_millis();
        let mut gauges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = admit_key(&mut gauges, key, now);
        let Some(gauge) = gauges.get_mut(&key) else { return Gauge::default().admit(limits, 1, now) };
        gauge.forget(now);
        gauge.admit(limits, 1, now)
    }

    /// What was admitted for applications since the last call.
    pub fn drain(&self) -> Vec<(ApplicationId, Vec<Hit>)> {
        let mut gauges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gauges
            .iter_mut()
            .filter_map(|(key, gauge)| match key {
                Key::Application(id) if !gauge.fresh.is_empty() => Some((*id, std::mem::take(&mut gauge.fresh))),
                _ => None,
            })
            .collect()
    }

    /// Puts back what could not be written down, for the next [`Limiter::drain`].
    pub fn undrain(&self, flushes: Vec<(ApplicationId, Vec<Hit>)>) {
        let mut gauges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (application, mut hits) in flushes {
            let gauge = gauges.entry(Key::Application(application)).or_default();
            hits.append(&mut gauge.fresh);
            gauge.fresh = hits;
        }
    }

    /// Counts what another process (or this one, before a restart) admitted.
    pub fn absorb(&self, application: ApplicationId, hits: &[Hit]) {
        let mut gauges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gauge = gauges.entry(Key::Application(application)).or_default();
        for (at, units) in hits {
            gauge.add(*at, *units, RateLimits::DOCUMENTED);
        }
    }
}

/// The key to count under; makes room when the table is full.
fn admit_key(gauges: &mut HashMap<Key, Gauge>, key: Key, now: i64) -> Key {
    if gauges.len() < MAX_GAUGES || gauges.contains_key(&key) {
        return key;
    }
    gauges.retain(|_, gauge| {
        gauge.forget(now);
        gauge.hour.used > 0 || !gauge.fresh.is_empty()
    });
    if gauges.len() < MAX_GAUGES || !matches!(key, Key::Address(_)) { key } else { Key::Strangers }
}
