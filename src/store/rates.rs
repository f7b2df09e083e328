//! Rate windows shared between processes, and kept over a restart: each process writes down what it admitted and reads
//! what the others did (`contract.md` §7). Nothing here is on a request's path.

use surrealdb::types::{Array, RecordId, RecordIdKey, SurrealValue, Value};

use super::{Store, vars};
use crate::error::{Error, Result};
use crate::model::id::ApplicationId;
use crate::model::time::Timestamp;

/// Units that were admitted at a moment (milliseconds since 1970).
pub type Hit = (i64, u32);

#[derive(SurrealValue)]
struct Row {
    id: RecordId,
    hits: Vec<Vec<i64>>,
}

/// What one process admitted for one application since its last flush.
pub struct Flush {
    /// When it was written, in the writer's milliseconds.
    pub at: i64,
    pub process: String,
    pub application: ApplicationId,
    pub hits: Vec<Hit>,
}

impl Store {
    pub async fn put_hits(&self, process: &str, flushes: Vec<(ApplicationId, Vec<Hit>)>) -> Result<()> {
        const PUT: &str = "{ FOR $row IN $rows { CREATE ONLY $row.id SET hits = $row.hits RETURN NONE } }";
        let now = self.clock().now().as_millis();
        let rows: Vec<Row> = flushes
            .into_iter()
            .map(|(application, hits)| {
                let key = vec![now.into_value(), process.into_value(), application.to_string().into_value()];
                let hits = hits.into_iter().map(|(at, units)| vec![at, i64::from(units)]).collect();
                Row { id: RecordId::new("rate_hits", Array::from(key)), hits }
            })
            .collect();
        self.run(PUT, vars! { "rows" => rows }).await
    }

    /// What was flushed at or after `since`, by every process.
    pub async fn hits_since(&self, since: Timestamp) -> Result<Vec<Flush>> {
        const READ: &str = "SELECT * FROM type::record('rate_hits', [$since]..)";
        let rows: Vec<Row> = self.ask(READ, vars! { "since" => since.as_millis() }).await?;
        rows.into_iter().map(Row::into_flush).collect()
    }

    pub async fn forget_hits_before(&self, limit: Timestamp) -> Result<()> {
        self.run("DELETE type::record('rate_hits', ..[$limit])", vars! { "limit" => limit.as_millis() }).await
    }
}

impl Row {
    fn into_flush(self) -> Result<Flush> {
        let broken = || Error::internal("a row of rate_hits has a broken key");
        let RecordIdKey::Array(parts) = &self.id.key else { return Err(broken()) };
        let [Value::Number(at), Value::String(process), Value::String(application)] = parts.as_slice() else {
            return Err(broken());
        };
        Ok(Flush {
            at: at.to_int().ok_or_else(broken)?,
            process: process.clone(),
            application: ApplicationId::parse(application).ok_or_else(broken)?,
            hits: self.hits.iter().filter_map(|hit| Some((*hit.first()?, u32::try_from(*hit.get(1)?).ok()?))).collect(),
        })
    }
}
