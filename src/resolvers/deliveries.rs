//! Deliveries (`contract.md` §14): what became of each event at each webhook, and sending one again.

use std::collections::HashMap;

use super::webhooks::{changeable, must_be_active};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::model::delivery::{Delivery, DeliveryFilter};
use crate::model::event::{EventKind, Kinds, Sequence};
use crate::model::filter::{Filter, Order};
use crate::model::id::{DeliveryId, WebhookId};
use crate::model::page::{ListName, Page, PageRequest};

/// The deliveries of one webhook, the newest event first.
pub async fn list(call: &Call, webhook: &str, filter: DeliveryFilter, page: PageRequest) -> Result<Page<Delivery>> {
    let (tenant, visible) = call.grant_events(None)?;
    let webhook = WebhookId::named(webhook)?;
    changeable(call, &tenant, webhook).await?;
    // A webhook may have been sent other kinds before.
    let wanted = |kind: &EventKind| filter.kind.is_none_or(|only| only == *kind);
    let kinds = visible.iter().filter(wanted).collect();
    let window = page.check(&Filter::default(), &call.cursor_scope(ListName::Deliveries, Order::Newest))?;
    tenant.list_deliveries(webhook, (filter, kinds), window).await
}

/// Whether the caller may read the deliveries of webhooks of these kinds.
pub fn permit(call: &Call, kinds: Kinds) -> Result<()> {
    call.grant_events(Some(kinds)).map(drop)
}

/// The newest deliveries of each of these webhooks, which are sent these kinds, in one query.
pub async fn of_each(
    call: &Call,
    webhooks: &[WebhookId],
    kinds: Kinds,
    limit: usize,
) -> Result<HashMap<WebhookId, Page<Delivery>>> {
    call.grant_events(Some(kinds))?;
    let (tenant, visible) = call.grant_events(None)?;
    tenant.deliveries_of_each(webhooks, visible, limit).await
}

pub async fn get(call: &Call, id: &str) -> Result<Delivery> {
    let (tenant, _) = call.grant_events(None)?;
    let delivery = tenant.get_delivery(DeliveryId::named(id)?).await?;
    changeable(call, &tenant, delivery.webhook_id).await?;
    permit(call, Kinds::from_iter([delivery.event_type]))?;
    Ok(delivery)
}

/// Begins a delivery anew, at once, with its whole schedule before it. 410 when its event is no longer kept.
pub async fn resend(call: &Call, id: &str) -> Result<Delivery> {
    let (tenant, _) = call.grant_events(None)?;
    let id = DeliveryId::named(id)?;
    let delivery = tenant
        .write(|| async {
            let was = tenant.get_delivery(id).await?;
            let stored = changeable(call, &tenant, was.webhook_id).await?;
            permit(call, Kinds::from_iter([was.event_type]))?;
            must_be_active(&stored.webhook)?;
            if !stored.webhook.events.has(was.event_type) {
                return Err(Error::conflict(format!("The webhook is not sent {} any more", was.event_type)));
            }
            let before = Sequence(was.sequence - 1);
            super::events::existing(&tenant, before, Sequence(was.sequence)).await?;
            let mut next = was.clone();
            next.restart(tenant.clock().now());
            tenant.plan_resend(&was, next, &call.caller().name())
        })
        .await?;
    tenant.webhooks_changed();
    Ok(delivery)
}
