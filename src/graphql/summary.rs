//! The one log line of a socket or an event stream, written when it ends.

use std::time::Duration;

use tokio::time::Instant;

use crate::call::Caller;

/// How often a stream looks after itself: its token, its signs of life.
pub const LOOK: Duration = Duration::from_secs(1);

pub struct Summary {
    operation: &'static str,
    caller: Option<Caller>,
    began: Instant,
    /// Events that were sent.
    pub sent: u64,
    /// Why it ended.
    pub why: String,
}

impl Summary {
    pub fn new(operation: &'static str, caller: Option<&Caller>) -> Self {
        Self { operation, caller: caller.cloned(), began: Instant::now(), sent: 0, why: "the client left".to_owned() }
    }

    pub fn set_caller(&mut self, caller: Caller) {
        self.caller = Some(caller);
    }
}

impl Drop for Summary {
    fn drop(&mut self) {
        let caller = self.caller.as_ref();
        tracing::info!(
            operation = self.operation,
            seconds = self.began.elapsed().as_secs(),
            events = self.sent,
            why = self.why,
            organization = caller.map(|caller| tracing::field::display(caller.organization())),
            caller = caller.map(|caller| tracing::field::display(caller.name())),
            "stream ended",
        );
    }
}
