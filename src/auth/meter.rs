//! One request's account with the limiter: charged once, by REST before the work and by GraphQL when the cost is known.

use std::sync::{Arc, Mutex, PoisonError};

use super::limiter::{Key, Limiter, RateState};
use crate::call::{Bearer, Caller};
use crate::clock::Clock;
use crate::error::{Error, Result};

pub struct Meter {
    limiter: Arc<Limiter>,
    clock: Clock,
    /// None for callers that have no limits.
    bearer: Option<Bearer>,
    state: Mutex<Option<RateState>>,
}

impl Meter {
    pub fn new(limiter: Arc<Limiter>, clock: Clock, caller: &Caller) -> Self {
        let bearer = match caller {
            Caller::Application(bearer) => Some(bearer.clone()),
            Caller::Operator { .. } => None,
        };
        Self { limiter, clock, bearer, state: Mutex::new(None) }
    }

    /// Takes `units` from the caller's windows, or refuses and takes nothing.
    pub fn charge(&self, units: u32) -> Result<()> {
        let Some(bearer) = &self.bearer else { return Ok(()) };
        let most = bearer.limits.hour.min(bearer.limits.minute);
        if units > most.max(1) {
            let text =
                format!("costs {units} requests, and the limits of this application never admit more than {most}");
            return Err(Error::malformed("query", text));
        }
        let key = Key::Application(bearer.application);
        let taken = self.limiter.try_take(key, bearer.limits, units, self.clock.now());
        let (result, state) = match taken {
            Ok(state) => (Ok(()), state),
            Err((error, state)) => (Err(error), state),
        };
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
        result
    }

    /// What the `X-RateLimit-*` headers say; none before the charge.
    pub fn state(&self) -> Option<RateState> {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
