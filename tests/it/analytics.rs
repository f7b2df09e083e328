//! Contract statistics equal a brute-force count (`contract.md` §12).

use std::collections::BTreeMap;

use chrono::TimeDelta;
use mercato::model::analytics::{ContractQuery, Interval, SeriesQuery};
use mercato::model::entitlement::{Entitlement, EntitlementStatus, NewEntitlement};
use mercato::model::id::{CustomerId, EntitlementId, OrganizationId};
use mercato::model::lifecycle::{Step, Term};
use mercato::model::tally::{self, ContractStatus, Nodes};
use mercato::model::time::Timestamp;
use mercato::model::vendor::Vendor;
use mercato::resolvers::analytics;
use proptest::prelude::*;
use serde_json::json;
use ulid::Ulid;

use crate::harness::{Facade, TestApp};

const DAY: i64 = 86_400_000;
const NOW: i64 = 1_767_607_200_000;

/// A contract as the property needs it: offsets from now, in milliseconds.
#[derive(Clone, Debug)]
struct Plain {
    vendor: Vendor,
    status: EntitlementStatus,
    start: i64,
    end: Option<i64>,
}

fn contract(plain: &Plain) -> Entitlement {
    let now = Timestamp::from_millis(NOW);
    Entitlement {
        id: EntitlementId(Ulid::nil()),
        organization_id: OrganizationId(Ulid::nil()),
        customer_id: CustomerId(Ulid::nil()),
        listing_id: "lst".to_owned(),
        vendor: plain.vendor,
        status: plain.status,
        start_date: Timestamp::from_millis(NOW + plain.start),
        end_date: plain.end.map(|end| Timestamp::from_millis(NOW + end)),
        dimensions: Vec::new(),
        plan_id: None,
        private_offer_id: None,
        agreement_id: None,
        vendor_subscription_id: None,
        auto_renew: None,
        created_at: now,
        updated_at: now,
    }
}

/// Near now to the millisecond, or anywhere in three years: boundaries have to be met exactly.
fn moment() -> impl Strategy<Value = i64> {
    prop_oneof![-3_i64..3, (-30 * DAY - 2)..(-30 * DAY + 2), (30 * DAY - 2)..(30 * DAY + 2), -500 * DAY..500 * DAY]
}

fn plain() -> impl Strategy<Value = Plain> {
    let end = prop_oneof![Just(None), (1_i64..400 * DAY).prop_map(Some), (1_i64..4).prop_map(Some)];
    let vendor = prop::sample::select(Vendor::ALL.to_vec());
    let status = prop::sample::select(EntitlementStatus::ALL.to_vec());
    (vendor, status, moment(), end).prop_map(|(vendor, status, start, length)| Plain {
        vendor,
        status,
        start,
        end: length.map(|length| start + length),
    })
}

fn query() -> impl Strategy<Value = ContractQuery> {
    let bound = || prop::option::of(moment().prop_map(|at| Timestamp::from_millis(NOW + at)));
    let vendor = prop::option::of(prop::sample::select(Vendor::ALL.to_vec()));
    let status = prop::option::of(prop::sample::select(ContractStatus::ALL.to_vec()));
    (bound(), bound(), vendor, status).prop_map(|(one, other, vendor, status)| {
        let (start, end) = match (one, other) {
            (Some(one), Some(other)) => (Some(one.min(other)), Some(one.max(other))),
            bounds => bounds,
        };
        ContractQuery { start, end, vendor, status, ..ContractQuery::default() }
    })
}

/// Counts as the contract says it, one by one: total, new, expiring.
fn brute_force(contracts: &[Entitlement], query: &ContractQuery) -> (u64, u64, u64) {
    let now = Timestamp::from_millis(NOW);
    let month = TimeDelta::days(30);
    let (start, end) = (query.start, query.end);
    let wanted = |contract: &&Entitlement| {
        query.vendor.is_none_or(|vendor| vendor == contract.vendor)
            && query.status.is_none_or(|status| status == ContractStatus::of(contract.status))
    };
    let contracts: Vec<&Entitlement> = contracts.iter().filter(wanted).collect();
    let overlaps = |contract: &&&Entitlement| {
        end.is_none_or(|end| contract.start_date <= end)
            && start.is_none_or(|start| contract.end_date.is_none_or(|ends| ends >= start))
    };
    let (from, to) = if start.is_none() && end.is_none() { (Some(now.plus(-month)), Some(now)) } else { (start, end) };
    let new = |contract: &&&Entitlement| {
        from.is_none_or(|from| contract.start_date >= from) && to.is_none_or(|to| contract.start_date <= to)
    };
    let horizon = end.filter(|end| *end > now).unwrap_or_else(|| now.plus(month));
    let expiring = |contract: &&&Entitlement| {
        ContractStatus::of(contract.status) == ContractStatus::Active
            && contract.end_date.is_some_and(|ends| ends > now && ends <= horizon)
    };
    let count = |condition: &dyn Fn(&&&Entitlement) -> bool| contracts.iter().filter(condition).count() as u64;
    (count(&overlaps), count(&|contract| overlaps(contract) && new(contract)), count(&expiring))
}

fn apply(nodes: &mut Nodes, before: Option<&Entitlement>, after: &Entitlement) {
    let entries = |contract: &Entitlement| tally::entries(contract, None);
    let steps = tally::steps(&before.map(entries).unwrap_or_default(), &entries(after));
    for (place, changes) in steps {
        nodes.0.entry(place).or_default().add(&changes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Hundreds of contracts, each created and then changed: counting by the trees and one by one agree, always.
    #[test]
    fn counting_by_trees_is_counting(
        plains in prop::collection::vec((plain(), plain()), 0..200),
        queries in prop::collection::vec(query(), 20),
    ) {
        let mut nodes = Nodes(BTreeMap::new());
        let mut contracts = Vec::new();
        for (before, after) in &plains {
            let (before, after) = (contract(before), contract(after));
            apply(&mut nodes, None, &before);
            apply(&mut nodes, Some(&before), &after);
            contracts.push(after);
        }
        for node in nodes.0.values() {
            prop_assert_eq!(tally::Node::decode(&node.encode()), Some(node.clone()));
        }
        for query in queries {
            let counted = query.count(Timestamp::from_millis(NOW), &nodes);
            let counted = (counted.total_contracts, counted.new_contracts, counted.expiring_contracts);
            prop_assert_eq!(counted, brute_force(&contracts, &query), "{:?}", query);
        }
    }
}

/// The same through the service: thousands of steps of many contracts, and months that pass.
#[tokio::test(flavor = "multi_thread")]
async fn the_service_counts_what_happened() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let organization = party.organization();
    let a = CustomerId::parse(party.customer("1").await["id"].as_str().expect("an id")).expect("an id");
    let b = json!({ "vendor": "cloud_b", "tenantId": "t-1", "companyName": "B" });
    let b =
        party.post("/api/v1/customers", &b).await.created()["id"].as_str().and_then(CustomerId::parse).expect("an id");
    let mut made = Vec::new();
    for number in 0..60_i64 {
        let now = app.clock.now();
        let new = NewEntitlement {
            start_date: Some(now.plus(TimeDelta::hours(number % 7 * 30 - 60))),
            end_date: (number % 5 != 0).then(|| now.plus(TimeDelta::days(10 + number % 11 * 9))),
            ..NewEntitlement::of(if number % 3 == 0 { b } else { a }, "lst_1")
        };
        made.push(app.entitlement(organization, new).await);
        app.advance(TimeDelta::hours(29));
        app.tick().await;
        let tenant = app.tenant(organization);
        let chosen = &made[usize::try_from(number * 7 % (number + 1)).unwrap_or_default()];
        let now = app.clock.now();
        let step = match number % 4 {
            0 => Step::Cancel,
            1 => Step::Suspend,
            2 => Step::Reinstate,
            _ => Step::Renew(Term { start: None, end: Some(now.plus(TimeDelta::days(20))) }),
        };
        // Whether it applies or not, the counts follow what is there.
        let _outcome: Result<_, _> = mercato::resolvers::entitlements::advance(&tenant, chosen.id, step).await;
    }
    let bodies = app.rows("SELECT VALUE body FROM entitlement").await;
    let parse = |body: &serde_json::Value| serde_json::from_str(body.as_str().unwrap_or_default()).expect("a record");
    let contracts: Vec<Entitlement> = bodies.iter().map(parse).collect();
    let statuses = |status: EntitlementStatus| contracts.iter().filter(|one| one.status == status).count();
    assert!(EntitlementStatus::ALL.iter().all(|status| statuses(*status) > 0), "all states occur");
    let operator = app.operator(organization);
    let shift = app.clock.now().as_millis() - NOW;
    for vendor in [None, Some(Vendor::CloudA), Some(Vendor::CloudB)] {
        for status in
            [None, Some(ContractStatus::Active), Some(ContractStatus::Expired), Some(ContractStatus::Cancelled)]
        {
            for days in [0, 10, 45] {
                let bound = |days: i64| app.clock.now().plus(TimeDelta::days(days));
                let (start, end) = if days == 0 { (None, None) } else { (Some(bound(-days)), Some(bound(days / 2))) };
                let query = ContractQuery { start, end, vendor, status, ..ContractQuery::default() };
                let counted = analytics::contracts(&operator, query.clone()).await.expect("statistics");
                let shifted = |at: Timestamp| at.plus(TimeDelta::milliseconds(-shift));
                let query = ContractQuery { start: start.map(shifted), end: end.map(shifted), ..query };
                let moved: Vec<Entitlement> = contracts
                    .iter()
                    .map(|contract| Entitlement {
                        start_date: shifted(contract.start_date),
                        end_date: contract.end_date.map(shifted),
                        ..contract.clone()
                    })
                    .collect();
                let counted = (counted.total_contracts, counted.new_contracts, counted.expiring_contracts);
                assert_eq!(counted, brute_force(&moved, &query), "{query:?}");
            }
        }
    }
    let (start, end) = (app.clock.now().plus(TimeDelta::days(-200)), app.clock.now());
    let series = SeriesQuery { start, end, interval: Interval::Month, vendor: None };
    let points = analytics::series(&operator, series).await.expect("a series");
    let ended: u64 = points.iter().map(|point| point.ended_contracts).sum();
    let finals = statuses(EntitlementStatus::Expired) + statuses(EntitlementStatus::Cancelled);
    assert_eq!(ended, finals as u64);
}

/// Both doors, the refusals, and the placeholder word for word.
#[tokio::test(flavor = "multi_thread")]
async fn both_doors_count_alike() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let customer = CustomerId::parse(party.customer("1").await["id"].as_str().expect("an id")).expect("an id");
    app.entitlement(party.organization(), NewEntitlement::of(customer, "lst_1")).await;
    let range = [("startDate", "2026-01-01T00:00:00Z"), ("endDate", "2026-02-01T00:00:00Z"), ("vendor", "cloud_a")];
    let backwards = [("startDate", "2026-02-01T00:00:00Z"), ("endDate", "2026-01-01T00:00:00Z")];
    for arguments in [&[][..], &range, &backwards, &[("status", "expired")]] {
        let (rest, graphql) =
            (Facade::Rest.statistics(&party, arguments).await, Facade::Graphql.statistics(&party, arguments).await);
        assert_eq!(rest, graphql, "{arguments:?}");
    }
    assert_eq!(
        Facade::Rest.statistics(&party, &range).await["ok"],
        json!({ "newContracts": 1, "totalContracts": 1, "expiringContracts": 0 })
    );
    let path = "/api/v1/analytics/contracts";
    for query in
        ["startDate=2026", "endDate=5", "vendor=aws", "status=pending", "limit=5", "vendor=cloud_a&vendor=cloud_a"]
    {
        party.get(&format!("{path}?{query}")).await.refused(400, "INVALID_PARAMS");
    }
    party.get(&format!("{path}?startDate=2026-01-01T00:00:00%2B01:00")).await.refused(422, "INVALID_PARAMS");
    let revenue = party.get("/api/v1/analytics/revenue").await;
    assert_eq!(revenue.json(), json!({ "message": "Revenue analytics is reserved; no revenue data is returned" }));
}
