//! What a marketplace has otherwise than we, over GraphQL.

use async_graphql::{Context, Object, Result};

use super::call;
use super::connections::payload;
use super::errors::fault;
use crate::model;
use crate::model::difference::{DifferenceKind, Subject};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::marketplaces;

/// What a marketplace has otherwise than we.
pub struct MarketplaceDifference(model::difference::Difference);

#[Object]
impl MarketplaceDifference {
    async fn vendor(&self) -> Vendor {
        self.0.vendor
    }
    async fn kind(&self) -> DifferenceKind {
        self.0.subject.kind
    }
    /// What it is about: the subscription or agreement; `subscription/operation`; the usage report, or `whose/dimension/day`.
    async fn subject(&self) -> &str {
        &self.0.subject.id
    }
    /// What is different, for a person to read.
    async fn what(&self) -> &str {
        &self.0.what
    }
    /// Whether adopting it can do anything; if not, `what` says who can.
    async fn is_adoptable(&self) -> bool {
        self.0.is_adoptable
    }
    async fn found_at(&self) -> Timestamp {
        self.0.found_at
    }
    /// Whether somebody asked for it to be adopted, which has not happened yet.
    async fn is_being_adopted(&self) -> bool {
        self.0.is_being_adopted
    }
}

impl From<model::difference::Difference> for MarketplaceDifference {
    fn from(difference: model::difference::Difference) -> Self {
        Self(difference)
    }
}

payload!(MarketplaceDifferencePayload, difference: MarketplaceDifference);

#[derive(Default)]
pub struct MarketplaceQuery;

#[Object]
impl MarketplaceQuery {
    /// What the last comparison with each marketplace found, at most 500 of each kind; they are compared every hour.
    /// Needs `read:entitlements`.
    #[graphql(complexity = "100 * child_complexity")]
    async fn marketplace_differences(&self, ctx: &Context<'_>) -> Option<Result<Vec<MarketplaceDifference>>> {
        let found = marketplaces::differences(call(ctx)).await;
        Some(found.map(|found| found.into_iter().map(MarketplaceDifference).collect()).map_err(fault))
    }
}

#[derive(Default)]
pub struct MarketplaceMutation;

#[Object]
impl MarketplaceMutation {
    /// Has what the marketplace has become ours, soon. Emits what was missed. For administrators.
    async fn adopt_marketplace_difference(
        &self,
        ctx: &Context<'_>,
        vendor: Vendor,
        kind: DifferenceKind,
        subject: String,
    ) -> Option<Result<MarketplaceDifferencePayload>> {
        let subject = Subject { kind, id: subject };
        Some(MarketplaceDifferencePayload::of(marketplaces::adopt(call(ctx), vendor, &subject).await))
    }

    /// Has a marketplace compared now, and not only within the hour; true once that is ordered. For administrators.
    async fn compare_marketplace(&self, ctx: &Context<'_>, vendor: Vendor) -> Option<Result<bool>> {
        Some(marketplaces::compare(call(ctx), vendor).await.map(|()| true).map_err(fault))
    }
}
