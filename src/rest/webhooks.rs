//! Webhooks and their deliveries over REST.

use serde_json::json;

use super::answer::Answer;
use super::endpoint::Ask;
use crate::http::failure::Failure;
use crate::model::delivery::DeliveryFilter;
use crate::model::input::Fields;
use crate::model::page::ListName;
use crate::model::webhook::{ReplayInput, RotationInput, WebhookInput};
use crate::resolvers::{deliveries, webhooks};

pub async fn list(ask: Ask) -> Result<Answer, Failure> {
    let page = webhooks::list(&ask.call, ask.page()).await?;
    Answer::page(&ask, ListName::Webhooks, page)
}

pub async fn create(mut ask: Ask) -> Result<Answer, Failure> {
    let input = WebhookInput::for_create(ask.body());
    Answer::of(&ask, webhooks::create(&ask.call, &ask.courier, input).await?)
}

pub async fn get(ask: Ask) -> Result<Answer, Failure> {
    Answer::of(&ask, webhooks::get(&ask.call, ask.id()).await?)
}

pub async fn update(mut ask: Ask) -> Result<Answer, Failure> {
    let input = WebhookInput::for_update(ask.body());
    Answer::of(&ask, webhooks::update(&ask.call, &ask.courier, ask.id(), input).await?)
}

pub async fn delete(ask: Ask) -> Result<Answer, Failure> {
    let gone = webhooks::delete(&ask.call, ask.id()).await?;
    Answer::of(&ask, json!({ "id": gone.id, "status": "deleted" }))
}

pub async fn rotate_secret(mut ask: Ask) -> Result<Answer, Failure> {
    let input = RotationInput::from_json(ask.optional_body());
    Answer::of(&ask, webhooks::rotate_secret(&ask.call, ask.id(), input).await?)
}

pub async fn test(mut ask: Ask) -> Result<Answer, Failure> {
    let mut fields = Fields::read(ask.body());
    let id = fields.string("webhookId");
    fields.require("webhookId", id.as_ref());
    let named = webhooks::Named { webhook_id: id.unwrap_or_default(), problems: fields.finish() };
    Answer::of(&ask, webhooks::test(&ask.call, &ask.courier, named).await?)
}

pub async fn replay(mut ask: Ask) -> Result<Answer, Failure> {
    let input = ReplayInput::from_json(ask.body());
    Answer::of(&ask, webhooks::replay(&ask.call, ask.id(), input).await?)
}

pub async fn list_deliveries(ask: Ask) -> Result<Answer, Failure> {
    let page = deliveries::list(&ask.call, ask.id(), DeliveryFilter::default(), ask.page()).await?;
    Answer::page(&ask, ListName::Deliveries, page)
}

pub async fn get_delivery(ask: Ask) -> Result<Answer, Failure> {
    Answer::of(&ask, deliveries::get(&ask.call, ask.id()).await?)
}

pub async fn resend(ask: Ask) -> Result<Answer, Failure> {
    Answer::of(&ask, deliveries::resend(&ask.call, ask.id()).await?)
}
