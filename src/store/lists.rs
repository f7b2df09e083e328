//! Filtered, ordered and searched lists. A page is a forward scan of one index that stops at its limit; which one, is
//! decided here and not by the planner. What the index does not cover is checked row by row, within a time limit.
//!
//! A search looks its longest word up first. When few records have it, they are fetched and sorted; when many have it,
//! scanning the list meets them soon.

use std::time::Duration;

use surrealdb::types::{Object, RecordId, SurrealValue, Value};

use super::pages::{Placed, rows_of};
use super::{Tenant, vars};
use crate::error::{Error, Result};
use crate::model::filter::{Bounds, Filter, Order, Range, words};
use crate::model::page::{Page, Window};

/// Records that a search fetches one by one; beyond it, it scans.
const FEW: i64 = 500;
/// How long a page may take before the caller is told to narrow its filter.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A list as the store sees it.
pub(super) struct Listing<'a> {
    pub table: &'static str,
    /// What of a row is read, besides its position.
    pub columns: &'static str,
    pub filter: &'a Filter,
    pub order: Order,
}

fn column(order: Order) -> &'static str {
    match order {
        Order::Newest => "key",
        Order::Oldest => "oldest",
        Order::Ascending => "ascending",
        Order::Descending => "descending",
    }
}

/// Conditions of a query, joined by AND, and their values.
#[derive(Clone)]
struct Conditions {
    text: String,
    vars: Object,
}

impl Conditions {
    fn and(&mut self, condition: &'static str, name: &'static str, value: impl SurrealValue) {
        self.text.push_str(" AND ");
        self.text.push_str(condition);
        self.vars.insert(name.to_owned(), value.into_value());
    }

    /// A list of condition and value; texts are ours, values are bound.
    fn between(&mut self, conditions: [(&'static str, &'static str); 2], bounds: Bounds) {
        for ((condition, name), bound) in conditions.into_iter().zip([bounds.after, bounds.until]) {
            if let Some(bound) = bound {
                self.and(condition, name, bound);
            }
        }
    }
}

impl Listing<'_> {
    /// The index that covers most of the filter; without a filter, newest first is the order of the keys themselves.
    fn index(&self) -> Option<&'static str> {
        let Filter { customer, status, listing_id, vendor, .. } = self.filter;
        match self.order {
            Order::Newest if customer.is_some() => Some("of"),
            Order::Newest if listing_id.is_some() => Some("listing"),
            Order::Newest if status.is_some() && vendor.is_some() => Some("vendor_status"),
            Order::Newest if status.is_some() => Some("status"),
            Order::Newest if vendor.is_some() => Some("vendor"),
            Order::Newest => None,
            order => Some(column(order)),
        }
    }

    fn conditions(&self, organization: String) -> Conditions {
        let Filter { customer, status, listing_id, vendor, .. } = self.filter;
        let mut conditions =
            Conditions { text: "organization = $org".to_owned(), vars: vars! { "org" => organization } };
        if let Some(customer) = customer {
            conditions.and("customer = $customer", "customer", customer.key());
        }
        if let Some(listing) = listing_id {
            conditions.and("listing_id = $listing", "listing", listing.clone());
        }
        if let Some(status) = status {
            conditions.and("status = $status", "status", *status);
        }
        if let Some(vendor) = vendor {
            conditions.and("vendor = $vendor", "vendor", *vendor);
        }
        if !matches!(self.order, Order::Newest | Order::Oldest) {
            let created = self.filter.created.created_bounds(Order::Oldest);
            conditions.between(
                [("oldest > $created_after", "created_after"), ("oldest <= $created_until", "created_until")],
                created,
            );
        }
        if matches!(self.order, Order::Newest | Order::Oldest) {
            let dated = self.filter.dated.dated_bounds(Order::Ascending);
            conditions.between(
                [("ascending > $dated_after", "dated_after"), ("ascending <= $dated_until", "dated_until")],
                dated,
            );
        }
        conditions
    }

    /// Where the list begins and ends in its own order.
    fn bounds(&self, after: Option<String>) -> Bounds {
        let range = match self.order {
            Order::Newest | Order::Oldest => self.filter.created.created_bounds(self.order),
            Order::Ascending | Order::Descending => self.filter.dated.dated_bounds(self.order),
        };
        Bounds { after: range.after.max(after), until: range.until }
    }
}

impl Tenant {
    pub(super) async fn listed<Row: SurrealValue + Placed>(
        &self,
        listing: &Listing<'_>,
        window: Window,
    ) -> Result<Page<Row>> {
        let wanted = listing.filter.search.as_deref().map(words).unwrap_or_default();
        let bounds = listing.bounds(window.after);
        let plain = listing.filter.dated == Range::default() && listing.columns == "*";
        if plain && wanted.is_empty() && listing.index().is_none() && bounds.until.is_none() {
            return self.page(listing.table, Window { limit: window.limit, after: bounds.after }).await;
        }
        let rarest = wanted.iter().max_by_key(|word| word.len());
        let few = match rarest {
            Some(word) => self.occurrences(listing.table, word).await?,
            None => None,
        };
        let rows: Vec<Row> = self.scan(listing, &wanted, few, &bounds, window.limit).await?;
        let until = bounds.until.as_deref();
        let mut within = Vec::new();
        for mut row in rows {
            let position = row.position().ok_or_else(|| Error::internal("a row of a list has no position"))?;
            if until.is_none_or(|until| position.as_str() <= until) {
                within.push((position, row));
            }
        }
        Ok(Page::from_rows(within, window.limit))
    }

    /// The records that have a word beginning so, unless they are many.
    async fn occurrences(&self, table: &'static str, word: &str) -> Result<Option<Vec<RecordId>>> {
        const FIND: &str = "SELECT VALUE record::id(id)[3] FROM
            type::record('word', [$org, $table, $word]..[$org, $table, $beyond]) LIMIT $most";
        let vars = vars! {
            "org" => self.organization.to_string(), "table" => table, "word" => word,
            "beyond" => format!("{word}{}", char::MAX), "most" => FEW + 1,
        };
        let mut keys: Vec<String> = self.store.ask(FIND, vars).await?;
        if i64::try_from(keys.len()).unwrap_or(i64::MAX) > FEW {
            return Ok(None);
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(Some(keys.into_iter().map(|key| self.record(table, key)).collect()))
    }

    async fn scan<Row: SurrealValue>(
        &self,
        listing: &Listing<'_>,
        wanted: &[String],
        few: Option<Vec<RecordId>>,
        bounds: &Bounds,
        limit: usize,
    ) -> Result<Vec<Row>> {
        let sort = column(listing.order);
        let mut conditions = listing.conditions(self.organization.to_string());
        if let Some(after) = bounds.after.as_ref().filter(|_| few.is_some() || listing.index().is_some()) {
            conditions.text.push_str(&format!(" AND {sort} > $after"));
            conditions.vars.insert("after".to_owned(), Value::String(after.clone()));
        }
        for (index, word) in wanted.iter().enumerate() {
            conditions.text.push_str(&format!(" AND string::contains(words, $word_{index})"));
            conditions.vars.insert(format!("word_{index}"), Value::String(format!(" {word}")));
        }
        let (source, order) = match (few, listing.index()) {
            (Some(records), _) => {
                conditions.vars.insert("records".to_owned(), records.into_value());
                ("$records".to_owned(), format!("ORDER BY {sort}"))
            }
            (None, Some(index)) => (format!("{0} WITH INDEX {0}_{index}", listing.table), format!("ORDER BY {sort}")),
            (None, None) => {
                conditions.vars.insert("table".to_owned(), listing.table.into_value());
                conditions.vars.insert("first".to_owned(), bounds.after.clone().unwrap_or_default().into_value());
                let last = bounds.until.clone().unwrap_or_else(|| char::MAX.to_string());
                conditions.vars.insert("last".to_owned(), last.into_value());
                ("type::record($table, [$org, $first]>..=[$org, $last])".to_owned(), String::new())
            }
        };
        conditions.vars.insert("rows".to_owned(), rows_of(limit).into_value());
        let text = format!(
            "SELECT {columns}, {sort} AS position FROM {source} WHERE {conditions} {order} LIMIT $rows TIMEOUT {timeout}s",
            columns = listing.columns,
            conditions = conditions.text,
            timeout = TIMEOUT.as_secs(),
        );
        self.store.ask_composed(text, conditions.vars).await
    }

    /// The statements that keep a record's words findable: those that are gone go, new ones come.
    pub(super) fn reword(
        &self,
        table: &'static str,
        key: &str,
        before: &[String],
        after: &[String],
    ) -> super::write::Block {
        let row = |word: &String| -> RecordId {
            let parts = [self.organization.to_string(), table.to_owned(), word.clone(), key.to_owned()];
            RecordId::new("word", surrealdb::types::Array::from(parts.map(SurrealValue::into_value).to_vec()))
        };
        let gone: Vec<RecordId> = before.iter().filter(|word| !after.contains(word)).map(row).collect();
        let fresh: Vec<RecordId> = after.iter().filter(|word| !before.contains(word)).map(row).collect();
        let mut block = super::write::Block::default();
        if !gone.is_empty() {
            block = block.then("DELETE $gone_words;", vars! { "gone_words" => gone });
        }
        if !fresh.is_empty() {
            let rows: Vec<Object> = fresh.into_iter().map(|id| vars! { "id" => id }).collect();
            block = block.then("INSERT INTO word $fresh_words RETURN NONE;", vars! { "fresh_words" => rows });
        }
        block
    }
}

/// Words as a column: each between blanks, so that the beginning of a word can be looked for.
pub(super) fn words_column(words: &[String]) -> String {
    format!(" {}", words.join(" "))
}
