//! Turns: contracts of which notifications wait. Whoever has a contract's turn applies the first of them, and nobody else
//! does meanwhile; of different contracts they are applied side by side.

use std::collections::HashMap;

use surrealdb::types::{Object, RecordId, RecordIdKey, SurrealValue, Value};

use super::documents::never;
use super::notifications::{self, Row};
use super::outbox::LEASE;
use super::write::Block;
use super::{Store, Tenant, organization_of, vars};
use crate::error::{Error, Result};
use crate::model::id::{NotificationId, OrganizationId};
use crate::model::notification::{Notification, NotificationVerdict};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;

/// The turn of a contract that was taken up.
#[derive(Clone, Debug)]
pub struct Turn {
    pub organization: OrganizationId,
    vendor: Vendor,
    subject: String,
    /// The key of a notification that names no contract, or nothing.
    own: String,
    revision: i64,
    held: Timestamp,
}

#[derive(SurrealValue)]
struct TurnRow {
    id: RecordId,
    due: Timestamp,
    revision: i64,
}

/// What a notification came to.
#[derive(Clone, Copy, Debug)]
pub enum End {
    Verdict(NotificationVerdict),
    /// It is tried again then.
    Again(Timestamp),
}

impl TurnRow {
    fn into_turn(self, held: Timestamp) -> Result<Turn> {
        let broken = || Error::internal("the key of an inbox row is broken");
        let RecordIdKey::Array(parts) = &self.id.key else { return Err(broken()) };
        let [_, Value::String(vendor), Value::String(subject), Value::String(own)] = parts.as_slice() else {
            return Err(broken());
        };
        Ok(Turn {
            organization: organization_of(&self.id)?,
            vendor: Vendor::parse(vendor).ok_or_else(broken)?,
            subject: subject.clone(),
            own: own.clone(),
            revision: self.revision,
            held,
        })
    }
}

impl Store {
    /// Takes up contracts that are due: of each organization so many that with those in hand it has no more than its share.
    /// Of several processes each gets others.
    pub async fn take_turns(
        &self,
        limit: usize,
        share: usize,
        mut in_hand: HashMap<OrganizationId, usize>,
    ) -> Result<Vec<Turn>> {
        const LOOK: &str = "SELECT id, due, revision FROM inbox WITH INDEX inbox_due
            WHERE due <= $now AND record::id(id)[0] NOTINSIDE $full ORDER BY due LIMIT $limit";
        // By compare and set.
        const HOLD: &str = "RETURN array::flatten($rows.map(|$row|
            (UPDATE $row.id SET due = $held, held = $held WHERE due = $row.due RETURN VALUE id)))";
        let now = self.clock().now();
        let full = in_hand.iter().filter(|(_, count)| **count >= share).map(|(full, _)| full.to_string());
        let vars = vars! {
            "now" => now, "limit" => i64::try_from(limit).unwrap_or(i64::MAX), "full" => full.collect::<Vec<String>>(),
        };
        let mut found: Vec<TurnRow> = self.ask(LOOK, vars).await?;
        found.retain(|row| {
            let Ok(organization) = organization_of(&row.id) else { return false };
            let count = in_hand.entry(organization).or_default();
            *count += 1;
            *count <= share
        });
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let held = now.plus(LEASE);
        let rows: Vec<Object> = found.iter().map(|row| vars! { "id" => row.id.clone(), "due" => row.due }).collect();
        let taken: Vec<RecordId> = match self.ask(HOLD, vars! { "rows" => rows, "held" => held }).await {
            // Another process was at it in the same moment.
            Err(Error::Unavailable(_)) => return Ok(Vec::new()),
            taken => taken?,
        };
        found.into_iter().filter(|row| taken.contains(&row.id)).map(|row| row.into_turn(held)).collect()
    }
}

impl Tenant {
    /// The statement that has a notification's contract taken up: when it is due anyhow, or else at once; `hurried`, at once
    /// unless somebody holds it.
    pub(super) fn ask_for_turn(&self, vendor: Vendor, subject: &str, key: &str, hurried: bool) -> Block {
        const ASK: &str = "UPSERT ONLY $turn SET revision = (revision ?? 0) + 1,
            due = IF $turn_hurried AND held = NONE { $turn_now } ELSE { due ?? $turn_now } RETURN NONE;";
        let turn = self.turn(vendor, subject, if subject.is_empty() { key } else { "" });
        let vars = vars! { "turn" => turn, "turn_now" => self.clock().now(), "turn_hurried" => hurried };
        Block::default().then(ASK, vars)
    }

    /// The first of a contract's notifications that wait: by the marketplace's time, and then as they came.
    pub async fn first_waiting(&self, turn: &Turn) -> Result<Option<Notification>> {
        const FIRST: &str = "SELECT * FROM notification WITH INDEX notification_waiting
            WHERE organization = $org AND vendor = $vendor AND subject = $subject AND verdict = NONE
                AND ($own = '' OR key = $own)
            ORDER BY at ASC, key DESC LIMIT 1";
        let first = self.store.ask::<Vec<Row>>(FIRST, self.of_turn(turn)).await?.pop();
        first.map(Row::into_model).transpose()
    }

    /// Writes down what a notification came to, and gives its contract's turn back: to be taken up at once when more wait.
    /// Whoever has lost the turn changes nothing.
    pub async fn settle(&self, turn: &Turn, of: NotificationId, end: End, reason: String) -> Result<()> {
        const SETTLE: &str = "IF $turn.held = $held {
            UPDATE ONLY $record SET verdict = $verdict, reason = $reason, tries += 1, aged_from =
                IF $verdict = NONE OR !dated { $never } ELSE IF at > $now { at } ELSE { $now } RETURN NONE;
            LET $more = SELECT VALUE id FROM notification WITH INDEX notification_waiting
                WHERE organization = $org AND vendor = $vendor AND subject = $subject AND verdict = NONE
                    AND ($own = '' OR key = $own) LIMIT 1;
            IF array::len($more) = 0 { DELETE $turn RETURN NONE } ELSE {
                UPDATE $turn SET held = NONE, due = $due RETURN NONE
            };
        }";
        let now = self.clock().now();
        let (verdict, due) = match end {
            End::Verdict(verdict) => (Some(verdict), now),
            End::Again(due) => (None, due),
        };
        let mut vars = self.of_turn(turn);
        vars.extend(vars! {
            "turn" => self.turn(turn.vendor, &turn.subject, &turn.own), "held" => turn.held,
            "record" => self.record(notifications::TABLE, of.key()), "verdict" => verdict, "reason" => reason,
            "due" => due, "now" => now, "never" => never(),
        });
        self.store.insist(|| self.store.run(SETTLE, vars.clone())).await
    }

    /// Gives the turn of a contract back of which nothing waits.
    pub async fn end_turn(&self, turn: &Turn) -> Result<()> {
        const END: &str = "IF $turn.held = $held {
            IF $turn.revision = $revision { DELETE $turn RETURN NONE } ELSE {
                UPDATE $turn SET held = NONE, due = $now RETURN NONE
            };
        }";
        let vars = vars! {
            "turn" => self.turn(turn.vendor, &turn.subject, &turn.own), "held" => turn.held, "revision" => turn.revision,
            "now" => self.clock().now(),
        };
        self.store.insist(|| self.store.run(END, vars.clone())).await
    }

    fn of_turn(&self, turn: &Turn) -> Object {
        vars! {
            "org" => self.organization.to_string(), "vendor" => turn.vendor, "subject" => turn.subject.as_str(),
            "own" => turn.own.as_str(),
        }
    }

    fn turn(&self, vendor: Vendor, subject: &str, own: &str) -> RecordId {
        let organization = self.organization.to_string();
        let parts = [&organization, vendor.as_str(), subject, own].map(SurrealValue::into_value);
        RecordId::new("inbox", surrealdb::types::Array::from(parts.to_vec()))
    }
}
