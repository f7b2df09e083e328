//! Private offers over GraphQL.

use std::sync::Arc;

use async_graphql::{Context, ID, InputObject, Object, Result};

use futures_util::future::join_all;

use super::call;
use super::connections::{DateRange, Records, connect, order_by, page_size, payload};
use super::customers::Customer;
use super::entitlements::Entitlement;
use super::errors::fault;
use super::loaders::{ChainOf, load};
use super::offer_input::{CreatePrivateOfferInput, UpdatePrivateOfferInput};
use crate::model;
use crate::model::filter::{Filter, ListQuery, Order};
use crate::model::offer::{Details, OfferStatus};
use crate::model::page::{ListName, PageRequest};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::offers;

/// How many offers that replace one are shown.
const CHAIN: usize = 10;

/// The list as parents show it.
pub const NEWEST: (ListName, Order) = (ListName::PrivateOffers, Order::Newest);

/// An offer that one customer can accept at its marketplace.
pub struct PrivateOffer(Arc<model::offer::PrivateOffer>);

#[Object]
impl PrivateOffer {
    pub async fn id(&self) -> ID {
        self.0.id.into()
    }
    async fn organization_id(&self) -> ID {
        self.0.organization_id.into()
    }
    async fn listing_id(&self) -> &str {
        &self.0.listing_id
    }
    async fn customer_id(&self) -> ID {
        self.0.customer_id.into()
    }
    async fn vendor(&self) -> Vendor {
        self.0.vendor
    }
    async fn status(&self) -> OfferStatus {
        self.0.status
    }
    /// The marketplace's own id, known once it is published.
    async fn vendor_offer_id(&self) -> Option<&str> {
        self.0.vendor_offer_id.as_deref()
    }
    async fn expires_at(&self) -> Timestamp {
        self.0.expires_at
    }
    async fn details(&self) -> &Details {
        &self.0.details
    }
    async fn created_at(&self) -> Timestamp {
        self.0.created_at
    }
    async fn updated_at(&self) -> Timestamp {
        self.0.updated_at
    }
    /// Null once it was deleted. Needs `read:customers`.
    async fn customer(&self, ctx: &Context<'_>) -> Option<Result<Customer>> {
        load(ctx, self.0.customer_id).await.map(|customer| customer.map(Customer::from)).transpose()
    }
    async fn entitlement_id(&self) -> Option<ID> {
        self.0.entitlement_id.map(ID::from)
    }
    /// What its acceptance created, or for a replacement updated. Needs `read:entitlements`.
    async fn entitlement(&self, ctx: &Context<'_>) -> Option<Result<Entitlement>> {
        let id = self.0.entitlement_id?;
        load(ctx, id).await.map(|found| found.map(Entitlement::from)).transpose()
    }
    /// The offer before it in its agreement chain.
    async fn replaces(&self, ctx: &Context<'_>) -> Option<Result<PrivateOffer>> {
        self.replaced(ctx).await.transpose()
    }
    /// The offers after it in its agreement chain; the newest 10.
    #[graphql(complexity = "CHAIN * child_complexity")]
    async fn replaced_by(&self, ctx: &Context<'_>) -> Option<Result<Vec<PrivateOffer>>> {
        Some(self.replacing(ctx).await)
    }
}

impl PrivateOffer {
    async fn replaced(&self, ctx: &Context<'_>) -> Result<Option<Self>> {
        match load(ctx, ChainOf(self.0.id)).await?.unwrap_or_default().replaces {
            Some(id) => Ok(load(ctx, id).await?.map(Self::from)),
            None => Ok(None),
        }
    }

    async fn replacing(&self, ctx: &Context<'_>) -> Result<Vec<Self>> {
        let ids = load(ctx, ChainOf(self.0.id)).await?.unwrap_or_default().replaced_by;
        let offers = join_all(ids.into_iter().take(CHAIN).map(|id| load(ctx, id))).await;
        Ok(offers.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().map(Self::from).collect())
    }
}

impl From<Arc<model::offer::PrivateOffer>> for PrivateOffer {
    fn from(record: Arc<model::offer::PrivateOffer>) -> Self {
        Self(record)
    }
}

impl From<model::offer::PrivateOffer> for PrivateOffer {
    fn from(record: model::offer::PrivateOffer) -> Self {
        Arc::new(record).into()
    }
}

/// Which private offers; all conditions hold.
#[derive(InputObject)]
pub struct PrivateOfferFilter {
    vendor: Option<Vendor>,
    status: Option<OfferStatus>,
    listing_id: Option<String>,
    customer_id: Option<ID>,
    created_at: Option<DateRange>,
    expires_at: Option<DateRange>,
    /// Words, or beginnings of words, of the offer's name, the company's, the listing or the marketplace's id.
    search: Option<String>,
}

impl From<PrivateOfferFilter> for Filter {
    fn from(filter: PrivateOfferFilter) -> Self {
        Self {
            vendor: filter.vendor,
            status: filter.status.map(OfferStatus::as_str),
            listing_id: filter.listing_id,
            customer: filter.customer_id.map(|id| Self::customer_named(&id)),
            created: DateRange::range(filter.created_at),
            dated: DateRange::range(filter.expires_at),
            search: filter.search,
        }
    }
}

order_by!(PrivateOfferOrder, PrivateOfferOrderField, ExpiresAt);

payload!(PrivateOfferPayload, private_offer: PrivateOffer);

#[derive(Default)]
pub struct PrivateOfferQuery;

#[Object]
impl PrivateOfferQuery {
    /// One private offer. Needs `read:private-offers`.
    async fn private_offer(&self, ctx: &Context<'_>, id: ID) -> Option<Result<PrivateOffer>> {
        Some(one(ctx, &id).await)
    }

    /// Private offers, newest first unless told. Needs `read:private-offers`.
    #[graphql(complexity = "page_size(first) * child_complexity")]
    async fn private_offers(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 20 unless told; above 100 means 100.")] first: Option<i32>,
        #[graphql(desc = "The cursor to continue after.")] after: Option<String>,
        filter: Option<PrivateOfferFilter>,
        order_by: Option<PrivateOfferOrder>,
    ) -> Option<Result<Records<PrivateOffer>>> {
        Some(page(ctx, first, after, filter.map(Filter::from).unwrap_or_default(), order_by).await)
    }
}

pub async fn one(ctx: &Context<'_>, id: &str) -> Result<PrivateOffer> {
    offers::get(call(ctx), id).await.map(PrivateOffer::from).map_err(fault)
}

pub async fn page(
    ctx: &Context<'_>,
    first: Option<i32>,
    after: Option<String>,
    filter: Filter,
    order_by: Option<PrivateOfferOrder>,
) -> Result<Records<PrivateOffer>> {
    let (continued, order) = (after.is_some(), PrivateOfferOrder::order(order_by));
    let query = ListQuery { page: PageRequest::from_arguments(first, after), filter, order };
    let page = offers::list(call(ctx), query).await.map_err(fault)?;
    Ok(connect(call(ctx), (ListName::PrivateOffers, order), continued, page))
}

#[derive(Default)]
pub struct PrivateOfferMutation;

#[Object]
impl PrivateOfferMutation {
    /// Needs `write:private-offers`. Emits `private_offer.created`.
    async fn create_private_offer(
        &self,
        ctx: &Context<'_>,
        input: CreatePrivateOfferInput,
    ) -> Option<Result<PrivateOfferPayload>> {
        Some(PrivateOfferPayload::of(offers::create(call(ctx), input.into()).await))
    }

    /// Merges; an expired offer is opened again by a new `expiresAt`. Needs `write:private-offers`. Emits
    /// `private_offer.updated` if anything changed.
    async fn update_private_offer(
        &self,
        ctx: &Context<'_>,
        id: ID,
        input: UpdatePrivateOfferInput,
    ) -> Option<Result<PrivateOfferPayload>> {
        Some(PrivateOfferPayload::of(offers::update(call(ctx), &id, input.into()).await))
    }

    /// Cancels an offer that was not accepted. Needs `write:private-offers`. Emits `private_offer.cancelled`.
    async fn delete_private_offer(&self, ctx: &Context<'_>, id: ID) -> Option<Result<PrivateOfferPayload>> {
        Some(PrivateOfferPayload::of(offers::delete(call(ctx), &id).await))
    }

    /// Tries again to publish an open offer whose publication failed. Needs `write:private-offers`. Emits
    /// `private_offer.updated` if it had failed.
    async fn publish_private_offer(&self, ctx: &Context<'_>, id: ID) -> Option<Result<PrivateOfferPayload>> {
        Some(PrivateOfferPayload::of(offers::republish(call(ctx), &id).await))
    }
}
