//! Entitlements in the store: the record, its history, the counts of contracts, and what its customer counts of it, all
//! in one block.

use std::collections::HashMap;
use std::sync::Arc;

use surrealdb::types::{Bytes, Object, RecordId, SurrealValue};

use ulid::Ulid;

use super::customers::{CustomerState, Row as CustomerRow};
use super::documents::{Owned, body, listed_columns, never, parse};
use super::write::{Block, Seen};
use super::{Tenant, vars};
use crate::error::{Error, Result};
use crate::model::entitlement::{Entitlement, EntitlementDetail, HistoryEntry};
use crate::model::filter::{Filter, Order, OrderBy};
use crate::model::id::{CustomerId, EntitlementId, invert};
use crate::model::lifecycle::{Memo, due};
use crate::model::page::{Page, Window};
use crate::model::tally::{self, Node};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;

const TABLE: &str = "entitlement";
/// Entries of a history that the single form shows: the newest.
pub const HISTORY_SHOWN: i64 = 500;

impl Owned for Entitlement {
    const TABLE: &'static str = TABLE;

    fn owner(&self) -> CustomerId {
        self.customer_id
    }

    fn ulid(&self) -> Ulid {
        self.id.0
    }
}

#[derive(SurrealValue)]
struct Row {
    body: String,
    for_activation: bool,
    suspended_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
}

/// An entitlement with what only the service remembers of it.
#[derive(Clone, Debug)]
pub struct Kept {
    pub entitlement: Entitlement,
    pub memo: Memo,
}

impl Row {
    fn into_kept(self) -> Result<Kept> {
        let memo =
            Memo { for_activation: self.for_activation, suspended_at: self.suspended_at, ended_at: self.ended_at };
        Ok(Kept { entitlement: parse(&self.body)?, memo })
    }
}

/// What a change of an entitlement starts from.
pub struct EntitlementSeen {
    pub seen: Seen,
    pub kept: Kept,
    /// None once the customer was deleted, which only customers without live entitlements can be.
    pub customer: Option<CustomerState>,
}

#[derive(SurrealValue)]
struct SeenRow {
    sequence: i64,
    row: Row,
    customer: Option<CustomerRow>,
}

#[derive(SurrealValue)]
struct FoundRow {
    key: String,
    body: String,
}

#[derive(SurrealValue)]
struct HistoryRow {
    key: String,
    history: Vec<String>,
}

const HISTORIES: &str = "RETURN $keys.map(|$key| { key: $key, history:
    (SELECT VALUE body FROM type::record('history', [$org, $key]..[$org, $key, ..]) LIMIT $shown) })";

const SEEN: &str = "{
    LET $row = SELECT * FROM ONLY $record;
    IF $row = NONE { RETURN NONE };
    LET $customer = SELECT * FROM ONLY type::record('customer', [$org, $row.customer]);
    RETURN { sequence: $organization.sequence, row: $row, customer: $customer };
}";

const SAVE: &str = "
    UPSERT ONLY $entitlement CONTENT $entitlement_content RETURN NONE;
    CREATE ONLY $history CONTENT $history_content RETURN NONE;
    INSERT INTO tally $tallies ON DUPLICATE KEY UPDATE counts = $input.counts RETURN NONE;";

impl Tenant {
    pub async fn list_entitlements(&self, filter: &Filter, order: Order, window: Window) -> Result<Page<Entitlement>> {
        self.list_documents(TABLE, filter, order, window).await
    }

    pub async fn entitlements(&self, ids: &[EntitlementId]) -> Result<Vec<Entitlement>> {
        self.documents(TABLE, ids.iter().map(|id| id.key()).collect()).await
    }

    pub async fn get_entitlement(&self, id: EntitlementId) -> Result<EntitlementDetail> {
        let entitlement = self.find_document(TABLE, id.key()).await?.ok_or(Error::NOT_FOUND)?;
        let history = self.histories(&[id]).await?.remove(&id).unwrap_or_default();
        Ok(EntitlementDetail { entitlement, history })
    }

    /// The histories of these entitlements, newest last, in one query.
    pub async fn histories(&self, ids: &[EntitlementId]) -> Result<HashMap<EntitlementId, Vec<HistoryEntry>>> {
        let keys: Vec<String> = ids.iter().map(|id| id.key()).collect();
        let vars = vars! { "org" => self.organization.to_string(), "keys" => keys, "shown" => HISTORY_SHOWN };
        let history = |row: HistoryRow| {
            let id = EntitlementId::from_key(&row.key).ok_or_else(|| Error::internal("a history's key is broken"))?;
            let mut entries = row.history.iter().map(|body| parse(body)).collect::<Result<Vec<HistoryEntry>>>()?;
            entries.reverse();
            Ok((id, entries))
        };
        self.store.ask::<Vec<HistoryRow>>(HISTORIES, vars).await?.into_iter().map(history).collect()
    }

    /// For planners.
    pub async fn see_entitlement(&self, id: EntitlementId) -> Result<EntitlementSeen> {
        let vars = vars! {
            "record" => self.record(TABLE, id.key()), "org" => self.organization.to_string(),
            "organization" => self.organization_record(),
        };
        let found: SeenRow = self.store.ask::<Option<_>>(SEEN, vars).await?.ok_or(Error::NOT_FOUND)?;
        let customer = found.customer.map(|row| row.into_state(self.organization)).transpose()?;
        Ok(EntitlementSeen { seen: Seen(found.sequence), kept: found.row.into_kept()?, customer })
    }

    /// The entitlement of a customer under an agreement; of several, the newest.
    pub async fn find_by_agreement(&self, customer: CustomerId, agreement: &str) -> Result<Option<Entitlement>> {
        const FIND: &str = "SELECT VALUE body FROM entitlement WITH INDEX entitlement_agreement
            WHERE organization = $org AND agreement = $agreement AND customer = $customer LIMIT 1";
        let vars = vars! {
            "org" => self.organization.to_string(), "agreement" => agreement, "customer" => customer.key(),
        };
        self.store.ask::<Vec<String>>(FIND, vars).await?.first().map(|body| parse(body)).transpose()
    }

    /// Those of a contract that a marketplace names, newest first: by its agreement, or by its subscription.
    pub async fn entitlements_at(&self, vendor: Vendor, contract: &str) -> Result<Vec<Entitlement>> {
        const BY_AGREEMENT: &str = "SELECT key, body FROM entitlement WITH INDEX entitlement_agreement
            WHERE organization = $org AND agreement = $contract AND vendor = $vendor ORDER BY key LIMIT 10";
        const BY_SUBSCRIPTION: &str = "SELECT key, body FROM entitlement WITH INDEX entitlement_subscription
            WHERE organization = $org AND subscription = $contract AND vendor = $vendor ORDER BY key LIMIT 10";
        let find = if vendor == Vendor::CloudA { BY_AGREEMENT } else { BY_SUBSCRIPTION };
        let vars = vars! { "org" => self.organization.to_string(), "contract" => contract, "vendor" => vendor };
        self.store.ask::<Vec<FoundRow>>(find, vars).await?.iter().map(|row| parse(&row.body)).collect()
    }

    /// The statement after which an entitlement's start alone activates it.
    pub fn release_entitlement(&self, kept: &Kept) -> Block {
        const RELEASE: &str =
            "UPDATE ONLY $entitlement SET for_activation = false, due = $entitlement_due RETURN NONE;";
        let released = Memo { for_activation: false, ..kept.memo };
        let vars = vars! {
            "entitlement" => self.record(TABLE, kept.entitlement.id.key()),
            "entitlement_due" => due(&kept.entitlement, released).map_or_else(never, |(at, _)| at),
        };
        Block::default().then(RELEASE, vars)
    }

    /// The statement that puts an entitlement where the clock finds it when something is due.
    pub fn reschedule_entitlement(&self, kept: &Kept) -> Block {
        const RESCHEDULE: &str = "UPDATE ONLY $entitlement SET due = $entitlement_due RETURN NONE;";
        let vars = vars! {
            "entitlement" => self.record(TABLE, kept.entitlement.id.key()),
            "entitlement_due" => due(&kept.entitlement, kept.memo).map_or_else(never, |(at, _)| at),
        };
        Block::default().then(RESCHEDULE, vars)
    }

    /// The newest entitlements of each customer, in one query.
    pub async fn entitlements_of_each(
        &self,
        customers: &[CustomerId],
        limit: usize,
    ) -> Result<HashMap<CustomerId, Page<Arc<Entitlement>>>> {
        self.children(customers, limit).await
    }

    /// The statements that bring an entitlement from one form to the next.
    pub async fn save_entitlement(&self, from: Option<&Kept>, to: &Kept, history: &HistoryEntry) -> Result<Block> {
        let (entitlement, key) = (&to.entitlement, to.entitlement.id.key());
        let (order, body) = (OrderBy::Moment(entitlement.end_date), body(entitlement)?);
        let mut content = listed_columns(self.organization.to_string(), entitlement.id.0, &order);
        content.extend(vars! {
            "customer" => entitlement.customer_id.key(),
            "listing_id" => entitlement.listing_id.clone(),
            "vendor" => entitlement.vendor,
            "status" => entitlement.status,
            "agreement" => entitlement.agreement_id.clone(),
            "subscription" => entitlement.vendor_subscription_id.clone(),
            "for_activation" => to.memo.for_activation,
            "suspended_at" => to.memo.suspended_at,
            "ended_at" => to.memo.ended_at,
            "due" => due(entitlement, to.memo).map_or_else(never, |(at, _)| at),
            "body" => body.clone(),
        });
        let entry = invert(self.clock().mint());
        let history_key = vec![self.organization.to_string(), key.clone(), entry];
        let history_key = history_key.into_iter().map(SurrealValue::into_value).collect::<Vec<_>>();
        let vars = vars! {
            "entitlement" => self.record(TABLE, key),
            "entitlement_content" => content,
            "history" => RecordId::new("history", surrealdb::types::Array::from(history_key)),
            "history_content" => vars! { "body" => super::documents::body(history)? },
            "tallies" => self.recount(from, to).await?,
        };
        Ok(Block::default().then(SAVE, vars).and(self.save_child(entitlement, body)))
    }

    /// The nodes of the counts that a change moves, as they will be.
    async fn recount(&self, from: Option<&Kept>, to: &Kept) -> Result<Vec<Object>> {
        let before = from.map(|kept| tally::entries(&kept.entitlement, kept.memo.ended_at)).unwrap_or_default();
        let steps = tally::steps(&before, &tally::entries(&to.entitlement, to.memo.ended_at));
        let places: Vec<_> = steps.keys().copied().collect();
        let mut nodes = self.tally_nodes(&places).await?;
        let changed = steps.iter().map(|(place, changes)| {
            let node: &mut Node = nodes.0.entry(*place).or_default();
            node.add(changes);
            vars! { "id" => self.tally_record(*place), "counts" => Bytes::from(node.encode()) }
        });
        Ok(changed.collect())
    }
}
