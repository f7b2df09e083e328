//! Customers in the store.

use std::collections::HashMap;
use std::sync::Arc;

use surrealdb::types::{RecordId, SurrealValue};

use super::cache::current;
use super::write::{Block, Plan, UNMOVED};
use super::{Tenant, own_key, vars};
use crate::error::{Error, Result};
use crate::model::customer::{Customer, CustomerDetail, CustomerStatus, account_fields};
use crate::model::entitlement::{EntitlementStatus, EntitlementSummary};
use crate::model::event::NewEvent;
use crate::model::id::{CustomerId, EntitlementId, OrganizationId};
use crate::model::page::{Page, Window};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;

/// How many entitlements a customer's detail form lists, newest first. The rest are in the entitlement list.
const MAX_SUMMARIES: i64 = 100;

#[derive(SurrealValue)]
struct Row {
    id: RecordId,
    vendor: Vendor,
    account: String,
    email: Option<String>,
    company_name: String,
    status: CustomerStatus,
    updated_at: Timestamp,
    revision: i64,
}

#[derive(SurrealValue)]
struct SummaryRow {
    id: RecordId,
    listing_id: String,
    status: EntitlementStatus,
}

#[derive(SurrealValue)]
struct ChildRow {
    id: RecordId,
    customer: String,
    listing_id: String,
    status: EntitlementStatus,
}

#[derive(SurrealValue)]
struct DetailRow {
    customer: Row,
    entitlements: Vec<SummaryRow>,
}

/// A customer as it was read, and the revision that a change must still meet.
pub struct Versioned {
    pub detail: CustomerDetail,
    revision: i64,
}

impl Row {
    fn into_model(self, organization_id: OrganizationId) -> Result<Customer> {
        let id =
            CustomerId::from_key(own_key(&self.id)?).ok_or_else(|| Error::internal("a customer's key is broken"))?;
        let (cloud_account_id, tenant_id) = account_fields(self.vendor, self.account);
        Ok(Customer {
            id,
            organization_id,
            vendor: self.vendor,
            cloud_account_id,
            tenant_id,
            email: self.email,
            company_name: self.company_name,
            status: self.status,
            created_at: id.created_at(),
            updated_at: self.updated_at,
        })
    }
}

impl SummaryRow {
    fn into_model(self) -> Result<EntitlementSummary> {
        let id = EntitlementId::from_key(own_key(&self.id)?);
        let id = id.ok_or_else(|| Error::internal("an entitlement's key is broken"))?;
        Ok(EntitlementSummary { id, listing_id: self.listing_id, status: self.status })
    }
}

const DETAIL: &str = "{
    LET $customer = SELECT * FROM ONLY $record;
    IF $customer = NONE { RETURN NONE };
    RETURN {
        customer: $customer,
        entitlements: (SELECT id, listing_id, status FROM entitlement
            WHERE organization = $org AND customer = $key LIMIT $summaries)
    };
}";

impl Tenant {
    pub async fn list_customers(&self, window: Window) -> Result<Page<Customer>> {
        self.page::<Row>("customer", window).await?.try_map(|row| row.into_model(self.organization))
    }

    pub async fn get_customer(&self, id: CustomerId) -> Result<Arc<CustomerDetail>> {
        let cache = &self.store.0.cache;
        let (key, quiet) = ((self.organization, id), cache.records_quiet(self.organization));
        if let Some(detail) = current(&cache.customers, &key, quiet) {
            return Ok(detail);
        }
        let detail = Arc::new(self.get_versioned(id).await?.detail);
        if let Some(quiet) = quiet {
            cache.customers.insert(key, (quiet, Arc::clone(&detail)));
        }
        Ok(detail)
    }

    /// For planners: what a change starts from.
    pub async fn get_versioned(&self, id: CustomerId) -> Result<Versioned> {
        let vars = vars! {
            "record" => self.record("customer", id.key()),
            "org" => self.organization.to_string(),
            "key" => id.key(),
            "summaries" => MAX_SUMMARIES,
        };
        let found: Option<DetailRow> = self.store.ask(DETAIL, vars).await?;
        let DetailRow { customer: row, entitlements } = found.ok_or(Error::NOT_FOUND)?;
        let revision = row.revision;
        let customer = row.into_model(self.organization)?;
        let entitlements = entitlements.into_iter().map(SummaryRow::into_model).collect::<Result<_>>()?;
        Ok(Versioned { detail: CustomerDetail { customer, entitlements }, revision })
    }

    /// The newest entitlements of each customer, in one query.
    pub async fn entitlements_of_customers(
        &self,
        ids: &[CustomerId],
    ) -> Result<HashMap<CustomerId, Vec<EntitlementSummary>>> {
        const OF: &str = "SELECT id, customer, listing_id, status FROM entitlement
            WHERE organization = $org AND customer IN $keys LIMIT $most";
        let most = MAX_SUMMARIES * i64::try_from(ids.len()).unwrap_or(i64::MAX);
        let keys: Vec<String> = ids.iter().map(|id| id.key()).collect();
        let vars = vars! { "org" => self.organization.to_string(), "keys" => keys, "most" => most };
        let mut found: HashMap<CustomerId, Vec<EntitlementSummary>> = HashMap::new();
        for row in self.store.ask::<Vec<ChildRow>>(OF, vars).await? {
            let customer = CustomerId::from_key(&row.customer);
            let customer = customer.ok_or_else(|| Error::internal("an entitlement's customer is broken"))?;
            let summary = SummaryRow { id: row.id, listing_id: row.listing_id, status: row.status };
            found.entry(customer).or_default().push(summary.into_model()?);
        }
        Ok(found)
    }

    pub async fn has_open_offer(&self, id: CustomerId) -> Result<bool> {
        const OPEN: &str = "SELECT VALUE id FROM private_offer
            WHERE organization = $org AND customer = $key AND status = 'created' LIMIT 1";
        let vars = vars! { "org" => self.organization.to_string(), "key" => id.key() };
        Ok(!self.store.ask::<Vec<RecordId>>(OPEN, vars).await?.is_empty())
    }

    pub fn plan_customer_created(&self, detail: CustomerDetail, event: NewEvent) -> Plan<CustomerDetail> {
        const CREATE: &str = "CREATE ONLY $record CONTENT $content RETURN NONE;";
        let customer = &detail.customer;
        let content = vars! {
            "organization" => self.organization.to_string(),
            "vendor" => customer.vendor,
            "account" => customer.cloud_account_id.clone().or_else(|| customer.tenant_id.clone()),
            "email" => customer.email.clone(),
            "company_name" => customer.company_name.clone(),
            "status" => customer.status,
            "updated_at" => customer.updated_at,
            "revision" => 1_i64,
        };
        let vars = vars! { "record" => self.record("customer", customer.id.key()), "content" => content };
        Plan { block: Block::default().then(CREATE, vars), event: Some(event), answer: detail }
    }

    pub fn plan_customer_updated(&self, from: &Versioned, to: CustomerDetail, event: NewEvent) -> Plan<CustomerDetail> {
        const UPDATE: &str = "UPDATE ONLY $record MERGE $content RETURN NONE;";
        let customer = &to.customer;
        let content = vars! {
            "email" => customer.email.clone(),
            "company_name" => customer.company_name.clone(),
            "status" => customer.status,
            "updated_at" => customer.updated_at,
            "revision" => from.revision + 1,
        };
        let block = self.unmoved(from).then(UPDATE, vars! { "content" => content });
        Plan { block, event: Some(event), answer: to }
    }

    pub fn plan_customer_deleted(
        &self,
        from: &Versioned,
        gone: CustomerDetail,
        event: NewEvent,
    ) -> Plan<CustomerDetail> {
        let block = self.unmoved(from).then("DELETE ONLY $record RETURN BEFORE;", vars! {});
        Plan { block, event: Some(event), answer: gone }
    }

    fn unmoved(&self, from: &Versioned) -> Block {
        let record = self.record("customer", from.detail.customer.id.key());
        Block::default().then(UNMOVED, vars! { "record" => record, "revision" => from.revision })
    }
}
