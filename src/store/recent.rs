//! The newest events that this process committed itself: who follows the log need not read them again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::event::Event;
use crate::model::id::OrganizationId;

/// Bytes of envelopes that are kept, all organizations.
const BYTES: usize = 32 * 1024 * 1024;

/// First in, first out: whoever is further behind reads the table.
#[derive(Default)]
pub(super) struct Recent(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// Each in the order of its log; with gaps where other processes committed.
    events: HashMap<OrganizationId, VecDeque<Arc<Event>>>,
    /// Whose they are, in the order in which they came.
    order: VecDeque<OrganizationId>,
    bytes: usize,
}

impl Recent {
    pub fn keep(&self, organization: OrganizationId, events: &[Arc<Event>]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            kept.bytes += event.envelope.len();
            kept.order.push_back(organization);
            kept.events.entry(organization).or_default().push_back(Arc::clone(event));
        }
        while kept.bytes > BYTES {
            kept.forget_first();
        }
    }

    /// The next ones after a point, without a gap; none when they are not here.
    pub fn after(&self, organization: OrganizationId, after: i64, most: usize) -> Vec<Arc<Event>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(events) = kept.events.get(&organization) else { return Vec::new() };
        let from = events.partition_point(|event| event.sequence.0 <= after);
        let next = events.range(from..).zip(after + 1..).take(most);
        next.take_while(|(event, place)| event.sequence.0 == *place).map(|(event, _)| Arc::clone(event)).collect()
    }

    pub fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Kept::default();
    }
}

impl Kept {
    fn forget_first(&mut self) {
        let Some(organization) = self.order.pop_front() else { return };
        let Some(events) = self.events.get_mut(&organization) else { return };
        if let Some(event) = events.pop_front() {
            self.bytes -= event.envelope.len();
        }
        if events.is_empty() {
            self.events.remove(&organization);
        }
    }
}
