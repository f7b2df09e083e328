//! Webhooks (spec "Webhook", `contract.md` §14). Who changes one, tests one or reads its deliveries must hold the scope of
//! every kind of event that it is sent (§5).

use chrono::TimeDelta;
use serde::Serialize;

use std::sync::Arc;

use crate::call::Call;
use crate::courier::{Courier, Parcel, Recipient};
use crate::error::{Error, Result};
use crate::model::event_sample::sample;
use crate::model::filter::{Filter, Order};
use crate::model::id::{EventId, WebhookId};
use crate::model::input::Problems;
use crate::model::operation::Operation;
use crate::model::page::{ListName, Page, PageRequest};
use crate::model::webhook::{
    AttemptError, ROTATION_HOURS, Replay, ReplayInput, RotationInput, SigningSecret, WEBHOOKS_MAX, Webhook,
    WebhookInput, WebhookStatus, WebhookWithSecret,
};
use crate::store::Tenant;
use crate::store::dispatch::ReplayState;
use crate::store::webhooks::StoredWebhook;
use crate::store::write::Plan;

pub async fn list(call: &Call, request: PageRequest) -> Result<Page<Webhook>> {
    let tenant = call.grant(Operation::WebhooksList.access())?;
    let window = request.check(&Filter::default(), &call.cursor_scope(ListName::Webhooks, Order::Newest))?;
    tenant.list_webhooks(window).await
}

pub async fn get(call: &Call, id: &str) -> Result<Webhook> {
    let tenant = call.grant(Operation::WebhooksGet.access())?;
    Ok(tenant.get_webhook(WebhookId::named(id)?).await?.webhook)
}

/// The signing secret is in this answer and never again. It is sent every event that is told from now on.
pub async fn create(call: &Call, courier: &Courier, input: WebhookInput) -> Result<WebhookWithSecret> {
    let (tenant, _) = call.grant_events(Some(input.kinds()))?;
    let new = input.into_new(|url| courier.allowed().check(url))?;
    let sealed = tenant
        .write(|| async {
            if tenant.count_webhooks().await? >= WEBHOOKS_MAX {
                return Err(Error::conflict(format!("An organization has at most {WEBHOOKS_MAX} webhooks")));
            }
            let id = WebhookId(tenant.clock().mint());
            let webhook = Webhook {
                id,
                organization_id: tenant.organization(),
                name: new.name.clone(),
                url: new.url.clone(),
                events: new.events,
                status: WebhookStatus::Active,
                failure_count: 0,
                last_triggered_at: None,
                disabled_at: None,
                has_secret: true,
                last_sequence: tenant.last_sequence().await?.0,
                created_at: id.created_at(),
                updated_at: id.created_at(),
            };
            let secret = new.secret.clone().unwrap_or_else(|| SigningSecret::generate(tenant.clock().random()));
            tenant.plan_webhook_created(webhook, &secret, &call.caller().name())
        })
        .await?;
    tenant.webhooks_changed();
    tenant.reveal_webhook(sealed)
}

/// Merges. Whoever makes it active again starts its count of failures anew; what was held meanwhile can be replayed.
pub async fn update(call: &Call, courier: &Courier, id: &str, mut input: WebhookInput) -> Result<Webhook> {
    let (tenant, _) = call.grant_events(None)?;
    let id = WebhookId::named(id)?;
    let kinds = input.kinds();
    let checked = input.check_update(|url| courier.allowed().check(url));
    let webhook = tenant
        .write(|| async {
            let current = changeable(call, &tenant, id).await?;
            call.grant_events(Some(kinds))?;
            checked.clone()?;
            let mut next = input.apply(&current.webhook, tenant.clock().now())?;
            if next == current.webhook {
                return Ok(Plan::unchanged(next));
            }
            next.updated_at = tenant.clock().now();
            Ok(tenant.plan_webhook_updated(&current, next, &call.caller().name()))
        })
        .await?;
    tenant.webhooks_changed();
    Ok(webhook)
}

pub async fn delete(call: &Call, id: &str) -> Result<Webhook> {
    let (tenant, _) = call.grant_events(None)?;
    let id = WebhookId::named(id)?;
    let gone = tenant
        .write(|| async {
            let current = changeable(call, &tenant, id).await?;
            Ok(tenant.plan_webhook_deleted(&current, &call.caller().name()))
        })
        .await?;
    tenant.webhooks_changed();
    Ok(gone)
}

/// A new secret, in this answer and never again. For [`ROTATION_HOURS`] the one before it signs too, so that a receiver
/// can change over without missing anything.
pub async fn rotate_secret(call: &Call, id: &str, input: RotationInput) -> Result<WebhookWithSecret> {
    let (tenant, _) = call.grant_events(None)?;
    let id = WebhookId::named(id)?;
    let supplied = input.into_secret();
    let sealed = tenant
        .write(|| async {
            let current = changeable(call, &tenant, id).await?;
            let supplied = supplied.clone()?;
            let now = tenant.clock().now();
            let webhook = Webhook { updated_at: now, ..current.webhook.clone() };
            let secret = supplied.unwrap_or_else(|| SigningSecret::generate(tenant.clock().random()));
            let old_until = now.plus(TimeDelta::hours(ROTATION_HOURS));
            tenant.plan_webhook_rotated(&current, webhook, &secret, old_until, &call.caller().name())
        })
        .await?;
    tenant.webhooks_changed();
    tenant.reveal_webhook(sealed)
}

/// A webhook that a body names.
pub struct Named {
    pub webhook_id: String,
    pub problems: Problems,
}

/// What became of a test.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TestResult {
    pub webhook_id: WebhookId,
    pub event_id: EventId,
    pub success: bool,
    pub status_code: Option<u16>,
    pub duration_ms: u32,
    pub error: Option<AttemptError>,
}

/// One signed sample of the first kind that the webhook is sent, marked as a test. It is not tried again, counts for
/// nothing, and works on a disabled webhook too. What the receiver said is not told.
pub async fn test(call: &Call, courier: &Courier, named: Named) -> Result<TestResult> {
    let (tenant, _) = call.grant_events(None)?;
    named.problems.raise()?;
    let unknown = || Error::invalid("webhookId", "is not a webhook of this organization");
    let id = WebhookId::parse(&named.webhook_id).ok_or_else(unknown)?;
    if tenant.find_webhook(id).await?.is_none() {
        return Err(unknown());
    }
    let stored = changeable(call, &tenant, id).await?;
    let webhook = &stored.webhook;
    let kind = webhook.events.iter().next().ok_or_else(|| Error::internal("a webhook has no kinds"))?;
    let event_id = EventId(tenant.clock().mint());
    let parcel = Parcel {
        to: Arc::new(Recipient::new(&webhook.url, &tenant.signing_secrets(&stored)?)?),
        id: event_id.to_string(),
        body: sample(kind, event_id, tenant.organization())?.test_envelope().into(),
    };
    let outcome = courier.attempt(&parcel).await;
    Ok(TestResult {
        webhook_id: webhook.id,
        event_id,
        success: outcome.error.is_none(),
        status_code: outcome.status,
        duration_ms: u32::try_from(outcome.duration.as_millis()).unwrap_or(u32::MAX),
        error: outcome.error,
    })
}

/// Sends a range of the log again, to an active webhook, one replay at a time. 410 where the range is no longer kept.
pub async fn replay(call: &Call, id: &str, input: ReplayInput) -> Result<Replay> {
    let (tenant, _) = call.grant_events(None)?;
    let id = WebhookId::named(id)?;
    let only_undelivered = input.only_undelivered;
    let range = input.into_range(tenant.last_sequence().await?);
    let replay = tenant
        .write(|| async {
            let current = changeable(call, &tenant, id).await?;
            let (from, to) = range.clone()?;
            must_be_active(&current.webhook)?;
            super::events::existing(&tenant, crate::model::event::Sequence(from.0 - 1), to).await?;
            if let Some(ReplayState { after, until, .. }) = current.replay {
                return Err(Error::conflict(format!(
                    "A replay up to {until} is under way and has come to {after}; begin the next when it is over"
                )));
            }
            let replay = Replay { webhook_id: id, from_sequence: from.0, to_sequence: to.0, only_undelivered };
            Ok(tenant.plan_replay(&current, replay, &call.caller().name()))
        })
        .await?;
    tenant.webhooks_changed();
    Ok(replay)
}

/// A webhook of the organization whose kinds the caller's scopes all open.
pub(super) async fn changeable(call: &Call, tenant: &Tenant, id: WebhookId) -> Result<StoredWebhook> {
    let stored = tenant.get_webhook(id).await?;
    call.grant_events(Some(stored.webhook.events))?;
    Ok(stored)
}

pub(super) fn must_be_active(webhook: &Webhook) -> Result<()> {
    match webhook.status {
        WebhookStatus::Active => Ok(()),
        WebhookStatus::Disabled => Err(Error::conflict("The webhook is disabled; set its status to active first")),
    }
}
