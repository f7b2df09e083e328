//! Contract analytics over GraphQL.

use async_graphql::{Context, Object, Result, SimpleObject};

use super::call;
use super::errors::fault;
use crate::model::analytics::{ContractQuery, ContractStatistics, Interval, SERIES_MAX, SeriesPoint, SeriesQuery};
use crate::model::input::Problems;
use crate::model::tally::ContractStatus;
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::analytics;

/// Reserved.
#[derive(SimpleObject)]
pub struct Revenue {
    message: &'static str,
}

#[derive(Default)]
pub struct AnalyticsQuery;

#[Object]
impl AnalyticsQuery {
    /// Counts contracts. `ACTIVE` covers pending, active and suspended ones. Needs `read:analytics`.
    async fn contract_statistics(
        &self,
        ctx: &Context<'_>,
        start_date: Option<Timestamp>,
        end_date: Option<Timestamp>,
        vendor: Option<Vendor>,
        status: Option<ContractStatus>,
    ) -> Option<Result<ContractStatistics>> {
        let query = ContractQuery { start: start_date, end: end_date, vendor, status, problems: Problems::default() };
        Some(analytics::contracts(call(ctx), query).await.map_err(fault))
    }

    /// New, expiring and ended contracts for each day or month from `startDate` to `endDate`, at most 732 points. Needs
    /// `read:analytics`.
    #[graphql(complexity = "SERIES_MAX / 10 + child_complexity")]
    async fn contract_series(
        &self,
        ctx: &Context<'_>,
        start_date: Timestamp,
        end_date: Timestamp,
        #[graphql(default_with = "Interval::Month")] interval: Interval,
        vendor: Option<Vendor>,
    ) -> Option<Result<Vec<SeriesPoint>>> {
        let query = SeriesQuery { start: start_date, end: end_date, interval, vendor };
        Some(analytics::series(call(ctx), query).await.map_err(fault))
    }

    /// Reserved: a message and no revenue. Needs `read:analytics`.
    async fn revenue(&self, ctx: &Context<'_>) -> Option<Result<Revenue>> {
        Some(analytics::revenue(call(ctx)).map(|message| Revenue { message }).map_err(fault))
    }
}
