//! What a marketplace has otherwise than we, over GraphQL.

use async_graphql::{Context, Object, Result};

use super::call;
use super::connections::payload;
use super::errors::fault;
use crate::model;
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::marketplaces;

/// A contract that a marketplace has otherwise than we.
pub struct MarketplaceDifference(model::difference::Difference);

#[Object]
impl MarketplaceDifference {
    async fn vendor(&self) -> Vendor {
        self.0.vendor
    }
    /// The subscription or the agreement.
    async fn contract(&self) -> &str {
        &self.0.contract
    }
    /// What is different, for a person to read.
    async fn what(&self) -> &str {
        &self.0.what
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
    /// What the last comparison with each marketplace found, at most 500 contracts of each; they are compared every hour.
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
    /// Has what the marketplace has of a contract become ours, soon. Emits what was missed. For administrators.
    async fn adopt_marketplace_difference(
        &self,
        ctx: &Context<'_>,
        vendor: Vendor,
        contract: String,
    ) -> Option<Result<MarketplaceDifferencePayload>> {
        Some(MarketplaceDifferencePayload::of(marketplaces::adopt(call(ctx), vendor, &contract).await))
    }

    /// Has a marketplace compared now, and not only within the hour; true once that is ordered. For administrators.
    async fn compare_marketplace(&self, ctx: &Context<'_>, vendor: Vendor) -> Option<Result<bool>> {
        Some(marketplaces::compare(call(ctx), vendor).await.map(|()| true).map_err(fault))
    }
}
