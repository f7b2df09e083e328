//! The sample organization: made once, through the resolvers that every caller uses, and what its records look like.
//! When each of them came about is in [`super::history`].

use chrono::TimeDelta;

use super::history;
use crate::call::{Call, Caller};
use crate::error::Result;
use crate::model::application::{ApplicationInput, ApplicationWithSecret, RateLimits};
use crate::model::customer::NewCustomer;
use crate::model::decimal::Decimal;
use crate::model::entitlement::{Dimension, NewEntitlement};
use crate::model::id::{CustomerId, OrganizationId};
use crate::model::metering::{NewMetering, NewUsageRow, Verdict};
use crate::model::offer::{Acceptance, Buyer, OfferType, Published};
use crate::model::offer_input::NewOffer;
use crate::model::offer_terms::Terms;
use crate::model::page::PageRequest;
use crate::model::scope::Scope;
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::{applications, customers};
use crate::store::Store;

/// What the demo prints.
pub struct Credentials {
    pub organization: OrganizationId,
    /// All scopes, the documented limits.
    pub client: ApplicationWithSecret,
    /// All scopes, no limits.
    pub load_client: ApplicationWithSecret,
}

/// A contract that began at a marketplace without an offer.
#[derive(Clone, Copy)]
pub(super) struct Contract {
    pub number: usize,
    pub customer: usize,
    /// None: when it is made.
    pub start: Option<Timestamp>,
    pub end: Option<Timestamp>,
    pub awaits_activation: bool,
    pub renews: bool,
}

/// A private offer. `round` counts the replacements of the agreement that came of the first.
#[derive(Clone, Copy)]
pub(super) struct Deal {
    pub number: usize,
    pub round: usize,
    pub customer: usize,
    pub expires_at: Option<Timestamp>,
}

/// A usage report.
#[derive(Clone, Copy)]
pub(super) struct Report {
    pub number: usize,
    pub customer: usize,
    pub contract: usize,
}

const ORGANIZATION: &str = "Aurora Software";
const CLIENT: &str = "Sample integration";
const LOAD_CLIENT: &str = "Load test";

/// Makes the organization, or finds it, and gives its two applications fresh secrets. On a rehearsing clock a new one
/// gets a year of history, and the clock is live after it; on any other it gets customers only.
pub async fn fill(store: &Store, wanted: usize, progress: impl Fn(&str)) -> Result<Credentials> {
    let found = store.find_organization(ORGANIZATION).await?;
    let organization = match found {
        Some(organization) => organization,
        None => make(store, wanted, &progress).await?,
    };
    store.clock().go_live();
    let call = operator(store, organization);
    // The applications come last, so an organization without any is one whose first run was interrupted.
    if found.is_some() && applications::list(&call, PageRequest::from_query("limit=1")).await?.items.is_empty() {
        progress("The first run did not come to its end: the sample is incomplete until its folder is deleted.");
    }
    let client = credentials(&call, CLIENT, RateLimits::DOCUMENTED).await?;
    let load_client = credentials(&call, LOAD_CLIENT, RateLimits::UNLIMITED).await?;
    Ok(Credentials { organization, client, load_client })
}

async fn make(store: &Store, wanted: usize, progress: impl Fn(&str)) -> Result<OrganizationId> {
    let organization = store.create_organization(ORGANIZATION).await?;
    let call = operator(store, organization);
    if store.clock().is_rehearsing() {
        progress(&format!("Filling {ORGANIZATION} with {wanted} customers and a year of history …"));
        history::play(store, &call, wanted, progress).await?;
    } else {
        for index in 0..wanted {
            customers::create(&call, customer(index)).await?;
        }
    }
    Ok(organization)
}

fn operator(store: &Store, organization: OrganizationId) -> Call {
    Call::new(store.clone(), Caller::Operator { organization }, None)
}

async fn credentials(call: &Call, name: &str, limits: RateLimits) -> Result<ApplicationWithSecret> {
    let existing = applications::list(call, PageRequest::from_query("limit=100")).await?;
    if let Some(application) = existing.items.iter().find(|application| application.name == name) {
        return applications::regenerate_secret(call, &application.id.to_string()).await;
    }
    let input = ApplicationInput {
        name: Some(name.to_owned()),
        scopes: Some(Scope::ALL.to_vec()),
        ..ApplicationInput::default()
    };
    applications::create_with_limits(call, input, limits).await
}

const FIRST: [&str; 20] = [
    "Northwind",
    "Blue Harbor",
    "Summit",
    "Cedar",
    "Lakeside",
    "Ironwood",
    "Silverline",
    "Redwood",
    "Granite",
    "Maple",
    "Coastal",
    "Prairie",
    "Falcon",
    "Beacon",
    "Juniper",
    "Sterling",
    "Willow",
    "Orchard",
    "Tidewater",
    "Highland",
];
const SECOND: [&str; 12] = [
    "Analytics",
    "Logistics",
    "Health",
    "Foods",
    "Robotics",
    "Energy",
    "Media",
    "Insurance",
    "Textiles",
    "Mobility",
    "Security",
    "Education",
];
const FORM: [&str; 4] = ["Inc", "GmbH", "Ltd", "SA"];
const LISTINGS: [&str; 3] = ["lst_analytics", "lst_gateway", "lst_vault"];
const PLANS: [&str; 4] = ["starter", "team", "business", "enterprise"];
/// Months of the offers that are accepted, in turn; 12 for all others.
const MONTHS: [u32; 9] = [24, 12, 12, 36, 12, 6, 12, 3, 12];

/// The two names of a company: every pair once before any comes back.
fn names(index: usize) -> (&'static str, &'static str) {
    (FIRST[index % FIRST.len()], SECOND[(index / FIRST.len() + index) % SECOND.len()])
}

fn company(index: usize) -> String {
    let (first, second) = names(index);
    format!("{first} {second} {}", FORM[index % FORM.len()])
}

fn address(mailbox: &str, index: usize) -> String {
    let (first, second) = names(index);
    let host = format!("{first}-{second}.example").to_ascii_lowercase().replace(' ', "-");
    format!("{mailbox}@{host}")
}

fn vendor(index: usize) -> Vendor {
    if index % 5 < 3 { Vendor::CloudA } else { Vendor::CloudB }
}

fn listing(number: usize) -> String {
    LISTINGS[number % LISTINGS.len()].to_owned()
}

fn whole(number: usize) -> Decimal {
    Decimal::from(number.cast_signed() as i64)
}

/// The plan of a contract, or one of the next.
pub(super) fn plan(number: usize) -> String {
    PLANS[number % PLANS.len()].to_owned()
}

/// The seats of a contract after it grew so many times.
pub(super) fn seats(number: usize, growth: usize) -> Dimension {
    let value = whole(5 + number * 7 % 120 + growth * 10);
    Dimension { key: "seats".to_owned(), value, description: Some("Named users".to_owned()) }
}

pub(super) fn customer(index: usize) -> NewCustomer {
    let mailbox = ["procurement", "billing", "it", "cloud"][index % 4];
    let account = format!("{:012}", 104_729_u64.wrapping_mul(index as u64 + 7919) % 1_000_000_000_000);
    let tenant = format!("{:08x}-5c1e-4b7a-9d20-{:012x}", index * 7919 + 41, index * 104_729 + 977);
    let (cloud_account_id, tenant_id) = match vendor(index) {
        Vendor::CloudA => (Some(account), None),
        Vendor::CloudB => (None, Some(tenant)),
    };
    NewCustomer {
        vendor: Some(vendor(index)),
        company_name: Some(company(index)),
        email: (index % 9 != 8).then(|| address(mailbox, index)),
        cloud_account_id,
        tenant_id,
        ..NewCustomer::default()
    }
}

pub(super) fn entitlement(contract: &Contract, customer: CustomerId) -> NewEntitlement {
    let Contract { number, start, end, .. } = *contract;
    let on_a = vendor(contract.customer) == Vendor::CloudA;
    NewEntitlement {
        start_date: start,
        end_date: end,
        dimensions: vec![seats(number, 0)],
        plan_id: Some(plan(number)),
        agreement_id: on_a.then(|| format!("agr-{number:05}")),
        vendor_subscription_id: (!on_a).then(|| format!("sub-{number:05}")),
        auto_renew: Some(contract.renews),
        awaits_activation: contract.awaits_activation,
        ..NewEntitlement::of(customer, listing(number))
    }
}

/// The agreement that comes of a deal, and that its next round replaces.
fn agreement(number: usize, round: usize) -> String {
    format!("agr-p{number:05}-{round}")
}

pub(super) fn months(deal: &Deal) -> u32 {
    MONTHS.get(deal.number % 20).copied().unwrap_or(12)
}

pub(super) fn offer(deal: &Deal, customer: CustomerId) -> NewOffer {
    let Deal { number, round, .. } = *deal;
    let vendor = vendor(deal.customer);
    let offer_type = match number % 5 {
        0 if vendor == Vendor::CloudB => OfferType::MultiParty,
        1 if vendor == Vendor::CloudB => OfferType::Csp,
        _ => OfferType::Direct,
    };
    NewOffer {
        vendor: Some(vendor),
        listing_id: Some(listing(number)),
        customer_id: Some(customer.to_string()),
        terms: terms(deal, vendor),
        offer_type: Some(offer_type),
        is_replacement: Some(round > 0),
        agreement_id: round.checked_sub(1).map(|replaced| agreement(number, replaced)),
        expires_at: deal.expires_at,
        ..NewOffer::default()
    }
}

fn terms(deal: &Deal, vendor: Vendor) -> Terms {
    let number = deal.number;
    let amount = vendor == Vendor::CloudB && number.is_multiple_of(3);
    let buyer = Buyer {
        name: format!("Purchasing of {}", company(deal.customer)),
        email: address("purchasing", deal.customer),
    };
    Terms {
        buyer_notifications: Some(vec![buyer]),
        discount_percentage: (!amount).then(|| Some(whole(5 + number % 6 * 5))),
        discount_amount: amount.then(|| Some(whole(500 + number % 8 * 250))),
        duration: Some(i64::from(months(deal))),
        annual_value: Some(Some(whole(12_000 + number % 40 * 1_500))),
        currency: (number % 4 == 1).then(|| "EUR".to_owned()),
        ..Terms::default()
    }
}

pub(super) fn published(deal: &Deal, live: bool) -> Published {
    if live {
        Published::Live { vendor_offer_id: format!("offer-{:05}-{}", deal.number, deal.round) }
    } else {
        Published::Failed { message: "The listing is not available to the buyer's account".to_owned() }
    }
}

pub(super) fn acceptance(deal: &Deal, start: Option<Timestamp>) -> Acceptance {
    let Deal { number, round, .. } = *deal;
    Acceptance {
        agreement_id: Some(agreement(number, round)),
        vendor_subscription_id: (vendor(deal.customer) == Vendor::CloudB).then(|| format!("sub-p{number:05}")),
        plan_id: Some(plan(number + round)),
        dimensions: vec![seats(number, round)],
        start_date: start,
        ..Acceptance::default()
    }
}

/// Usage of the hour before, in tenths: one dimension or two.
pub(super) fn usage(report: &Report, customer: CustomerId, now: Timestamp) -> NewMetering {
    let row = |dimension: &str, tenths: usize| NewUsageRow {
        dimension: dimension.to_owned(),
        quantity: rust_decimal::Decimal::new(tenths.cast_signed() as i64, 1).into(),
        start_time: Some(now.plus(-TimeDelta::hours(1))),
    };
    let rows = [row("api_calls", 400 + report.number * 137 % 900), row("storage_gb", 25 + report.number * 31 % 400)];
    NewMetering {
        customer_id: Some(customer.to_string()),
        listing_id: Some(listing(report.contract)),
        usage: rows.into_iter().take(rows_of(report)).collect(),
        ..NewMetering::default()
    }
}

fn rows_of(report: &Report) -> usize {
    1 + report.number % 2
}

/// What the marketplace says of each row: two reports of nine have one that it refuses.
pub(super) fn verdicts(report: &Report) -> Vec<(Verdict, Option<String>)> {
    let first = match report.number % 9 {
        2 => (Verdict::InvalidDimension, Some("The listing has no such dimension".to_owned())),
        7 => (Verdict::NotSubscribed, Some("The customer has no subscription to the listing".to_owned())),
        _ => (Verdict::Confirmed, None),
    };
    let others = std::iter::repeat((Verdict::Confirmed, None));
    std::iter::once(first).chain(others).take(rows_of(report)).collect()
}
