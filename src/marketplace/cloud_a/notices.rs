//! What `cloud_a` tells of its agreements. Each notification is a picture of the agreement at its moment, and there is
//! nobody to ask; so an agreement is what all pictures of it together show (`known`), in whatever order they came.

use serde::Deserialize;
use serde_json::Value;

use super::agreements::Listed;
use super::known::{ENDED, Following, KINDS, Known, Licensing};
use crate::marketplace::converge::{Outcome, Told, Trouble, converge, open_offer};
use crate::marketplace::http::lenient;
use crate::marketplace::inbox::Envelope;
use crate::marketplace::terms::ContractStatus;
use crate::model::entitlement::Entitlement;
use crate::model::filter::{Filter, Order};
use crate::model::id::NotificationId;
use crate::model::lifecycle::Step;
use crate::model::notification::Notification;
use crate::model::page::Window;
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::entitlements;
use crate::store::Tenant;

/// What is told of publications.
const PUBLISHING: [&str; 4] = ["Offer Released", "Change Set Succeeded", "Change Set Failed", "Change Set Cancelled"];
/// Contracts of the same customer and listing that are looked at.
const SIBLINGS: usize = 20;

#[derive(Deserialize)]
struct Notice {
    #[serde(default, deserialize_with = "lenient::text")]
    id: Option<String>,
    #[serde(default, rename = "detail-type", deserialize_with = "lenient::text")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "lenient::moment")]
    time: Option<Timestamp>,
    #[serde(default)]
    detail: Value,
}

/// What stands on a notification, whatever is in it.
pub fn read(body: &str) -> Option<Envelope> {
    let Notice { id, kind, time, detail } = serde_json::from_str(body).ok()?;
    let subject = ["agreement", "changeSet"].into_iter().find_map(|part| detail[part]["id"].as_str());
    Some(Envelope { id, kind, subject: subject.map(str::to_owned), at: time })
}

/// Brings the entitlement to what is known of the agreement.
pub async fn apply(tenant: &Tenant, notification: &Notification) -> Result<Outcome, Trouble> {
    let kind = notification.kind.as_str();
    if PUBLISHING.contains(&kind) {
        return Ok(Outcome::Ignored("the publisher asks for it itself".to_owned()));
    }
    if !KINDS.contains(&kind) {
        return Ok(Outcome::Ignored(format!("unknown kind {kind}")));
    }
    settle(tenant, &Source::Told, &notification.subject).await
}

/// Brings the entitlement to what the marketplace lists of the agreement, which may carry on one that ended there.
pub async fn adopt(tenant: &Tenant, listed: &[Listed], agreement: &str) -> Result<Outcome, Trouble> {
    let is_over = |it: &Listed| it.contract.id == agreement && it.contract.status == ContractStatus::Superseded;
    if listed.iter().any(is_over) {
        return Ok(Outcome::Ignored("another agreement carries it on".to_owned()));
    }
    settle(tenant, &Source::Listed(listed), agreement).await
}

/// Where what is known of agreements comes from.
enum Source<'a> {
    Told,
    Listed(&'a [Listed]),
}

impl Source<'_> {
    async fn know(&self, tenant: &Tenant, agreement: &str) -> Result<Option<Known>, Trouble> {
        Ok(match self {
            Self::Told => {
                let told = tenant.notifications_of(Vendor::CloudA, agreement).await?;
                Known::of(&told, tenant.clock().now())
            }
            Self::Listed(listed) => listed.iter().find(|it| it.contract.id == agreement).map(Known::listed),
        })
    }
}

async fn settle(tenant: &Tenant, source: &Source<'_>, agreement: &str) -> Result<Outcome, Trouble> {
    let now = tenant.clock().now();
    let Some(known) = source.know(tenant, agreement).await? else {
        return Err(Trouble::Never("nothing that can be read is known of the agreement".to_owned()));
    };
    tenant.keep_bought(&known.contract.id, &known.bought(), known.licensing == Licensing::Gone).await?;
    let mut told = match known.told(now) {
        Ok(told) => told,
        Err(outcome) => return Ok(outcome),
    };
    let own = tenant.entitlements_at(Vendor::CloudA, &told.contract.id).await?.into_iter().next();
    // Its own may have moved to the next agreement since it was read.
    let is_other = |other: &Entitlement| own.as_ref().is_none_or(|own| own.id != other.id);
    let siblings: Vec<_> =
        siblings(tenant, &told, source).await?.into_iter().filter(|(entitlement, _)| is_other(entitlement)).collect();
    if known.is_superseded() && (!known.has_begun || siblings.iter().any(|(_, sibling)| known.precedes(sibling))) {
        return superseded(tenant, own).await;
    }
    let before = match &own {
        None if known.follows != Following::No && open_offer(tenant, &told).await?.is_none() => {
            predecessor(&known, &siblings)
        }
        _ => None,
    };
    told.renews |= before.is_some_and(|(_, sibling)| sibling.is_renewed);
    let outcome = converge(tenant, &told, before.map(|(entitlement, _)| entitlement.clone())).await?;
    if own.is_some() && known.follows.is_certain() {
        for (left, _) in siblings.iter().filter(|(_, sibling)| sibling.is_superseded() && sibling.precedes(&known)) {
            superseded(tenant, Some(left.clone())).await?;
        }
    }
    Ok(outcome)
}

/// What is forgotten with a notification that is past its retention: an agreement is what all of them show, so all go when
/// it has ended and nothing is younger than `limit`. None goes before.
pub async fn forgettable(
    tenant: &Tenant,
    old: &Notification,
    limit: Timestamp,
) -> crate::error::Result<Vec<NotificationId>> {
    if !KINDS.contains(&old.kind.as_str()) || old.subject.is_empty() {
        return Ok(vec![old.id]);
    }
    let told = tenant.notifications_of(Vendor::CloudA, &old.subject).await?;
    let has_ended = told.iter().any(|told| told.kind == ENDED);
    let is_old = told.iter().all(|told| told.verdict.is_some() && told.received_at < limit);
    let entitlements = tenant.entitlements_at(Vendor::CloudA, &old.subject).await?;
    let lives = entitlements.iter().any(|entitlement| entitlement.status.is_live());
    let is_over = has_ended && is_old && !lives;
    Ok(if is_over { told.iter().map(|told| told.id).chain([old.id]).collect() } else { Vec::new() })
}

/// What the customer has of the same listing under other agreements, and what is known of those.
async fn siblings(tenant: &Tenant, told: &Told, source: &Source<'_>) -> Result<Vec<(Entitlement, Known)>, Trouble> {
    let Some(customer) = tenant.find_customer_at(Vendor::CloudA, &told.contract.customer).await? else {
        return Ok(Vec::new());
    };
    let listing_id = Some(told.contract.listing.clone());
    let filter = Filter { customer: Some(customer.id), listing_id, ..Filter::default() };
    let window = Window { limit: SIBLINGS, after: None };
    let mut found = Vec::new();
    for entitlement in tenant.list_entitlements(&filter, Order::Newest, window).await?.items {
        let other = entitlement.agreement_id.clone().filter(|agreement| *agreement != told.contract.id);
        if let Some(agreement) = other
            && let Some(known) = source.know(tenant, &agreement).await?
        {
            found.push((entitlement, known));
        }
    }
    Ok(found)
}

/// What a renewal or replacement carries on: what another agreement is said to, else the only one that there is. What may
/// be none carries on only what another agreement is said to.
fn predecessor<'a>(known: &Known, siblings: &'a [(Entitlement, Known)]) -> Option<&'a (Entitlement, Known)> {
    let mut live =
        siblings.iter().filter(|(entitlement, sibling)| entitlement.status.is_live() && sibling.precedes(known));
    let said = live.clone().find(|(_, sibling)| sibling.is_superseded());
    let only = live.next().filter(|_| live.next().is_none() && known.follows.is_certain());
    said.or(only)
}

/// The entitlement of an agreement that has its successor already goes: the successor's stays.
async fn superseded(tenant: &Tenant, own: Option<Entitlement>) -> Result<Outcome, Trouble> {
    let own = match own {
        // It goes only while it is what was read.
        Some(own) => {
            tenant.entitlements(&[own.id]).await?.into_iter().find(|found| found.agreement_id == own.agreement_id)
        }
        None => None,
    };
    match own.filter(|own| own.status.is_live()) {
        None => Ok(Outcome::Ignored("another agreement carries it on".to_owned())),
        Some(own) => {
            let gone = entitlements::advance(tenant, own.id, Step::Cancel).await?;
            Ok(Outcome::Applied(format!("{} cancel: another agreement carries it on", gone.id)))
        }
    }
}
