//! Metering over REST.

use serde_json::json;

use super::answer::Answer;
use super::endpoint::Ask;
use crate::http::failure::Failure;
use crate::model::metering::NewMetering;
use crate::model::page::ListName;
use crate::resolvers::metering;

pub async fn list(ask: Ask) -> Result<Answer, Failure> {
    let page = metering::list(&ask.call, ask.page()).await?;
    Answer::page(&ask, ListName::Metering, page)
}

/// The spec's three fields; the rest is one GET away.
pub async fn submit(mut ask: Ask) -> Result<Answer, Failure> {
    let new = NewMetering::from_json(ask.body());
    let report = metering::submit(&ask.call, new).await?;
    Answer::of(&ask, json!({ "id": report.id, "status": report.status, "message": report.message }))
}

pub async fn get(ask: Ask) -> Result<Answer, Failure> {
    Answer::of(&ask, metering::get(&ask.call, ask.id()).await?)
}
