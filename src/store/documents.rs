//! Records that are kept as the JSON of their single-object form in `body`, beside the columns that queries need.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use surrealdb::types::{Array, Object, RecordId, SurrealValue};
use ulid::Ulid;

use super::cache::current;
use super::lists::Listing;
use super::pages::Placed;
use super::write::Block;
use super::{Tenant, vars};
use crate::error::{Error, Result};
use crate::model::filter::{Filter, Order, OrderBy, OrderKeys};
use crate::model::id::{CustomerId, invert};
use crate::model::page::{Page, Window};
use crate::model::time::Timestamp;

#[derive(SurrealValue)]
pub(super) struct BodyRow {
    body: String,
    position: Option<String>,
}

impl Placed for BodyRow {
    fn position(&mut self) -> Option<String> {
        self.position.take()
    }
}

/// A record out of its `body`.
pub(super) fn parse<T: DeserializeOwned>(body: &str) -> Result<T> {
    serde_json::from_str(body).map_err(|error| Error::internal(format!("a stored record is broken: {error}")))
}

pub(super) fn body<T: Serialize>(record: &T) -> Result<String> {
    serde_json::to_string(record).map_err(Error::internal)
}

/// Where a due date is put that never comes. (An absent one would sort before all others.)
pub(super) fn never() -> Timestamp {
    Timestamp::from_millis(253_402_300_799_000)
}

/// The columns of every listed table.
pub(super) fn listed_columns(organization: String, id: Ulid, order: &OrderBy<'_>) -> Object {
    let keys = OrderKeys::of(id, order);
    vars! {
        "organization" => organization, "key" => invert(id), "oldest" => keys.oldest,
        "ascending" => keys.ascending, "descending" => keys.descending,
    }
}

/// What belongs to a customer.
pub(super) trait Owned: DeserializeOwned {
    const TABLE: &'static str;
    fn owner(&self) -> CustomerId;
    fn ulid(&self) -> Ulid;
}

/// What the customers between the first and the last of a page have; if that is more than they could show, because others
/// stand between them or one has very much, what each of them has.
const CHILDREN: &str = "{
    LET $span = SELECT VALUE body FROM type::record('child', [$org, $table, $first]..[$org, $table, $last, ..]) LIMIT $most;
    IF array::len($span) < $most { RETURN $span };
    RETURN array::flatten($keys.map(|$key|
        (SELECT VALUE body FROM type::record('child', [$org, $table, $key]..[$org, $table, $key, ..]) LIMIT $rows)));
}";

impl Tenant {
    pub(super) async fn find_document<T: DeserializeOwned>(
        &self,
        table: &'static str,
        key: String,
    ) -> Result<Option<T>> {
        let record = self.record(table, key);
        let found: Option<String> =
            self.store.ask("SELECT VALUE body FROM ONLY $record", vars! { "record" => record }).await?;
        found.as_deref().map(parse).transpose()
    }

    pub(super) async fn list_documents<T: DeserializeOwned>(
        &self,
        table: &'static str,
        filter: &Filter,
        order: Order,
        window: Window,
    ) -> Result<Page<T>> {
        let listing = Listing { table, columns: "body", filter, order };
        self.listed::<BodyRow>(&listing, window).await?.try_map(|row| parse(&row.body))
    }

    /// Those of these keys that exist.
    pub(super) async fn documents<T: DeserializeOwned>(
        &self,
        table: &'static str,
        keys: Vec<String>,
    ) -> Result<Vec<T>> {
        let records: Vec<_> = keys.into_iter().map(|key| self.record(table, key)).collect();
        let found: Vec<String> =
            self.store.ask("SELECT VALUE body FROM $records", vars! { "records" => records }).await?;
        found.iter().map(|body| parse(body)).collect()
    }

    /// The newest `limit` children of each customer: those that are remembered, and the others in one query.
    pub(super) async fn children<T: Owned + Send + Sync + 'static>(
        &self,
        customers: &[CustomerId],
        limit: usize,
    ) -> Result<HashMap<CustomerId, Page<Arc<T>>>> {
        let cache = &self.store.0.cache;
        let quiet = cache.records_quiet(self.organization);
        let place = |customer| (self.organization, T::TABLE, customer, limit);
        let mut pages = HashMap::new();
        let mut missing = Vec::new();
        for customer in customers {
            let known = current(&cache.children, &place(*customer), quiet)
                .and_then(|page| page.downcast::<Page<Arc<T>>>().ok());
            match known {
                Some(page) => drop(pages.insert(*customer, Page::clone(&page))),
                None => missing.push(*customer),
            }
        }
        if missing.is_empty() {
            return Ok(pages);
        }
        for (customer, page) in self.read_children::<T>(&missing, limit).await? {
            if let Some(quiet) = quiet {
                cache.children.insert(place(customer), (quiet, Arc::new(page.clone())));
            }
            pages.insert(customer, page);
        }
        Ok(pages)
    }

    async fn read_children<T: Owned>(
        &self,
        customers: &[CustomerId],
        limit: usize,
    ) -> Result<HashMap<CustomerId, Page<Arc<T>>>> {
        let mut keys: Vec<String> = customers.iter().map(|id| id.key()).collect();
        keys.sort_unstable();
        let rows = super::pages::rows_of(limit);
        let vars = vars! {
            "org" => self.organization.to_string(),
            "table" => T::TABLE,
            "first" => keys.first().cloned(),
            "last" => keys.last().cloned(),
            "most" => rows.saturating_mul(i64::try_from(keys.len()).unwrap_or(i64::MAX)).saturating_add(1),
            "rows" => rows,
            "keys" => keys,
        };
        let mut found: HashMap<CustomerId, Vec<(String, Arc<T>)>> = HashMap::new();
        for body in self.store.ask::<Vec<String>>(CHILDREN, vars).await? {
            let child: T = parse(&body)?;
            found.entry(child.owner()).or_default().push((invert(child.ulid()), Arc::new(child)));
        }
        let page = |id: &CustomerId| (*id, Page::from_rows(found.remove(id).unwrap_or_default(), limit));
        Ok(customers.iter().map(page).collect())
    }

    /// The statement that keeps a record beside its siblings of the same customer.
    pub(super) fn save_child<T: Owned>(&self, child: &T, body: String) -> Block {
        const SAVE: &str = "UPSERT ONLY $child SET body = $child_body RETURN NONE;";
        let parts = [self.organization.to_string(), T::TABLE.to_owned(), child.owner().key(), invert(child.ulid())];
        let record = RecordId::new("child", Array::from(parts.map(SurrealValue::into_value).to_vec()));
        Block::default().then(SAVE, vars! { "child" => record, "child_body" => body })
    }
}
