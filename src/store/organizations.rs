//! Organizations: the tenants, and the counter that numbers their events.

use surrealdb::types::{RecordId, SurrealValue};

use super::{Store, vars};
use crate::error::{Error, Result};
use crate::model::id::OrganizationId;

#[derive(SurrealValue)]
struct Row {
    id: RecordId,
    name: String,
}

pub(super) fn record(id: OrganizationId) -> RecordId {
    RecordId::new("organization", id.to_string())
}

impl Store {
    pub async fn create_organization(&self, name: &str) -> Result<OrganizationId> {
        let id = OrganizationId(self.clock().mint());
        let vars = vars! { "record" => record(id), "name" => name };
        self.run("CREATE ONLY $record SET name = $name, sequence = 0 RETURN NONE", vars).await?;
        Ok(id)
    }

    pub async fn organization_exists(&self, id: OrganizationId) -> Result<bool> {
        let found: Option<Row> = self.ask("SELECT * FROM ONLY $record", vars! { "record" => record(id) }).await?;
        Ok(found.is_some())
    }

    /// All of them.
    pub async fn organizations(&self) -> Result<Vec<OrganizationId>> {
        let rows: Vec<Row> = self.ask("SELECT * FROM organization", vars! {}).await?;
        rows.iter().map(Row::id).collect()
    }

    /// The first organization of that name, oldest first. For the command line, not for callers.
    pub async fn find_organization(&self, name: &str) -> Result<Option<OrganizationId>> {
        const FIND: &str = "SELECT * FROM organization WHERE name = $name LIMIT 1";
        let rows: Vec<Row> = self.ask(FIND, vars! { "name" => name }).await?;
        rows.first().map(Row::id).transpose()
    }
}

impl Row {
    fn id(&self) -> Result<OrganizationId> {
        let surrealdb::types::RecordIdKey::String(key) = &self.id.key else {
            return Err(Error::internal(format!("the organization {:?} has a broken key", self.name)));
        };
        OrganizationId::parse(key).ok_or_else(|| Error::internal(format!("{key} is not an organization's key")))
    }
}
