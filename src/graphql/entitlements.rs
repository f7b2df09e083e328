//! Entitlements over GraphQL.

use std::sync::Arc;

use async_graphql::{Context, ID, InputObject, Json, Object, Result, SimpleObject};

use super::call;
use super::connections::{DateRange, Records, connect, order_by, page_size, payload};
use super::customers::Customer;
use super::errors::fault;
use super::loaders::{HistoryOf, load};
use super::offers::PrivateOffer;
use crate::model;
use crate::model::changes::Changes;
use crate::model::entitlement::{Dimension, EntitlementDetail, EntitlementStatus, HistoryAction};
use crate::model::filter::{Filter, ListQuery, Order};
use crate::model::lifecycle::Term;
use crate::model::page::{ListName, PageRequest};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::entitlements;

/// The list as parents show it.
pub const NEWEST: (ListName, Order) = (ListName::Entitlements, Order::Newest);

/// What a customer is entitled to use, and for how long.
pub struct Entitlement {
    record: Arc<model::entitlement::Entitlement>,
    /// Known when the record was read in its single form; else loaded with its siblings'.
    history: Option<Vec<model::entitlement::HistoryEntry>>,
}

#[Object]
impl Entitlement {
    pub async fn id(&self) -> ID {
        self.record.id.into()
    }
    async fn organization_id(&self) -> ID {
        self.record.organization_id.into()
    }
    async fn customer_id(&self) -> ID {
        self.record.customer_id.into()
    }
    async fn listing_id(&self) -> &str {
        &self.record.listing_id
    }
    async fn vendor(&self) -> Vendor {
        self.record.vendor
    }
    async fn status(&self) -> EntitlementStatus {
        self.record.status
    }
    async fn start_date(&self) -> Timestamp {
        self.record.start_date
    }
    /// Null for pay-as-you-go.
    async fn end_date(&self) -> Option<Timestamp> {
        self.record.end_date
    }
    async fn dimensions(&self) -> &[Dimension] {
        &self.record.dimensions
    }
    async fn plan_id(&self) -> Option<&str> {
        self.record.plan_id.as_deref()
    }
    async fn private_offer_id(&self) -> Option<ID> {
        self.record.private_offer_id.map(ID::from)
    }
    async fn agreement_id(&self) -> Option<&str> {
        self.record.agreement_id.as_deref()
    }
    async fn vendor_subscription_id(&self) -> Option<&str> {
        self.record.vendor_subscription_id.as_deref()
    }
    async fn auto_renew(&self) -> Option<bool> {
        self.record.auto_renew
    }
    async fn created_at(&self) -> Timestamp {
        self.record.created_at
    }
    async fn updated_at(&self) -> Timestamp {
        self.record.updated_at
    }
    /// Newest last; of a very long history, the newest 500 entries.
    async fn history(&self, ctx: &Context<'_>) -> Option<Result<Vec<HistoryEntry>>> {
        let history = match &self.history {
            Some(known) => Ok(known.clone()),
            None => load(ctx, HistoryOf(self.record.id)).await.map(Option::unwrap_or_default),
        };
        Some(history.map(|entries| entries.into_iter().map(HistoryEntry::from).collect()))
    }
    /// Null once it was deleted. Needs `read:customers`.
    async fn customer(&self, ctx: &Context<'_>) -> Option<Result<Customer>> {
        load(ctx, self.record.customer_id).await.map(|customer| customer.map(Customer::from)).transpose()
    }
    /// The offer whose acceptance created or last replaced it. Needs `read:private-offers`.
    async fn private_offer(&self, ctx: &Context<'_>) -> Option<Result<PrivateOffer>> {
        let id = self.record.private_offer_id?;
        load(ctx, id).await.map(|offer| offer.map(PrivateOffer::from)).transpose()
    }
}

impl From<Arc<model::entitlement::Entitlement>> for Entitlement {
    fn from(record: Arc<model::entitlement::Entitlement>) -> Self {
        Self { record, history: None }
    }
}

impl From<model::entitlement::Entitlement> for Entitlement {
    fn from(record: model::entitlement::Entitlement) -> Self {
        Arc::new(record).into()
    }
}

impl From<EntitlementDetail> for Entitlement {
    fn from(detail: EntitlementDetail) -> Self {
        Self { record: detail.entitlement.into(), history: Some(detail.history) }
    }
}

/// One line of an entitlement's history.
#[derive(SimpleObject)]
pub struct HistoryEntry {
    action: HistoryAction,
    timestamp: Timestamp,
    /// By dotted field path, each with `from` and `to`.
    changes: Option<Json<Changes>>,
}

impl From<model::entitlement::HistoryEntry> for HistoryEntry {
    fn from(entry: model::entitlement::HistoryEntry) -> Self {
        Self { action: entry.action, timestamp: entry.timestamp, changes: entry.changes.map(Json) }
    }
}

/// Which entitlements; all conditions hold.
#[derive(InputObject)]
pub struct EntitlementFilter {
    vendor: Option<Vendor>,
    status: Option<EntitlementStatus>,
    listing_id: Option<String>,
    customer_id: Option<ID>,
    created_at: Option<DateRange>,
    end_date: Option<DateRange>,
}

impl From<EntitlementFilter> for Filter {
    fn from(filter: EntitlementFilter) -> Self {
        Self {
            vendor: filter.vendor,
            status: filter.status.map(EntitlementStatus::as_str),
            listing_id: filter.listing_id,
            customer: filter.customer_id.map(|id| Self::customer_named(&id)),
            created: DateRange::range(filter.created_at),
            dated: DateRange::range(filter.end_date),
            search: None,
        }
    }
}

order_by!(
    EntitlementOrder,
    EntitlementOrderField,
    /// Pay-as-you-go contracts stand after all that end.
    EndDate
);

payload!(EntitlementPayload, entitlement: Entitlement);

/// A new term.
#[derive(InputObject)]
pub struct RenewEntitlementInput {
    /// Absent: the running term is extended.
    start_date: Option<Timestamp>,
    /// Absent: without end.
    end_date: Option<Timestamp>,
}

#[derive(Default)]
pub struct EntitlementQuery;

#[Object]
impl EntitlementQuery {
    /// One entitlement. Needs `read:entitlements`.
    async fn entitlement(&self, ctx: &Context<'_>, id: ID) -> Option<Result<Entitlement>> {
        Some(one(ctx, &id).await)
    }

    /// Entitlements, newest first unless told. Needs `read:entitlements`.
    #[graphql(complexity = "page_size(first) * child_complexity")]
    async fn entitlements(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 20 unless told; above 100 means 100.")] first: Option<i32>,
        #[graphql(desc = "The cursor to continue after.")] after: Option<String>,
        filter: Option<EntitlementFilter>,
        order_by: Option<EntitlementOrder>,
    ) -> Option<Result<Records<Entitlement>>> {
        Some(page(ctx, first, after, filter.map(Filter::from).unwrap_or_default(), order_by).await)
    }
}

pub async fn one(ctx: &Context<'_>, id: &str) -> Result<Entitlement> {
    entitlements::get(call(ctx), id).await.map(Entitlement::from).map_err(fault)
}

pub async fn page(
    ctx: &Context<'_>,
    first: Option<i32>,
    after: Option<String>,
    filter: Filter,
    order_by: Option<EntitlementOrder>,
) -> Result<Records<Entitlement>> {
    let (continued, order) = (after.is_some(), EntitlementOrder::order(order_by));
    let query = ListQuery { page: PageRequest::from_arguments(first, after), filter, order };
    let page = entitlements::list(call(ctx), query).await.map_err(fault)?;
    Ok(connect(call(ctx), (ListName::Entitlements, order), continued, page))
}

#[derive(Default)]
pub struct EntitlementMutation;

#[Object]
impl EntitlementMutation {
    /// Suspends an active entitlement; after 30 days it is cancelled. For administrators. Emits `entitlement.updated`.
    async fn suspend_entitlement(&self, ctx: &Context<'_>, id: ID) -> Option<Result<EntitlementPayload>> {
        Some(EntitlementPayload::of(entitlements::suspend(call(ctx), &id).await))
    }

    /// Makes a suspended entitlement active again. For administrators. Emits `entitlement.updated`.
    async fn reinstate_entitlement(&self, ctx: &Context<'_>, id: ID) -> Option<Result<EntitlementPayload>> {
        Some(EntitlementPayload::of(entitlements::reinstate(call(ctx), &id).await))
    }

    /// Gives an active entitlement a new term. For administrators. Emits `entitlement.renewed`.
    async fn renew_entitlement(
        &self,
        ctx: &Context<'_>,
        id: ID,
        input: RenewEntitlementInput,
    ) -> Option<Result<EntitlementPayload>> {
        let term = Term { start: input.start_date, end: input.end_date };
        Some(EntitlementPayload::of(entitlements::renew(call(ctx), &id, term).await))
    }

    /// Ends a live entitlement for good. For administrators. Emits `entitlement.cancelled`.
    async fn cancel_entitlement(&self, ctx: &Context<'_>, id: ID) -> Option<Result<EntitlementPayload>> {
        Some(EntitlementPayload::of(entitlements::cancel(call(ctx), &id).await))
    }
}
