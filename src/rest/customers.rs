//! Customers over REST.

use serde_json::json;

use super::answer::Answer;
use super::endpoint::Ask;
use crate::http::failure::Failure;
use crate::model::customer::{CustomerPatch, NewCustomer};
use crate::model::page::ListName;
use crate::resolvers::customers;

pub async fn list(ask: Ask) -> Result<Answer, Failure> {
    let page = customers::list(&ask.call, ask.page()).await?;
    Answer::page(&ask, ListName::Customers, page)
}

pub async fn create(mut ask: Ask) -> Result<Answer, Failure> {
    let new = NewCustomer::from_json(ask.body());
    let created = customers::create(&ask.call, new).await?;
    Answer::of(&ask, created)
}

pub async fn get(ask: Ask) -> Result<Answer, Failure> {
    let detail = customers::get(&ask.call, ask.id()).await?;
    Answer::of(&ask, &*detail)
}

pub async fn update(mut ask: Ask) -> Result<Answer, Failure> {
    let patch = CustomerPatch::from_json(ask.body());
    Answer::of(&ask, customers::update(&ask.call, ask.id(), patch).await?)
}

pub async fn delete(ask: Ask) -> Result<Answer, Failure> {
    let gone = customers::delete(&ask.call, ask.id()).await?.customer;
    Answer::of(&ask, json!({ "id": gone.id, "status": gone.status }))
}
