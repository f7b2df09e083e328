//! Private offers over REST.

use super::answer::Answer;
use super::endpoint::Ask;
use crate::http::failure::Failure;
use crate::model::offer::ListedOffer;
use crate::model::offer_input::{NewOffer, OfferPatch};
use crate::model::page::ListName;
use crate::resolvers::offers;

pub async fn list(ask: Ask) -> Result<Answer, Failure> {
    let page = offers::list(&ask.call, ask.page()).await?;
    Answer::page(&ask, ListName::PrivateOffers, page.map(ListedOffer::from))
}

pub async fn create(mut ask: Ask) -> Result<Answer, Failure> {
    let new = NewOffer::from_json(ask.body());
    Answer::of(&ask, offers::create(&ask.call, new).await?)
}

pub async fn get(ask: Ask) -> Result<Answer, Failure> {
    Answer::of(&ask, offers::get(&ask.call, ask.id()).await?)
}

pub async fn update(mut ask: Ask) -> Result<Answer, Failure> {
    let patch = OfferPatch::from_json(ask.body());
    Answer::of(&ask, offers::update(&ask.call, ask.id(), patch).await?)
}

pub async fn delete(ask: Ask) -> Result<Answer, Failure> {
    Answer::of(&ask, offers::delete(&ask.call, ask.id()).await?)
}

pub async fn publish(ask: Ask) -> Result<Answer, Failure> {
    Answer::of(&ask, offers::republish(&ask.call, ask.id()).await?)
}
