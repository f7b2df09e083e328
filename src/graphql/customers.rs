//! Customers in GraphQL.

use std::sync::Arc;

use async_graphql::connection::{Connection, Edge};
use async_graphql::dataloader::DataLoader;
use async_graphql::{Context, ID, InputObject, MaybeUndefined, Object, Result, SimpleObject};

use super::call;
use super::errors::{UserError, fault, settle};
use super::loaders::Loaders;
use crate::error::Error;
use crate::model;
use crate::model::customer::{CustomerDetail, CustomerPatch, CustomerStatus, NewCustomer};
use crate::model::entitlement::EntitlementStatus;
use crate::model::input::Problems;
use crate::model::page::{DEFAULT_LIMIT, ListName, MAX_LIMIT, PageRequest};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::customers;

/// A buyer on one marketplace.
pub struct Customer {
    record: model::customer::Customer,
    /// Known when the record was read in its single form; else loaded with its siblings'.
    entitlements: Option<Vec<model::entitlement::EntitlementSummary>>,
}

#[Object]
impl Customer {
    async fn id(&self) -> ID {
        self.record.id.into()
    }
    async fn organization_id(&self) -> ID {
        self.record.organization_id.into()
    }
    async fn vendor(&self) -> Vendor {
        self.record.vendor
    }
    /// The account id of a CLOUD_A customer; null for the other vendor.
    async fn cloud_account_id(&self) -> Option<&str> {
        self.record.cloud_account_id.as_deref()
    }
    /// The tenant id of a CLOUD_B customer; null for the other vendor.
    async fn tenant_id(&self) -> Option<&str> {
        self.record.tenant_id.as_deref()
    }
    async fn email(&self) -> Option<&str> {
        self.record.email.as_deref()
    }
    async fn company_name(&self) -> &str {
        &self.record.company_name
    }
    async fn status(&self) -> CustomerStatus {
        self.record.status
    }
    async fn created_at(&self) -> Timestamp {
        self.record.created_at
    }
    async fn updated_at(&self) -> Timestamp {
        self.record.updated_at
    }
    /// Newest first, at most 100.
    async fn entitlements(&self, ctx: &Context<'_>) -> Option<Result<Vec<EntitlementSummary>>> {
        let summaries = match &self.entitlements {
            Some(known) => Ok(known.clone()),
            None => {
                let loaded = ctx.data_unchecked::<DataLoader<Loaders>>().load_one(self.record.id).await;
                loaded.map(Option::unwrap_or_default).map_err(|error| fault(Arc::unwrap_or_clone(error)))
            }
        };
        Some(summaries.map(|summaries| summaries.into_iter().map(EntitlementSummary::from).collect()))
    }
}

impl From<model::customer::Customer> for Customer {
    fn from(record: model::customer::Customer) -> Self {
        Self { record, entitlements: None }
    }
}

impl From<CustomerDetail> for Customer {
    fn from(detail: CustomerDetail) -> Self {
        Self { record: detail.customer, entitlements: Some(detail.entitlements) }
    }
}

/// An entitlement as its customer shows it.
#[derive(SimpleObject)]
pub struct EntitlementSummary {
    id: ID,
    listing_id: String,
    status: EntitlementStatus,
}

impl From<model::entitlement::EntitlementSummary> for EntitlementSummary {
    fn from(summary: model::entitlement::EntitlementSummary) -> Self {
        Self { id: summary.id.into(), listing_id: summary.listing_id, status: summary.status }
    }
}

#[derive(InputObject)]
pub struct CreateCustomerInput {
    vendor: Vendor,
    company_name: String,
    email: Option<String>,
    /// Required for CLOUD_A, refused for CLOUD_B.
    cloud_account_id: Option<String>,
    /// Required for CLOUD_B, refused for CLOUD_A.
    tenant_id: Option<String>,
}

impl From<CreateCustomerInput> for NewCustomer {
    fn from(input: CreateCustomerInput) -> Self {
        Self {
            vendor: Some(input.vendor),
            company_name: Some(input.company_name),
            email: input.email,
            cloud_account_id: input.cloud_account_id,
            tenant_id: input.tenant_id,
            problems: Problems::default(),
        }
    }
}

/// Absent fields stay as they are.
#[derive(InputObject)]
pub struct UpdateCustomerInput {
    /// Null removes the address.
    email: MaybeUndefined<String>,
    company_name: MaybeUndefined<String>,
    /// ACTIVE or INACTIVE.
    status: Option<CustomerStatus>,
}

impl From<UpdateCustomerInput> for CustomerPatch {
    fn from(input: UpdateCustomerInput) -> Self {
        let mut patch = Self {
            email: input.email.as_opt_ref().map(Option::<&String>::cloned),
            status: input.status,
            ..Self::default()
        };
        match input.company_name {
            MaybeUndefined::Undefined => {}
            MaybeUndefined::Value(name) => patch.company_name = Some(name),
            MaybeUndefined::Null => patch.problems.malformed("companyName", "must be a string"),
        }
        patch
    }
}

/// The customer as the mutation left it, or why it did not happen.
#[derive(SimpleObject)]
pub struct CustomerPayload {
    customer: Option<Customer>,
    user_errors: Vec<UserError>,
}

impl CustomerPayload {
    fn of(result: Result<CustomerDetail, Error>) -> Result<Self> {
        let (detail, user_errors) = settle(result)?;
        Ok(Self { customer: detail.map(Customer::from), user_errors })
    }
}

#[derive(Default)]
pub struct CustomerQuery;

#[Object]
impl CustomerQuery {
    /// One customer. Needs `read:customers`.
    async fn customer(&self, ctx: &Context<'_>, id: ID) -> Option<Result<Customer>> {
        Some(customers::get(call(ctx), &id).await.map(|detail| Arc::unwrap_or_clone(detail).into()).map_err(fault))
    }

    /// Customers, newest first. Needs `read:customers`.
    #[graphql(complexity = "page_size(first) * child_complexity")]
    async fn customers(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 20 unless told; above 100 means 100.")] first: Option<i32>,
        #[graphql(desc = "The cursor to continue after.")] after: Option<String>,
    ) -> Option<Result<Connection<String, Customer>>> {
        let continued = after.is_some();
        let page = customers::list(call(ctx), PageRequest::from_arguments(first, after)).await;
        let cursors = call(ctx).cursor_scope(ListName::Customers);
        Some(page.map_err(fault).map(|page| {
            let mut connection = Connection::new(continued, page.has_more);
            let edges = page.items.into_iter();
            connection.edges.extend(edges.map(|record| Edge::new(cursors.encode(record.id.0), record.into())));
            connection
        }))
    }
}

/// What a page multiplies the cost of its items by.
fn page_size(first: Option<i32>) -> usize {
    first.map_or(DEFAULT_LIMIT, |first| usize::try_from(first).unwrap_or(1).clamp(1, MAX_LIMIT))
}

#[derive(Default)]
pub struct CustomerMutation;

#[Object]
impl CustomerMutation {
    /// Needs `write:customers`. Emits `customer.created`.
    async fn create_customer(&self, ctx: &Context<'_>, input: CreateCustomerInput) -> Option<Result<CustomerPayload>> {
        Some(CustomerPayload::of(customers::create(call(ctx), input.into()).await))
    }

    /// Merges. Needs `write:customers`. Emits `customer.updated` if anything changed.
    async fn update_customer(
        &self,
        ctx: &Context<'_>,
        id: ID,
        input: UpdateCustomerInput,
    ) -> Option<Result<CustomerPayload>> {
        Some(CustomerPayload::of(customers::update(call(ctx), &id, input.into()).await))
    }

    /// Needs `write:customers`. Emits `customer.deleted`.
    async fn delete_customer(&self, ctx: &Context<'_>, id: ID) -> Option<Result<CustomerPayload>> {
        Some(CustomerPayload::of(customers::delete(call(ctx), &id).await))
    }
}
