//! Rendering an event once for all subscribers who would get the same bytes: those of one organization with the same
//! scopes, document and variables (`contract.md` §15).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::OnceCell;

use super::Graph;
use super::answer::result_json;
use super::events::Run;
use super::loaders::loaders;
use super::plan::Plan;
use crate::call::Call;
use crate::error::Error;
use crate::http::Services;
use crate::model::event::{Event, Sequence};
use crate::model::id::OrganizationId;
use crate::model::scope::Scopes;

/// Rendered events that a group keeps for those of its subscribers who come later, and their bytes in all.
const KEPT: usize = 256;
const KEPT_BYTES: usize = 256 * 1024;

/// What makes two subscribers get the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    organization: OrganizationId,
    scopes: Scopes,
    digest: [u8; 32],
}

/// The groups that have subscribers.
#[derive(Default)]
pub struct Groups(Mutex<HashMap<Key, Weak<Group>>>);

impl Groups {
    /// The group of a subscription; the first subscriber's plan and rights render for all.
    pub fn join(self: &Arc<Self>, services: &Arc<Services>, graph: &Graph, call: Call, plan: Plan) -> Arc<Group> {
        let caller = call.caller();
        let key = Key { organization: caller.organization(), scopes: caller.scopes(), digest: plan.digest };
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = groups.get(&key).and_then(Weak::upgrade) {
            return group;
        }
        let group = Arc::new(Group {
            key,
            groups: Arc::clone(self),
            services: Arc::clone(services),
            graph: graph.clone(),
            call,
            plan,
            kept: Mutex::default(),
        });
        groups.insert(key, Arc::downgrade(&group));
        group
    }
}

/// Where an event is rendered once.
type Place = Arc<OnceCell<Arc<Rendered>>>;

/// Subscribers who get the same bytes.
pub struct Group {
    key: Key,
    groups: Arc<Groups>,
    services: Arc<Services>,
    graph: Graph,
    call: Call,
    plan: Plan,
    /// Those that were asked for last.
    kept: Mutex<VecDeque<(Sequence, Place)>>,
}

impl Drop for Group {
    fn drop(&mut self) {
        let mut groups = self.groups.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Another one may have taken the place since.
        if groups.get(&self.key).is_some_and(|group| group.strong_count() == 0) {
            groups.remove(&self.key);
        }
    }
}

impl Group {
    /// The event as this group's subscribers get it. Whoever asks first renders; the others wait for him.
    pub async fn show(self: &Arc<Self>, event: &Arc<Event>) -> Result<Arc<Rendered>, Error> {
        let place = self.place(event.sequence);
        place.get_or_try_init(|| Box::pin(self.render(event))).await.cloned()
    }

    fn place(self: &Arc<Self>, sequence: Sequence) -> Place {
        // A subscriber without company comes to each event once.
        let wanted = if Arc::strong_count(self) > 1 { KEPT } else { 1 };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, place)) = kept.iter().rev().find(|(seen, _)| *seen == sequence) {
            return Arc::clone(place);
        }
        let place = Place::default();
        kept.push_back((sequence, Arc::clone(&place)));
        let size = |place: &Place| place.get().map_or(0, |rendered| rendered.json.len());
        let mut bytes: usize = kept.iter().map(|(_, place)| size(place)).sum();
        while kept.len() > wanted || (kept.len() > 1 && bytes > KEPT_BYTES) {
            bytes -= kept.pop_front().map_or(0, |(_, place)| size(&place));
        }
        place
    }

    async fn render(&self, event: &Arc<Event>) -> Result<Arc<Rendered>, Error> {
        self.services.metrics.renderings.inc();
        let (loaders, batches) = loaders(self.call.clone());
        let request = self.plan.request().data(loaders).data(self.call.clone()).data(Run::Render(Arc::clone(event)));
        let mut responses = self.graph.execute_stream(request);
        let response = batches.drive(responses.next()).await;
        let response = response.ok_or_else(|| Error::internal("a subscription rendered nothing"))?;
        let json = result_json(&response)?;
        Ok(Arc::new(Rendered { sequence: event.sequence, json, framed: OnceLock::new() }))
    }
}

/// The execution result of one event.
pub struct Rendered {
    pub sequence: Sequence,
    /// On one line.
    pub json: String,
    framed: OnceLock<Bytes>,
}

impl Rendered {
    /// As an event of an event stream. Its id is the sequence, so a browser resumes by itself.
    pub fn framed(&self) -> Bytes {
        let frame = || format!("event: next\nid: {}\ndata: {}\n\n", self.sequence, self.json).into();
        self.framed.get_or_init(frame).clone()
    }
}
