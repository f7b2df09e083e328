//! Contract statistics and filtered pages of entitlements, in databases of very different sizes.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use chrono::TimeDelta;
use mercato::call::{Call, Caller};
use mercato::clock::Clock;
use mercato::model::analytics::{ContractQuery, ContractStatistics};
use mercato::model::entitlement::EntitlementStatus;
use mercato::model::filter::{Filter, ListQuery};
use mercato::model::page::PageRequest;
use mercato::model::tally::ContractStatus;
use mercato::model::vendor::Vendor;
use mercato::resolvers::{analytics, entitlements};

use crate::contract_fill::{self, Contract, contracts, now};
use crate::place::Place;
use crate::report::Line;
use crate::scale::Scale;
use crate::sizes::{self, Case};

/// The slowest median against the fastest.
const MOST: f64 = 1.5;
const PAGE: usize = 20;

/// What is asked of the statistics, in the REST form. It is 2026-01-05T10:00:00Z; the first contract began in 2024.
const QUESTIONS: [&str; 8] = [
    "",
    "vendor=cloud_b",
    "startDate=2025-01-01T00:00:00Z&endDate=2025-12-31T23:59:59.999Z",
    "startDate=2025-03-01T00:00:00Z&endDate=2025-03-31T23:59:59.999Z&vendor=cloud_a",
    "startDate=2024-07-14T09:31:17.402Z&endDate=2024-07-14T17:02:44.118Z&status=expired",
    "startDate=2025-11-20T12:00:00Z&status=active",
    "endDate=2026-02-28T23:59:59.999Z&vendor=cloud_b&status=active",
    "startDate=2024-10-01T00:00:00Z&endDate=2026-03-31T23:59:59.999Z&status=cancelled",
];

pub async fn measure(scale: &Scale) -> Vec<Line> {
    // The folders go last, after whoever holds the databases in them.
    let mut places = Vec::new();
    let (mut statistics, mut active, mut of_vendor) = (Vec::new(), Vec::new(), Vec::new());
    for size in scale.contract_sizes {
        let (place, call) = prepare(size).await;
        places.push(place);
        statistics.push(counting(&call, size).await);
        active.push(listing("", &call, size, None));
        of_vendor.push(listing(" of a vendor", &call, size, Some(Vendor::CloudB)));
    }
    let all = statistics.iter_mut().chain(&mut active).chain(&mut of_vendor);
    sizes::read(all, scale.readings).await;
    let kinds = [
        ("contract statistics", &statistics),
        ("filtered page", &active),
        ("filtered page, two conditions", &of_vendor),
    ];
    kinds.into_iter().flat_map(|(what, cases)| sizes::lines(what, cases, MOST)).collect()
}

async fn prepare(size: usize) -> (Place, Call) {
    let began = Instant::now();
    let (place, organization) = contract_fill::filled(size).await;
    eprintln!("  {size} entitlements and their counts inserted in {:.1} s", began.elapsed().as_secs_f64());
    let call = Call::new(place.store_at(Clock::manual()).await, Caller::Operator { organization }, None);
    (place, call)
}

/// All questions in turn. Their answers are what counting one by one says.
async fn counting(call: &Call, size: usize) -> Case {
    let questions: Arc<[ContractQuery]> = QUESTIONS.iter().map(|query| ContractQuery::from_query(query)).collect();
    let everything: Vec<Contract> = contracts(size).collect();
    for (question, query) in QUESTIONS.iter().zip(&*questions) {
        let answer = analytics::contracts(call, query.clone()).await.expect("the question is valid");
        assert_eq!(answer, one_by_one(&everything, query), "{question} at {size}");
        assert!(answer.total_contracts > 0, "{question} at {size} asks for nothing");
    }
    let call = call.clone();
    Case::new(format!("{} questions in turn at {size} entitlements", QUESTIONS.len()), move || {
        let (call, questions) = (call.clone(), Arc::clone(&questions));
        async move {
            let began = Instant::now();
            for query in &*questions {
                black_box(analytics::contracts(&call, query.clone()).await.expect("the question is valid"));
            }
            began.elapsed()
        }
    })
}

fn one_by_one(contracts: &[Contract], query: &ContractQuery) -> ContractStatistics {
    let (now, month) = (now(), TimeDelta::days(30));
    let asked = |contract: &&Contract| {
        query.vendor.is_none_or(|vendor| vendor == contract.vendor)
            && query.status.is_none_or(|status| status == ContractStatus::of(contract.status))
    };
    let overlaps = |contract: &Contract| {
        query.end.is_none_or(|end| contract.start <= end)
            && query.start.is_none_or(|start| contract.end.is_none_or(|ends| ends >= start))
    };
    let (from, to) = match (query.start, query.end) {
        (None, None) => (Some(now.plus(-month)), Some(now)),
        range => range,
    };
    let begins = |contract: &Contract| {
        from.is_none_or(|from| contract.start >= from) && to.is_none_or(|to| contract.start <= to)
    };
    let horizon = query.end.filter(|end| *end > now).unwrap_or_else(|| now.plus(month));
    let expires = |contract: &Contract| {
        ContractStatus::of(contract.status) == ContractStatus::Active
            && contract.end.is_some_and(|end| end > now && end <= horizon)
    };
    let count = |condition: &dyn Fn(&Contract) -> bool| {
        contracts.iter().filter(asked).filter(|contract| condition(contract)).count() as u64
    };
    ContractStatistics {
        new_contracts: count(&begins),
        total_contracts: count(&overlaps),
        expiring_contracts: count(&expires),
    }
}

/// The first page of the active entitlements, perhaps of one vendor only.
fn listing(kind: &str, call: &Call, size: usize, vendor: Option<Vendor>) -> Case {
    let filter = Filter { status: Some(EntitlementStatus::Active.as_str()), vendor, ..Filter::default() };
    let page = PageRequest::from_query(&format!("limit={PAGE}"));
    let (call, query) = (call.clone(), ListQuery { filter, ..ListQuery::from(page) });
    Case::new(format!("{PAGE} active ones{kind} at {size} entitlements"), move || {
        let (call, query) = (call.clone(), query.clone());
        async move {
            let began = Instant::now();
            let page = entitlements::list(&call, query).await.expect("the page is there");
            let took = began.elapsed();
            assert_eq!(page.items.len(), PAGE);
            assert!(page.items.iter().all(|item| item.status == EntitlementStatus::Active));
            assert!(page.items.iter().all(|item| vendor.is_none_or(|vendor| vendor == item.vendor)));
            took
        }
    })
}
