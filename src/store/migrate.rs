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
const MIGRATIONS: &[(&str, &str)] = &[
    ("0001_house", include_str!("schema/0001_house.surql")),
    ("0002_resources", include_str!("schema/0002_resources.surql")),
    ("0003_webhooks", include_str!("schema/0003_webhooks.surql")),
    ("0004_marketplaces", include_str!("schema/0004_marketplaces.surql")),
    ("0005_differences", include_str!("schema/0005_differences.surql")),
    ("0006_retention", include_str!("schema/0006_retention.surql")),
    ("0007_bought", include_str!("schema/0007_bought.surql")),
    ("0008_inbox", include_str!("schema/0008_inbox.surql")),
    ("0009_rotations", include_str!("schema/0009_rotations.surql")),
];

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

/// How often a step is tried while it collides with another process.
const MAX_TRIES: u32 = 50;

const MARK: &str = "UPSERT ONLY type::record('migration', $number) CONTENT {
    number: $number, name: $name, checksum: $checksum, state: $state } RETURN NONE";

fn mark(number: usize, name: &str, text: &str, state: &str) -> Object {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    vars! { "number" => number, "name" => name, "checksum" => checksum(text), "state" => state }
}

fn checksum(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

impl Store {
    /// Applies what is missing; returns how many that were. Of several processes that start at once, one applies each
    /// migration and the others wait for it.
    pub async fn migrate(&self, resume: Resume) -> Result<usize, OpenError> {
        self.refuse_half_restored().await?;
        self.step(BOOKS, vars! {}).await?;
        let mut applied = 0;
        loop {
            let rows = self.settled_rows(resume).await?;
            self.check_rows(&rows)?;
            let done = rows.iter().take_while(|row| row.state == "applied").count();
            let Some((name, text)) = MIGRATIONS.get(done) else { return Ok(applied) };
            if self.claim(done + 1, name, text, rows.len() > done).await? {
                self.step(text, vars! {}).await?;
                if *name == "0002_resources" {
                    self.index_customers().await.map_err(|error| self.unusable(&error))?;
                }
                self.step(MARK, mark(done + 1, name, text, "applied")).await?;
                tracing::info!(migration = name, "migration applied");
                applied += 1;
            }
        }
    }

    /// Marks a migration as being applied by us; false if another process was first. One that was interrupted is ours to
    /// finish.
    async fn claim(&self, number: usize, name: &str, text: &str, interrupted: bool) -> Result<bool, OpenError> {
        const CLAIM: &str = "CREATE ONLY type::record('migration', $number) CONTENT {
            number: $number, name: $name, checksum: $checksum, state: $state } RETURN NONE";
        let row = mark(number, name, text, "applying");
        if interrupted {
            return self.step(MARK, row).await.map(|()| true);
        }
        match self.run(CLAIM, row).await {
            Ok(()) => Ok(true),
            Err(Error::Unavailable(_)) => Ok(false),
            Err(Error::Internal(cause)) if cause.contains("already exists") => Ok(false),
            Err(error) => Err(self.unusable(&error)),
        }
    }

    pub async fn schema_state(&self) -> Result<SchemaState, OpenError> {
        self.refuse_half_restored().await?;
        let rows = self.migration_rows().await?;
        self.check_rows(&rows)?;
        Ok(SchemaState { applied: rows.iter().filter(|row| row.state == "applied").count(), known: MIGRATIONS.len() })
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

    /// Runs statements that may run twice, and runs them again where processes that start at once collide.
    pub(super) async fn step(&self, surrealql: &'static str, vars: Object) -> Result<(), OpenError> {
        let mut tries = 0;
        loop {
            match self.run(surrealql, vars.clone()).await {
                Err(Error::Unavailable(_)) if tries < MAX_TRIES => tries += 1,
                result => return result.map_err(|error| self.unusable(&error)),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(super) fn unusable(&self, error: &Error) -> OpenError {
        OpenError(format!("The database {} cannot be used: {}.", self.url(), error.cause().unwrap_or("unknown reason")))
    }
}
