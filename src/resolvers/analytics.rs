//! Contract statistics (spec "Contract statistics", `contract.md` §12), counted at constant cost.

use crate::call::Call;
use crate::error::Result;
use crate::model::analytics::{ContractQuery, ContractStatistics, SeriesPoint, SeriesQuery};
use crate::model::operation::Operation;
use crate::model::tally::Side;

/// All that the reserved operation says.
pub const REVENUE: &str = "Revenue analytics is reserved; no revenue data is returned";

pub async fn contracts(call: &Call, mut query: ContractQuery) -> Result<ContractStatistics> {
    let tenant = call.grant(Operation::AnalyticsContracts.access())?;
    query.check()?;
    let now = tenant.clock().now();
    let nodes = tenant.tally(&[Side::Start, Side::End], &query.places(now)).await?;
    Ok(query.count(now, &nodes))
}

pub async fn series(call: &Call, query: SeriesQuery) -> Result<Vec<SeriesPoint>> {
    let tenant = call.grant(Operation::AnalyticsSeries.access())?;
    query.check()?;
    Ok(query.count(&tenant.tally(Side::ALL, &[]).await?))
}

pub fn revenue(call: &Call) -> Result<&'static str> {
    call.grant(Operation::AnalyticsRevenue.access()).map(|_| REVENUE)
}
