//! Compares the usage that a marketplace has accepted with our reports of the last days. The marketplace tells it by
//! subscription, dimension and day, so that is how it is added up: for each customer, whatever the subscription.

use std::collections::{BTreeMap, HashMap};

use chrono::{Days, NaiveDate, NaiveTime, TimeDelta};

use super::adapter::Adapter;
use super::converge::{Outcome, Trouble};
use super::http::MarketplaceError;
use super::terms::{AcceptedUsage, RowVerdict};
use crate::error::{Error, Result};
use crate::model::decimal::Decimal;
use crate::model::difference::{Difference, DifferenceKind};
use crate::model::filter::{Filter, Order, Range};
use crate::model::id::MeteringId;
use crate::model::metering::{AHEAD, MeteringStatus, MeteringSubmission, Verdict};
use crate::model::page::Window;
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::metering;
use crate::store::Tenant;

/// Whole days before today that are compared: usage of all of them can be reported no more, or is about to be.
const DAYS: u64 = 2;
/// How long a marketplace may need until it shows what it has confirmed.
const SHOWN: TimeDelta = TimeDelta::hours(1);
/// Reports that are read at once, and pages of them: beyond it nothing is compared.
const PAGE: usize = 500;
const PAGES: usize = 200;

/// Whose usage (a customer; a subscription that nobody knows), of what, when.
type Place = (String, String, NaiveDate);

/// What is known of a place.
#[derive(Default)]
struct Sums {
    /// What the marketplace has accepted.
    there: Decimal,
    /// What is confirmed here, and when the last of it was.
    here: Decimal,
    confirmed_at: Option<Timestamp>,
    /// Rows without a last word.
    open: Vec<(MeteringId, usize, Decimal)>,
    /// Whether there is a row that failed here: the marketplace may have that one.
    has_failed: bool,
}

/// What came of a place.
enum Finding {
    /// These open rows were accepted.
    Accepted(Vec<(MeteringId, usize)>),
    /// Something that only a person can settle.
    Unclear(&'static str),
}

/// The differences of an account. One that can be adopted is about a report.
pub async fn compare(tenant: &Tenant, adapter: &Adapter) -> Result<Vec<Difference>> {
    let now = tenant.clock().now();
    let found = |id, what| Difference::new(adapter.vendor(), DifferenceKind::Usage, id, what, now);
    let mut accepted: BTreeMap<MeteringId, Vec<String>> = BTreeMap::new();
    let mut unclear = Vec::new();
    for ((whose, dimension, day), sums) in gather(tenant, adapter, now).await? {
        match sums.judge(now) {
            None => {}
            Some(Finding::Accepted(rows)) => {
                for (report, _) in rows {
                    accepted.entry(report).or_default().push(format!("{dimension} on {day}"));
                }
            }
            Some(Finding::Unclear(advice)) => {
                let (there, here) = (sums.there, sums.here);
                let what =
                    format!("{dimension} of {whose} on {day}: {there} accepted there, {here} confirmed here; {advice}");
                unclear.push(found(format!("{whose}/{dimension}/{day}"), what).for_a_person());
            }
        }
    }
    let ours = accepted.into_iter().map(|(report, rows)| {
        found(report.to_string(), format!("not confirmed here, accepted by the marketplace: {}", rows.join(", ")))
    });
    Ok(ours.chain(unclear).collect())
}

/// Confirms the rows of a report that the marketplace has accepted. The others go on waiting.
pub async fn adopt(tenant: &Tenant, adapter: &Adapter, report: &str) -> Result<Outcome, Trouble> {
    let id = MeteringId::parse(report).ok_or_else(|| Trouble::Never("it names no report".to_owned()))?;
    let now = tenant.clock().now();
    let mut rows = Vec::new();
    for sums in gather(tenant, adapter, now).await?.into_values() {
        if let Some(Finding::Accepted(found)) = sums.judge(now) {
            rows.extend(found.into_iter().filter(|(report, _)| *report == id).map(|(_, row)| row));
        }
    }
    if rows.is_empty() {
        return Ok(Outcome::Ignored("nothing of it waits that the marketplace has accepted".to_owned()));
    }
    let report = metering::submit_to_vendor(tenant, id).await?;
    let verdict = |row: usize| -> RowVerdict {
        if rows.contains(&row) { (Verdict::Confirmed, None) } else { (Verdict::VendorError, None) }
    };
    let verdicts: Vec<RowVerdict> = (0..report.details.usage.len()).map(verdict).collect();
    metering::settle(tenant, id, &verdicts).await?;
    Ok(Outcome::Applied(format!("{} rows of {id} confirmed", rows.len())))
}

impl Sums {
    fn judge(&self, now: Timestamp) -> Option<Finding> {
        if self.there < self.here {
            // What was confirmed a moment ago may not be shown yet.
            let is_fresh = self.confirmed_at.is_some_and(|at| now < at.plus(SHOWN));
            return (!is_fresh)
                .then_some(Finding::Unclear("it has less than it confirmed: have the marketplace look into it"));
        }
        let more = self.there - self.here;
        if more == Decimal::ZERO {
            return None;
        }
        let all = self.open.iter().fold(Decimal::ZERO, |sum, (_, _, quantity)| sum + *quantity);
        // Anything less certain could confirm a row that the marketplace never had, which would never be billed.
        if all == more && !self.has_failed {
            return Some(Finding::Accepted(self.open.iter().map(|(report, row, _)| (*report, *row)).collect()));
        }
        Some(Finding::Unclear(if self.open.is_empty() {
            "it was reported elsewhere, or in a report that has failed here: do not report it again"
        } else {
            "it cannot be told which of the waiting rows it has: they are sent again"
        }))
    }
}

/// Our rows first: what is confirmed meanwhile is seen as open and accepted, and adopting that does no harm.
async fn gather(tenant: &Tenant, adapter: &Adapter, now: Timestamp) -> Result<BTreeMap<Place, Sums>> {
    let first = now.as_datetime().date_naive() - Days::new(DAYS);
    let since = Timestamp::from_datetime(first.and_time(NaiveTime::MIN).and_utc());
    let mut sums = ours(tenant, adapter.vendor(), since).await?;
    let theirs = adapter.accepted_usage(since).await.map_err(MarketplaceError::unavailable)?;
    let Some(theirs) = theirs else { return Ok(BTreeMap::new()) };
    let mut owners: HashMap<String, String> = HashMap::new();
    for AcceptedUsage { day, subscription, dimension, quantity, .. } in theirs {
        let Some(day) = day.map(|day| day.as_datetime().date_naive()).filter(|day| *day >= first) else { continue };
        if !owners.contains_key(&subscription) {
            let known = tenant.entitlements_at(adapter.vendor(), &subscription).await?.into_iter().next();
            let owner = known.map_or_else(|| subscription.clone(), |known| known.customer_id.to_string());
            owners.insert(subscription.clone(), owner);
        }
        let owner = owners.get(&subscription).cloned().unwrap_or(subscription);
        let place = sums.entry((owner, dimension, day)).or_default();
        place.there = place.there + quantity;
    }
    Ok(sums)
}

/// The rows of our reports, from the beginning of a day.
async fn ours(tenant: &Tenant, vendor: Vendor, since: Timestamp) -> Result<BTreeMap<Place, Sums>> {
    // A row may be a little ahead of its report, and a day behind it.
    let created = Range { from: Some(since.plus(-AHEAD)), to: None };
    let filter = Filter { vendor: Some(vendor), created, ..Filter::default() };
    let mut sums = BTreeMap::new();
    let mut after = None;
    for _ in 0..PAGES {
        let page = tenant.list_metering(&filter, Order::Newest, Window { limit: PAGE, after }).await?;
        page.items.iter().for_each(|report| add(&mut sums, report, since));
        after = page.positions.last().cloned();
        if !page.has_more {
            return Ok(sums);
        }
    }
    Err(Error::Unavailable(format!("there are more than {} reports to compare", PAGE * PAGES)))
}

fn add(sums: &mut BTreeMap<Place, Sums>, report: &MeteringSubmission, since: Timestamp) {
    let is_open = matches!(report.status, MeteringStatus::Accepted | MeteringStatus::Submitted);
    for (index, row) in report.details.usage.iter().enumerate().filter(|(_, row)| row.start_time >= since) {
        let whose = report.details.customer.id.to_string();
        let place = (whose, row.dimension.clone(), row.start_time.as_datetime().date_naive());
        let sums: &mut Sums = sums.entry(place).or_default();
        match row.verdict {
            Some(Verdict::Confirmed) => {
                sums.here = sums.here + row.billed_quantity;
                sums.confirmed_at = sums.confirmed_at.max(Some(report.updated_at));
            }
            None | Some(Verdict::VendorError) if is_open => sums.open.push((report.id, index, row.billed_quantity)),
            _ => sums.has_failed = true,
        }
    }
}
