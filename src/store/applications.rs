//! OAuth applications in the store. Their credentials' hashes never leave this folder except for the comparison in `auth`.

use surrealdb::types::{Bytes, RecordId, SurrealValue};

use super::pages::Placed;
use super::write::{Block, Plan, UNMOVED};
use super::{Store, Tenant, own_key, vars};
use crate::error::{Error, Result};
use crate::model::application::{Application, ApplicationWithSecret, RateLimits, hash_secret};
use crate::model::id::{ApplicationId, OrganizationId};
use crate::model::page::{Page, Window};
use crate::model::scope::Scopes;
use crate::model::time::Timestamp;

#[derive(SurrealValue)]
struct Row {
    id: RecordId,
    name: String,
    description: String,
    scopes: Scopes,
    client_id: String,
    secret_hash: Bytes,
    epoch: i64,
    rate_hour: i64,
    rate_minute: i64,
    updated_at: Timestamp,
    last_used_at: Option<Timestamp>,
    secret_rotated_at: Timestamp,
    revision: i64,
    position: Option<String>,
}

impl Placed for Row {
    fn position(&mut self) -> Option<String> {
        self.position.take().or_else(|| own_key(&self.id).ok().map(str::to_owned))
    }
}

/// An application as it was read, and the revision that a change must still meet.
pub struct Versioned {
    pub application: Application,
    revision: i64,
}

/// What the token endpoint needs to know of a client.
pub struct Client {
    pub application: Application,
    pub secret_hash: Vec<u8>,
    pub epoch: i64,
    pub limits: RateLimits,
}

/// `[organization, key]` of an application's record.
pub(super) fn owner(record: &RecordId) -> Result<(OrganizationId, ApplicationId)> {
    let broken = || Error::internal("an application's key is broken");
    let surrealdb::types::RecordIdKey::Array(parts) = &record.key else { return Err(broken()) };
    let [surrealdb::types::Value::String(organization), _] = parts.as_slice() else { return Err(broken()) };
    let organization = OrganizationId::parse(organization).ok_or_else(broken)?;
    Ok((organization, ApplicationId::from_key(own_key(record)?).ok_or_else(broken)?))
}

pub(super) fn limits(hour: i64, minute: i64) -> RateLimits {
    let clamp = |limit: i64| u32::try_from(limit.max(0)).unwrap_or(u32::MAX);
    RateLimits { hour: clamp(hour), minute: clamp(minute) }
}

impl Row {
    fn into_model(self) -> Result<Application> {
        let (organization_id, id) = owner(&self.id)?;
        Ok(Application {
            id,
            organization_id,
            name: self.name,
            description: self.description,
            scopes: self.scopes,
            client_id: self.client_id,
            created_at: id.created_at(),
            updated_at: self.updated_at,
            last_used_at: self.last_used_at,
            secret_rotated_at: self.secret_rotated_at,
        })
    }
}

impl Store {
    /// The client behind a client id, for the token endpoint.
    pub async fn find_client(&self, client_id: &str) -> Result<Option<Client>> {
        const FIND: &str = "SELECT * FROM application WHERE client_id = $client_id LIMIT 1";
        let mut rows: Vec<Row> = self.ask(FIND, vars! { "client_id" => client_id }).await?;
        let Some(row) = rows.pop() else { return Ok(None) };
        let (secret_hash, epoch) = (row.secret_hash.to_vec(), row.epoch);
        let limits = limits(row.rate_hour, row.rate_minute);
        Ok(Some(Client { application: row.into_model()?, secret_hash, epoch, limits }))
    }
}

impl Tenant {
    pub async fn list_applications(&self, window: Window) -> Result<Page<Application>> {
        self.page::<Row>("application", window).await?.try_map(Row::into_model)
    }

    pub async fn get_application(&self, id: ApplicationId) -> Result<Application> {
        Ok(self.get_application_versioned(id).await?.application)
    }

    /// For planners: what a change starts from.
    pub async fn get_application_versioned(&self, id: ApplicationId) -> Result<Versioned> {
        let vars = vars! { "record" => self.record("application", id.key()) };
        let row: Option<Row> = self.store.ask("SELECT * FROM ONLY $record", vars).await?;
        let row = row.ok_or(Error::NOT_FOUND)?;
        Ok(Versioned { revision: row.revision, application: row.into_model()? })
    }

    pub fn plan_application_created(
        &self,
        new: ApplicationWithSecret,
        limits: RateLimits,
        actor: &str,
    ) -> Plan<ApplicationWithSecret> {
        const CREATE: &str = "CREATE ONLY $record CONTENT $content RETURN NONE;";
        let application = &new.application;
        let content = vars! {
            "name" => application.name.clone(),
            "description" => application.description.clone(),
            "scopes" => application.scopes,
            "client_id" => application.client_id.clone(),
            "secret_hash" => Bytes::from(hash_secret(&new.client_secret).to_vec()),
            "epoch" => 1_i64,
            "rate_hour" => i64::from(limits.hour),
            "rate_minute" => i64::from(limits.minute),
            "updated_at" => application.updated_at,
            "secret_rotated_at" => application.secret_rotated_at,
            "revision" => 1_i64,
        };
        let record = self.record("application", application.id.key());
        let block = Block::default().then(CREATE, vars! { "record" => record, "content" => content });
        let block = self.audited(block, actor, "application.created", application.id.to_string());
        Plan::quiet(new, block)
    }

    pub fn plan_application_updated(&self, from: &Versioned, to: Application, actor: &str) -> Plan<Application> {
        const UPDATE: &str = "UPDATE ONLY $record MERGE $content RETURN NONE;";
        let content = vars! {
            "name" => to.name.clone(),
            "description" => to.description.clone(),
            "scopes" => to.scopes,
            "updated_at" => to.updated_at,
            "revision" => from.revision + 1,
        };
        let block = self.unmoved_application(from).then(UPDATE, vars! { "content" => content });
        Plan::quiet(to.clone(), self.audited(block, actor, "application.updated", to.id.to_string()))
    }

    /// The new secret's hash, and a new epoch: every token of an older epoch is void from this commit on.
    pub fn plan_secret_regenerated(
        &self,
        from: &Versioned,
        to: ApplicationWithSecret,
        actor: &str,
    ) -> Plan<ApplicationWithSecret> {
        const ROTATE: &str = "UPDATE ONLY $record SET secret_hash = $hash, secret_rotated_at = $now, updated_at = $now,
            epoch += 1, revision += 1 RETURN NONE;";
        let vars = vars! {
            "hash" => Bytes::from(hash_secret(&to.client_secret).to_vec()),
            "now" => to.application.secret_rotated_at,
        };
        let block = self.unmoved_application(from).then(ROTATE, vars);
        let target = to.application.id.to_string();
        Plan::quiet(to, self.audited(block, actor, "application.secret_regenerated", target))
    }

    pub fn plan_application_deleted(&self, from: &Versioned, actor: &str) -> Plan<Application> {
        let block = self.unmoved_application(from).then("DELETE ONLY $record RETURN BEFORE;", vars! {});
        let answer = from.application.clone();
        let block = self.audited(block, actor, "application.deleted", answer.id.to_string());
        Plan::quiet(answer, block)
    }

    /// An operator's decision, outside the documented API.
    pub async fn set_rate_limits(&self, id: ApplicationId, limits: RateLimits) -> Result<()> {
        const SET: &str =
            "UPDATE ONLY $record SET rate_hour = $hour, rate_minute = $minute, revision += 1 RETURN NONE;";
        let vars = vars! { "hour" => i64::from(limits.hour), "minute" => i64::from(limits.minute) };
        self.write(|| async {
            let current = self.get_application_versioned(id).await?;
            let block = self.unmoved_application(&current).then(SET, vars.clone());
            Ok(Plan::quiet((), block))
        })
        .await
    }

    fn unmoved_application(&self, from: &Versioned) -> Block {
        let record = self.record("application", from.application.id.key());
        Block::default().then(UNMOVED, vars! { "record" => record, "revision" => from.revision }).voiding_credentials()
    }
}
