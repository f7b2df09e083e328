//! Metering over GraphQL.

use std::sync::Arc;

use async_graphql::{Context, ID, InputObject, Object, Result, SimpleObject};

use super::call;
use super::connections::{DateRange, Records, connect, order_by, page_size, payload};
use super::customers::Customer;
use super::errors::fault;
use super::loaders::load;
use crate::model;
use crate::model::decimal::Decimal;
use crate::model::filter::{Filter, ListQuery, Order};
use crate::model::input::Problems;
use crate::model::metering::{MeteringStatus, NewMetering, NewUsageRow, UsageRow};
use crate::model::page::{ListName, PageRequest};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::metering;

/// The list as parents show it.
pub const NEWEST: (ListName, Order) = (ListName::Metering, Order::Newest);

/// A usage report, and what the marketplace said of it.
pub struct MeteringSubmission(Arc<model::metering::MeteringSubmission>);

#[Object]
impl MeteringSubmission {
    pub async fn id(&self) -> ID {
        self.0.id.into()
    }
    async fn organization_id(&self) -> ID {
        self.0.organization_id.into()
    }
    async fn vendor(&self) -> Vendor {
        self.0.vendor
    }
    async fn status(&self) -> MeteringStatus {
        self.0.status
    }
    async fn message(&self) -> &str {
        &self.0.message
    }
    async fn listing_id(&self) -> Option<&str> {
        self.0.listing_id.as_deref()
    }
    async fn details(&self) -> MeteringDetails<'_> {
        let details = &self.0.details;
        MeteringDetails {
            customer: CustomerReference { id: details.customer.id.into() },
            reporting_date: details.reporting_date,
            usage: &details.usage,
        }
    }
    async fn created_at(&self) -> Timestamp {
        self.0.created_at
    }
    async fn updated_at(&self) -> Timestamp {
        self.0.updated_at
    }
    /// Null once it was deleted. Needs `read:customers`.
    async fn customer(&self, ctx: &Context<'_>) -> Option<Result<Customer>> {
        let id = self.0.details.customer.id;
        load(ctx, id).await.map(|customer| customer.map(Customer::from)).transpose()
    }
}

#[derive(SimpleObject)]
pub struct MeteringDetails<'a> {
    customer: CustomerReference,
    reporting_date: Timestamp,
    usage: &'a [UsageRow],
}

#[derive(SimpleObject)]
pub struct CustomerReference {
    id: ID,
}

impl From<Arc<model::metering::MeteringSubmission>> for MeteringSubmission {
    fn from(record: Arc<model::metering::MeteringSubmission>) -> Self {
        Self(record)
    }
}

impl From<model::metering::MeteringSubmission> for MeteringSubmission {
    fn from(record: model::metering::MeteringSubmission) -> Self {
        Arc::new(record).into()
    }
}

#[derive(InputObject)]
pub struct SubmitMeteringInput {
    listing_id: Option<String>,
    details: MeteringDetailsInput,
}

#[derive(InputObject)]
pub struct MeteringDetailsInput {
    customer: CustomerReferenceInput,
    /// Now unless told.
    reporting_date: Option<Timestamp>,
    /// At most 25 rows; none is a report of zero usage.
    usage: Option<Vec<UsageRowInput>>,
}

#[derive(InputObject)]
pub struct CustomerReferenceInput {
    id: ID,
}

#[derive(InputObject)]
pub struct UsageRowInput {
    dimension: String,
    quantity: Decimal,
    /// The reporting date unless told; at most 24 hours ago.
    start_time: Option<Timestamp>,
}

impl From<SubmitMeteringInput> for NewMetering {
    fn from(input: SubmitMeteringInput) -> Self {
        let row = |row: UsageRowInput| NewUsageRow {
            dimension: row.dimension,
            quantity: row.quantity,
            start_time: row.start_time,
        };
        Self {
            customer_id: Some(input.details.customer.id.0),
            listing_id: input.listing_id,
            reporting_date: input.details.reporting_date,
            usage: input.details.usage.unwrap_or_default().into_iter().map(row).collect(),
            problems: Problems::default(),
        }
    }
}

/// Which usage reports; all conditions hold.
#[derive(InputObject)]
pub struct MeteringFilter {
    vendor: Option<Vendor>,
    status: Option<MeteringStatus>,
    listing_id: Option<String>,
    customer_id: Option<ID>,
    created_at: Option<DateRange>,
    reporting_date: Option<DateRange>,
}

impl From<MeteringFilter> for Filter {
    fn from(filter: MeteringFilter) -> Self {
        Self {
            vendor: filter.vendor,
            status: filter.status.map(MeteringStatus::as_str),
            listing_id: filter.listing_id,
            customer: filter.customer_id.map(|id| Self::customer_named(&id)),
            created: DateRange::range(filter.created_at),
            dated: DateRange::range(filter.reporting_date),
            search: None,
        }
    }
}

order_by!(MeteringOrder, MeteringOrderField, ReportingDate);

payload!(MeteringPayload, metering_submission: MeteringSubmission);

#[derive(Default)]
pub struct MeteringQuery;

#[Object]
impl MeteringQuery {
    /// One usage report. Needs `write:metering`.
    async fn metering_submission(&self, ctx: &Context<'_>, id: ID) -> Option<Result<MeteringSubmission>> {
        Some(one(ctx, &id).await)
    }

    /// Usage reports, newest first unless told. Needs `write:metering`.
    #[graphql(complexity = "page_size(first) * child_complexity")]
    async fn metering_submissions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 20 unless told; above 100 means 100.")] first: Option<i32>,
        #[graphql(desc = "The cursor to continue after.")] after: Option<String>,
        filter: Option<MeteringFilter>,
        order_by: Option<MeteringOrder>,
    ) -> Option<Result<Records<MeteringSubmission>>> {
        Some(page(ctx, first, after, filter.map(Filter::from).unwrap_or_default(), order_by).await)
    }
}

pub async fn one(ctx: &Context<'_>, id: &str) -> Result<MeteringSubmission> {
    metering::get(call(ctx), id).await.map(MeteringSubmission::from).map_err(fault)
}

pub async fn page(
    ctx: &Context<'_>,
    first: Option<i32>,
    after: Option<String>,
    filter: Filter,
    order_by: Option<MeteringOrder>,
) -> Result<Records<MeteringSubmission>> {
    let (continued, order) = (after.is_some(), MeteringOrder::order(order_by));
    let query = ListQuery { page: PageRequest::from_arguments(first, after), filter, order };
    let page = metering::list(call(ctx), query).await.map_err(fault)?;
    Ok(connect(call(ctx), (ListName::Metering, order), continued, page))
}

#[derive(Default)]
pub struct MeteringMutation;

#[Object]
impl MeteringMutation {
    /// Reports usage; the marketplace's verdict follows. Needs `write:metering`.
    async fn submit_metering(&self, ctx: &Context<'_>, input: SubmitMeteringInput) -> Option<Result<MeteringPayload>> {
        Some(MeteringPayload::of(metering::submit(call(ctx), input.into()).await))
    }
}
