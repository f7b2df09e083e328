//! Databases with very many entitlements of two years, and the trees that count them.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use mercato::clock::{Clock, MANUAL_START};
use mercato::model::decimal::Decimal;
use mercato::model::entitlement::{Dimension, Entitlement, EntitlementStatus};
use mercato::model::id::{CustomerId, EntitlementId, OrganizationId};
use mercato::model::lifecycle::Memo;
use mercato::model::tally::{self, Node, Place as NodePlace};
use mercato::model::time::Timestamp;
use mercato::model::vendor::Vendor;
use surrealdb::types::{Bytes, SurrealValue};
use ulid::Ulid;

use crate::fill::{self, insert};
use crate::place::Place;
use crate::rows::{self, object, own, record};

const DAY: u64 = 86_400_000;
const TWO_YEARS: u64 = 730 * DAY;
/// Days.
const LENGTHS: [u64; 4] = [30, 90, 180, 365];
const LISTINGS: [&str; 3] = ["lst_analytics", "lst_gateway", "lst_vault"];

/// The moment at which the clock of these databases stands: two years after the first contract was made.
pub fn now() -> Timestamp {
    Timestamp::from_millis(MANUAL_START)
}

/// What counting asks of an entitlement.
#[derive(Clone, Copy)]
pub struct Contract {
    number: usize,
    created: u64,
    pub vendor: Vendor,
    pub status: EntitlementStatus,
    pub start: Timestamp,
    pub end: Option<Timestamp>,
}

/// So many contracts, made evenly over two years; the last is the newest.
pub fn contracts(count: usize) -> impl Iterator<Item = Contract> {
    (0..count).map(move |number| Contract::new(number, count))
}

impl Contract {
    fn new(number: usize, count: usize) -> Self {
        let created = MANUAL_START.unsigned_abs() - TWO_YEARS + number as u64 * (TWO_YEARS / count as u64);
        let start = created + draw(number, 1, 20 * DAY);
        let days = LENGTHS[usize::try_from(draw(number, 2, 4)).unwrap_or_default()];
        let end = (draw(number, 3, 7) > 0).then(|| start + days * DAY + draw(number, 4, DAY));
        let (start, end) = (moment(start), end.map(moment));
        Self {
            number,
            created,
            vendor: if draw(number, 5, 5) < 3 { Vendor::CloudA } else { Vendor::CloudB },
            status: status(start, end, draw(number, 6, 10)),
            start,
            end,
        }
    }

    fn entitlement(&self, organization_id: OrganizationId) -> Entitlement {
        let number = self.number;
        let id = EntitlementId(Ulid::from_parts(self.created, fill::chance(number)));
        let seats = Decimal::from(5 + draw(number, 7, 120).cast_signed());
        Entitlement {
            id,
            organization_id,
            customer_id: CustomerId(fill::ulid(number / 3)),
            listing_id: LISTINGS[number % LISTINGS.len()].to_owned(),
            vendor: self.vendor,
            status: self.status,
            start_date: self.start,
            end_date: self.end,
            dimensions: vec![Dimension { key: "seats".to_owned(), value: seats, description: None }],
            plan_id: Some("team".to_owned()),
            private_offer_id: None,
            agreement_id: Some(format!("agr-{number:07}")),
            vendor_subscription_id: None,
            auto_renew: Some(number.is_multiple_of(2)),
            created_at: id.created_at(),
            updated_at: id.created_at(),
        }
    }

    /// A contract that was cancelled was so some days after it began, or just now.
    fn memo(&self) -> Memo {
        let days = TimeDelta::days(draw(self.number, 8, 25).cast_signed());
        Memo {
            for_activation: false,
            suspended_at: (self.status == EntitlementStatus::Suspended).then(|| now().plus(-days)),
            ended_at: match self.status {
                EntitlementStatus::Expired => self.end,
                EntitlementStatus::Cancelled => Some(self.start.plus(days).min(now())),
                _ => None,
            },
        }
    }
}

/// What time makes of a contract, unless it was cancelled or is suspended.
fn status(start: Timestamp, end: Option<Timestamp>, chance: u64) -> EntitlementStatus {
    match chance {
        _ if start > now() => EntitlementStatus::Pending,
        0 | 1 => EntitlementStatus::Cancelled,
        _ if end.is_some_and(|end| end <= now()) => EntitlementStatus::Expired,
        2 => EntitlementStatus::Suspended,
        _ => EntitlementStatus::Active,
    }
}

fn moment(millisecond: u64) -> Timestamp {
    Timestamp::from_millis(millisecond.cast_signed())
}

/// An even draw below `below`: one for each number and purpose, the same every time.
fn draw(number: usize, purpose: u64, below: u64) -> u64 {
    let seed = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ purpose.wrapping_mul(0xD1B5_4A32_D192_ED03);
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ (mixed >> 31)) % below
}

/// A database of one organization with so many entitlements, and their counts. Histories, customers and events are left
/// out: neither lists nor statistics read them.
pub async fn filled(count: usize) -> (Place, OrganizationId) {
    let place = Place::new();
    let store = place.store_at(Clock::manual()).await;
    let organization = store.create_organization("Bench").await.expect("an organization can be made");
    insert(&store, "entitlement", count, move |number| {
        let contract = Contract::new(number, count);
        let entitlement = contract.entitlement(organization);
        let mut row = rows::entitlement(&entitlement, contract.memo());
        row.insert("id".to_owned(), own("entitlement", organization, entitlement.id.0).into_value());
        row
    })
    .await;
    let nodes: Vec<(NodePlace, Node)> = nodes(count, organization).into_iter().collect();
    insert(&store, "tally", nodes.len(), move |number| {
        let (place, node) = &nodes[number];
        let (side, level) = (place.side.as_str().into_value(), place.level.into_value());
        let id = record("tally", [organization.to_string().into_value(), side, level, place.index.into_value()]);
        object([("id", id.into_value()), ("counts", Bytes::from(node.encode()).into_value())])
    })
    .await;
    (place, organization)
}

/// The trees that the service would have come to by opening and moving these contracts one by one.
fn nodes(count: usize, organization: OrganizationId) -> BTreeMap<NodePlace, Node> {
    let mut nodes: BTreeMap<NodePlace, Node> = BTreeMap::new();
    for contract in contracts(count) {
        let entries = tally::entries(&contract.entitlement(organization), contract.memo().ended_at);
        for (place, changes) in tally::steps(&BTreeSet::new(), &entries) {
            nodes.entry(place).or_default().add(&changes);
        }
    }
    nodes
}
