//! Private offers (spec "Private offer", `contract.md` §10). Callers create, change and cancel them; the marketplaces
//! and the clock move them through [`publish`], [`accept`] and [`tick`].

use std::collections::HashMap;
use std::sync::Arc;

use crate::call::Call;
use crate::error::{Error, Result};
use crate::model::changes::Changes;
use crate::model::entitlement::{Entitlement, NewEntitlement};
use crate::model::event::{EventKind, NewEvent};
use crate::model::filter::ListQuery;
use crate::model::id::{CustomerId, EventId, PrivateOfferId};
use crate::model::lifecycle::{Amendment, Step};
use crate::model::offer::{Acceptance, OfferStatus, PrivateOffer, Publication, PublicationState, Published};
use crate::model::offer_input::{NewOffer, OfferPatch};
use crate::model::operation::Operation;
use crate::model::page::{ListName, Page};
use crate::store::Tenant;
use crate::store::customers::CustomerState;
use crate::store::offers::{OfferSeen, Replacement};
use crate::store::outbox::Errand;
use crate::store::write::{Block, Plan};

use super::entitlements::{Change, opened, stepped};

/// In full; the facades show less of each in their lists.
pub async fn list(call: &Call, query: impl Into<ListQuery>) -> Result<Page<PrivateOffer>> {
    let tenant = call.grant(Operation::PrivateOffersList.access())?;
    let ListQuery { page, filter, order } = query.into();
    let window = page.check(&filter, &call.cursor_scope(ListName::PrivateOffers, order))?;
    tenant.list_offers(&filter, order, window).await
}

pub async fn get(call: &Call, id: &str) -> Result<PrivateOffer> {
    let tenant = call.grant(Operation::PrivateOffersGet.access())?;
    tenant.get_offer(PrivateOfferId::named(id)?).await
}

/// Those of these offers that exist, in one query.
pub async fn get_many(call: &Call, ids: &[PrivateOfferId]) -> Result<Vec<PrivateOffer>> {
    call.grant(Operation::PrivateOffersGet.access())?.offers(ids).await
}

/// The newest offers of each of these customers, in one query.
pub async fn of_each(
    call: &Call,
    customers: &[CustomerId],
    limit: usize,
) -> Result<HashMap<CustomerId, Page<Arc<PrivateOffer>>>> {
    let tenant = call.grant(Operation::PrivateOffersList.access())?;
    tenant.offers_of_each(customers, limit).await
}

/// The links of the agreement chain that touch any of these offers.
pub async fn replacements(call: &Call, offers: &[PrivateOfferId]) -> Result<Vec<Replacement>> {
    call.grant(Operation::PrivateOffersGet.access())?.replacements(offers).await
}

pub async fn create(call: &Call, new: NewOffer) -> Result<PrivateOffer> {
    let tenant = call.grant(Operation::PrivateOffersCreate.access())?;
    tenant
        .write(|| async {
            let named = new.customer_id.as_deref().and_then(CustomerId::parse);
            let found = match named {
                Some(id) => tenant.find_customer_state(id).await?,
                None => None,
            };
            let customer = found.as_ref().map(|(_, state)| &state.customer);
            let replaced = match (customer, &new.agreement_id) {
                (Some(customer), Some(agreement)) => tenant.find_by_agreement(customer.id, agreement).await?,
                _ => None,
            };
            let offer = new.clone().check(PrivateOfferId(tenant.clock().mint()), customer, replaced.as_ref())?;
            let predecessor = replaced.and_then(|entitlement| entitlement.private_offer_id);
            let block = tenant.save_offer(None, &offer, predecessor)?.and(errand(&tenant, &offer));
            let event = announce(EventKind::PrivateOfferCreated, &tenant, &offer, None)?;
            Ok(Plan { answer: offer, block, events: vec![event], seen: found.map(|(seen, _)| seen) })
        })
        .await
}

/// Merges. An update that changes nothing writes nothing and emits nothing.
pub async fn update(call: &Call, id: &str, patch: OfferPatch) -> Result<PrivateOffer> {
    let tenant = call.grant(Operation::PrivateOffersUpdate.access())?;
    let id = PrivateOfferId::named(id)?;
    tenant
        .write(|| async {
            let found = tenant.see_offer(id).await?;
            let next = patch.apply(&found.offer, tenant.clock().now())?;
            if found.customer.is_none() {
                return Err(Error::conflict("The private offer's customer was deleted"));
            }
            Ok(told(&tenant, moved(&tenant, &found, next, EventKind::PrivateOfferUpdated)?))
        })
        .await
}

/// Has the marketplace told of an offer again, as after a failure that was mended there.
pub async fn republish(call: &Call, id: &str) -> Result<PrivateOffer> {
    let tenant = call.grant(Operation::PrivateOffersPublish.access())?;
    let id = PrivateOfferId::named(id)?;
    tenant
        .write(|| async {
            let found = tenant.see_offer(id).await?;
            found.offer.must_be(&[OfferStatus::Created], "published")?;
            if found.offer.details.cloud.publication.state != PublicationState::Failed {
                return Ok(Plan::unchanged(found.offer));
            }
            let mut next = found.offer.clone();
            next.details.cloud.publication = Publication { state: PublicationState::Pending, message: None };
            Ok(told(&tenant, moved(&tenant, &found, next, EventKind::PrivateOfferUpdated)?))
        })
        .await
}

/// Created and expired offers become cancelled; a cancelled one is answered as it is.
pub async fn delete(call: &Call, id: &str) -> Result<PrivateOffer> {
    let tenant = call.grant(Operation::PrivateOffersDelete.access())?;
    let id = PrivateOfferId::named(id)?;
    tenant
        .write(|| async {
            let found = tenant.see_offer(id).await?;
            let open = [OfferStatus::Created, OfferStatus::Expired, OfferStatus::Cancelled];
            found.offer.must_be(&open, "cancelled")?;
            let next = PrivateOffer { status: OfferStatus::Cancelled, ..found.offer.clone() };
            Ok(told(&tenant, moved(&tenant, &found, next, EventKind::PrivateOfferCancelled)?))
        })
        .await
}

/// The marketplace published an offer, or could not.
pub async fn publish(tenant: &Tenant, id: PrivateOfferId, published: Published) -> Result<PrivateOffer> {
    tenant
        .write(|| async {
            let found = tenant.see_offer(id).await?;
            found.offer.must_be(&[OfferStatus::Created], "published")?;
            let mut next = found.offer.clone();
            let (state, message) = match &published {
                Published::Pending => {
                    next.vendor_offer_id = None;
                    (PublicationState::Pending, None)
                }
                Published::Live { vendor_offer_id } => {
                    next.vendor_offer_id = Some(vendor_offer_id.clone());
                    (PublicationState::Live, None)
                }
                Published::Failed { message } => (PublicationState::Failed, Some(message.clone())),
            };
            next.details.cloud.publication = Publication { state, message };
            moved(tenant, &found, next, EventKind::PrivateOfferUpdated)
        })
        .await
}

/// The customer accepted at the marketplace. The entitlement is created, or for a replacement updated, in the same
/// transaction. Accepting again answers the offer as it is.
pub async fn accept(tenant: &Tenant, id: PrivateOfferId, acceptance: Acceptance) -> Result<PrivateOffer> {
    tenant
        .write(|| async {
            let found = tenant.see_offer(id).await?;
            found.offer.must_be(&[OfferStatus::Created, OfferStatus::Accepted], "accepted")?;
            if found.offer.status == OfferStatus::Accepted {
                return Ok(Plan::unchanged(found.offer));
            }
            let Some(customer) = &found.customer else {
                return Err(Error::conflict("The private offer's customer was deleted"));
            };
            let contract = contract(tenant, &found.offer, customer, &acceptance).await?;
            let entitlement_id = Some(contract.entitlement.id);
            let mut next = PrivateOffer { status: OfferStatus::Accepted, entitlement_id, ..found.offer.clone() };
            next.details.cloud.agreement_id = acceptance.agreement_id.clone().or(next.details.cloud.agreement_id);
            let mut plan = moved(tenant, &found, next, EventKind::PrivateOfferAccepted)?;
            plan.block = plan.block.and(contract.block);
            plan.events.extend(contract.events);
            Ok(plan)
        })
        .await
}

/// The clock came to an offer: it expires, unless somebody was faster. Answers whether it did.
pub async fn tick(tenant: &Tenant, id: PrivateOfferId) -> Result<bool> {
    tenant
        .write(|| async {
            let found = tenant.see_offer(id).await?;
            if found.offer.status != OfferStatus::Created || found.offer.expires_at > tenant.clock().now() {
                return Ok(Plan::unchanged(false));
            }
            let next = PrivateOffer { status: OfferStatus::Expired, ..found.offer.clone() };
            Ok(moved(tenant, &found, next, EventKind::PrivateOfferExpired)?.answering(true))
        })
        .await
}

/// What an acceptance does to the customer's contracts. A replacement whose contract has ended meanwhile begins anew.
async fn contract(
    tenant: &Tenant,
    offer: &PrivateOffer,
    customer: &CustomerState,
    acceptance: &Acceptance,
) -> Result<Change> {
    let (start, end) = offer.term(acceptance, tenant.clock().now());
    if let Some(replaced) = replaced(tenant, offer).await?.filter(|entitlement| entitlement.status.is_live()) {
        let amendment = Amendment {
            plan_id: acceptance.plan_id.clone(),
            dimensions: acceptance.dimensions.clone(),
            start_date: None,
            end_date: Some(end),
            agreement_id: acceptance.agreement_id.clone(),
            private_offer_id: Some(offer.id),
            vendor_subscription_id: acceptance.vendor_subscription_id.clone(),
            auto_renew: None,
        };
        let kept = tenant.see_entitlement(replaced.id).await?.kept;
        let change = stepped(tenant, Some(customer), &kept, &Step::Amend(amendment)).await?;
        return change.ok_or_else(|| Error::internal("a replacement changed nothing"));
    }
    let new = NewEntitlement {
        start_date: Some(start),
        end_date: Some(end),
        dimensions: acceptance.dimensions.clone(),
        plan_id: acceptance.plan_id.clone(),
        private_offer_id: Some(offer.id),
        agreement_id: acceptance.agreement_id.clone(),
        vendor_subscription_id: acceptance.vendor_subscription_id.clone(),
        awaits_activation: acceptance.awaits_activation,
        ..NewEntitlement::of(offer.customer_id, &offer.listing_id)
    };
    opened(tenant, customer, new).await
}

async fn replaced(tenant: &Tenant, offer: &PrivateOffer) -> Result<Option<Entitlement>> {
    let cloud = &offer.details.cloud;
    match cloud.agreement_id.as_deref().filter(|_| cloud.is_replacement) {
        Some(agreement) => tenant.find_by_agreement(offer.customer_id, agreement).await,
        None => Ok(None),
    }
}

/// A plan that the marketplace has to be told of, if it changes anything.
fn told(tenant: &Tenant, mut plan: Plan<PrivateOffer>) -> Plan<PrivateOffer> {
    if !plan.events.is_empty() {
        plan.block = plan.block.and(errand(tenant, &plan.answer));
    }
    plan
}

fn errand(tenant: &Tenant, offer: &PrivateOffer) -> Block {
    tenant.send_errand(Errand::Offer(offer.id), offer.vendor, tenant.clock().now(), offer.expires_at)
}

/// The plan that brings an offer to its next form and tells of it, if it differs.
fn moved(tenant: &Tenant, found: &OfferSeen, mut next: PrivateOffer, kind: EventKind) -> Result<Plan<PrivateOffer>> {
    let changes = Changes::between(&found.offer.to_json(), &next.to_json());
    if changes.is_empty() {
        return Ok(Plan::unchanged(next));
    }
    next.updated_at = tenant.clock().now();
    let block = tenant.save_offer(Some(&found.offer), &next, found.replaces)?;
    let event = announce(kind, tenant, &next, Some(changes))?;
    Ok(Plan { answer: next, block, events: vec![event], seen: Some(found.seen) })
}

fn announce(kind: EventKind, tenant: &Tenant, offer: &PrivateOffer, changes: Option<Changes>) -> Result<NewEvent> {
    let id = EventId(tenant.clock().mint());
    NewEvent::about(kind, id, (offer.organization_id, offer.vendor), offer, changes)
}
