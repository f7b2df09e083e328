//! What marketplaces told us, over GraphQL.

use async_graphql::{Context, ID, InputObject, Object, Result};

use super::call;
use super::connections::{Records, connect, page_size, payload};
use super::errors::fault;
use crate::model;
use crate::model::filter::Order;
use crate::model::notification::NotificationVerdict;
use crate::model::page::{ListName, PageRequest};
use crate::model::scope::Scope;
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::notifications;

/// What a marketplace told us, and what became of it.
pub struct Notification(model::notification::Notification);

#[Object]
impl Notification {
    pub async fn id(&self) -> ID {
        self.0.id.into()
    }
    async fn organization_id(&self) -> ID {
        self.0.organization_id.into()
    }
    async fn vendor(&self) -> Vendor {
        self.0.vendor
    }
    /// The marketplace's own id of it: it is kept once.
    async fn external_id(&self) -> &str {
        &self.0.external_id
    }
    /// The marketplace's word for what happened.
    async fn kind(&self) -> &str {
        &self.0.kind
    }
    /// The subscription, the agreement or the change set that it is about; empty when it names none.
    async fn subject(&self) -> &str {
        &self.0.subject
    }
    /// By the marketplace's clock.
    async fn occurred_at(&self) -> Timestamp {
        self.0.occurred_at
    }
    async fn received_at(&self) -> Timestamp {
        self.0.received_at
    }
    /// Null while it waits.
    async fn verdict(&self) -> Option<NotificationVerdict> {
        self.0.verdict
    }
    /// Why; or, while it waits, why it could not be applied yet.
    async fn reason(&self) -> Option<&str> {
        self.0.reason.as_deref()
    }
    /// How often it was tried to apply it since it was received or run again.
    async fn tries(&self) -> u32 {
        self.0.tries
    }
    /// As it came. Customers and offers stand in it: null without `read:customers` and `read:private-offers`.
    async fn body(&self, ctx: &Context<'_>) -> Option<&str> {
        let scopes = call(ctx).caller().scopes();
        let all = scopes.has(Scope::ReadCustomers) && scopes.has(Scope::ReadPrivateOffers);
        all.then_some(self.0.body.as_str())
    }
}

impl From<model::notification::Notification> for Notification {
    fn from(record: model::notification::Notification) -> Self {
        Self(record)
    }
}

/// Which notifications; all conditions hold.
#[derive(InputObject)]
pub struct NotificationFilter {
    vendor: Option<Vendor>,
    /// One of these.
    verdict: Option<Vec<NotificationVerdict>>,
    /// True: only those that wait for a verdict; false: only those that have one.
    waiting: Option<bool>,
    /// The subscription, the agreement or the change set.
    subject: Option<String>,
}

impl From<NotificationFilter> for model::notification::NotificationFilter {
    fn from(filter: NotificationFilter) -> Self {
        let NotificationFilter { vendor, verdict, waiting, subject } = filter;
        Self { vendor, verdicts: verdict, waiting, subject }
    }
}

payload!(NotificationPayload, notification: Notification);

#[derive(Default)]
pub struct NotificationQuery;

#[Object]
impl NotificationQuery {
    /// One notification of a marketplace. Needs `read:entitlements`.
    async fn notification(&self, ctx: &Context<'_>, id: ID) -> Option<Result<Notification>> {
        Some(one(ctx, &id).await)
    }

    /// What the marketplaces told us, newest first. Needs `read:entitlements`.
    #[graphql(complexity = "page_size(first) * child_complexity")]
    async fn notifications(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 20 unless told; above 100 means 100.")] first: Option<i32>,
        #[graphql(desc = "The cursor to continue after.")] after: Option<String>,
        filter: Option<NotificationFilter>,
    ) -> Option<Result<Records<Notification>>> {
        let filter = filter.map(model::notification::NotificationFilter::from).unwrap_or_default();
        Some(page(ctx, first, after, filter).await)
    }
}

pub async fn one(ctx: &Context<'_>, id: &str) -> Result<Notification> {
    notifications::get(call(ctx), id).await.map(Notification::from).map_err(fault)
}

async fn page(
    ctx: &Context<'_>,
    first: Option<i32>,
    after: Option<String>,
    filter: model::notification::NotificationFilter,
) -> Result<Records<Notification>> {
    let (continued, request) = (after.is_some(), PageRequest::from_arguments(first, after));
    let page = notifications::list(call(ctx), filter, request).await.map_err(fault)?;
    Ok(connect(call(ctx), (ListName::Notifications, Order::Newest), continued, page))
}

#[derive(Default)]
pub struct NotificationMutation;

#[Object]
impl NotificationMutation {
    /// Has a notification applied again, as though it had just come. For administrators.
    async fn rerun_notification(&self, ctx: &Context<'_>, id: ID) -> Option<Result<NotificationPayload>> {
        Some(NotificationPayload::of(notifications::rerun(call(ctx), &id).await))
    }
}
