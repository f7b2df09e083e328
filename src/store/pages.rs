//! The page query. Keys are `[organization, inverted ULID]`, so newest first is a *forward* range scan that stops at its
//! limit: the same cost at a thousand and at a million records. (Backward scans, literal ranges and `ORDER BY` on a
//! record range all read the whole range or return wrong rows; a test asserts the plan of these two statements.)

use surrealdb::types::{SurrealValue, Value};

use super::{Tenant, vars};
use crate::error::Result;
use crate::model::id::invert;
use crate::model::page::{Page, Window};

pub(super) const FIRST: &str = "SELECT * FROM type::record($table, [$org]..[$org, ..]) LIMIT $rows";
pub(super) const NEXT: &str = "SELECT * FROM type::record($table, [$org, $after]>..[$org, ..]) LIMIT $rows";

impl Tenant {
    /// The rows of a window. One more than the limit is read: it tells whether more follow.
    pub(super) async fn page<Row: SurrealValue>(&self, table: &'static str, window: Window) -> Result<Page<Row>> {
        let mut vars = vars! {
            "table" => table,
            "org" => self.organization.to_string(),
            "rows" => i64::try_from(window.limit + 1).unwrap_or(i64::MAX),
        };
        let query = match window.after {
            None => FIRST,
            Some(after) => {
                vars.insert("after".to_owned(), Value::String(invert(after)));
                NEXT
            }
        };
        Ok(Page::from_rows(self.store.ask(query, vars).await?, window.limit))
    }
}
