//! Reports usage: takes reports that are due, sends their open rows together, and writes down the verdicts. A row is always
//! sent with the quantity that was taken in, so sending it again is harmless however the last attempt ended.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::adapter::Adapter;
use super::clerk::again;
use super::terms::{RowVerdict, UsageItem};
use crate::error::{Error, Result};
use crate::model::decimal::Decimal;
use crate::model::entitlement::Entitlement;
use crate::model::metering::{MeteringStatus, MeteringSubmission, UsageRow, Verdict};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::metering;
use crate::store::Tenant;
use crate::store::bought::Bought;
use crate::store::outbox::{Errand, Taken};

/// For all calls about one portion of usage: well within the lease.
const PATIENCE: Duration = Duration::from_secs(80);
/// Entitlements of a customer among which the one is looked for that usage belongs to.
const ENTITLEMENTS: usize = 100;

/// Whom usage was first sent for: it is sent for nobody else later.
#[derive(Clone, Serialize, Deserialize)]
struct Sent {
    product: String,
    buyer: String,
    plan: Option<String>,
    /// Notes of before have none.
    #[serde(default)]
    licence: Option<Licence>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Licence {
    arn: String,
    /// What was used before is not of this licence: a renewal has its own before it begins.
    since: Option<Timestamp>,
}

/// A report in hand.
struct Report {
    taken: Taken,
    submission: MeteringSubmission,
    /// What is known of each row without asking.
    verdicts: Vec<Option<RowVerdict>>,
}

pub(super) async fn report(tenant: &Tenant, adapter: &Adapter, usage: Vec<Taken>) -> Result<()> {
    let mut reports = Vec::new();
    // Whose row it is, and which.
    let mut places = Vec::new();
    let mut items = Vec::new();
    for taken in usage {
        let Some((report, open)) = prepare(tenant, taken).await? else { continue };
        for (row, item) in open {
            places.push((reports.len(), row));
            items.push(item);
        }
        reports.push(report);
    }
    // Every vendor takes them in portions; those that can be reported the shortest go first.
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|index| items[*index].at);
    let sorted = order.iter().map(|index| items[*index].clone()).collect();
    // Without an answer in time nothing is known; sending it again is harmless.
    let said = timeout(PATIENCE, adapter.report_usage(sorted)).await.unwrap_or_default();
    let verdicts = if items.is_empty() { Vec::new() } else { said };
    for (index, verdict) in order.into_iter().zip(verdicts) {
        let (report, row) = places[index];
        reports[report].verdicts[row] = Some(verdict);
    }
    for report in reports {
        settle(tenant, report).await?;
    }
    Ok(())
}

/// Without an account nothing is sent, and what can be reported no more says so.
pub(super) async fn expire(tenant: &Tenant, taken: Taken, later: Timestamp) -> Result<()> {
    let Errand::Usage(id) = taken.errand else { return Ok(()) };
    let end = tenant.get_metering(id).await?.urgent_by();
    if tenant.clock().now() < end {
        return tenant.keep_errand(&taken, Some(later.min(end)), 0, taken.note.clone()).await;
    }
    let Some((report, _)) = prepare(tenant, taken).await? else { return Ok(()) };
    let why = || Some((Verdict::VendorError, Some("no account is connected".to_owned())));
    let verdicts = report.submission.details.usage.iter().map(|_| why()).collect();
    settle(tenant, Report { verdicts, ..report }).await
}

/// What has to be sent of a report; none when there is nothing left to do with it.
async fn prepare(tenant: &Tenant, mut taken: Taken) -> Result<Option<(Report, Vec<(usize, UsageItem)>)>> {
    let Errand::Usage(id) = taken.errand else { return Ok(None) };
    let submission = match metering::submit_to_vendor(tenant, id).await {
        Err(Error::Refused(_)) => return tenant.end_errand(&taken).await.map(|()| None),
        submission => submission?,
    };
    if submission.status != MeteringStatus::Submitted {
        return tenant.end_errand(&taken).await.map(|()| None);
    }
    let mut verdicts: Vec<Option<RowVerdict>> = vec![None; submission.details.usage.len()];
    let rows = submission.open_rows(tenant.clock().now());
    let sent = match &taken.note {
        Some(note) => Ok(serde_json::from_str::<Sent>(note).map_err(Error::internal)?),
        None => receiver(tenant, &submission).await?,
    };
    let mut open = Vec::new();
    for index in rows {
        match sent.clone().and_then(|sent| item(&submission, &submission.details.usage[index], sent)) {
            Ok(item) => open.push((index, item)),
            Err(verdict) => verdicts[index] = Some(verdict),
        }
    }
    if let (Ok(sent), false, None) = (&sent, open.is_empty(), &taken.note) {
        let note = serde_json::to_string(sent).map_err(Error::internal)?;
        // Another has it by now.
        if !tenant.note_errand(&taken, &note).await? {
            return Ok(None);
        }
        taken.note = Some(note);
    }
    Ok(Some((Report { taken, submission, verdicts }, open)))
}

/// Whom usage is sent for, or the verdict that needs no question.
async fn receiver(tenant: &Tenant, submission: &MeteringSubmission) -> Result<Result<Sent, RowVerdict>> {
    let none = |why: &str| Ok(Err((Verdict::NotSubscribed, Some(why.to_owned()))));
    let Some((_, state)) = tenant.find_customer_state(submission.details.customer.id).await? else {
        return none("the customer was deleted");
    };
    let contract = contract(tenant, submission).await?;
    let buyer = match submission.vendor {
        Vendor::CloudA => state.customer.cloud_account_id,
        Vendor::CloudB => contract.as_ref().and_then(|contract| contract.vendor_subscription_id.clone()),
    };
    let Some(buyer) = buyer else { return none("the customer has no subscription of this listing") };
    let bought = match contract.as_ref().and_then(|contract| contract.agreement_id.as_deref()) {
        Some(agreement) if submission.vendor == Vendor::CloudA => tenant.bought(agreement).await?,
        _ => Bought::default(),
    };
    let listing = contract.as_ref().map(|contract| contract.listing_id.clone());
    let product = bought.product_code.or_else(|| submission.listing_id.clone()).or(listing).unwrap_or_default();
    let licence = bought.licence.map(|arn| Licence { arn, since: bought.since });
    Ok(Ok(Sent { product, buyer, plan: contract.and_then(|contract| contract.plan_id), licence }))
}

/// The contract that usage belongs to: of the listing, one that lives before one that has ended.
async fn contract(tenant: &Tenant, submission: &MeteringSubmission) -> Result<Option<Entitlement>> {
    let customer = submission.details.customer.id;
    let mut found = tenant.entitlements_of_each(&[customer], ENTITLEMENTS).await?;
    let items = found.remove(&customer).map(|page| page.items).unwrap_or_default();
    let listed = |entitlement: &&std::sync::Arc<Entitlement>| {
        submission.listing_id.as_ref().is_none_or(|listing| *listing == entitlement.listing_id)
    };
    let mut candidates: Vec<_> = items.iter().filter(listed).collect();
    candidates.sort_by_key(|entitlement| !entitlement.status.is_live());
    Ok(candidates.first().map(|entitlement| (***entitlement).clone()))
}

/// A row as the marketplace is sent it, or the verdict that needs no question.
fn item(submission: &MeteringSubmission, row: &UsageRow, sent: Sent) -> Result<UsageItem, RowVerdict> {
    if submission.vendor == Vendor::CloudB && row.billed_quantity == Decimal::ZERO {
        return Err((Verdict::Confirmed, Some("nothing to bill".to_owned())));
    }
    let covers = |licence: &Licence| licence.since.is_none_or(|since| since <= row.start_time);
    Ok(UsageItem {
        product: sent.product,
        customer: sent.buyer,
        plan: sent.plan,
        dimension: row.dimension.clone(),
        quantity: row.billed_quantity,
        at: row.start_time,
        licence: sent.licence.filter(covers).map(|licence| licence.arn),
    })
}

async fn settle(tenant: &Tenant, report: Report) -> Result<()> {
    let Report { taken, submission, verdicts } = report;
    // A row that was settled before keeps what was said of it then; one whose time is over is told so.
    let verdicts: Vec<RowVerdict> =
        verdicts.into_iter().map(|verdict| verdict.unwrap_or((Verdict::VendorError, None))).collect();
    let settled = metering::settle(tenant, submission.id, &verdicts).await?;
    if settled.status != MeteringStatus::Submitted {
        return tenant.end_errand(&taken).await;
    }
    let due = again(tenant, taken.tries).min(settled.urgent_by());
    tenant.keep_errand(&taken, Some(due), taken.tries + 1, taken.note.clone()).await
}
