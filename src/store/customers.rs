//! Customers in the store.

use std::collections::HashMap;
use std::sync::Arc;

use surrealdb::types::{Object, RecordId, SurrealValue};

use super::cache::current;
use super::documents::listed_columns;
use super::lists::{Listing, words_column};
use super::pages::Placed;
use super::write::{Block, Plan, Seen};
use super::{Store, Tenant, organization_of, own_key, vars};
use crate::error::{Error, Result};
use crate::model::customer::{Customer, CustomerDetail, CustomerStatus, account_fields};
use crate::model::entitlement::{EntitlementStatus, EntitlementSummary};
use crate::model::event::NewEvent;
use crate::model::filter::{Filter, Order, OrderBy, words};
use crate::model::id::{CustomerId, EntitlementId, OrganizationId};
use crate::model::page::{MAX_LIMIT, Page, Window};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;

/// How many entitlements a customer's detail form lists, newest first. The rest are in the entitlement list.
const MAX_SUMMARIES: i64 = 100;

#[derive(SurrealValue)]
pub(super) struct Row {
    id: RecordId,
    vendor: Vendor,
    account: String,
    email: Option<String>,
    company_name: String,
    status: CustomerStatus,
    updated_at: Timestamp,
    live: i64,
    suspended: i64,
    position: Option<String>,
}

impl Placed for Row {
    fn position(&mut self) -> Option<String> {
        self.position.take().or_else(|| own_key(&self.id).ok().map(str::to_owned))
    }
}

#[derive(SurrealValue)]
struct SummaryRow {
    id: RecordId,
    listing_id: String,
    status: EntitlementStatus,
}

#[derive(SurrealValue)]
struct SummariesRow {
    key: String,
    entitlements: Vec<SummaryRow>,
}

#[derive(SurrealValue)]
struct DetailRow {
    sequence: i64,
    customer: Row,
    entitlements: Vec<SummaryRow>,
}

/// What a change of a customer starts from.
pub struct CustomerSeen {
    pub seen: Seen,
    pub detail: CustomerDetail,
    /// How many live entitlements it has.
    pub live: i64,
}

/// A customer with what it counts of its entitlements.
#[derive(Clone, Debug)]
pub struct CustomerState {
    pub customer: Customer,
    pub live: i64,
    pub suspended: i64,
}

impl CustomerState {
    /// After one of its entitlements went from one state to another. With every live one suspended it is suspended itself
    /// (`contract.md` §8); one that was inactive and gets a live one is active again.
    #[must_use]
    pub fn after(&self, from: Option<EntitlementStatus>, to: EntitlementStatus) -> Self {
        let count = |known: i64, counts: &dyn Fn(EntitlementStatus) -> bool| {
            known - i64::from(from.is_some_and(counts)) + i64::from(counts(to))
        };
        let live = count(self.live, &EntitlementStatus::is_live);
        let suspended = count(self.suspended, &|status| status == EntitlementStatus::Suspended);
        let mut customer = self.customer.clone();
        customer.status = match customer.status {
            _ if live > 0 && live == suspended => CustomerStatus::Suspended,
            _ if live > 0 => CustomerStatus::Active,
            CustomerStatus::Suspended => CustomerStatus::Active,
            status => status,
        };
        Self { customer, live, suspended }
    }
}

impl Row {
    pub(super) fn into_state(self, organization: OrganizationId) -> Result<CustomerState> {
        let (live, suspended) = (self.live, self.suspended);
        Ok(CustomerState { customer: self.into_model(organization)?, live, suspended })
    }

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
        sequence: $organization.sequence,
        customer: $customer,
        entitlements: (SELECT id, listing_id, status, key FROM entitlement WITH INDEX entitlement_of
            WHERE organization = $org AND customer = $key ORDER BY key LIMIT $summaries)
    };
}";

const STATE: &str = "{
    LET $customer = SELECT * FROM ONLY $record;
    IF $customer = NONE { RETURN NONE };
    RETURN { sequence: $organization.sequence, customer: $customer };
}";

#[derive(SurrealValue)]
struct StateRow {
    sequence: i64,
    customer: Row,
}

/// What can be searched for: the name, the address, the vendor's identifier.
fn words_of(customer: &Customer) -> Vec<String> {
    let fields = [
        Some(&customer.company_name),
        customer.email.as_ref(),
        customer.cloud_account_id.as_ref(),
        customer.tenant_id.as_ref(),
    ];
    words(&fields.into_iter().flatten().cloned().collect::<Vec<_>>().join(" "))
}

impl Store {
    /// The second half of migration 0002: customers that an older version wrote are listed and found like new ones.
    pub(super) async fn index_customers(&self) -> Result<()> {
        const OLD: &str = "SELECT * FROM customer WHERE key = '' LIMIT 500";
        loop {
            let rows: Vec<Row> = self.ask(OLD, vars! {}).await?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in rows {
                let organization = organization_of(&row.id)?;
                self.tenant(organization, None).index_customer(row.into_model(organization)?).await?;
            }
        }
    }
}

impl Tenant {
    async fn index_customer(&self, customer: Customer) -> Result<()> {
        let block =
            self.set_customer(&customer).and(self.reword("customer", &customer.id.key(), &[], &words_of(&customer)));
        self.write(|| async { Ok(Plan::quiet((), block.clone())) }).await
    }

    pub async fn list_customers(&self, filter: &Filter, order: Order, window: Window) -> Result<Page<Customer>> {
        let cache = &self.store.0.cache;
        let plain = *filter == Filter::default() && order == Order::Newest && window.limit <= MAX_LIMIT;
        let quiet = cache.records_quiet(self.organization).filter(|_| plain);
        let place = (self.organization, window.after.clone(), window.limit);
        if let Some(page) = current(&cache.pages, &place, quiet) {
            return Ok(Page::clone(&page));
        }
        let listing = Listing { table: "customer", columns: "*", filter, order };
        let rows = self.listed::<Row>(&listing, window).await?;
        let page = rows.try_map(|row| row.into_model(self.organization))?;
        if let Some(quiet) = quiet {
            cache.pages.insert(place, (quiet, Arc::new(page.clone())));
        }
        Ok(page)
    }

    /// Those of these that exist.
    pub async fn customers(&self, ids: &[CustomerId]) -> Result<Vec<Customer>> {
        let records: Vec<RecordId> = ids.iter().map(|id| self.record("customer", id.key())).collect();
        let rows: Vec<Row> = self.store.ask("SELECT * FROM $records", vars! { "records" => records }).await?;
        rows.into_iter().map(|row| row.into_model(self.organization)).collect()
    }

    /// The customer behind a vendor's identifier.
    pub async fn find_customer_at(&self, vendor: Vendor, account: &str) -> Result<Option<Customer>> {
        const FIND: &str = "SELECT * FROM customer WITH INDEX customer_account
            WHERE organization = $org AND vendor = $vendor AND account = $account LIMIT 1";
        let vars = vars! { "org" => self.organization.to_string(), "vendor" => vendor, "account" => account };
        let found = self.store.ask::<Vec<Row>>(FIND, vars).await?.into_iter().next();
        found.map(|row| row.into_model(self.organization)).transpose()
    }

    /// For planners that change something of a customer's.
    pub async fn find_customer_state(&self, id: CustomerId) -> Result<Option<(Seen, CustomerState)>> {
        let vars =
            vars! { "record" => self.record("customer", id.key()), "organization" => self.organization_record() };
        let found: Option<StateRow> = self.store.ask(STATE, vars).await?;
        let state = |row: StateRow| Ok((Seen(row.sequence), row.customer.into_state(self.organization)?));
        found.map(state).transpose()
    }

    pub async fn get_customer(&self, id: CustomerId) -> Result<Arc<CustomerDetail>> {
        let cache = &self.store.0.cache;
        let (key, quiet) = ((self.organization, id), cache.records_quiet(self.organization));
        if let Some(detail) = current(&cache.customers, &key, quiet) {
            return Ok(detail);
        }
        let detail = Arc::new(self.see_customer(id).await?.detail);
        if let Some(quiet) = quiet {
            cache.customers.insert(key, (quiet, Arc::clone(&detail)));
        }
        Ok(detail)
    }

    /// For planners.
    pub async fn see_customer(&self, id: CustomerId) -> Result<CustomerSeen> {
        let vars = vars! {
            "record" => self.record("customer", id.key()),
            "organization" => self.organization_record(),
            "org" => self.organization.to_string(),
            "key" => id.key(),
            "summaries" => MAX_SUMMARIES,
        };
        let found: Option<DetailRow> = self.store.ask(DETAIL, vars).await?;
        let DetailRow { sequence, customer: row, entitlements } = found.ok_or(Error::NOT_FOUND)?;
        let live = row.live;
        let customer = row.into_model(self.organization)?;
        let entitlements = entitlements.into_iter().map(SummaryRow::into_model).collect::<Result<_>>()?;
        Ok(CustomerSeen { seen: Seen(sequence), detail: CustomerDetail { customer, entitlements }, live })
    }

    /// The newest entitlements of each customer, in one query.
    pub async fn entitlements_of_customers(
        &self,
        ids: &[CustomerId],
    ) -> Result<HashMap<CustomerId, Vec<EntitlementSummary>>> {
        const OF: &str = "RETURN $keys.map(|$key| { key: $key, entitlements:
            (SELECT id, listing_id, status, key FROM entitlement WITH INDEX entitlement_of
                WHERE organization = $org AND customer = $key ORDER BY key LIMIT $summaries) })";
        let keys: Vec<String> = ids.iter().map(|id| id.key()).collect();
        let vars = vars! { "org" => self.organization.to_string(), "keys" => keys, "summaries" => MAX_SUMMARIES };
        let summaries = |row: SummariesRow| {
            let id = CustomerId::from_key(&row.key).ok_or_else(|| Error::internal("a customer's key is broken"))?;
            Ok((id, row.entitlements.into_iter().map(SummaryRow::into_model).collect::<Result<_>>()?))
        };
        self.store.ask::<Vec<SummariesRow>>(OF, vars).await?.into_iter().map(summaries).collect()
    }

    pub async fn has_open_offer(&self, id: CustomerId) -> Result<bool> {
        const OPEN: &str = "SELECT VALUE id FROM private_offer WITH INDEX private_offer_customer
            WHERE organization = $org AND customer = $key AND status = 'created' LIMIT 1";
        let vars = vars! { "org" => self.organization.to_string(), "key" => id.key() };
        Ok(!self.store.ask::<Vec<RecordId>>(OPEN, vars).await?.is_empty())
    }

    pub fn plan_customer_created(&self, detail: CustomerDetail, event: NewEvent) -> Plan<CustomerDetail> {
        const CREATE: &str = "CREATE ONLY $customer CONTENT $customer_content RETURN NONE;";
        let customer = &detail.customer;
        let mut content = vars! {
            "vendor" => customer.vendor,
            "account" => customer.cloud_account_id.clone().or_else(|| customer.tenant_id.clone()),
            "live" => 0_i64,
            "suspended" => 0_i64,
        };
        content.extend(self.customer_columns(customer));
        let key = customer.id.key();
        let vars = vars! { "customer" => self.record("customer", key.as_str()), "customer_content" => content };
        let block = Block::default().then(CREATE, vars).and(self.reword("customer", &key, &[], &words_of(customer)));
        Plan { block, events: vec![event], answer: detail, seen: None }
    }

    pub fn plan_customer_updated(
        &self,
        from: &CustomerSeen,
        to: CustomerDetail,
        event: NewEvent,
    ) -> Plan<CustomerDetail> {
        let customer = &to.customer;
        let reworded =
            self.reword("customer", &customer.id.key(), &words_of(&from.detail.customer), &words_of(customer));
        let block = self.set_customer(customer).and(reworded);
        Plan { block, events: vec![event], answer: to, seen: Some(from.seen) }
    }

    fn set_customer(&self, customer: &Customer) -> Block {
        const UPDATE: &str = "UPDATE ONLY $customer MERGE $customer_content RETURN NONE;";
        let vars = vars! {
            "customer" => self.record("customer", customer.id.key()),
            "customer_content" => self.customer_columns(customer),
        };
        Block::default().then(UPDATE, vars)
    }

    /// What an update can change.
    fn customer_columns(&self, customer: &Customer) -> Object {
        let order = OrderBy::Text(&customer.company_name);
        let mut columns = listed_columns(self.organization.to_string(), customer.id.0, &order);
        columns.extend(vars! {
            "email" => customer.email.clone(),
            "company_name" => customer.company_name.clone(),
            "status" => customer.status,
            "updated_at" => customer.updated_at,
            "words" => words_column(&words_of(customer)),
        });
        columns
    }

    pub fn plan_customer_deleted(
        &self,
        from: &CustomerSeen,
        gone: CustomerDetail,
        event: NewEvent,
    ) -> Plan<CustomerDetail> {
        const DELETE: &str = "DELETE ONLY $customer RETURN BEFORE;";
        let key = gone.customer.id.key();
        let vars = vars! { "customer" => self.record("customer", key.as_str()) };
        let forgotten = self.reword("customer", &key, &words_of(&from.detail.customer), &[]);
        let block = Block::default().then(DELETE, vars).and(forgotten);
        Plan { block, events: vec![event], answer: gone, seen: Some(from.seen) }
    }

    /// The statements that bring a customer to a state that follows from its entitlements.
    pub fn save_customer_state(&self, to: &CustomerState) -> Block {
        const SET: &str = "UPDATE ONLY $customer SET status = $customer_status, updated_at = $customer_updated_at,
            live = $customer_live, suspended = $customer_suspended RETURN NONE;";
        let vars = vars! {
            "customer" => self.record("customer", to.customer.id.key()),
            "customer_status" => to.customer.status,
            "customer_updated_at" => to.customer.updated_at,
            "customer_live" => to.live,
            "customer_suspended" => to.suspended,
        };
        Block::default().then(SET, vars)
    }
}
