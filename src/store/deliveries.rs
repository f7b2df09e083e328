//! Deliveries as callers read them: newest first, by status or kind, with their attempts; and the order to send one again.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use surrealdb::types::{RecordId, SurrealValue, Value};

use super::dispatch::place;
use super::documents::parse;
use super::pages::rows_of;
use super::webhooks::DISPATCH;
use super::write::{Block, Plan};
use super::{Tenant, vars};
use crate::error::{Error, Result};
use crate::model::delivery::{Delivery, DeliveryFilter, DeliveryStatus, Success};
use crate::model::event::{EventKind, Kinds, Sequence};
use crate::model::id::{DeliveryId, WebhookId};
use crate::model::page::{Page, Window};

/// How long a page may take before the caller is told to narrow its filter.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(SurrealValue)]
struct Row {
    place: i64,
    body: Option<String>,
}

/// Where a delivery stands in the list of its webhook. A cursor names the webhook, so that it fits no other.
fn position(webhook: WebhookId, place: i64) -> String {
    format!("{}/{place}", webhook.key())
}

fn position_in(webhook: WebhookId, position: &str) -> Option<i64> {
    let (key, place) = position.split_once('/')?;
    place.parse().ok().filter(|_| key == webhook.key())
}

impl Tenant {
    /// A page of a webhook's deliveries of these kinds, the newest event first.
    pub async fn list_deliveries(
        &self,
        webhook: WebhookId,
        (filter, kinds): (DeliveryFilter, Kinds),
        window: Window,
    ) -> Result<Page<Delivery>> {
        let after = match &window.after {
            None => -1,
            Some(position) => position_in(webhook, position)
                .ok_or_else(|| Error::malformed("cursor", "is not a cursor of this list"))?,
        };
        let rows = self.delivery_rows(webhook, (filter, kinds), after, window.limit).await?;
        let mut found: BTreeMap<i64, Delivery> =
            rows.into_iter().map(|row| Ok((row.place, read(row.body)?))).collect::<Result<_>>()?;
        if filter.status.is_none_or(|status| status == DeliveryStatus::Delivered) {
            let mut successes = self.successes_before(webhook, place(after), kinds, window.limit + 1).await?;
            if filter.status.is_some() {
                successes = self.without_rows(webhook, successes).await?;
            }
            for success in successes {
                let restored = || success.clone().restore(self.organization, webhook);
                found.entry(place(success.0)).or_insert_with(restored);
            }
        }
        let placed = found.into_iter().map(|(place, delivery)| (position(webhook, place), delivery));
        Ok(Page::from_rows(placed.take(window.limit + 1).collect(), window.limit))
    }

    /// Rows of single deliveries. The few that are not delivered have an index by status.
    async fn delivery_rows(
        &self,
        webhook: WebhookId,
        (filter, kinds): (DeliveryFilter, Kinds),
        after: i64,
        limit: usize,
    ) -> Result<Vec<Row>> {
        const ALL: &str = "SELECT record::id(id)[2] AS place, body FROM
            type::record('delivery', [$org, $key, $after]>..[$org, $key, ..])
            WHERE ($status = NONE OR status = $status) AND kind IN $kinds LIMIT $rows TIMEOUT 5s";
        const MARKED: &str = "SELECT record::id(id)[3] AS place,
            type::record('delivery', [$org, $key, record::id(id)[3]]).body AS body FROM
            type::record('undelivered', [$org, $key, $status, $after]>..[$org, $key, $status, ..])
            WHERE type::record('delivery', [$org, $key, record::id(id)[3]]).kind IN $kinds
            LIMIT $rows TIMEOUT 5s";
        const { assert!(TIMEOUT.as_secs() == 5, "the texts above say so") }
        let vars = vars! {
            "org" => self.organization.to_string(), "key" => webhook.key(), "after" => after,
            "status" => filter.status.map_or(Value::None, |status| status.as_str().into_value()),
            "kinds" => kinds.iter().map(EventKind::as_str).collect::<Vec<_>>(),
            "rows" => rows_of(limit),
        };
        let marked = filter.status.is_some_and(|status| status != DeliveryStatus::Delivered);
        self.store.ask(if marked { MARKED } else { ALL }, vars).await
    }

    /// Those that no single row counts before.
    async fn without_rows(&self, webhook: WebhookId, successes: Vec<Success>) -> Result<Vec<Success>> {
        const FIND: &str = "SELECT VALUE record::id(id)[2] FROM $records";
        let records: Vec<RecordId> =
            successes.iter().map(|success| self.delivery_record(webhook, Sequence(success.0))).collect();
        let places: Vec<i64> = self.store.ask(FIND, vars! { "records" => records }).await?;
        Ok(successes.into_iter().filter(|success| !places.contains(&place(success.0))).collect())
    }

    /// The newest deliveries of each of these webhooks, in three queries.
    pub async fn deliveries_of_each(
        &self,
        webhooks: &[WebhookId],
        kinds: Kinds,
        limit: usize,
    ) -> Result<HashMap<WebhookId, Page<Delivery>>> {
        const EACH: &str = "RETURN array::flatten($keys.map(|$key|
            (SELECT VALUE body FROM type::record('delivery', [$org, $key]..[$org, $key, ..])
                WHERE kind IN $kinds LIMIT $rows)))";
        let vars = vars! {
            "org" => self.organization.to_string(), "rows" => rows_of(limit),
            "keys" => webhooks.iter().map(|id| id.key()).collect::<Vec<_>>(),
            "kinds" => kinds.iter().map(EventKind::as_str).collect::<Vec<_>>(),
        };
        let mut found: HashMap<WebhookId, BTreeMap<i64, Delivery>> = HashMap::new();
        for body in self.store.ask::<Vec<String>>(EACH, vars).await? {
            let delivery: Delivery = parse(&body)?;
            found.entry(delivery.webhook_id).or_default().insert(place(delivery.sequence), delivery);
        }
        for (webhook, successes) in self.newest_successes(webhooks, kinds, limit + 1).await? {
            let known = found.entry(webhook).or_default();
            for success in successes {
                known.entry(place(success.0)).or_insert_with(|| success.restore(self.organization, webhook));
            }
        }
        let page = |id: &WebhookId| {
            let placed = found.remove(id).unwrap_or_default().into_iter().take(limit + 1);
            (*id, Page::from_rows(placed.map(|(place, one)| (position(*id, place), one)).collect(), limit))
        };
        Ok(webhooks.iter().map(page).collect())
    }

    /// The delivery of an id, which tells its event and, among the organization's, its webhook.
    pub async fn get_delivery(&self, id: DeliveryId) -> Result<Delivery> {
        const KEYS: &str = "SELECT VALUE record::id(id)[1] FROM type::record('webhook', [$org]..[$org, ..])";
        let keys: Vec<String> = self.store.ask(KEYS, vars! { "org" => self.organization.to_string() }).await?;
        let webhooks = keys.iter().filter_map(|key| WebhookId::from_key(key));
        for webhook in webhooks.filter(|webhook| id.is_to(*webhook)) {
            let found = self.find_delivery(webhook, Sequence(id.sequence())).await?;
            if let Some(delivery) = found.filter(|delivery| delivery.id == id) {
                return Ok(delivery);
            }
        }
        Err(Error::NOT_FOUND)
    }

    pub async fn find_delivery(&self, webhook: WebhookId, sequence: Sequence) -> Result<Option<Delivery>> {
        if let Some(body) = self.find_delivery_row(webhook, sequence).await? {
            return parse(&body).map(Some);
        }
        let success = self.find_success(webhook, sequence).await?;
        Ok(success.map(|success| success.restore(self.organization, webhook)))
    }

    async fn find_delivery_row(&self, webhook: WebhookId, sequence: Sequence) -> Result<Option<String>> {
        let vars = vars! { "record" => self.delivery_record(webhook, sequence) };
        self.store.ask("SELECT VALUE body FROM ONLY $record", vars).await
    }

    /// A delivery begins anew, at once: `next` is `was` after its restart.
    pub fn plan_resend(&self, was: &Delivery, next: Delivery, actor: &str) -> Result<Plan<Delivery>> {
        const RESEND: &str = "
            IF $delivery.body != NONE AND $delivery.body != $was { THROW 'moved' };
            DELETE $gone;
            UPSERT ONLY $delivery CONTENT { status: $status, kind: $kind, body: $body } RETURN NONE;
            FOR $mark IN $marks { UPSERT ONLY $mark RETURN NONE };
            UPDATE ONLY $dispatch SET wake_at = $now RETURN NONE;";
        let found_by = |of: &Delivery| {
            let retry = of.next_attempt_at.map(|due| self.retry_record(of, due));
            std::iter::once(self.mark_record(of, of.status)).chain(retry).collect::<Vec<_>>()
        };
        let vars = vars! {
            "delivery" => self.delivery_record(next.webhook_id, Sequence(next.sequence)),
            "dispatch" => self.record(DISPATCH, next.webhook_id.key()),
            "was" => super::documents::body(was)?, "body" => super::documents::body(&next)?,
            "status" => next.status.as_str(), "kind" => next.event_type, "now" => self.clock().now(),
            "gone" => found_by(was), "marks" => found_by(&next),
        };
        let block = self.audited(Block::default().then(RESEND, vars), actor, "delivery.resent", next.id.to_string());
        Ok(Plan::quiet(next, block))
    }
}

fn read(body: Option<String>) -> Result<Delivery> {
    parse(&body.ok_or_else(|| Error::internal("a mark has no delivery"))?)
}
