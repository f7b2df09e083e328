//! The first page and a deep page of 100 customers, in databases of very different sizes.

use std::time::Instant;

use mercato::call::{Call, Caller};
use mercato::model::filter::Order;
use mercato::model::id::invert;
use mercato::model::page::{ListName, PageRequest};
use mercato::resolvers::customers;
use mercato::store::Store;

use crate::fill;
use crate::place::Place;
use crate::report::Line;
use crate::scale::Scale;
use crate::sizes::{self, Case};

/// The slowest median against the fastest.
const MOST: f64 = 1.3;

pub async fn measure(scale: &Scale) -> Vec<Line> {
    // The folders go last, after whoever holds the databases in them.
    let (mut places, mut cases) = (Vec::new(), Vec::new());
    for size in scale.page_sizes {
        let (place, both) = prepare(size).await;
        places.push(place);
        cases.extend(both);
    }
    sizes::read(&mut cases, scale.readings).await;
    sizes::lines("pages", &cases, MOST)
}

async fn prepare(size: usize) -> (Place, [Case; 2]) {
    let began = Instant::now();
    let (place, organization) = fill::customers(size).await;
    eprintln!("  {size} customers inserted in {:.1} s", began.elapsed().as_secs_f64());
    let store = place.store().await;
    let call = Call::new(store.clone(), Caller::Operator { organization }, None);
    // Newest first: nine tenths of the way down are the oldest tenth.
    let after = invert(fill::ulid(size / 10));
    let cursor = call.cursor_scope(ListName::Customers, Order::Newest).encode(&after);
    let cases = [
        case("first", size, (&store, &call), "limit=100"),
        case("deep", size, (&store, &call), &format!("limit=100&cursor={cursor}")),
    ];
    (place, cases)
}

fn case(kind: &str, size: usize, (store, call): (&Store, &Call), query: &str) -> Case {
    let (store, call, query) = (store.clone(), call.clone(), query.to_owned());
    Case::new(format!("{kind} page of 100 at {size} customers"), move || {
        let (call, query) = (call.clone(), query.clone());
        // Forgets what was read before: the engine is measured, not the memory.
        store.engine();
        async move {
            let began = Instant::now();
            let page = customers::list(&call, PageRequest::from_query(&query)).await.expect("the page is there");
            let took = began.elapsed();
            assert_eq!(page.items.len(), 100, "{query}");
            took
        }
    })
}
