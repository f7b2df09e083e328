//! The page query. Keys are `[organization, inverted ULID]`, so newest first is a *forward* range scan that stops at its
//! limit: the same cost at a thousand and at a million records. (Backward scans, literal ranges and `ORDER BY` on a
//! record range all read the whole range or return wrong rows; a test asserts the plan of these two statements.)

use surrealdb::types::{SurrealValue, Value};

use super::{Tenant, vars};
use crate::error::{Error, Result};
use crate::model::page::{Page, Window};

pub(super) const FIRST: &str = "SELECT * FROM type::record($table, [$org]..[$org, ..]) LIMIT $rows";
pub(super) const NEXT: &str = "SELECT * FROM type::record($table, [$org, $after]>..[$org, ..]) LIMIT $rows";

/// A row of a list, which knows where it stands in the list's order.
pub(super) trait Placed {
    fn position(&mut self) -> Option<String>;
}

/// Rows with their positions, as a page. One row more than the limit tells that more follow.
pub(super) fn page_of<Row: Placed>(rows: Vec<Row>, limit: usize) -> Result<Page<Row>> {
    let placed = rows.into_iter().map(|mut row| {
        let position = row.position().ok_or_else(|| Error::internal("a row of a list has no position"))?;
        Ok((position, row))
    });
    Ok(Page::from_rows(placed.collect::<Result<_>>()?, limit))
}

impl Tenant {
    /// The rows of a window, newest first.
    pub(super) async fn page<Row: SurrealValue + Placed>(
        &self,
        table: &'static str,
        window: Window,
    ) -> Result<Page<Row>> {
        let mut vars = vars! {
            "table" => table,
            "org" => self.organization.to_string(),
            "rows" => rows_of(window.limit),
        };
        let query = match window.after {
            None => FIRST,
            Some(after) => {
                vars.insert("after".to_owned(), Value::String(after));
                NEXT
            }
        };
        page_of(self.store.ask(query, vars).await?, window.limit)
    }
}

/// How many rows to read for a page.
pub(super) fn rows_of(limit: usize) -> i64 {
    i64::try_from(limit + 1).unwrap_or(i64::MAX)
}
