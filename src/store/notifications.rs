//! What marketplaces told us: kept once, and what became of it.

use chrono::TimeDelta;
use surrealdb::types::{RecordId, SurrealValue};

use super::documents::never;
use super::pages::{Placed, page_of, rows_of};
use super::write::{Block, Plan};
use super::{Store, Tenant, errors, organization_of, own_key, vars};
use crate::error::{Error, Result};
use crate::model::id::{NotificationId, OrganizationId};
use crate::model::notification::{NewNotification, Notification, NotificationFilter, NotificationVerdict};
use crate::model::page::{Page, Window};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;

pub(super) const TABLE: &str = "notification";
/// How long a notification is kept after its verdict, and who was refused.
pub const RETENTION: TimeDelta = TimeDelta::days(90);
/// Notifications of one contract that are looked at together: the newest.
const OF_ONE: i64 = 500;

#[derive(Clone, SurrealValue)]
pub(super) struct Row {
    id: RecordId,
    vendor: Vendor,
    external: String,
    kind: String,
    subject: String,
    at: Timestamp,
    body: String,
    verdict: Option<NotificationVerdict>,
    reason: Option<String>,
    tries: i64,
}

impl Placed for Row {
    fn position(&mut self) -> Option<String> {
        own_key(&self.id).ok().map(str::to_owned)
    }
}

impl Row {
    pub(super) fn into_model(self) -> Result<Notification> {
        let id = NotificationId::from_key(own_key(&self.id)?);
        let id = id.ok_or_else(|| Error::internal("a notification's key is broken"))?;
        Ok(Notification {
            id,
            organization_id: organization_of(&self.id)?,
            vendor: self.vendor,
            external_id: self.external,
            kind: self.kind,
            subject: self.subject,
            occurred_at: self.at,
            received_at: id.created_at(),
            verdict: self.verdict,
            reason: self.reason,
            tries: u32::try_from(self.tries).unwrap_or_default(),
            body: self.body,
        })
    }
}

/// Forgetting.
impl Store {
    /// Notifications whose verdicts are older than that.
    pub async fn old_notifications(&self, limit: Timestamp, portion: i64) -> Result<Vec<Notification>> {
        const OLD: &str =
            "SELECT * FROM notification WITH INDEX notification_aged WHERE aged_from < $limit LIMIT $portion";
        let vars = vars! { "limit" => limit, "portion" => portion };
        self.ask::<Vec<Row>>(OLD, vars).await?.into_iter().map(Row::into_model).collect()
    }
}

impl Tenant {
    /// Keeps a notification, and answers whether it is new: the marketplace's id of it is kept once.
    pub async fn keep_notification(&self, new: &NewNotification) -> Result<bool> {
        const KEEP: &str = "CREATE ONLY $record CONTENT $content RETURN NONE;";
        let (id, now) = (NotificationId(self.clock().mint()), self.clock().now());
        let content = vars! {
            "organization" => self.organization.to_string(), "key" => id.key(), "vendor" => new.vendor,
            "external" => new.external_id.as_str(), "kind" => new.kind.as_str(), "subject" => new.subject.as_str(),
            "at" => new.occurred_at.unwrap_or(now), "dated" => new.occurred_at.is_some(), "body" => new.body.as_str(),
        };
        let keep =
            Block::default().then(KEEP, vars! { "record" => self.record(TABLE, id.key()), "content" => content });
        let (text, vars) = keep.and(self.ask_for_turn(new.vendor, &new.subject, &id.key(), false)).into_query();
        let kept = self.store.insist(|| self.store.ask_composed::<Option<bool>>(text.clone(), vars.clone())).await;
        match kept {
            Err(error) if errors::is_taken(&error, "notification_once") => Ok(false),
            kept => kept.map(|_| true),
        }
    }

    /// All that was told of one subject, the newest of very many; in no order.
    pub async fn notifications_of(&self, vendor: Vendor, subject: &str) -> Result<Vec<Notification>> {
        const FIND: &str = "SELECT * FROM notification WITH INDEX notification_subject
            WHERE organization = $org AND subject = $subject AND vendor = $vendor ORDER BY key LIMIT $most";
        let vars = vars! {
            "org" => self.organization.to_string(), "subject" => subject, "vendor" => vendor, "most" => OF_ONE,
        };
        self.store.ask::<Vec<Row>>(FIND, vars).await?.into_iter().map(Row::into_model).collect()
    }

    /// Forgets these; one that does not say when it happened stays, because its replay would be news.
    pub async fn forget_notifications(&self, ids: &[NotificationId]) -> Result<()> {
        const FORGET: &str = "DELETE $gone WHERE dated AND verdict != NONE RETURN NONE";
        self.store.run(FORGET, vars! { "gone" => self.notifications(ids) }).await
    }

    /// Has the retention of a notification begin again.
    pub async fn spare_notification(&self, id: NotificationId) -> Result<()> {
        const SPARE: &str = "UPDATE $spared SET aged_from = $now RETURN NONE";
        self.store.run(SPARE, vars! { "spared" => self.notifications(&[id]), "now" => self.clock().now() }).await
    }

    fn notifications(&self, ids: &[NotificationId]) -> Vec<RecordId> {
        ids.iter().map(|id| self.record(TABLE, id.key())).collect()
    }

    pub async fn get_notification(&self, id: NotificationId) -> Result<Notification> {
        let vars = vars! { "record" => self.record(TABLE, id.key()) };
        let found: Option<Row> = self.store.ask("SELECT * FROM ONLY $record", vars).await?;
        found.ok_or(Error::NOT_FOUND)?.into_model()
    }

    /// Newest first.
    pub async fn list_notifications(&self, filter: &NotificationFilter, window: Window) -> Result<Page<Notification>> {
        const BY_SUBJECT: &str = "SELECT * FROM notification WITH INDEX notification_subject
            WHERE organization = $org AND subject = $subject AND key > $after
                AND ($vendor = NONE OR vendor = $vendor) AND ($states = NONE OR verdict IN $states)
            ORDER BY key LIMIT $rows TIMEOUT 5s";
        const BY_STATE: &str = "SELECT * FROM notification WITH INDEX notification_verdict
            WHERE organization = $org AND verdict = $state AND key > $after AND ($vendor = NONE OR vendor = $vendor)
            ORDER BY key LIMIT $rows TIMEOUT 5s";
        const BY_VENDOR: &str = "SELECT * FROM notification WITH INDEX notification_vendor
            WHERE organization = $org AND vendor = $vendor AND key > $after ORDER BY key LIMIT $rows TIMEOUT 5s";
        let (limit, states) = (window.limit, filter.states());
        let vars = vars! {
            "org" => self.organization.to_string(), "subject" => filter.subject.clone(), "states" => states.clone(),
            "vendor" => filter.vendor, "after" => window.after.clone().unwrap_or_default(), "rows" => rows_of(limit),
        };
        let mut rows: Vec<Row> = match (filter, states) {
            (NotificationFilter { subject: Some(_), .. }, _) => self.store.ask(BY_SUBJECT, vars).await?,
            // A query for each: of a union, and of queries within a closure, the engine reads all.
            (_, Some(states)) => {
                let mut rows = Vec::new();
                for state in states {
                    let mut vars = vars.clone();
                    vars.extend(vars! { "state" => state });
                    rows.extend(self.store.ask::<Vec<Row>>(BY_STATE, vars).await?);
                }
                rows
            }
            (NotificationFilter { vendor: Some(_), .. }, None) => self.store.ask(BY_VENDOR, vars).await?,
            _ => return self.page::<Row>(TABLE, window).await?.try_map(Row::into_model),
        };
        rows.sort_by_cached_key(|row| own_key(&row.id).map(str::to_owned).ok());
        rows.truncate(limit + 1);
        page_of(rows, limit)?.try_map(Row::into_model)
    }

    /// Has a notification applied again, as though it had just come.
    pub fn plan_rerun(&self, of: Notification, actor: &str) -> Plan<Notification> {
        const RERUN: &str =
            "UPDATE ONLY $notification SET verdict = NONE, reason = NONE, tries = 0, aged_from = $never RETURN NONE;";
        let vars = vars! { "notification" => self.record(TABLE, of.id.key()), "never" => never() };
        let turn = self.ask_for_turn(of.vendor, &of.subject, &of.id.key(), true);
        let block = Block::default().then(RERUN, vars).and(turn);
        let block = self.audited(block, actor, "notification.rerun", of.id.to_string());
        Plan::quiet(Notification { verdict: None, reason: None, tries: 0, ..of }, block)
    }

    /// Writes down that somebody who is not the marketplace spoke in its name.
    pub async fn note_refusal(&self, vendor: Vendor, why: &str) -> Result<()> {
        let noted = || self.audited(Block::default(), vendor.as_str(), "notification.refused", why.to_owned());
        self.write(|| async { Ok(Plan::quiet((), noted())) }).await
    }
}

/// The organization that an address names, if it is one.
impl Store {
    pub async fn find_tenant(&self, organization: &str) -> Result<Option<Tenant>> {
        let Some(id) = OrganizationId::parse(organization) else { return Ok(None) };
        Ok(self.organization_exists(id).await?.then(|| self.tenant(id, None)))
    }
}
