//! What marketplaces told us: kept once, taken up in order, and what became of it.

use std::collections::HashMap;

use chrono::TimeDelta;
use surrealdb::types::{Object, RecordId, SurrealValue};

use super::documents::never;
use super::outbox::LEASE;
use super::pages::{Placed, page_of, rows_of};
use super::write::{Block, Plan};
use super::{Store, Tenant, errors, insist, organization_of, own_key, vars};
use crate::error::{Error, Result};
use crate::model::id::{NotificationId, OrganizationId};
use crate::model::notification::{NewNotification, Notification, NotificationFilter, NotificationVerdict};
use crate::model::page::{Page, Window};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;

const TABLE: &str = "notification";
/// How long a notification is kept after its verdict, and who was refused.
pub const RETENTION: TimeDelta = TimeDelta::days(90);
/// Notifications of one contract that are looked at together: the newest.
const OF_ONE: i64 = 500;
/// How much longer than the first of a subject the others wait, until it has its verdict.
const BEHIND: TimeDelta = TimeDelta::seconds(1);

#[derive(Clone, SurrealValue)]
struct Row {
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
    fn into_model(self) -> Result<Notification> {
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

/// Something that is due, and the first of its subject that has no verdict yet.
#[derive(SurrealValue)]
struct DueRow {
    row: Row,
    due: Timestamp,
    first: Option<FirstRow>,
}

#[derive(Clone, SurrealValue)]
struct FirstRow {
    id: RecordId,
    due: Timestamp,
    at: Timestamp,
    key: String,
}

/// Nothing of those who have their share. Keys are inverted, so what was received first has the greatest.
const LOOK: &str = "RETURN (SELECT * FROM notification WITH INDEX notification_due
    WHERE due <= $now AND organization NOTINSIDE $full
    ORDER BY due LIMIT $limit).map(|$row| { row: $row, due: $row.due, first: IF $row.subject = '' { NONE } ELSE {
        (SELECT id, due, at, key FROM notification WITH INDEX notification_open
            WHERE organization = $row.organization AND subject = $row.subject AND due < $never
            ORDER BY at ASC, key DESC LIMIT 1)[0] } })";

/// By compare and set: of several processes one moves each.
const MOVE: &str = "RETURN array::flatten($steps.map(|$move|
    (UPDATE $move.id SET due = $move.to WHERE due = $move.was RETURN VALUE id)))";

impl Store {
    /// Takes up what is due: of each subject only its first notification that has no verdict, and of each organization so
    /// many that with those in hand it has no more than its share. Of several processes each gets others.
    pub async fn take_notifications(
        &self,
        limit: usize,
        share: usize,
        mut in_hand: HashMap<OrganizationId, usize>,
    ) -> Result<Vec<Notification>> {
        let now = self.clock().now();
        let full = in_hand.iter().filter(|(_, count)| **count >= share).map(|(full, _)| full.to_string());
        let leased = now.plus(LEASE);
        let vars = vars! {
            "now" => now, "never" => never(), "limit" => i64::try_from(limit).unwrap_or(i64::MAX),
            "full" => full.collect::<Vec<String>>(),
        };
        let found: Vec<DueRow> = self.ask(LOOK, vars).await?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let mut own: Vec<RecordId> = Vec::new();
        for row in found.iter().filter(|row| row.is_first()) {
            let count = in_hand.entry(organization_of(&row.row.id)?).or_default();
            if *count < share {
                *count += 1;
                own.push(row.row.id.clone());
            }
        }
        let steps: Vec<Object> = found.iter().filter_map(|row| row.moved(&own, now, leased)).collect();
        let moved: Vec<RecordId> = match self.ask(MOVE, vars! { "steps" => steps }).await {
            // Another process was at it in the same moment.
            Err(Error::Unavailable(_)) => return Ok(Vec::new()),
            done => done?,
        };
        let taken = found.into_iter().map(|row| row.row).filter(|row| own.contains(&row.id) && moved.contains(&row.id));
        taken.map(Row::into_model).collect()
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

impl DueRow {
    fn is_first(&self) -> bool {
        self.first.as_ref().is_none_or(|first| first.id == self.row.id)
    }

    /// The first of a subject is leased; those behind it wait a little longer than it does, so that they never fill the
    /// portion that it should be found in. What could be taken, but is not, stays where it is.
    fn moved(&self, own: &[RecordId], now: Timestamp, leased: Timestamp) -> Option<Object> {
        let to = match &self.first {
            _ if own.contains(&self.row.id) => leased,
            Some(first) if first.id != self.row.id => {
                let turn = if own.contains(&first.id) { leased } else { first.due.max(now) };
                turn.plus(BEHIND)
            }
            _ => return None,
        };
        Some(vars! { "id" => self.row.id.clone(), "was" => self.due, "to" => to })
    }
}

/// A verdict stands, whatever somebody says who has lost the lease. After it the next of the subject is due at once: that is
/// written even where it already is, or a worker that has just seen the one before it unsettled would have it wait.
const SETTLE: &str = "{
    UPDATE $record SET verdict = $verdict, reason = $reason, tries = $tries, due = $due, aged_from =
        IF $verdict = NONE OR !dated { $never } ELSE IF at > $now { at } ELSE { $now } WHERE verdict = NONE RETURN NONE;
    IF $verdict != NONE AND $subject != '' {
        LET $next = SELECT id, at, key FROM notification WITH INDEX notification_open
            WHERE organization = $org AND subject = $subject AND due < $never ORDER BY at ASC, key DESC LIMIT 1;
        FOR $row IN $next { UPDATE $row.id SET due = $now RETURN NONE };
    };
}";

const KEEP: &str = "{
    IF array::len((SELECT VALUE id FROM notification WITH INDEX notification_once
        WHERE organization = $org AND vendor = $vendor AND external = $external LIMIT 1)) > 0 { RETURN false };
    CREATE ONLY $record CONTENT $content RETURN NONE;
    RETURN true;
}";

impl Tenant {
    /// Keeps a notification, and answers whether it is new: the marketplace's id of it is kept once.
    pub async fn keep_notification(&self, new: &NewNotification) -> Result<bool> {
        let (id, now) = (NotificationId(self.clock().mint()), self.clock().now());
        let content = vars! {
            "organization" => self.organization.to_string(), "key" => id.key(), "vendor" => new.vendor,
            "external" => new.external_id.as_str(), "kind" => new.kind.as_str(), "subject" => new.subject.as_str(),
            "at" => new.occurred_at.unwrap_or(now), "dated" => new.occurred_at.is_some(), "body" => new.body.as_str(),
            "due" => now,
        };
        let vars = vars! {
            "org" => self.organization.to_string(), "vendor" => new.vendor, "external" => new.external_id.as_str(),
            "record" => self.record(TABLE, id.key()), "content" => content,
        };
        let kept = insist(|| self.store.ask::<Option<bool>>(KEEP, vars.clone())).await;
        match kept {
            Err(error) if errors::is_taken(&error, "notification_once") => Ok(false),
            kept => Ok(kept?.unwrap_or_default()),
        }
    }

    /// What became of a notification; without a verdict it is tried again then.
    pub async fn settle_notification(
        &self,
        of: &Notification,
        (verdict, reason): (Option<NotificationVerdict>, Option<String>),
        due: Option<Timestamp>,
    ) -> Result<()> {
        let vars = vars! {
            "record" => self.record(TABLE, of.id.key()), "verdict" => verdict, "reason" => reason,
            "tries" => i64::from(of.tries) + 1, "due" => due.unwrap_or_else(never), "never" => never(),
            "now" => self.clock().now(), "org" => self.organization.to_string(), "subject" => of.subject.as_str(),
        };
        insist(|| self.store.run(SETTLE, vars.clone())).await
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
        // One scan for each: a union of them would be read to its end.
        const BY_STATE: &str = "RETURN array::flatten($states.map(|$state|
            (SELECT * FROM notification WITH INDEX notification_verdict
                WHERE organization = $org AND verdict = $state AND key > $after AND ($vendor = NONE OR vendor = $vendor)
                ORDER BY key LIMIT $rows TIMEOUT 5s)))";
        const BY_VENDOR: &str = "SELECT * FROM notification WITH INDEX notification_vendor
            WHERE organization = $org AND vendor = $vendor AND key > $after ORDER BY key LIMIT $rows TIMEOUT 5s";
        let (limit, states) = (window.limit, filter.states());
        let find = match filter {
            NotificationFilter { subject: Some(_), .. } => BY_SUBJECT,
            _ if states.is_some() => BY_STATE,
            NotificationFilter { vendor: Some(_), .. } => BY_VENDOR,
            _ => return self.page::<Row>(TABLE, window).await?.try_map(Row::into_model),
        };
        let vars = vars! {
            "org" => self.organization.to_string(), "subject" => filter.subject.clone(), "states" => states,
            "vendor" => filter.vendor, "after" => window.after.unwrap_or_default(), "rows" => rows_of(limit),
        };
        let mut rows: Vec<Row> = self.store.ask(find, vars).await?;
        rows.sort_by_cached_key(|row| own_key(&row.id).map(str::to_owned).ok());
        rows.truncate(limit + 1);
        page_of(rows, limit)?.try_map(Row::into_model)
    }

    /// Has a notification applied again, as though it had just come.
    pub fn plan_rerun(&self, of: Notification, actor: &str) -> Plan<Notification> {
        const RERUN: &str =
            "UPDATE ONLY $notification SET verdict = NONE, reason = NONE, tries = 0, due = $due, aged_from = $never
                RETURN NONE;";
        let vars = vars! {
            "notification" => self.record(TABLE, of.id.key()), "due" => self.clock().now(), "never" => never(),
        };
        let block = Block::default().then(RERUN, vars);
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
