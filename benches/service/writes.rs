//! Creating records durably, one writer in each of 32 organizations, against the bare block.

use std::sync::Arc;
use std::time::Instant;

use mercato::call::{Call, Caller};
use mercato::clock::Clock;
use mercato::model::id::OrganizationId;
use mercato::store::{Once, Store};

use crate::bare_block::{Bare, Block};
use crate::place::Place;
use crate::report::{Line, Round};
use crate::scale::Scale;

const LEAST: f64 = 0.70;
const ORGANIZATIONS: usize = 32;

/// What is created, in one organization.
pub trait Subject: Sized + 'static {
    const WHAT: &'static str;
    /// A creation as a facade hands it to the resolver.
    type Request: Send + 'static;

    /// Makes what the creations in a new organization need.
    fn prepare(store: &Store, organization: OrganizationId) -> impl Future<Output = Self>;
    fn organization(&self) -> OrganizationId;
    fn request(&self, clock: &Clock) -> Self::Request;
    fn create(call: &Call, request: Self::Request) -> impl Future<Output = ()> + Send;
    /// The same as the block that the store commits, when `seen` was the organization's last event.
    fn block(&self, clock: &Clock, seen: i64) -> Block;
}

pub async fn measure<S: Subject>(scale: &Scale) -> Vec<Line> {
    let bare = Bare::<S>::open(ORGANIZATIONS).await;
    let place = Place::new();
    let store = place.store().await;
    let subjects = prepare::<S>(&store, ORGANIZATIONS).await;
    let mut rounds = Vec::new();
    for round in 0..=scale.rounds {
        let floor = bare_rate(&bare, store.clock(), scale.writes_each).await;
        let ours = our_rate(&store, &subjects, scale.writes_each).await;
        // The first round warms up.
        if round > 0 {
            rounds.push(Round { floor, ours });
        }
    }
    vec![Line::rate_ratio(S::WHAT, &rounds, LEAST)]
}

pub async fn prepare<S: Subject>(store: &Store, organizations: usize) -> Vec<S> {
    let mut subjects = Vec::new();
    for number in 0..organizations {
        let made = store.create_organization(&format!("Bench {number}")).await.expect("an organization can be made");
        subjects.push(S::prepare(store, made).await);
    }
    subjects
}

async fn bare_rate<S: Subject>(bare: &Bare<S>, clock: &Clock, each: usize) -> f64 {
    let mut writers = Vec::new();
    for subject in &bare.subjects {
        let last = bare.last_event(subject.organization()).await;
        let blocks = (last..).take(each).map(|seen| subject.block(clock, seen)).collect();
        writers.push(bare.writer(blocks));
    }
    rate(writers, each).await
}

async fn our_rate<S: Subject>(store: &Store, subjects: &[S], each: usize) -> f64 {
    let writers = subjects.iter().map(|subject| {
        let requests =
            (0..each).map(|_| (call(store, subject.organization()), subject.request(store.clock()))).collect();
        write::<S>(requests)
    });
    rate(writers.collect(), each).await
}

/// A call under an idempotency key of its own.
fn call(store: &Store, organization: OrganizationId) -> Call {
    let caller = Caller::Operator { organization };
    let once = Once::new(caller.name(), new_key(store.clock()), store.clock().random());
    Call::new(store.clone(), caller, Some(Arc::new(once)))
}

async fn write<S: Subject>(requests: Vec<(Call, S::Request)>) {
    for (call, request) in requests {
        S::create(&call, request).await;
    }
}

/// Creations a second, all writers together.
async fn rate<W: Future<Output = ()> + Send + 'static>(writers: Vec<W>, each: usize) -> f64 {
    let count = u32::try_from(writers.len() * each).expect("a bench makes fewer");
    let began = Instant::now();
    writers.into_iter().collect::<tokio::task::JoinSet<()>>().join_all().await;
    f64::from(count) / began.elapsed().as_secs_f64()
}

/// An idempotency key that nobody used.
pub fn new_key(clock: &Clock) -> String {
    format!("bench-{}", clock.mint())
}
