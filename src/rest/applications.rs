//! OAuth applications over REST.

use serde_json::json;

use super::answer::Answer;
use super::endpoint::Ask;
use crate::http::failure::Failure;
use crate::model::application::ApplicationInput;
use crate::model::page::ListName;
use crate::resolvers::applications;

pub async fn list(ask: Ask) -> Result<Answer, Failure> {
    let page = applications::list(&ask.call, ask.page()).await?;
    Answer::page(&ask, ListName::Applications, page)
}

pub async fn create(mut ask: Ask) -> Result<Answer, Failure> {
    let input = ApplicationInput::for_create(ask.body());
    Answer::of(&ask, applications::create(&ask.call, input).await?)
}

pub async fn get(ask: Ask) -> Result<Answer, Failure> {
    Answer::of(&ask, applications::get(&ask.call, ask.id()).await?)
}

pub async fn update(mut ask: Ask) -> Result<Answer, Failure> {
    let input = ApplicationInput::for_update(ask.body());
    Answer::of(&ask, applications::update(&ask.call, ask.id(), input).await?)
}

pub async fn regenerate_secret(ask: Ask) -> Result<Answer, Failure> {
    Answer::of(&ask, applications::regenerate_secret(&ask.call, ask.id()).await?)
}

pub async fn delete(ask: Ask) -> Result<Answer, Failure> {
    let gone = applications::delete(&ask.call, ask.id()).await?;
    Answer::of(&ask, json!({ "id": gone.id, "status": "deleted" }))
}
