//! Customers (spec "Customer", `contract.md` §8).

use std::collections::HashMap;
use std::sync::Arc;

use crate::call::Call;
use crate::error::{Error, Result};
use crate::model::changes::Changes;
use crate::model::customer::{Customer, CustomerDetail, CustomerPatch, CustomerStatus, NewCustomer, account_fields};
use crate::model::entitlement::EntitlementSummary;
use crate::model::event::{EventKind, NewEvent};
use crate::model::filter::ListQuery;
use crate::model::id::{CustomerId, EventId};
use crate::model::input::Problems;
use crate::model::operation::Operation;
use crate::model::page::{ListName, Page};
use crate::model::vendor::Vendor;
use crate::store::Tenant;
use crate::store::write::Plan;

/// A page, newest first, and what its cursors are made with.
pub async fn list(call: &Call, query: impl Into<ListQuery>) -> Result<Page<Customer>> {
    let tenant = call.grant(Operation::CustomersList.access())?;
    let ListQuery { page, filter, order } = query.into();
    let window = page.check(&filter, &call.cursor_scope(ListName::Customers, order))?;
    tenant.list_customers(&filter, order, window).await
}

/// Those of these customers that exist, in one query.
pub async fn get_many(call: &Call, ids: &[CustomerId]) -> Result<Vec<Customer>> {
    call.grant(Operation::CustomersGet.access())?.customers(ids).await
}

pub async fn get(call: &Call, id: &str) -> Result<Arc<CustomerDetail>> {
    let tenant = call.grant(Operation::CustomersGet.access())?;
    tenant.get_customer(CustomerId::named(id)?).await
}

/// The short forms of these customers' entitlements, in one query. What the single form of a customer shows.
pub async fn entitlements_of(call: &Call, ids: &[CustomerId]) -> Result<HashMap<CustomerId, Vec<EntitlementSummary>>> {
    call.grant(Operation::CustomersGet.access())?.entitlements_of_customers(ids).await
}

/// 409 when the vendor and identifier are taken, 422 with every broken rule.
pub async fn create(call: &Call, new: NewCustomer) -> Result<CustomerDetail> {
    let tenant = call.grant(Operation::CustomersCreate.access())?;
    let (organization, clock) = (tenant.organization(), tenant.clock());
    let checked = new.check();
    tenant
        .write(|| async {
            let detail = checked.clone()?.into_customer(CustomerId(clock.mint()), organization);
            let event = announce(EventKind::CustomerCreated, EventId(clock.mint()), &detail, None)?;
            Ok(tenant.plan_customer_created(detail, event))
        })
        .await
}

/// The customer behind a vendor's identifier, created when nobody knew it. What a marketplace says of it besides is taken
/// as far as it breaks no rule. Answers whether it is new.
pub async fn meet(tenant: &Tenant, vendor: Vendor, account: &str, email: Option<&str>) -> Result<(Customer, bool)> {
    let (cloud_account_id, tenant_id) = account_fields(vendor, account.to_owned());
    let named = |email: Option<&str>| NewCustomer {
        vendor: Some(vendor),
        company_name: Some(company(account, email)),
        email: email.map(str::to_owned),
        cloud_account_id: cloud_account_id.clone(),
        tenant_id: tenant_id.clone(),
        problems: Problems::default(),
    };
    let checked = named(email).check().or_else(|_| named(None).check())?;
    tenant
        .write(|| async {
            if let Some(known) = tenant.find_customer_at(vendor, account).await? {
                return Ok(Plan::unchanged((known, false)));
            }
            let id = CustomerId(tenant.clock().mint());
            let detail = checked.clone().into_customer(id, tenant.organization());
            let event = announce(EventKind::CustomerCreated, EventId(tenant.clock().mint()), &detail, None)?;
            let customer = detail.customer.clone();
            Ok(tenant.plan_customer_created(detail, event).answering((customer, true)))
        })
        .await
}

/// What to call somebody of whom only an identifier is known, and perhaps an address.
fn company(account: &str, email: Option<&str>) -> String {
    let domain = email.and_then(|email| email.rsplit_once('@')).map(|(_, domain)| domain.trim().to_owned());
    domain.filter(|domain| !domain.is_empty()).unwrap_or_else(|| account.to_owned())
}

/// Merges. An update that changes nothing writes nothing and emits nothing.
pub async fn update(call: &Call, id: &str, patch: CustomerPatch) -> Result<CustomerDetail> {
    let tenant = call.grant(Operation::CustomersUpdate.access())?;
    let (id, clock) = (CustomerId::named(id)?, tenant.clock());
    tenant
        .write(|| async {
            let current = tenant.see_customer(id).await?;
            let mut next = patch.apply(&current.detail, current.live > 0)?;
            let changes = Changes::between(&current.detail.to_json(), &next.to_json());
            if changes.is_empty() {
                return Ok(Plan::unchanged(next));
            }
            let event_id = EventId(clock.mint());
            next.customer.updated_at = event_id.created_at();
            let event = announce(EventKind::CustomerUpdated, event_id, &next, Some(changes))?;
            Ok(tenant.plan_customer_updated(&current, next, event))
        })
        .await
}

/// 409 while an entitlement is live or an offer is open. The answer is the customer as it was, with status `deleted`.
pub async fn delete(call: &Call, id: &str) -> Result<CustomerDetail> {
    let tenant = call.grant(Operation::CustomersDelete.access())?;
    let (id, clock) = (CustomerId::named(id)?, tenant.clock());
    tenant
        .write(|| async {
            let current = tenant.see_customer(id).await?;
            if current.live > 0 {
                return Err(Error::conflict("The customer has a live entitlement and cannot be deleted"));
            }
            if tenant.has_open_offer(id).await? {
                return Err(Error::conflict("The customer has an open private offer and cannot be deleted"));
            }
            let mut gone = current.detail.clone();
            let event_id = EventId(clock.mint());
            gone.customer.status = CustomerStatus::Deleted;
            gone.customer.updated_at = event_id.created_at();
            let changes = Changes::between(&current.detail.to_json(), &gone.to_json());
            let event = announce(EventKind::CustomerDeleted, event_id, &gone, Some(changes))?;
            Ok(tenant.plan_customer_deleted(&current, gone, event))
        })
        .await
}

/// The event of a change of a customer.
pub(super) fn announce(
    kind: EventKind,
    id: EventId,
    detail: &CustomerDetail,
    changes: Option<Changes>,
) -> Result<NewEvent> {
    let customer = &detail.customer;
    NewEvent::about(kind, id, (customer.organization_id, customer.vendor), detail, changes)
}
