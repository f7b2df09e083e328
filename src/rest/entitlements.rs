//! Entitlements over REST.

use super::answer::Answer;
use super::endpoint::Ask;
use crate::http::failure::Failure;
use crate::model::entitlement::Entitlement;
use crate::model::page::ListName;
use crate::resolvers::entitlements;

pub async fn list(ask: Ask) -> Result<Answer, Failure> {
    let page = entitlements::list(&ask.call, ask.page()).await?;
    Answer::page(&ask, ListName::Entitlements, page.map(Entitlement::listed))
}

pub async fn get(ask: Ask) -> Result<Answer, Failure> {
    Answer::of(&ask, entitlements::get(&ask.call, ask.id()).await?)
}
