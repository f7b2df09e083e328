//! What `cloud_a` tells of its agreements. Each notification is a picture of the agreement at its moment, and there is
//! nobody to ask; so an agreement is what all pictures of it together show, by their own time, in whatever order they came.

use serde::Deserialize;
use serde_json::Value;

use super::agreements::{Listed, RENEWED, status};
use crate::marketplace::converge::{Outcome, Told, Trouble, converge, open_offer};
use crate::marketplace::http::lenient;
use crate::marketplace::inbox::Envelope;
use crate::marketplace::terms::{Contract, ContractStatus};
use crate::model::entitlement::{Dimension, Entitlement, EntitlementStatus};
use crate::model::filter::{Filter, Order};
use crate::model::id::NotificationId;
use crate::model::lifecycle::Step;
use crate::model::notification::Notification;
use crate::model::page::Window;
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::entitlements;
use crate::store::Tenant;
use crate::store::bought::Bought;

const ENDED: &str = "Purchase Agreement Ended";
const DEPROVISIONED: &str = "License Deprovisioned";
/// What is told of agreements. Of the same moment the later word counts.
const KINDS: [&str; 5] =
    ["Purchase Agreement Created", "Purchase Agreement Amended", "License Updated", ENDED, DEPROVISIONED];
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

/// A picture of an agreement.
#[derive(Deserialize)]
struct Picture {
    detail: Detail,
}

#[derive(Deserialize)]
struct Detail {
    agreement: Agreement,
    #[serde(default)]
    acceptor: Acceptor,
    #[serde(default)]
    offer: Named,
    #[serde(default)]
    license: Option<Licence>,
    #[serde(default)]
    product: Product,
    #[serde(default)]
    dimensions: Option<Vec<Measure>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agreement {
    id: String,
    #[serde(default)]
    intent: String,
    #[serde(default)]
    status: String,
    #[serde(default, deserialize_with = "lenient::moment")]
    acceptance_time: Option<Timestamp>,
    #[serde(default, deserialize_with = "lenient::moment")]
    start_time: Option<Timestamp>,
    #[serde(default, deserialize_with = "lenient::moment")]
    end_time: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Acceptor {
    #[serde(default, deserialize_with = "lenient::text")]
    account_id: Option<String>,
}

#[derive(Default, Deserialize)]
struct Named {
    #[serde(default)]
    id: Option<String>,
}

#[derive(Default, Deserialize)]
struct Product {
    #[serde(default)]
    id: Option<String>,
    #[serde(default, deserialize_with = "lenient::text")]
    code: Option<String>,
}

#[derive(Deserialize)]
struct Licence {
    #[serde(default)]
    arn: Option<String>,
}

#[derive(Deserialize)]
struct Measure {
    key: String,
    value: lenient::Number,
}

/// Whether an agreement takes the place of another; what says more is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Following {
    No,
    /// The marketplace does not say.
    Perhaps,
    Replaces,
    Renews,
}

impl Following {
    fn of(intent: &str) -> Option<Self> {
        match intent {
            "NEW" => Some(Self::No),
            "REPLACE" => Some(Self::Replaces),
            "RENEW" => Some(Self::Renews),
            _ => None,
        }
    }

    fn is_certain(self) -> bool {
        matches!(self, Self::Replaces | Self::Renews)
    }
}

/// What was said last of an agreement's licence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Licensing {
    Untold,
    Held,
    Gone,
}

/// What is known of an agreement.
struct Known {
    contract: Contract,
    product_code: Option<String>,
    licensing: Licensing,
    accepted: Option<Timestamp>,
    /// Whether something else than its end was told.
    has_begun: bool,
    follows: Following,
    /// Whether it ended because it was renewed.
    is_renewed: bool,
}

impl Known {
    /// None when nothing that can be read was told.
    fn of(told: &[Notification], now: Timestamp) -> Option<Self> {
        let place = |told: &Notification| KINDS.iter().position(|kind| *kind == told.kind);
        let mut pictures: Vec<_> = told
            .iter()
            .filter_map(|told| {
                let picture = serde_json::from_str::<Picture>(&told.body).ok()?;
                Some(((told.occurred_at, place(told)?, told.external_id.clone()), told.kind.as_str(), picture.detail))
            })
            .collect();
        pictures.sort_by(|left, right| left.0.cmp(&right.0));
        let (_, _, first) = pictures.first()?;
        let mut known = Self::unknown(first);
        let mut word = String::new();
        for (_, kind, detail) in &pictures {
            known.learn(kind, detail);
            // What has ended has ended, whatever was told later of the time before.
            if word.is_empty() || word == "ACTIVE" || *kind == ENDED {
                word.clone_from(&detail.agreement.status);
            }
        }
        let started = known.contract.start.is_none_or(|start| start <= now) && known.contract.licence.is_some();
        known.contract.status = status(&word, started);
        known.is_renewed = word == RENEWED;
        known.date(&pictures.iter().map(|(_, kind, detail)| (*kind, detail)).collect::<Vec<_>>());
        Some(known)
    }

    /// What the marketplace lists. It need not say whether an agreement follows another one.
    fn listed(listed: &Listed) -> Self {
        let intent = listed.intent.as_deref().unwrap_or_default();
        Self {
            contract: listed.contract.clone(),
            product_code: None,
            licensing: Licensing::Untold,
            accepted: listed.accepted,
            has_begun: true,
            follows: Following::of(intent).unwrap_or(Following::Perhaps),
            is_renewed: listed.is_renewed,
        }
    }

    fn unknown(detail: &Detail) -> Self {
        let contract = Contract {
            id: detail.agreement.id.clone(),
            customer: String::new(),
            email: None,
            listing: String::new(),
            plan: None,
            dimensions: Vec::new(),
            vendor_offer_id: None,
            start: None,
            end: None,
            status: ContractStatus::Superseded,
            auto_renew: None,
            licence: None,
        };
        Self {
            contract,
            product_code: None,
            licensing: Licensing::Untold,
            accepted: None,
            has_begun: false,
            follows: Following::No,
            is_renewed: false,
        }
    }

    fn learn(&mut self, kind: &str, detail: &Detail) {
        let contract = &mut self.contract;
        let set = |known: &mut String, told: &Option<String>| known.clone_from(told.as_ref().unwrap_or(&known.clone()));
        set(&mut contract.customer, &detail.acceptor.account_id);
        set(&mut contract.listing, &detail.product.id);
        contract.vendor_offer_id = detail.offer.id.clone().or(contract.vendor_offer_id.take());
        contract.start = detail.agreement.start_time.or(contract.start);
        if let Some(measures) = &detail.dimensions {
            let dimension =
                |measure: &Measure| Dimension { key: measure.key.clone(), value: measure.value.0, description: None };
            contract.dimensions = measures.iter().map(dimension).collect();
        }
        let licence = detail.license.as_ref().and_then(|licence| licence.arn.clone());
        self.licensing = match &licence {
            _ if kind == DEPROVISIONED => Licensing::Gone,
            Some(_) => Licensing::Held,
            None => self.licensing,
        };
        contract.licence = if kind == DEPROVISIONED { None } else { licence.or(contract.licence.take()) };
        self.product_code = detail.product.code.clone().or(self.product_code.take());
        self.accepted = detail.agreement.acceptance_time.or(self.accepted);
        self.has_begun |= kind != ENDED;
        self.follows = self.follows.max(Following::of(&detail.agreement.intent).unwrap_or(Following::No));
    }

    /// Its end. That of an agreement which another one carries on is told as the moment of that, and is not one.
    fn date(&mut self, pictures: &[(&str, &Detail)]) {
        let goes_on = self.contract.status == ContractStatus::Superseded;
        let ends = pictures.iter().filter(|(kind, _)| *kind != ENDED || !goes_on);
        self.contract.end = ends.filter_map(|(_, detail)| detail.agreement.end_time).next_back();
    }

    /// What usage is sent with.
    fn bought(&self) -> Bought {
        let Contract { licence, start, .. } = &self.contract;
        Bought { product_code: self.product_code.clone(), licence: licence.clone(), since: *start }
    }

    fn is_superseded(&self) -> bool {
        self.contract.status == ContractStatus::Superseded
    }

    fn told(&self, now: Timestamp) -> Result<Told, Outcome> {
        let started = self.contract.start.is_none_or(|start| start <= now) && self.contract.licence.is_some();
        let status = match &self.contract.status {
            ContractStatus::Known(status) => *status,
            ContractStatus::Superseded if started => EntitlementStatus::Active,
            ContractStatus::Superseded => EntitlementStatus::Pending,
            ContractStatus::Other(word) => {
                return Err(Outcome::Ignored(format!("the agreement is {word}, which is not known")));
            }
        };
        Ok(Told {
            vendor: Vendor::CloudA,
            contract: self.contract.clone(),
            status,
            renews: self.follows == Following::Renews,
        })
    }
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

impl Known {
    /// Whether the other one may be what carries it on.
    fn precedes(&self, other: &Self) -> bool {
        other.follows != Following::No && other.contract.id != self.contract.id && self.accepted <= other.accepted
    }
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
