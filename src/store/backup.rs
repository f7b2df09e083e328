//! Backup and restore of a whole database, as a SurrealQL file. Secrets are in it only as hashes.

use std::path::Path;

use surrealdb::types::RecordId;

use super::{OpenError, Store, vars};

/// The mark of a restore that has not ended. Its table is no part of the schema, so no backup holds it.
const RESTORING: &str = "SELECT VALUE id FROM restoring LIMIT 1";

impl Store {
    /// Writes the database to `file`. The file appears whole or not at all.
    pub async fn backup(&self, file: &Path) -> Result<(), OpenError> {
        self.schema_state().await?;
        self.require_embedded("backup")?;
        let failed =
            |error: &dyn std::fmt::Display| OpenError(format!("The backup to {} failed: {error}.", file.display()));
        let partial = file.with_added_extension("partial");
        self.db().export(&partial).await.map_err(|error| failed(&error))?;
        std::fs::File::open(&partial).and_then(|open| open.sync_all()).map_err(|error| failed(&error))?;
        std::fs::rename(&partial, file).map_err(|error| failed(&error))
    }

    /// Fills an empty database from `file`.
    pub async fn restore(&self, file: &Path) -> Result<(), OpenError> {
        const MARK: &str = "CREATE restoring:now RETURN NONE";
        const UNMARK: &str = "REMOVE TABLE restoring";
        self.require_embedded("restore")?;
        if !file.is_file() {
            return Err(OpenError(format!("There is no backup file {}.", file.display())));
        }
        self.refuse_half_restored().await?;
        if self.schema_state().await?.applied > 0 {
            return Err(OpenError(format!("The database {} is not empty; restore into a new folder.", self.url())));
        }
        self.run(MARK, vars! {}).await.map_err(|error| self.unusable(&error))?;
        self.db()
            .import(file)
            .await
            .map_err(|error| OpenError(format!("{} is not a whole backup of mercato: {error}.", file.display())))?;
        if self.migration_count().await? == 0 {
            return Err(OpenError(format!("{} is not a backup of mercato.", file.display())));
        }
        self.run(UNMARK, vars! {}).await.map_err(|error| self.unusable(&error))
    }

    async fn migration_count(&self) -> Result<usize, OpenError> {
        let rows: Vec<RecordId> = self.ask("SELECT VALUE id FROM migration", vars! {}).await.map_err(|error| {
            OpenError(format!("The restored data has no schema: {}.", error.cause().unwrap_or("?")))
        })?;
        Ok(rows.len())
    }

    pub(super) async fn refuse_half_restored(&self) -> Result<(), OpenError> {
        let marks: Vec<RecordId> = match self.ask(RESTORING, vars! {}).await {
            Ok(marks) => marks,
            Err(error) if error.cause().is_some_and(|cause| cause.contains("does not exist")) => Vec::new(),
            Err(error) => return Err(self.unusable(&error)),
        };
        if marks.is_empty() {
            return Ok(());
        }
        Err(OpenError(format!(
            "A restore into the database {} was interrupted; delete the folder and restore again.",
            self.url()
        )))
    }

    fn require_embedded(&self, command: &str) -> Result<(), OpenError> {
        if self.is_embedded() {
            return Ok(());
        }
        Err(OpenError(format!(
            "`mercato {command}` works on an embedded database; for a SurrealDB server use its own export and import."
        )))
    }
}
