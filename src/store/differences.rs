//! What a comparison with a marketplace found, and when the next one is.

use chrono::TimeDelta;
use surrealdb::types::{Array, Object, RecordId, RecordIdKey, SurrealValue, Value};

use super::documents::never;
use super::outbox::{LEASE, accounts};
use super::write::Plan;
use super::{Store, Tenant, organization_of, vars};
use crate::error::{Error, Result};
use crate::model::difference::{Difference, DifferenceKind, Subject};
use crate::model::id::OrganizationId;
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;

/// How often each account is compared.
pub const INTERVAL: TimeDelta = TimeDelta::hours(1);
/// Differences of each kind of an account that are kept and shown.
pub const KEPT: usize = 500;

#[derive(SurrealValue)]
struct Row {
    id: RecordId,
    what: String,
    adoptable: bool,
    found_at: Timestamp,
    due: Timestamp,
}

fn broken() -> Error {
    Error::internal("the key of a difference is broken")
}

/// The parts of a key after the organization, as far as they are texts.
fn parts(id: &RecordId) -> Result<(Vendor, Option<Subject>)> {
    let RecordIdKey::Array(parts) = &id.key else { return Err(broken()) };
    let text = |index: usize| match parts.get(index) {
        Some(Value::String(text)) => Some(text.clone()),
        _ => None,
    };
    let vendor = text(1).and_then(|vendor| Vendor::parse(&vendor)).ok_or_else(broken)?;
    let kind = text(2).and_then(|kind| DifferenceKind::parse(&kind));
    Ok((vendor, kind.zip(text(3)).map(|(kind, id)| Subject { kind, id })))
}

impl Row {
    fn into_model(self) -> Result<Difference> {
        let (vendor, subject) = parts(&self.id)?;
        Ok(Difference {
            vendor,
            subject: subject.ok_or_else(broken)?,
            what: self.what,
            is_adoptable: self.adoptable,
            found_at: self.found_at,
            is_being_adopted: self.due < never(),
        })
    }
}

impl Store {
    /// Takes up the accounts whose time to be compared has come, but none that is busy.
    pub async fn take_comparisons(
        &self,
        limit: i64,
        busy: &[(OrganizationId, Vendor)],
    ) -> Result<Vec<(OrganizationId, Vendor)>> {
        const TAKE: &str = "{
            LET $found = SELECT VALUE id FROM (SELECT id, compare_at FROM marketplace WITH INDEX marketplace_compare
                WHERE compare_at <= $now AND record::id(id) NOTINSIDE $busy ORDER BY compare_at LIMIT $limit);
            FOR $account IN $found { UPDATE ONLY $account SET compare_at = $next RETURN NONE };
            RETURN $found;
        }";
        let now = self.clock().now();
        let vars = vars! { "now" => now, "next" => now.plus(INTERVAL), "limit" => limit, "busy" => accounts(busy) };
        let found = self.take(TAKE, vars).await?;
        found.iter().map(|id| Ok((organization_of(id)?, parts(id)?.0))).collect()
    }

    /// Takes up the differences that are to be adopted, but none of an account that is busy.
    pub async fn take_adoptions(
        &self,
        limit: i64,
        busy: &[(OrganizationId, Vendor)],
    ) -> Result<Vec<(OrganizationId, Vendor, Subject)>> {
        const TAKE: &str = "{
            LET $found = SELECT VALUE id FROM (SELECT id, due FROM difference WITH INDEX difference_due
                WHERE due <= $now AND [record::id(id)[0], record::id(id)[1]] NOTINSIDE $busy ORDER BY due LIMIT $limit);
            FOR $one IN $found { UPDATE ONLY $one SET due = $leased RETURN NONE };
            RETURN $found;
        }";
        let now = self.clock().now();
        let vars = vars! { "now" => now, "leased" => now.plus(LEASE), "limit" => limit, "busy" => accounts(busy) };
        let found = self.take(TAKE, vars).await?;
        let read = |id: &RecordId| {
            let (vendor, subject) = parts(id)?;
            Ok((organization_of(id)?, vendor, subject.ok_or_else(broken)?))
        };
        found.iter().map(read).collect()
    }

    async fn take(&self, surrealql: &'static str, vars: Object) -> Result<Vec<RecordId>> {
        match self.ask(surrealql, vars).await {
            // Another process was at it in the same moment.
            Err(Error::Unavailable(_)) => Ok(Vec::new()),
            found => found,
        }
    }
}

impl Tenant {
    /// The differences of a kind at a marketplace are these now; orders to adopt one that is still there stand.
    pub async fn keep_differences(&self, vendor: Vendor, kind: DifferenceKind, found: &[Difference]) -> Result<()> {
        const KEEP: &str = "{
            LET $known = SELECT VALUE id FROM type::record('difference', [$org, $vendor, $kind]..[$org, $vendor, $kind, ..]);
            DELETE $known.filter(|$id| $rows.id CONTAINSNOT $id);
            FOR $row IN $rows {
                UPSERT ONLY $row.id SET what = $row.what, adoptable = $row.adoptable, found_at = found_at OR $now,
                    due = IF $row.adoptable { due OR $never } ELSE { $never } RETURN NONE
            }
        }";
        let row = |difference: &Difference| {
            vars! {
                "id" => self.difference_record(vendor, &difference.subject), "what" => difference.what.as_str(),
                "adoptable" => difference.is_adoptable,
            }
        };
        let vars = vars! {
            "org" => self.organization.to_string(), "vendor" => vendor.as_str(), "kind" => kind.as_str(),
            "now" => self.clock().now(), "never" => never(),
            "rows" => found.iter().take(KEPT).map(row).collect::<Vec<Object>>(),
        };
        self.store.run(KEEP, vars).await
    }

    /// All of the organization's.
    pub async fn list_differences(&self) -> Result<Vec<Difference>> {
        const LIST: &str =
            "SELECT id, what, adoptable, found_at, due FROM type::record('difference', [$org]..[$org, ..]) LIMIT $rows";
        let rows = i64::try_from(Vendor::ALL.len() * DifferenceKind::ALL.len() * KEPT).unwrap_or(i64::MAX);
        let rows: Vec<Row> =
            self.store.ask(LIST, vars! { "org" => self.organization.to_string(), "rows" => rows }).await?;
        rows.into_iter().map(Row::into_model).collect()
    }

    /// Orders a difference to be adopted.
    pub fn plan_adoption(&self, difference: Difference, actor: &str) -> Plan<Difference> {
        const ADOPT: &str = "UPDATE $difference SET due = $now RETURN NONE;";
        let Subject { kind, id } = &difference.subject;
        let target = format!("{}/{kind}/{id}", difference.vendor);
        let vars = vars! {
            "difference" => self.difference_record(difference.vendor, &difference.subject), "now" => self.clock().now(),
        };
        let block = super::write::Block::default().then(ADOPT, vars);
        let ordered = Difference { is_being_adopted: true, ..difference };
        Plan::quiet(ordered, self.audited(block, actor, "marketplace.adopted", target))
    }

    /// It was adopted, or is none any more.
    pub async fn end_difference(&self, vendor: Vendor, subject: &Subject) -> Result<()> {
        self.store.run("DELETE $record", vars! { "record" => self.difference_record(vendor, subject) }).await
    }

    /// Has an account compared now; false when there is none.
    pub async fn compare_now(&self, vendor: Vendor) -> Result<bool> {
        const NOW: &str = "UPDATE $account SET compare_at = $now RETURN VALUE true";
        let vars = vars! { "account" => self.record("marketplace", vendor.as_str()), "now" => self.clock().now() };
        Ok(!self.store.ask::<Vec<bool>>(NOW, vars).await?.is_empty())
    }

    fn difference_record(&self, vendor: Vendor, Subject { kind, id }: &Subject) -> RecordId {
        let parts = [self.organization.to_string(), vendor.to_string(), kind.to_string(), id.clone()];
        RecordId::new("difference", Array::from(parts.map(SurrealValue::into_value).to_vec()))
    }
}
