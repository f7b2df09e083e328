//! Relay's `node(id)`: any record by its id. It passes the guard of the record's own resource.

use async_graphql::{Context, ID, Interface, Object, Result};

use super::applications::{self, Application};
use super::customers::{self, Customer};
use super::entitlements::{self, Entitlement};
use super::errors::fault;
use super::events::{self, Event};
use super::metering::{self, MeteringSubmission};
use super::notifications::{self, Notification};
use super::offers::{self, PrivateOffer};
use super::webhooks::{self, Delivery, Webhook};
use crate::error::Error;
use crate::model::id::{
    ApplicationId, CustomerId, DeliveryId, EntitlementId, EventId, MeteringId, NotificationId, PrivateOfferId,
    WebhookId,
};

/// Anything with an id.
#[derive(Interface)]
#[graphql(field(name = "id", ty = "ID"))]
pub enum Node {
    Customer(Customer),
    Entitlement(Entitlement),
    PrivateOffer(PrivateOffer),
    MeteringSubmission(MeteringSubmission),
    Application(Application),
    Webhook(Webhook),
    Delivery(Delivery),
    Event(Event),
    Notification(Notification),
}

#[derive(Default)]
pub struct NodeQuery;

#[Object]
impl NodeQuery {
    /// Any record by its id. Needs the scope that reads its resource.
    async fn node(&self, ctx: &Context<'_>, id: ID) -> Option<Result<Node>> {
        let is = |prefix: &str| id.starts_with(prefix);
        Some(if is(CustomerId::PREFIX) {
            customers::one(ctx, &id).await.map(Node::Customer)
        } else if is(EntitlementId::PREFIX) {
            entitlements::one(ctx, &id).await.map(Node::Entitlement)
        } else if is(PrivateOfferId::PREFIX) {
            offers::one(ctx, &id).await.map(Node::PrivateOffer)
        } else if is(MeteringId::PREFIX) {
            metering::one(ctx, &id).await.map(Node::MeteringSubmission)
        } else if is(ApplicationId::PREFIX) {
            applications::one(ctx, &id).await.map(Node::Application)
        } else if is(WebhookId::PREFIX) {
            webhooks::one(ctx, &id).await.map(Node::Webhook)
        } else if is(DeliveryId::PREFIX) {
            webhooks::delivery(ctx, &id).await.map(Node::Delivery)
        } else if is(EventId::PREFIX) {
            events::one(ctx, &id).await.map(Node::Event)
        } else if is(NotificationId::PREFIX) {
            notifications::one(ctx, &id).await.map(Node::Notification)
        } else {
            Err(fault(Error::NOT_FOUND))
        })
    }
}
