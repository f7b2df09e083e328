//! The first page and a deep page of 100 customers, in databases of very different sizes: the cost must not grow.

use std::time::{Duration, Instant};

use mercato::call::{Call, Caller};
use mercato::model::page::{ListName, PageRequest};
use mercato::resolvers::customers;

use crate::fill::{filled, ulid};
use crate::place::Place;
use crate::report::Line;
use crate::scale::{Scale, median};

/// The slowest median against the fastest.
const MOST: f64 = 1.3;
const WARM_UP: usize = 20;
/// For the engine to put its files in order after they were filled.
const SETTLING: Duration = Duration::from_secs(5);

/// One kind of page in one database.
struct Case {
    name: String,
    call: Call,
    query: String,
    took: Vec<Duration>,
}

pub async fn measure(scale: &Scale) -> Vec<Line> {
    let (mut cases, mut places) = (Vec::new(), Vec::new());
    for size in scale.page_sizes {
        let (place, both) = prepare(size).await;
        places.push(place);
        cases.extend(both);
    }
    tokio::time::sleep(SETTLING).await;
    // Interleaved, so that whatever else the machine does hits all alike.
    for round in 0..WARM_UP + scale.page_reads {
        for case in &mut cases {
            let took = case.read().await;
            if round >= WARM_UP {
                case.took.push(took);
            }
        }
    }
    lines(&cases)
}

async fn prepare(size: usize) -> (Place, [Case; 2]) {
    let began = Instant::now();
    let (place, organization) = filled(size).await;
    eprintln!("  {size} customers inserted in {:.1} s", began.elapsed().as_secs_f64());
    let call = Call::new(place.store().await, Caller::Operator { organization }, None);
    // Newest first: nine tenths of the way down are the oldest tenth.
    let cursor = call.cursor_scope(ListName::Customers).encode(ulid(size / 10));
    let case = |kind: &str, query: String| Case {
        name: format!("{kind} page of 100 at {size} customers"),
        call: call.clone(),
        query,
        took: Vec::new(),
    };
    let cases = [case("first", "limit=100".to_owned()), case("deep", format!("limit=100&cursor={cursor}"))];
    (place, cases)
}

impl Case {
    async fn read(&self) -> Duration {
        let began = Instant::now();
        let page = customers::list(&self.call, PageRequest::from_query(&self.query)).await.expect("the page is there");
        let took = began.elapsed();
        assert_eq!(page.items.len(), 100, "{}", self.name);
        took
    }

    fn micros(&self) -> f64 {
        median(&self.took).as_secs_f64() * 1e6
    }
}

fn lines(cases: &[Case]) -> Vec<Line> {
    let medians: Vec<f64> = cases.iter().map(Case::micros).collect();
    let fastest = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let slowest = medians.iter().copied().fold(0.0, f64::max);
    let promise = Line {
        floor: format!("{fastest:.0} us"),
        ratio: format!("{:.3}", slowest / fastest),
        target: format!("<= {MOST:.2}"),
        passed: Some(slowest / fastest <= MOST),
        ..Line::note("pages, slowest median against fastest", format!("{slowest:.0} us"))
    };
    let told = cases.iter().zip(&medians).map(|(case, median)| Line {
        ratio: format!("{:.3}", median / fastest),
        ..Line::note(format!("  {}", case.name), format!("{median:.0} us"))
    });
    std::iter::once(promise).chain(told).collect()
}
