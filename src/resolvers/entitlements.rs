//! Entitlements (spec "Entitlement", `contract.md` §9). Callers read them, administrators move them by hand; the
//! marketplaces and the clock move them through [`open`], [`advance`] and [`tick`].

use std::collections::HashMap;
use std::sync::Arc;

use crate::call::Call;
use crate::error::{Error, Result};
use crate::model::changes::Changes;
use crate::model::customer::CustomerDetail;
use crate::model::entitlement::{
    Entitlement, EntitlementDetail, EntitlementStatus, EntitlementSummary, HistoryAction, HistoryEntry, NewEntitlement,
};
use crate::model::event::{EventKind, NewEvent};
use crate::model::filter::ListQuery;
use crate::model::id::{CustomerId, EntitlementId, EventId};
use crate::model::lifecycle::{Memo, Step, Term, due};
use crate::model::operation::Operation;
use crate::model::page::{ListName, Page};
use crate::model::time::Timestamp;
use crate::store::Tenant;
use crate::store::customers::CustomerState;
use crate::store::entitlements::Kept;
use crate::store::write::{Block, Plan, Seen};

pub async fn list(call: &Call, query: impl Into<ListQuery>) -> Result<Page<Entitlement>> {
    let tenant = call.grant(Operation::EntitlementsList.access())?;
    let ListQuery { page, filter, order } = query.into();
    let window = page.check(&filter, &call.cursor_scope(ListName::Entitlements, order))?;
    tenant.list_entitlements(&filter, order, window).await
}

/// With its history, newest last; of a very long one, the newest entries.
pub async fn get(call: &Call, id: &str) -> Result<EntitlementDetail> {
    let tenant = call.grant(Operation::EntitlementsGet.access())?;
    tenant.get_entitlement(EntitlementId::named(id)?).await
}

/// Those of these entitlements that exist, in one query.
pub async fn get_many(call: &Call, ids: &[EntitlementId]) -> Result<Vec<Entitlement>> {
    call.grant(Operation::EntitlementsGet.access())?.entitlements(ids).await
}

/// The histories of these entitlements, newest last, in one query.
pub async fn histories(call: &Call, ids: &[EntitlementId]) -> Result<HashMap<EntitlementId, Vec<HistoryEntry>>> {
    call.grant(Operation::EntitlementsGet.access())?.histories(ids).await
}

/// The newest entitlements of each of these customers, in one query.
pub async fn of_each(
    call: &Call,
    customers: &[CustomerId],
    limit: usize,
) -> Result<HashMap<CustomerId, Page<Arc<Entitlement>>>> {
    let tenant = call.grant(Operation::EntitlementsList.access())?;
    tenant.entitlements_of_each(customers, limit).await
}

pub async fn suspend(call: &Call, id: &str) -> Result<Entitlement> {
    let tenant = call.grant(Operation::EntitlementsSuspend.access())?;
    advance(&tenant, EntitlementId::named(id)?, Step::Suspend).await
}

pub async fn reinstate(call: &Call, id: &str) -> Result<Entitlement> {
    let tenant = call.grant(Operation::EntitlementsReinstate.access())?;
    advance(&tenant, EntitlementId::named(id)?, Step::Reinstate).await
}

pub async fn renew(call: &Call, id: &str, term: Term) -> Result<Entitlement> {
    let tenant = call.grant(Operation::EntitlementsRenew.access())?;
    advance(&tenant, EntitlementId::named(id)?, Step::Renew(term)).await
}

pub async fn cancel(call: &Call, id: &str) -> Result<Entitlement> {
    let tenant = call.grant(Operation::EntitlementsCancel.access())?;
    advance(&tenant, EntitlementId::named(id)?, Step::Cancel).await
}

/// A contract began at a marketplace.
pub async fn open(tenant: &Tenant, new: NewEntitlement) -> Result<Entitlement> {
    tenant
        .write(|| async {
            let found = tenant.find_customer_state(new.customer_id).await?;
            let (seen, customer) = found.ok_or_else(|| Error::invalid("customerId", "is not a known customer"))?;
            let change = opened(tenant, &customer, new.clone()).await?;
            Ok(change.into_plan(seen))
        })
        .await
}

/// The same for a contract that a marketplace names: one that is there already is answered as it is, unless its term ran
/// out here before the marketplace told of another.
pub async fn open_once(tenant: &Tenant, contract: &str, new: NewEntitlement) -> Result<(Entitlement, bool)> {
    tenant
        .write(|| async {
            let found = tenant.find_customer_state(new.customer_id).await?;
            let (seen, customer) = found.ok_or_else(|| Error::invalid("customerId", "is not a known customer"))?;
            let known = tenant.entitlements_at(customer.customer.vendor, contract).await?.into_iter().next();
            if let Some(known) = known.filter(|known| known.status != EntitlementStatus::Expired) {
                return Ok(Plan::unchanged((known, false)));
            }
            let change = opened(tenant, &customer, new.clone()).await?;
            let entitlement = change.entitlement.clone();
            Ok(change.into_plan(seen).answering((entitlement, true)))
        })
        .await
}

/// What a pending entitlement waited for has come: from now on its start alone activates it. Answers whether that is new.
pub async fn release(tenant: &Tenant, id: EntitlementId) -> Result<bool> {
    tenant
        .write(|| async {
            let found = tenant.see_entitlement(id).await?;
            let waits = found.kept.entitlement.status == EntitlementStatus::Pending && found.kept.memo.for_activation;
            if !waits {
                return Ok(Plan::unchanged(false));
            }
            let block = tenant.release_entitlement(&found.kept);
            Ok(Plan { answer: true, block, events: Vec::new(), seen: Some(found.seen) })
        })
        .await
}

/// Something happened to a contract. A pair of state and step that `contract.md` §9 does not know is a conflict, with the
/// reason; a step that changes nothing answers the entitlement as it is.
pub async fn advance(tenant: &Tenant, id: EntitlementId, step: Step) -> Result<Entitlement> {
    tenant
        .write(|| async {
            let found = tenant.see_entitlement(id).await?;
            match stepped(tenant, found.customer.as_ref(), &found.kept, &step).await? {
                Some(change) => Ok(change.into_plan(found.seen)),
                None => Ok(Plan::unchanged(found.kept.entitlement)),
            }
        })
        .await
}

/// The clock came to an entitlement: whatever is due of it happens, and nothing if another process was faster. Answers
/// whether something happened, and when the next is due.
pub async fn tick(tenant: &Tenant, id: EntitlementId) -> Result<(bool, Option<Timestamp>)> {
    tenant
        .write(|| async {
            let found = tenant.see_entitlement(id).await?;
            let step = match due(&found.kept.entitlement, found.kept.memo) {
                Some((at, step)) if at <= tenant.clock().now() => step,
                // It was written down when it would have been due earlier.
                Some(_) => {
                    let block = tenant.reschedule_entitlement(&found.kept);
                    return Ok(Plan { answer: (false, None), block, events: Vec::new(), seen: Some(found.seen) });
                }
                None => return Ok(Plan::unchanged((false, None))),
            };
            let Some(change) = stepped(tenant, found.customer.as_ref(), &found.kept, &step).await? else {
                return Ok(Plan::unchanged((false, None)));
            };
            let next = due(&change.entitlement, Memo::default()).map(|(at, _)| at);
            Ok(change.into_plan(found.seen).answering((true, next)))
        })
        .await
}

/// A change of an entitlement, ready to be committed: alone, or with the acceptance that led to it.
pub(super) struct Change {
    pub entitlement: Entitlement,
    pub block: Block,
    pub events: Vec<NewEvent>,
}

impl Change {
    fn into_plan(self, seen: Seen) -> Plan<Entitlement> {
        Plan { answer: self.entitlement, block: self.block, events: self.events, seen: Some(seen) }
    }
}

/// The change that creates an entitlement.
pub(super) async fn opened(tenant: &Tenant, customer: &CustomerState, new: NewEntitlement) -> Result<Change> {
    let memo = Memo { for_activation: new.awaits_activation, ..Memo::default() };
    let id = EntitlementId(tenant.clock().mint());
    let entitlement = new.into_entitlement(id, tenant.organization(), customer.customer.vendor)?;
    let memo = memo.after(&entitlement, id.created_at());
    let told = (EventKind::EntitlementCreated, HistoryAction::Created);
    change(tenant, customer, None, Kept { entitlement, memo }, told).await
}

/// The change that a step makes, if it makes one.
pub(super) async fn stepped(
    tenant: &Tenant,
    customer: Option<&CustomerState>,
    from: &Kept,
    step: &Step,
) -> Result<Option<Change>> {
    let (mut next, transition) = step.apply(&from.entitlement)?;
    let customer = customer.ok_or_else(|| Error::internal("a live entitlement has no customer"))?;
    if next == from.entitlement {
        return Ok(None);
    }
    let now = tenant.clock().now();
    next.updated_at = now;
    let memo = from.memo.after(&next, now);
    let to = Kept { entitlement: next, memo };
    change(tenant, customer, Some(from), to, (transition.event, transition.action)).await.map(Some)
}

/// Record, history, counts, the customer's share in it, and what is told of it.
async fn change(
    tenant: &Tenant,
    customer: &CustomerState,
    from: Option<&Kept>,
    to: Kept,
    (kind, action): (EventKind, HistoryAction),
) -> Result<Change> {
    let entitlement = to.entitlement.clone();
    let changes = from.map(|from| entitlement.changes_since(&from.entitlement));
    let history = HistoryEntry { action, timestamp: entitlement.updated_at, changes: changes.clone() };
    let of = (entitlement.organization_id, entitlement.vendor);
    let event = NewEvent::about(kind, EventId(tenant.clock().mint()), of, &entitlement, changes)?;
    let block = tenant.save_entitlement(from, &to, &history).await?;
    let after = customer.after(from.map(|from| from.entitlement.status), entitlement.status);
    let (block, flipped) = move_customer(tenant, customer, after, &entitlement, block).await?;
    Ok(Change { entitlement, block, events: [event].into_iter().chain(flipped).collect() })
}

/// What an entitlement's change means for its customer: what it counts, and perhaps its status, which is told.
async fn move_customer(
    tenant: &Tenant,
    before: &CustomerState,
    mut after: CustomerState,
    entitlement: &Entitlement,
    block: Block,
) -> Result<(Block, Option<NewEvent>)> {
    if (after.live, after.suspended) == (before.live, before.suspended) {
        return Ok((block, None));
    }
    let mut event = None;
    if after.customer.status != before.customer.status {
        after.customer.updated_at = entitlement.updated_at;
        let known = tenant.see_customer(before.customer.id).await?.detail;
        let next = CustomerDetail {
            customer: after.customer.clone(),
            entitlements: with_summary(&known.entitlements, entitlement),
        };
        let changes = Changes::between(&known.to_json(), &next.to_json());
        let id = EventId(tenant.clock().mint());
        event = Some(super::customers::announce(EventKind::CustomerUpdated, id, &next, Some(changes))?);
    }
    Ok((block.and(tenant.save_customer_state(&after)), event))
}

fn with_summary(known: &[EntitlementSummary], entitlement: &Entitlement) -> Vec<EntitlementSummary> {
    let summary = EntitlementSummary {
        id: entitlement.id,
        listing_id: entitlement.listing_id.clone(),
        status: entitlement.status,
    };
    let mut summaries = known.to_vec();
    match summaries.iter_mut().find(|known| known.id == entitlement.id) {
        Some(known) => *known = summary,
        None => summaries.insert(0, summary),
    }
    summaries
}
