//! Records that are kept as the JSON of their single-object form in `body`, beside the columns that queries need.

use serde::Serialize;
use serde::de::DeserializeOwned;
use surrealdb::types::{Object, SurrealValue};
use ulid::Ulid;

use super::lists::Listing;
use super::pages::Placed;
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

/// Children of one customer, newest first, and whether there are more.
pub type Children<T> = Vec<(CustomerId, Page<T>)>;

#[derive(SurrealValue)]
struct ChildrenRow {
    key: String,
    rows: Vec<BodyRow>,
}

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

    /// The newest `limit` children of each customer, in one query.
    pub(super) async fn children<T: DeserializeOwned>(
        &self,
        query: &'static str,
        customers: &[CustomerId],
        limit: usize,
    ) -> Result<Children<T>> {
        let vars = vars! {
            "org" => self.organization.to_string(),
            "keys" => customers.iter().map(|id| id.key()).collect::<Vec<_>>(),
            "rows" => super::pages::rows_of(limit),
        };
        let found: Vec<ChildrenRow> = self.store.ask(query, vars).await?;
        let of_customer = |found: ChildrenRow| {
            let id = CustomerId::from_key(&found.key).ok_or_else(|| Error::internal("a customer's key is broken"))?;
            Ok((id, super::pages::page_of(found.rows, limit)?.try_map(|row| parse(&row.body))?))
        };
        found.into_iter().map(of_customer).collect()
    }
}
