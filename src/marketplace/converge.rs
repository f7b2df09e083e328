//! Brings what we know of a contract and what the marketplace has together: customer and entitlement appear, and move by
//! the steps of `model::lifecycle` until there is nothing left to move. Doing it again does nothing.

use chrono::TimeDelta;

use super::http::MarketplaceError;
use super::terms::Contract;
use crate::error::{Error, Refusal};
use crate::model::entitlement::EntitlementStatus::{self, Active, Cancelled, Expired, Pending, Suspended};
use crate::model::entitlement::{Entitlement, NewEntitlement};
use crate::model::id::{CustomerId, PrivateOfferId};
use crate::model::lifecycle::{Amendment, Step, Trigger};
use crate::model::offer::{Acceptance, OfferStatus, PrivateOffer, PublicationState};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::{customers, entitlements, offers};
use crate::store::Tenant;

/// Steps from any state to any other, and some more for those who were faster.
const STEPS: usize = 8;
/// How long publishing an offer may take, and how many offers of a customer are looked at.
const PUBLISHING: TimeDelta = TimeDelta::hours(1);
const NEWEST: usize = 100;

/// How far clocks may be apart, in milliseconds, without a start being another one.
const SKEW: i64 = 60_000;

/// What a notification came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was done.
    Applied(String),
    /// Why there was nothing to do.
    Ignored(String),
}

/// Why a notification came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It may work later.
    Later(String),
    /// It will not work by itself.
    Never(String),
    /// Our own state has no place for it (`contract.md` §9).
    Moot(String),
}

impl From<MarketplaceError> for Trouble {
    fn from(error: MarketplaceError) -> Self {
        // Credentials that ran out are renewed by somebody; what was told meanwhile must not be lost.
        let passes = error.is_transient() || matches!(error, MarketplaceError::Unauthorized { .. });
        if passes { Self::Later(error.to_string()) } else { Self::Never(error.to_string()) }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(Refusal::Conflict(reason)) => Self::Moot(reason),
            Error::Refused(Refusal::Invalid(fields)) => {
                let each: Vec<_> = fields.iter().map(|field| format!("{} {}", field.field, field.message)).collect();
                Self::Never(each.join("; "))
            }
            Error::Unavailable(_) | Error::Internal(_) => {
                tracing::warn!(cause = error.cause(), "a notification could not be applied; it is tried again");
                Self::Later(error.to_string())
            }
            other => Self::Never(other.to_string()),
        }
    }
}

/// A contract as the marketplace has it.
pub struct Told {
    pub vendor: Vendor,
    pub contract: Contract,
    pub status: EntitlementStatus,
    /// Whether it is the renewal of the contract before it.
    pub renews: bool,
}

/// What was done, in words.
pub type Done = Vec<String>;

/// Brings the entitlement of a contract to what the marketplace has of it. `before` is one that the contract carries on,
/// if it has none of its own.
pub async fn converge(tenant: &Tenant, told: &Told, before: Option<Entitlement>) -> Result<Outcome, Trouble> {
    let mut done = Done::new();
    let now = tenant.clock().now();
    let known = tenant.entitlements_at(told.vendor, &told.contract.id).await?.into_iter().next();
    let mut entitlement = match known.filter(|known| !told.is_anew(known, now)).or(before) {
        Some(known) => known,
        None => open(tenant, told, &mut done).await?,
    };
    for _ in 0..STEPS {
        let Some(step) = told.next(&entitlement, now) else { break };
        let trigger = step.trigger();
        match entitlements::advance(tenant, entitlement.id, step).await {
            Ok(moved) => {
                done.push(format!("{} {trigger}", moved.id));
                entitlement = moved;
            }
            // Somebody was faster: it is looked at again.
            Err(error @ Error::Refused(Refusal::Conflict(_))) => {
                let found = tenant.entitlements(&[entitlement.id]).await?.into_iter().next();
                entitlement = found.filter(|found| *found != entitlement).ok_or(error)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    if told.is_released() && entitlements::release(tenant, entitlement.id).await? {
        done.push(format!("{} waits for its start", entitlement.id));
    }
    Ok(if done.is_empty() { Outcome::Ignored(told.nothing(&entitlement)) } else { Outcome::Applied(done.join(", ")) })
}

/// The customer and the entitlement of a contract that nobody knew.
async fn open(tenant: &Tenant, told: &Told, done: &mut Done) -> Result<Entitlement, Trouble> {
    let (Told { vendor, contract, .. }, now) = (told, tenant.clock().now());
    let (customer, is_new) = customers::meet(tenant, *vendor, &contract.customer, contract.email.as_deref()).await?;
    if is_new {
        done.push(format!("{} created", customer.id));
    }
    let mut offer_id = None;
    let offer = open_offer(tenant, told).await?.filter(|offer| offer.customer_id == customer.id);
    if offer.is_none() && contract.vendor_offer_id.is_some() && is_publishing(tenant, customer.id).await? {
        return Err(Trouble::Later("an offer of the customer is being published, and may be the one".to_owned()));
    }
    if let Some(offer) = offer {
        match offers::accept(tenant, offer.id, told.acceptance(now)).await {
            Ok(accepted) => {
                done.push(format!("{} accepted", offer.id));
                let ids: Vec<_> = accepted.entitlement_id.into_iter().collect();
                let made = tenant.entitlements(&ids).await?.into_iter().next();
                return made.ok_or_else(|| Trouble::Later("the offer's entitlement is not there".to_owned()));
            }
            // It is over here, but the marketplace let the customer in.
            Err(Error::Refused(Refusal::Conflict(_))) => offer_id = Some(offer.id),
            Err(error) => return Err(error.into()),
        }
    }
    let (entitlement, is_new) =
        entitlements::open_once(tenant, &contract.id, told.new_entitlement(customer.id, offer_id, now)).await?;
    if is_new {
        done.push(format!("{} created", entitlement.id));
    }
    Ok(entitlement)
}

/// Whether an offer to a customer is on its way to the marketplace: it may be accepted there before we hear its id.
async fn is_publishing(tenant: &Tenant, customer: CustomerId) -> crate::error::Result<bool> {
    let since = tenant.clock().now().plus(-PUBLISHING);
    let mut found = tenant.offers_of_each(&[customer], NEWEST).await?;
    let offers = found.remove(&customer).map(|page| page.items).unwrap_or_default();
    Ok(offers.iter().any(|offer| {
        let publication = offer.details.cloud.publication.state;
        offer.status == OfferStatus::Created && publication == PublicationState::Pending && offer.updated_at > since
    }))
}

/// The open offer of ours that a contract came of.
pub async fn open_offer(tenant: &Tenant, told: &Told) -> crate::error::Result<Option<PrivateOffer>> {
    match &told.contract.vendor_offer_id {
        Some(id) => {
            let found = tenant.find_offer_at(told.vendor, id).await?;
            Ok(found.filter(|offer| offer.status == OfferStatus::Created))
        }
        None => Ok(None),
    }
}

impl Told {
    fn is_cloud_b(&self) -> bool {
        self.vendor == Vendor::CloudB
    }

    fn subscription(&self) -> Option<String> {
        self.is_cloud_b().then(|| self.contract.id.clone())
    }

    /// Whether only the marketplace's word makes it active, and not yet.
    fn awaits_activation(&self) -> bool {
        if self.is_cloud_b() { self.status == Pending } else { self.contract.licence.is_none() }
    }

    /// Whether its start alone is what it waits for.
    fn is_released(&self) -> bool {
        self.status == Pending && !self.awaits_activation()
    }

    /// Whether it goes on although its term ran out here, because its renewal was told late.
    fn is_anew(&self, known: &Entitlement, now: Timestamp) -> bool {
        let lives = matches!(self.status, Active | Suspended) && self.contract.end.is_none_or(|end| end > now);
        known.status == Expired && lives
    }

    /// An end that is one.
    fn end_after(&self, start: Timestamp) -> Option<Timestamp> {
        self.contract.end.filter(|end| *end > start)
    }

    /// When it began. What is in force has begun: its marketplace's clock is ahead, or its term was renewed already.
    fn start(&self, now: Timestamp) -> Option<Timestamp> {
        let in_force = matches!(self.status, Active | Suspended);
        self.contract.start.filter(|start| *start <= now || !in_force)
    }

    fn acceptance(&self, now: Timestamp) -> Acceptance {
        let (contract, start) = (&self.contract, self.start(now));
        Acceptance {
            agreement_id: Some(contract.id.clone()),
            vendor_subscription_id: self.subscription(),
            plan_id: contract.plan.clone(),
            dimensions: contract.dimensions.clone(),
            start_date: start,
            end_date: self.end_after(start.unwrap_or(now)),
            awaits_activation: self.awaits_activation(),
        }
    }

    fn new_entitlement(&self, customer: CustomerId, offer: Option<PrivateOfferId>, now: Timestamp) -> NewEntitlement {
        let (contract, start) = (&self.contract, self.start(now));
        NewEntitlement {
            start_date: start,
            end_date: self.end_after(start.unwrap_or(now)),
            dimensions: contract.dimensions.clone(),
            plan_id: contract.plan.clone(),
            private_offer_id: offer,
            agreement_id: Some(contract.id.clone()),
            vendor_subscription_id: self.subscription(),
            auto_renew: contract.auto_renew,
            awaits_activation: self.awaits_activation(),
            ..NewEntitlement::of(customer, contract.listing.clone())
        }
    }

    /// What the marketplace has otherwise than we.
    fn difference(&self, known: &Entitlement, now: Timestamp) -> Option<Amendment> {
        let contract = &self.contract;
        let same = |dimension: &&crate::model::entitlement::Dimension| {
            known.dimensions.iter().any(|own| own.key == dimension.key && own.value == dimension.value)
        };
        // A term that has not begun prolongs the one that runs.
        let start = contract.start.filter(|start| *start <= now || known.status == Pending);
        let start_date = start.filter(|start| (start.as_millis() - known.start_date.as_millis()).abs() > SKEW);
        let end = self.end_after(start.unwrap_or(known.start_date));
        let agreement = Some(contract.id.clone()).filter(|_| !self.is_cloud_b());
        let amendment = Amendment {
            plan_id: contract.plan.clone().filter(|plan| known.plan_id.as_ref() != Some(plan)),
            dimensions: contract.dimensions.iter().filter(|dimension| !same(dimension)).cloned().collect(),
            start_date,
            end_date: end.filter(|end| known.end_date != Some(*end)),
            agreement_id: agreement.filter(|id| known.agreement_id.as_ref() != Some(id)),
            auto_renew: contract.auto_renew.filter(|renews| known.auto_renew != Some(*renews)),
            ..Amendment::default()
        };
        let nothing = amendment.plan_id.is_none()
            && amendment.dimensions.is_empty()
            && amendment.start_date.is_none()
            && amendment.end_date.is_none()
            && amendment.agreement_id.is_none()
            && amendment.auto_renew.is_none();
        (!nothing).then_some(amendment)
    }

    /// Whether a difference is a new term: the other agreement of a renewal, or at `cloud_b` a later end.
    fn is_renewal(&self, known: &Entitlement, difference: &Amendment) -> bool {
        let longer = difference.end_date.zip(known.end_date).is_some_and(|(end, known)| end > known);
        if self.is_cloud_b() { longer } else { self.renews && difference.agreement_id.is_some() }
    }

    /// What is different, for a person to read, if anything is.
    pub fn differs(&self, known: &Entitlement, now: Timestamp) -> Option<String> {
        let step = self.next(known, now)?;
        Some(format!("{} is {} here, {} at the marketplace: {}", known.id, known.status, self.status, step.trigger()))
    }

    /// The next step towards what the marketplace has, if there is one.
    fn next(&self, known: &Entitlement, now: Timestamp) -> Option<Step> {
        let difference = self.difference(known, now);
        let with = |trigger| Some(Step::With(trigger, difference.clone().unwrap_or_default()));
        match (known.status, self.status) {
            (Pending, Active | Suspended) => with(Trigger::Activate),
            // Its term is over, so it was active.
            (Pending, Expired) if !self.awaits_activation() => with(Trigger::Activate),
            (Pending | Active | Suspended, Cancelled) => with(Trigger::Cancel),
            (Active | Suspended, Expired) => with(Trigger::Expire),
            (Active, Suspended) => with(Trigger::Suspend),
            // An agreement of the other marketplace is never suspended there: who did that did it here, and undoes it here.
            (Suspended, Active) if self.is_cloud_b() => with(Trigger::Reinstate),
            (Active, Active | Pending) => {
                let amendment = difference?;
                let renewal = self.is_renewal(known, &amendment);
                Some(Step::With(if renewal { Trigger::Renew } else { Trigger::Amend }, amendment))
            }
            _ => None,
        }
    }

    fn nothing(&self, known: &Entitlement) -> String {
        let (here, there) = (known.status, self.status);
        if !here.is_live() && here != there {
            return format!("the entitlement is {here}, which is final; at the marketplace the contract is {there}");
        }
        match (here, there) {
            (Pending, Expired) => "the entitlement is pending; expire does not apply to it".to_owned(),
            (Suspended, Active) => "the entitlement is suspended here".to_owned(),
            _ => "nothing to change".to_owned(),
        }
    }
}
