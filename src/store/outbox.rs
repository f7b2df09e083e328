//! The outbox: records of which a marketplace has to be told. A row is written in the transaction of the change; workers
//! take up what is due, and nobody else does while they have it.

use chrono::TimeDelta;
use surrealdb::types::{RecordId, SurrealValue, Value};

use super::documents::never;
use super::write::Block;
use super::{Store, Tenant, vars};
use crate::error::{Error, Result};
use crate::model::id::{MeteringId, OrganizationId, PrivateOfferId};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;

/// How long a row that was taken up is left alone: longer than any call to a marketplace with its repetitions, and than
/// the marketplace needs until something that was submitted can be found.
pub const LEASE: TimeDelta = TimeDelta::minutes(3);

/// What has to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Errand {
    Offer(PrivateOfferId),
    Usage(MeteringId),
}

/// A row that was taken up.
#[derive(Clone, Debug)]
pub struct Taken {
    pub organization: OrganizationId,
    pub vendor: Vendor,
    pub errand: Errand,
    pub tries: u32,
    /// What the worker wrote down.
    pub note: Option<String>,
    revision: i64,
    held: Timestamp,
}

#[derive(SurrealValue)]
struct Row {
    id: RecordId,
    vendor: Vendor,
    tries: i64,
    note: Option<String>,
    revision: i64,
}

impl Errand {
    fn parts(self) -> (&'static str, String) {
        match self {
            Self::Offer(id) => ("private_offer", id.key()),
            Self::Usage(id) => ("metering", id.key()),
        }
    }

    fn of(table: &str, key: &str) -> Option<Self> {
        match table {
            "private_offer" => PrivateOfferId::from_key(key).map(Self::Offer),
            "metering" => MeteringId::from_key(key).map(Self::Usage),
            _ => None,
        }
    }
}

impl Row {
    fn into_taken(self, held: Timestamp) -> Result<Taken> {
        let broken = || Error::internal("the key of an outbox row is broken");
        let surrealdb::types::RecordIdKey::Array(parts) = &self.id.key else { return Err(broken()) };
        let [_, Value::String(table), Value::String(key)] = parts.as_slice() else { return Err(broken()) };
        Ok(Taken {
            organization: super::organization_of(&self.id)?,
            vendor: self.vendor,
            errand: Errand::of(table, key).ok_or_else(broken)?,
            tries: u32::try_from(self.tries).unwrap_or_default(),
            note: self.note,
            revision: self.revision,
            held,
        })
    }
}

impl Store {
    /// Takes up what is due, the most urgent first, but nothing of accounts that are busy. Of several processes each gets
    /// others.
    pub async fn take_errands(&self, limit: i64, busy: &[(OrganizationId, Vendor)]) -> Result<Vec<Taken>> {
        const TAKE: &str = "{
            LET $found = SELECT id, vendor, tries, note, revision, urgent_by FROM outbox WITH INDEX outbox_due
                WHERE due <= $now AND [record::id(id)[0], vendor] NOTINSIDE $busy ORDER BY urgent_by LIMIT $limit;
            FOR $row IN $found { UPDATE ONLY $row.id SET due = $leased, held = $leased RETURN NONE };
            RETURN $found;
        }";
        let now = self.clock().now();
        let leased = now.plus(LEASE);
        let vars = vars! { "now" => now, "leased" => leased, "limit" => limit, "busy" => accounts(busy) };
        match self.ask::<Vec<Row>>(TAKE, vars).await {
            // Another process was at it in the same moment.
            Err(Error::Unavailable(_)) => Ok(Vec::new()),
            rows => rows?.into_iter().map(|row| row.into_taken(leased)).collect(),
        }
    }
}

/// Accounts as the beginnings of keys.
pub(super) fn accounts(places: &[(OrganizationId, Vendor)]) -> Vec<Value> {
    let account = |(organization, vendor): &(OrganizationId, Vendor)| {
        Value::Array(vec![organization.to_string().into_value(), vendor.as_str().into_value()].into())
    };
    places.iter().map(account).collect()
}

impl Tenant {
    /// The statements that have a marketplace told of a record, from a moment on.
    pub fn send_errand(&self, errand: Errand, vendor: Vendor, due: Timestamp, urgent_by: Timestamp) -> Block {
        const SEND: &str = "UPSERT ONLY $errand SET vendor = $errand_vendor, urgent_by = $errand_by, tries = 0,
            due = IF held != NONE AND held > $errand_now { held } ELSE { $errand_due },
            revision = (revision OR 0) + 1 RETURN NONE;";
        let vars = vars! {
            "errand" => self.errand_record(errand), "errand_vendor" => vendor, "errand_due" => due, "errand_by" => urgent_by,
            "errand_now" => self.clock().now(),
        };
        Block::default().then(SEND, vars)
    }

    /// Gives back what was taken up, to be looked at again then, or, without a moment, when the record changes. If it
    /// changed meanwhile, it is looked at again at once. Whoever has lost it to another changes nothing.
    pub async fn keep_errand(
        &self,
        taken: &Taken,
        due: Option<Timestamp>,
        tries: u32,
        note: Option<String>,
    ) -> Result<()> {
        const KEEP: &str = "UPDATE $errand SET note = $note, tries = $tries, held = NONE,
            due = IF revision = $revision { $due } ELSE { $now } WHERE held = $held RETURN NONE";
        let vars = vars! {
            "errand" => self.errand_record(taken.errand), "revision" => taken.revision, "tries" => i64::from(tries),
            "due" => due.unwrap_or_else(never), "note" => note, "now" => self.clock().now(), "held" => taken.held,
        };
        self.store.insist(|| self.store.run(KEEP, vars.clone())).await
    }

    /// Writes down how far what was taken up is, and keeps it in hand. False when another has it.
    pub async fn note_errand(&self, taken: &Taken, note: &str) -> Result<bool> {
        const NOTE: &str = "UPDATE $errand SET note = $note WHERE held = $held RETURN VALUE true";
        let vars = vars! { "errand" => self.errand_record(taken.errand), "note" => note, "held" => taken.held };
        let noted: Vec<bool> = self.store.insist(|| self.store.ask(NOTE, vars.clone())).await?;
        Ok(!noted.is_empty())
    }

    /// There is nothing left to tell, unless the record changed meanwhile.
    pub async fn end_errand(&self, taken: &Taken) -> Result<()> {
        const END: &str = "IF $errand.held = $held {
            IF $errand.revision = $revision { DELETE $errand }
            ELSE { UPDATE $errand SET due = $now, held = NONE RETURN NONE }
        }";
        let vars = vars! {
            "errand" => self.errand_record(taken.errand), "revision" => taken.revision, "now" => self.clock().now(),
            "held" => taken.held,
        };
        self.store.insist(|| self.store.run(END, vars.clone())).await
    }

    fn errand_record(&self, errand: Errand) -> RecordId {
        let (table, key) = errand.parts();
        let parts = vec![self.organization.to_string().into_value(), table.into_value(), key.into_value()];
        RecordId::new("outbox", surrealdb::types::Array::from(parts))
    }
}
