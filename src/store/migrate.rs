//! The schema: numbered files, each with a checksum, applied once and in order.
//!
//! A migration is first marked `applying`, then applied, then marked `applied`. So whatever interrupted it, the next start
//! sees that it was interrupted, refuses, and says how to finish it.

use std::time::Duration;

use sha2::{Digest, Sha256};
use surrealdb::types::{Object, SurrealValue};

use super::{OpenError, Store, vars};
use crate::error::Error;

/// Every migration, in order. A file that was released is never edited: its checksum is in people's databases.
const MIGRATIONS: &[(&str, &str)] = &[("0001_house", include_str!("schema/0001_house.surql"))];

/// What to do with a migration that was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Refuse: the service does not repair.
    Refuse,
    /// Run it again: `mercato migrate`.
    Finish,
}

/// How long a process waits while another one applies a migration to a shared server.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, SurrealValue)]
struct Row {
    number: i64,
    name: String,
    checksum: String,
    state: String,
}

/// What `mercato migrate` and `doctor` report.
pub struct SchemaState {
    pub applied: usize,
    pub known: usize,
}

const BOOKS: &str = "
    DEFINE TABLE IF NOT EXISTS migration SCHEMAFULL;
    DEFINE FIELD IF NOT EXISTS number ON migration TYPE int;
    DEFINE FIELD IF NOT EXISTS name ON migration TYPE string;
    DEFINE FIELD IF NOT EXISTS checksum ON migration TYPE string;
    DEFINE FIELD IF NOT EXISTS state ON migration TYPE string;";

fn checksum(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

impl Store {
    /// Applies what is missing; returns how many that were.
    pub async fn migrate(&self, resume: Resume) -> Result<usize, OpenError> {
        self.refuse_half_restored().await?;
        self.step(BOOKS, vars! {}).await?;
        let applied = self.settled_rows(resume).await?;
        self.check_rows(&applied)?;
        let missing = applied.iter().filter(|row| row.state == "applied").count();
        for (index, (name, text)) in MIGRATIONS.iter().enumerate().skip(missing) {
            self.apply(index + 1, name, text).await?;
        }
        Ok(MIGRATIONS.len() - missing)
    }

    pub async fn schema_state(&self) -> Result<SchemaState, OpenError> {
        self.refuse_half_restored().await?;
        let rows = self.migration_rows().await?;
        self.check_rows(&rows)?;
        Ok(SchemaState { applied: rows.iter().filter(|row| row.state == "applied").count(), known: MIGRATIONS.len() })
    }

    async fn apply(&self, number: usize, name: &str, text: &'static str) -> Result<(), OpenError> {
        const MARK: &str = "UPSERT ONLY type::record('migration', $number) CONTENT {
            number: $number, name: $name, checksum: $checksum, state: $state } RETURN NONE";
        let row = |state: &str| {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            vars! { "number" => number, "name" => name, "checksum" => checksum(text), "state" => state }
        };
        self.step(MARK, row("applying")).await?;
        self.step(text, vars! {}).await?;
        self.step(MARK, row("applied")).await?;
        tracing::info!(migration = name, "migration applied");
        Ok(())
    }

    /// The rows, once no other process is at work on them.
    async fn settled_rows(&self, resume: Resume) -> Result<Vec<Row>, OpenError> {
        let started = tokio::time::Instant::now();
        loop {
            let rows = self.migration_rows().await?;
            let Some(open) = rows.iter().find(|row| row.state != "applied") else { return Ok(rows) };
            if resume == Resume::Finish {
                return Ok(rows);
            }
            if self.is_embedded() || started.elapsed() > PATIENCE {
                return Err(OpenError(format!(
                    "The migration {} of the database {} was interrupted; run `mercato migrate` to finish it.",
                    open.name,
                    self.url()
                )));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    fn check_rows(&self, rows: &[Row]) -> Result<(), OpenError> {
        if rows.len() > MIGRATIONS.len() {
            return Err(OpenError(format!(
                "The database {} has schema {}, newer than the {} that this mercato knows; use a newer mercato.",
                self.url(),
                rows.len(),
                MIGRATIONS.len()
            )));
        }
        for (index, (row, (name, text))) in rows.iter().zip(MIGRATIONS).enumerate() {
            if row.number != i64::try_from(index + 1).unwrap_or(i64::MAX) || row.name != *name {
                return Err(OpenError(format!(
                    "The database {} was migrated by {} where {name} belongs; it is not a database of this mercato.",
                    self.url(),
                    row.name
                )));
            }
            if row.checksum != checksum(text) {
                return Err(OpenError(format!(
                    "The migration {name} was changed after it was applied to {}; restore the file as it was released \
                     and put the change into a new one.",
                    self.url()
                )));
            }
        }
        Ok(())
    }

    async fn migration_rows(&self) -> Result<Vec<Row>, OpenError> {
        const ROWS: &str = "SELECT * FROM migration ORDER BY number";
        match self.ask(ROWS, vars! {}).await {
            Ok(rows) => Ok(rows),
            Err(Error::Internal(cause)) if cause.contains("does not exist") => Ok(Vec::new()),
            Err(error) => Err(self.unusable(&error)),
        }
    }

    async fn step(&self, surrealql: &'static str, vars: Object) -> Result<(), OpenError> {
        self.run(surrealql, vars).await.map_err(|error| self.unusable(&error))
    }

    pub(super) fn unusable(&self, error: &Error) -> OpenError {
        OpenError(format!("The database {} cannot be used: {}.", self.url(), error.cause().unwrap_or("unknown reason")))
    }
}
