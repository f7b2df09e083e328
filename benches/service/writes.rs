//! Creating customers durably, one writer in each of 32 organizations, against the bare block.

use std::sync::Arc;
use std::time::Instant;

use mercato::call::{Call, Caller};
use mercato::clock::Clock;
use mercato::model::customer::NewCustomer;
use mercato::model::id::OrganizationId;
use mercato::model::vendor::Vendor;
use mercato::resolvers::customers;
use mercato::store::{Once, Store};

use crate::bare_block::{self, Bare};
use crate::place::Place;
use crate::report::{Line, Round};
use crate::scale::Scale;

const LEAST: f64 = 0.70;
const ORGANIZATIONS: usize = 32;

pub async fn measure(scale: &Scale) -> Vec<Line> {
    let bare = Bare::open(ORGANIZATIONS).await;
    let place = Place::new();
    let store = place.store().await;
    let organizations = make_organizations(&store, ORGANIZATIONS).await;
    let mut rounds = Vec::new();
    for round in 0..=scale.rounds {
        let floor = bare_rate(&bare, store.clock(), scale.writes_each).await;
        let ours = our_rate(&store, &organizations, scale.writes_each).await;
        // The first round warms up.
        if round > 0 {
            rounds.push(Round { floor, ours });
        }
    }
    vec![Line::rate_ratio("creating customers durably, 32 organizations", &rounds, LEAST)]
}

pub async fn make_organizations(store: &Store, count: usize) -> Vec<OrganizationId> {
    let mut made = Vec::new();
    for number in 0..count {
        made.push(store.create_organization(&format!("Bench {number}")).await.expect("an organization can be made"));
    }
    made
}

async fn bare_rate(bare: &Bare, clock: &Clock, each: usize) -> f64 {
    let writers = bare.organizations.iter().map(|organization| {
        let blocks = (0..each).map(|_| bare_block::values(*organization, clock)).collect();
        bare.writer(blocks)
    });
    rate(writers.collect(), each).await
}

async fn our_rate(store: &Store, organizations: &[OrganizationId], each: usize) -> f64 {
    let writers = organizations.iter().map(|organization| {
        let requests = (0..each).map(|_| request(store, *organization)).collect();
        write(requests)
    });
    rate(writers.collect(), each).await
}

/// A creation as a facade hands it to the resolver.
fn request(store: &Store, organization: OrganizationId) -> (Call, NewCustomer) {
    let caller = Caller::Operator { organization };
    let once = Once::new(caller.name(), new_key(store.clock()), store.clock().random());
    (Call::new(store.clone(), caller, Some(Arc::new(once))), new_customer(store.clock()))
}

async fn write(requests: Vec<(Call, NewCustomer)>) {
    for (call, new) in requests {
        customers::create(&call, new).await.expect("the customer is new and breaks no rule");
    }
}

/// Creations a second, all writers together.
async fn rate<W: Future<Output = ()> + Send + 'static>(writers: Vec<W>, each: usize) -> f64 {
    let count = u32::try_from(writers.len() * each).expect("a bench makes fewer");
    let began = Instant::now();
    writers.into_iter().collect::<tokio::task::JoinSet<()>>().join_all().await;
    f64::from(count) / began.elapsed().as_secs_f64()
}

pub fn new_customer(clock: &Clock) -> NewCustomer {
    NewCustomer {
        vendor: Some(Vendor::CloudA),
        company_name: Some("Northwind Analytics Inc".to_owned()),
        email: Some("procurement@northwind-analytics.example".to_owned()),
        cloud_account_id: Some(clock.mint().to_string()),
        ..NewCustomer::default()
    }
}

/// An idempotency key that nobody used.
pub fn new_key(clock: &Clock) -> String {
    format!("bench-{}", clock.mint())
}
