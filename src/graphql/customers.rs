//! Customers over GraphQL.

use std::sync::Arc;

use async_graphql::{Context, ID, InputObject, MaybeUndefined, Object, Result, SimpleObject};

use super::call;
use super::connections::{DateRange, Records, connect, nested_size, nullable, order_by, page_size, payload, set};
use super::entitlements::{self, Entitlement};
use super::errors::fault;
use super::loaders::{EntitlementsOf, MeteringOf, OffersOf, SummariesOf, load};
use super::metering::{self, MeteringSubmission};
use super::offers::{self, PrivateOffer};
use crate::model;
use crate::model::customer::{CustomerDetail, CustomerPatch, CustomerStatus, NewCustomer};
use crate::model::entitlement::EntitlementStatus;
use crate::model::filter::{Filter, ListQuery};
use crate::model::input::Problems;
use crate::model::page::{ListName, PageRequest};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::customers;

/// A buyer on one marketplace.
pub struct Customer {
    record: model::customer::Customer,
    /// Known when the record was read in its single form; else loaded with its siblings'.
    summaries: Option<Vec<model::entitlement::EntitlementSummary>>,
}

#[Object]
impl Customer {
    pub async fn id(&self) -> ID {
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
    /// The short forms that REST shows in the single customer; newest first, at most 100.
    async fn entitlement_summaries(&self, ctx: &Context<'_>) -> Option<Result<Vec<EntitlementSummary>>> {
        let summaries = match &self.summaries {
            Some(known) => Ok(known.clone()),
            None => load(ctx, SummariesOf(self.record.id)).await.map(Option::unwrap_or_default),
        };
        Some(summaries.map(|summaries| summaries.into_iter().map(EntitlementSummary::from).collect()))
    }
    /// Newest first, 10 unless told. Needs `read:entitlements`.
    #[graphql(complexity = "nested_size(first) * child_complexity")]
    async fn entitlements(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Option<Result<Records<Entitlement>>> {
        let limit = nested_size(first);
        Some(match (first, after) {
            (None | Some(1..), None) => {
                let page = load(ctx, EntitlementsOf { customer: self.record.id, limit }).await;
                page.map(|page| connect(call(ctx), entitlements::NEWEST, false, page.unwrap_or_default()))
            }
            (first, after) => entitlements::page(ctx, first, after, self.children(), None).await,
        })
    }
    /// Newest first, 10 unless told. Needs `read:private-offers`.
    #[graphql(complexity = "nested_size(first) * child_complexity")]
    async fn private_offers(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Option<Result<Records<PrivateOffer>>> {
        let limit = nested_size(first);
        Some(match (first, after) {
            (None | Some(1..), None) => {
                let page = load(ctx, OffersOf { customer: self.record.id, limit }).await;
                page.map(|page| connect(call(ctx), offers::NEWEST, false, page.unwrap_or_default()))
            }
            (first, after) => offers::page(ctx, first, after, self.children(), None).await,
        })
    }
    /// Newest first, 10 unless told. Needs `write:metering`.
    #[graphql(complexity = "nested_size(first) * child_complexity")]
    async fn metering_submissions(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Option<Result<Records<MeteringSubmission>>> {
        let limit = nested_size(first);
        Some(match (first, after) {
            (None | Some(1..), None) => {
                let page = load(ctx, MeteringOf { customer: self.record.id, limit }).await;
                page.map(|page| connect(call(ctx), metering::NEWEST, false, page.unwrap_or_default()))
            }
            (first, after) => metering::page(ctx, first, after, self.children(), None).await,
        })
    }
}

impl Customer {
    /// What is this customer's.
    fn children(&self) -> Filter {
        Filter { customer: Some(self.record.id), ..Filter::default() }
    }
}

impl From<model::customer::Customer> for Customer {
    fn from(record: model::customer::Customer) -> Self {
        Self { record, summaries: None }
    }
}

impl From<CustomerDetail> for Customer {
    fn from(detail: CustomerDetail) -> Self {
        Self { record: detail.customer, summaries: Some(detail.entitlements) }
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
    status: MaybeUndefined<CustomerStatus>,
}

impl From<UpdateCustomerInput> for CustomerPatch {
    fn from(input: UpdateCustomerInput) -> Self {
        let mut problems = Problems::default();
        Self {
            email: nullable(input.email),
            company_name: set(input.company_name, &mut problems, "companyName"),
            status: set(input.status, &mut problems, "status"),
            problems,
            ..Self::default()
        }
    }
}

payload!(CustomerPayload, customer: Customer);

/// Which customers; all conditions hold.
#[derive(InputObject)]
pub struct CustomerFilter {
    vendor: Option<Vendor>,
    status: Option<CustomerStatus>,
    created_at: Option<DateRange>,
    /// Words, or beginnings of words, of the name, the address or the vendor's identifier.
    search: Option<String>,
}

impl From<CustomerFilter> for Filter {
    fn from(filter: CustomerFilter) -> Self {
        Self {
            vendor: filter.vendor,
            status: filter.status.map(CustomerStatus::as_str),
            created: DateRange::range(filter.created_at),
            search: filter.search,
            ..Self::default()
        }
    }
}

order_by!(CustomerOrder, CustomerOrderField, CompanyName);

#[derive(Default)]
pub struct CustomerQuery;

#[Object]
impl CustomerQuery {
    /// One customer. Needs `read:customers`.
    async fn customer(&self, ctx: &Context<'_>, id: ID) -> Option<Result<Customer>> {
        Some(one(ctx, &id).await)
    }

    /// Customers, newest first unless told. Needs `read:customers`.
    #[graphql(complexity = "page_size(first) * child_complexity")]
    async fn customers(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 20 unless told; above 100 means 100.")] first: Option<i32>,
        #[graphql(desc = "The cursor to continue after.")] after: Option<String>,
        filter: Option<CustomerFilter>,
        order_by: Option<CustomerOrder>,
    ) -> Option<Result<Records<Customer>>> {
        let (continued, order) = (after.is_some(), CustomerOrder::order(order_by));
        let filter = filter.map(Filter::from).unwrap_or_default();
        let query = ListQuery { page: PageRequest::from_arguments(first, after), filter, order };
        let page = customers::list(call(ctx), query).await;
        Some(page.map_err(fault).map(|page| connect(call(ctx), (ListName::Customers, order), continued, page)))
    }
}

pub async fn one(ctx: &Context<'_>, id: &str) -> Result<Customer> {
    customers::get(call(ctx), id).await.map(|detail| Arc::unwrap_or_clone(detail).into()).map_err(fault)
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
