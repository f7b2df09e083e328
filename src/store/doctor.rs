//! What `mercato doctor` looks at: the schema, and the invariants that the write path promises.

use surrealdb::types::{RecordId, SurrealValue};

use super::{OpenError, Store, vars};

/// One check and what it found; `problem` is empty when all is well.
pub struct Finding {
    pub check: &'static str,
    pub detail: String,
    pub healthy: bool,
}

#[derive(SurrealValue)]
struct Counter {
    id: RecordId,
    sequence: i64,
}

#[derive(SurrealValue)]
struct Extent {
    first: Option<i64>,
    count: i64,
    last: Option<i64>,
}

impl Store {
    pub async fn examine(&self) -> Result<Vec<Finding>, OpenError> {
        let schema = self.schema_state().await?;
        let mut findings = vec![Finding {
            check: "schema",
            detail: format!("{} of {} migrations applied", schema.applied, schema.known),
            healthy: schema.applied == schema.known,
        }];
        if schema.applied == schema.known {
            findings.push(self.examine_sequences().await.map_err(|error| self.unusable(&error))?);
            findings.push(self.examine_tokens().await.map_err(|error| self.unusable(&error))?);
        }
        Ok(findings)
    }

    /// Every organization's events are numbered without a gap up to its counter.
    async fn examine_sequences(&self) -> crate::error::Result<Finding> {
        const EXTENT: &str = "{
            LET $numbers = SELECT VALUE record::id(id)[1] FROM type::record('event', [$org]..[$org, ..]);
            RETURN { first: array::first($numbers), count: array::len($numbers), last: array::last($numbers) };
        }";
        let counters: Vec<Counter> = self.ask("SELECT id, sequence FROM organization", vars! {}).await?;
        let organizations = counters.len();
        let mut broken = Vec::new();
        for counter in counters {
            let surrealdb::types::RecordIdKey::String(org) = counter.id.key else { continue };
            let extent: Option<Extent> = self.ask(EXTENT, vars! { "org" => org.clone() }).await?;
            let Some(extent) = extent else { continue };
            let whole = match (extent.first, extent.last) {
                (Some(first), Some(last)) => last == counter.sequence && last - first + 1 == extent.count,
                // All events may be past their retention.
                _ => true,
            };
            if !whole {
                broken.push(org);
            }
        }
        Ok(Finding {
            check: "event sequences",
            healthy: broken.is_empty(),
            detail: if broken.is_empty() {
                format!("gap-free in {organizations} organizations")
            } else {
                format!("gaps in {}", broken.join(", "))
            },
        })
    }

    /// Tokens whose application is gone are void; many of them mean that the sweep does not run.
    async fn examine_tokens(&self) -> crate::error::Result<Finding> {
        const VOID: &str = "SELECT VALUE id FROM token WHERE application.epoch != epoch LIMIT 10000";
        let void: Vec<RecordId> = self.ask(VOID, vars! {}).await?;
        Ok(Finding { check: "tokens", detail: format!("{} void ones await the sweep", void.len()), healthy: true })
    }
}
