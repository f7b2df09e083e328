//! Deliveries that succeeded at their first attempt: many in a row of JSON, because a row of its own for each would cost the
//! engine as much as the attempt itself (docs/benchmarks.md). A row holds some of one block of the log, so that the rows in
//! which a sequence may be are few and known.

use std::collections::{BTreeMap, HashMap};

use surrealdb::types::{Object, RecordId, SurrealValue};

use super::dispatch::place;
use super::documents::{body, parse};
use super::{Tenant, vars};
use crate::error::{Error, Result};
use crate::model::delivery::Success;
use crate::model::event::{Kinds, Sequence};
use crate::model::id::WebhookId;

/// Sequences of a block.
const BLOCK: i64 = 1024;
/// Rows that are read at once.
const ROWS: usize = 8;

#[derive(SurrealValue)]
struct Row {
    id: RecordId,
    body: String,
}

impl Row {
    /// The newest first.
    fn successes(&self) -> Result<Vec<Success>> {
        parse(&self.body)
    }

    fn webhook(&self) -> Result<WebhookId> {
        let surrealdb::types::RecordIdKey::Array(parts) = &self.id.key else { return Err(broken()) };
        let key = parts.get(1).and_then(|part| String::from_value(part.clone()).ok()).ok_or_else(broken)?;
        WebhookId::from_key(&key).ok_or_else(broken)
    }
}

/// The newest rows of one webhook.
#[derive(Default)]
struct Newest {
    count: usize,
    /// The newest of the last row: what is newer cannot be in a later one.
    last: i64,
    successes: Vec<Success>,
}

impl Newest {
    fn certain(&self, kinds: Kinds) -> usize {
        self.successes.iter().filter(|success| success.0 >= self.last && kinds.has(success.kind())).count()
    }
}

fn broken() -> Error {
    Error::internal("the key of successes is broken")
}

/// The last sequence of the block that a sequence is in.
fn block_end(sequence: i64) -> i64 {
    sequence.div_euclid(BLOCK) * BLOCK + BLOCK - 1
}

impl Tenant {
    /// The rows that keep these successes.
    pub(super) fn success_rows(&self, webhook: WebhookId, successes: &[Success]) -> Result<Vec<Object>> {
        let mut blocks: BTreeMap<i64, Vec<&Success>> = BTreeMap::new();
        for success in successes {
            blocks.entry(block_end(success.0)).or_default().push(success);
        }
        let row = |mut block: Vec<&Success>| {
            block.sort_by_key(|success| std::cmp::Reverse(success.0));
            let newest = block.first().map_or(0, |success| success.0);
            let id = self.webhooks_record("delivered", webhook, [place(newest).into_value()]);
            Ok(vars! { "id" => id, "body" => body(&block)? })
        };
        blocks.into_values().map(row).collect()
    }

    /// The newest before a sequence, at least `wanted` of them if there are so many.
    pub(super) async fn successes_before(
        &self,
        webhook: WebhookId,
        before: i64,
        kinds: Kinds,
        wanted: usize,
    ) -> Result<Vec<Success>> {
        let mut found: Vec<Success> = Vec::new();
        let mut from = place(block_end(before));
        loop {
            let rows = self.success_rows_from(webhook, (from, i64::MAX), ROWS).await?;
            let (full, mut newest) = (rows.len() == ROWS, 0);
            for row in rows {
                let successes = row.successes()?;
                newest = successes.first().map_or(0, |success| success.0);
                let fits = |success: &Success| success.0 < before && kinds.has(success.kind());
                found.extend(successes.into_iter().filter(fits));
            }
            // What is newer than the newest of the last row cannot be in a later one.
            let certain = found.iter().filter(|success| success.0 >= newest).count();
            if certain >= wanted || !full {
                found.sort_by_key(|success| std::cmp::Reverse(success.0));
                found.truncate(wanted);
                return Ok(found);
            }
            from = place(newest) + 1;
        }
    }

    /// The newest of each of these webhooks: first from a few rows, then, of those that have few in a row, from more.
    pub(super) async fn newest_successes(
        &self,
        webhooks: &[WebhookId],
        kinds: Kinds,
        wanted: usize,
    ) -> Result<HashMap<WebhookId, Vec<Success>>> {
        let mut found = self.newest_rows(webhooks, 2).await?;
        let unsure = |rows: &Newest| rows.count == 2 && rows.certain(kinds) < wanted;
        let more: Vec<WebhookId> = found.iter().filter(|(_, rows)| unsure(rows)).map(|(id, _)| *id).collect();
        found.extend(self.newest_rows(&more, wanted).await?);
        let visible = |rows: Newest| rows.successes.into_iter().filter(|success| kinds.has(success.kind())).collect();
        Ok(found.into_iter().map(|(id, rows)| (id, visible(rows))).collect())
    }

    async fn newest_rows(&self, webhooks: &[WebhookId], rows: usize) -> Result<HashMap<WebhookId, Newest>> {
        const EACH: &str = "RETURN array::flatten($keys.map(|$key|
            (SELECT * FROM type::record('delivered', [$org, $key]..[$org, $key, ..]) LIMIT $rows)))";
        if webhooks.is_empty() {
            return Ok(HashMap::new());
        }
        let vars = vars! {
            "org" => self.organization.to_string(), "rows" => i64::try_from(rows).unwrap_or(i64::MAX),
            "keys" => webhooks.iter().map(|id| id.key()).collect::<Vec<_>>(),
        };
        let mut found: HashMap<WebhookId, Newest> = HashMap::new();
        for row in self.store.ask::<Vec<Row>>(EACH, vars).await? {
            let newest = found.entry(row.webhook()?).or_default();
            let successes = row.successes()?;
            newest.count += 1;
            newest.last = successes.first().map_or(0, |success| success.0);
            newest.successes.extend(successes);
        }
        Ok(found)
    }

    /// That of one event.
    pub(super) async fn find_success(&self, webhook: WebhookId, sequence: Sequence) -> Result<Option<Success>> {
        let block = (place(block_end(sequence.0)), place(sequence.0));
        let rows = self.success_rows_from(webhook, block, usize::try_from(BLOCK).unwrap_or_default()).await?;
        for row in rows {
            let found = row.successes()?.into_iter().find(|success| success.0 == sequence.0);
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The sequences after a point.
    pub(super) async fn successes_after(&self, webhook: WebhookId, cursor: Sequence) -> Result<Vec<i64>> {
        let rows = self.success_rows_from(webhook, (0, place(cursor.0) - 1), 10_000).await?;
        let mut found = Vec::new();
        for row in rows {
            found.extend(row.successes()?.iter().map(|success| success.0).filter(|sequence| *sequence > cursor.0));
        }
        Ok(found)
    }

    /// Rows between two places, both included; the newest first.
    async fn success_rows_from(&self, webhook: WebhookId, (from, to): (i64, i64), rows: usize) -> Result<Vec<Row>> {
        const READ: &str =
            "SELECT * FROM type::record('delivered', [$org, $key, $from]..=[$org, $key, $to]) LIMIT $rows";
        let vars = vars! {
            "org" => self.organization.to_string(), "key" => webhook.key(), "from" => from, "to" => to,
            "rows" => i64::try_from(rows).unwrap_or(i64::MAX),
        };
        self.store.ask(READ, vars).await
    }
}
