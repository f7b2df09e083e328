//! Webhooks and their deliveries over GraphQL.

use async_graphql::{Context, ID, InputObject, MaybeUndefined, Object, Result, SimpleObject};

use super::call;
use super::connections::{Records, connect, nested_size, page_size, payload, set};
use super::errors::fault;
use super::loaders::{DeliveriesOf, load};
use crate::courier::Courier;
use crate::model;
use crate::model::delivery::{Attempt, DeliveryFilter, DeliveryStatus};
use crate::model::event::{EventKind, Sequence};
use crate::model::filter::Order;
use crate::model::input::Problems;
use crate::model::page::{ListName, PageRequest};
use crate::model::time::Timestamp;
use crate::model::webhook::{AttemptError, ReplayInput, RotationInput, WebhookInput, WebhookStatus, WebhookWithSecret};
use crate::resolvers::{deliveries, webhooks};

const DELIVERIES: (ListName, Order) = (ListName::Deliveries, Order::Newest);

/// Where events are sent, and which.
pub struct Webhook {
    record: model::webhook::Webhook,
    /// In the answers that make one.
    secret: Option<String>,
}

#[Object]
impl Webhook {
    pub async fn id(&self) -> ID {
        self.record.id.into()
    }
    async fn organization_id(&self) -> ID {
        self.record.organization_id.into()
    }
    async fn name(&self) -> &str {
        &self.record.name
    }
    async fn url(&self) -> &str {
        &self.record.url
    }
    async fn events(&self) -> Vec<EventKind> {
        self.record.events.iter().collect()
    }
    /// A disabled webhook is sent nothing: its events are held and can be replayed.
    async fn status(&self) -> WebhookStatus {
        self.record.status
    }
    /// Consecutive failures; a success resets it.
    async fn failure_count(&self) -> u32 {
        self.record.failure_count
    }
    async fn last_triggered_at(&self) -> Option<Timestamp> {
        self.record.last_triggered_at
    }
    async fn disabled_at(&self) -> Option<Timestamp> {
        self.record.disabled_at
    }
    async fn has_secret(&self) -> bool {
        self.record.has_secret
    }
    /// What deliveries are signed with. Shown once, at creation and at rotation; null ever after.
    async fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }
    /// Every event up to it was attempted or held, or is of another kind.
    async fn last_sequence(&self) -> Sequence {
        Sequence(self.record.last_sequence)
    }
    async fn created_at(&self) -> Timestamp {
        self.record.created_at
    }
    async fn updated_at(&self) -> Timestamp {
        self.record.updated_at
    }
    /// The newest event first, 10 unless told. Needs the scopes of the webhook's events.
    #[graphql(complexity = "nested_size(first) * child_complexity")]
    async fn deliveries(&self, ctx: &Context<'_>, first: Option<i32>) -> Option<Result<Records<Delivery>>> {
        if let Err(error) = deliveries::permit(call(ctx), self.record.events) {
            return Some(Err(fault(error)));
        }
        let key = DeliveriesOf { webhook: self.record.id, kinds: self.record.events, limit: nested_size(first) };
        let page = load(ctx, key).await;
        Some(page.map(|page| connect(call(ctx), DELIVERIES, false, page.unwrap_or_default())))
    }
}

impl From<model::webhook::Webhook> for Webhook {
    fn from(record: model::webhook::Webhook) -> Self {
        Self { record, secret: None }
    }
}

impl From<WebhookWithSecret> for Webhook {
    fn from(made: WebhookWithSecret) -> Self {
        Self { record: made.webhook, secret: Some(made.secret.as_str().to_owned()) }
    }
}

/// One event on its way to one webhook.
pub struct Delivery(model::delivery::Delivery);

#[Object]
impl Delivery {
    pub async fn id(&self) -> ID {
        self.0.id.into()
    }
    async fn organization_id(&self) -> ID {
        self.0.organization_id.into()
    }
    async fn webhook_id(&self) -> ID {
        self.0.webhook_id.into()
    }
    async fn event_id(&self) -> ID {
        self.0.event_id.into()
    }
    async fn event_type(&self) -> EventKind {
        self.0.event_type
    }
    async fn sequence(&self) -> Sequence {
        Sequence(self.0.sequence)
    }
    async fn status(&self) -> DeliveryStatus {
        self.0.status
    }
    /// All that were made, also those that the log no longer shows.
    async fn attempt_count(&self) -> u32 {
        self.0.attempt_count
    }
    /// Since it was last begun, by its event or by hand: where it is in the schedule.
    async fn attempts_in_series(&self) -> u32 {
        self.0.series
    }
    async fn next_attempt_at(&self) -> Option<Timestamp> {
        self.0.next_attempt_at
    }
    async fn created_at(&self) -> Timestamp {
        self.0.created_at
    }
    async fn updated_at(&self) -> Timestamp {
        self.0.updated_at
    }
    /// Oldest first, at most 20.
    async fn attempts(&self) -> &[Attempt] {
        &self.0.attempts
    }
}

impl From<model::delivery::Delivery> for Delivery {
    fn from(record: model::delivery::Delivery) -> Self {
        Self(record)
    }
}

#[derive(InputObject)]
pub struct CreateWebhookInput {
    name: String,
    /// https only, to a public address, without credentials.
    url: String,
    events: Vec<EventKind>,
    /// `whsec_` with the base64 of 24 to 64 bytes, or any other text. Absent: we make one.
    secret: Option<String>,
}

/// Absent fields stay as they are.
#[derive(InputObject)]
pub struct UpdateWebhookInput {
    name: MaybeUndefined<String>,
    url: MaybeUndefined<String>,
    events: MaybeUndefined<Vec<EventKind>>,
    status: MaybeUndefined<WebhookStatus>,
}

#[derive(InputObject)]
pub struct ReplayWebhookInput {
    from_sequence: Sequence,
    /// The last event unless told.
    to_sequence: Option<Sequence>,
    /// Leave out what was delivered.
    #[graphql(default)]
    only_undelivered: bool,
}

impl From<CreateWebhookInput> for WebhookInput {
    fn from(input: CreateWebhookInput) -> Self {
        let (name, url, events) = (Some(input.name), Some(input.url), Some(input.events));
        Self { name, url, events, secret: input.secret, ..Self::default() }
    }
}

impl From<UpdateWebhookInput> for WebhookInput {
    fn from(input: UpdateWebhookInput) -> Self {
        let mut problems = Problems::default();
        Self {
            name: set(input.name, &mut problems, "name"),
            url: set(input.url, &mut problems, "url"),
            events: set(input.events, &mut problems, "events"),
            status: set(input.status, &mut problems, "status"),
            problems,
            ..Self::default()
        }
    }
}

impl From<ReplayWebhookInput> for ReplayInput {
    fn from(input: ReplayWebhookInput) -> Self {
        Self {
            from_sequence: Some(input.from_sequence),
            to_sequence: input.to_sequence,
            only_undelivered: input.only_undelivered,
            problems: Problems::default(),
        }
    }
}

/// What became of a test. What the receiver said is not told.
#[derive(SimpleObject)]
pub struct WebhookTestResult {
    webhook_id: ID,
    event_id: ID,
    success: bool,
    status_code: Option<u16>,
    duration_ms: u32,
    error: Option<AttemptError>,
}

impl From<webhooks::TestResult> for WebhookTestResult {
    fn from(result: webhooks::TestResult) -> Self {
        let webhooks::TestResult { webhook_id, event_id, success, status_code, duration_ms, error } = result;
        Self { webhook_id: webhook_id.into(), event_id: event_id.into(), success, status_code, duration_ms, error }
    }
}

/// A replay that was begun.
#[derive(SimpleObject)]
pub struct Replay {
    webhook_id: ID,
    from_sequence: Sequence,
    to_sequence: Sequence,
    only_undelivered: bool,
}

impl From<model::webhook::Replay> for Replay {
    fn from(replay: model::webhook::Replay) -> Self {
        Self {
            webhook_id: replay.webhook_id.into(),
            from_sequence: Sequence(replay.from_sequence),
            to_sequence: Sequence(replay.to_sequence),
            only_undelivered: replay.only_undelivered,
        }
    }
}

payload!(WebhookPayload, webhook: Webhook);
payload!(WebhookTestPayload, result: WebhookTestResult);
payload!(ReplayPayload, replay: Replay);
payload!(DeliveryPayload, delivery: Delivery);

#[derive(Default)]
pub struct WebhookQuery;

#[Object]
impl WebhookQuery {
    /// One webhook of the organization.
    async fn webhook(&self, ctx: &Context<'_>, id: ID) -> Option<Result<Webhook>> {
        Some(one(ctx, &id).await)
    }

    /// The organization's webhooks, newest first.
    #[graphql(complexity = "page_size(first) * child_complexity")]
    async fn webhooks(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 20 unless told; above 100 means 100.")] first: Option<i32>,
        #[graphql(desc = "The cursor to continue after.")] after: Option<String>,
    ) -> Option<Result<Records<Webhook>>> {
        let continued = after.is_some();
        let page = webhooks::list(call(ctx), PageRequest::from_arguments(first, after)).await.map_err(fault);
        Some(page.map(|page| connect(call(ctx), (ListName::Webhooks, Order::Newest), continued, page)))
    }

    /// One delivery with its attempts. Needs the scopes of its webhook's events.
    async fn delivery(&self, ctx: &Context<'_>, id: ID) -> Option<Result<Delivery>> {
        Some(delivery(ctx, &id).await)
    }

    /// A webhook's deliveries, the newest event first. Needs the scopes of its events.
    #[graphql(complexity = "page_size(first) * child_complexity")]
    async fn deliveries(
        &self,
        ctx: &Context<'_>,
        webhook_id: ID,
        #[graphql(desc = "How many, 20 unless told; above 100 means 100.")] first: Option<i32>,
        #[graphql(desc = "The cursor to continue after.")] after: Option<String>,
        status: Option<DeliveryStatus>,
        kind: Option<EventKind>,
    ) -> Option<Result<Records<Delivery>>> {
        let (continued, request) = (after.is_some(), PageRequest::from_arguments(first, after));
        let page = deliveries::list(call(ctx), &webhook_id, DeliveryFilter { status, kind }, request).await;
        Some(page.map_err(fault).map(|page| connect(call(ctx), DELIVERIES, continued, page)))
    }
}

pub async fn one(ctx: &Context<'_>, id: &str) -> Result<Webhook> {
    webhooks::get(call(ctx), id).await.map(Webhook::from).map_err(fault)
}

pub async fn delivery(ctx: &Context<'_>, id: &str) -> Result<Delivery> {
    deliveries::get(call(ctx), id).await.map(Delivery::from).map_err(fault)
}

fn courier<'a>(ctx: &Context<'a>) -> &'a Courier {
    ctx.data_unchecked::<Courier>()
}

#[derive(Default)]
pub struct WebhookMutation;

#[Object]
impl WebhookMutation {
    /// Needs the scopes of its events. The signing secret is in this answer and never again.
    async fn create_webhook(&self, ctx: &Context<'_>, input: CreateWebhookInput) -> Option<Result<WebhookPayload>> {
        Some(WebhookPayload::of(webhooks::create(call(ctx), courier(ctx), input.into()).await))
    }

    /// Needs the scopes of its events, of those before and those after.
    async fn update_webhook(
        &self,
        ctx: &Context<'_>,
        id: ID,
        input: UpdateWebhookInput,
    ) -> Option<Result<WebhookPayload>> {
        Some(WebhookPayload::of(webhooks::update(call(ctx), courier(ctx), &id, input.into()).await))
    }

    /// Its delivery log goes too. Needs the scopes of its events.
    async fn delete_webhook(&self, ctx: &Context<'_>, id: ID) -> Option<Result<WebhookPayload>> {
        Some(WebhookPayload::of(webhooks::delete(call(ctx), &id).await))
    }

    /// A new signing secret, in this answer and never again; for 24 hours the one before it signs too. Needs the scopes of
    /// its events.
    async fn rotate_webhook_secret(
        &self,
        ctx: &Context<'_>,
        id: ID,
        #[graphql(desc = "A secret of your own; absent, we make one.")] secret: Option<String>,
    ) -> Option<Result<WebhookPayload>> {
        let input = RotationInput { secret, ..RotationInput::default() };
        Some(WebhookPayload::of(webhooks::rotate_secret(call(ctx), &id, input).await))
    }

    /// Sends one sample event, marked as a test. It is not tried again and counts for nothing. Needs the scopes of its
    /// events. Complexity: 1,000.
    #[graphql(complexity = 1_000)]
    async fn test_webhook(&self, ctx: &Context<'_>, webhook_id: ID) -> Option<Result<WebhookTestPayload>> {
        let named = webhooks::Named { webhook_id: webhook_id.0, problems: Problems::default() };
        Some(WebhookTestPayload::of(webhooks::test(call(ctx), courier(ctx), named).await))
    }

    /// Sends a range of the log again, one replay at a time. Needs the scopes of its events.
    async fn replay_webhook(
        &self,
        ctx: &Context<'_>,
        id: ID,
        input: ReplayWebhookInput,
    ) -> Option<Result<ReplayPayload>> {
        Some(ReplayPayload::of(webhooks::replay(call(ctx), &id, input.into()).await))
    }

    /// Begins one delivery anew, at once. Needs the scopes of its webhook's events.
    async fn resend_delivery(&self, ctx: &Context<'_>, id: ID) -> Option<Result<DeliveryPayload>> {
        Some(DeliveryPayload::of(deliveries::resend(call(ctx), &id).await))
    }
}
