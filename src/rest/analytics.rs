//! Contract analytics over REST.

use serde_json::json;

use super::answer::Answer;
use super::endpoint::Ask;
use crate::http::failure::Failure;
use crate::model::analytics::ContractQuery;
use crate::resolvers::analytics;

pub async fn contracts(ask: Ask) -> Result<Answer, Failure> {
    let statistics = analytics::contracts(&ask.call, ContractQuery::from_query(ask.query())).await?;
    Answer::of(&ask, statistics)
}

/// Exactly a message, without the envelope (`contract.md` §12).
pub fn revenue(ask: Ask) -> Result<Answer, Failure> {
    Ok(Answer::bare(json!({ "message": analytics::revenue(&ask.call)? }))?)
}
