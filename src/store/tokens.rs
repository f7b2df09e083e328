//! Access tokens in the store: only their hashes. A token is valid while its row exists, has not expired, and carries its
//! application's current epoch; so deleting an application or regenerating its secret voids all of them in one commit,
//! for every process at once.

use std::sync::Arc;

use chrono::TimeDelta;
use surrealdb::types::{RecordId, SurrealValue};

use super::applications::{Client, limits, owner};
use super::cache::current;
use super::write::{Block, Plan};
use super::{Store, Tenant, vars};
use crate::error::Result;
use crate::model::application::{RateLimits, TOKEN_LIFETIME};
use crate::model::id::{ApplicationId, OrganizationId};
use crate::model::scope::Scopes;
use crate::model::time::Timestamp;

/// How long an expired token's hash is kept, to tell `Token expired` from an unknown token.
pub const EXPIRED_RETENTION: TimeDelta = TimeDelta::hours(24);

#[derive(SurrealValue)]
struct Row {
    application: RecordId,
    scopes: Scopes,
    epoch: i64,
    expires_at: Timestamp,
    /// The application's; none when it was deleted.
    current_epoch: Option<i64>,
    rate_hour: Option<i64>,
    rate_minute: Option<i64>,
    client_id: Option<String>,
}

/// A token whose application still stands behind it.
pub struct StoredToken {
    pub organization: OrganizationId,
    pub application: ApplicationId,
    pub client_id: String,
    pub scopes: Scopes,
    pub limits: RateLimits,
    pub expires_at: Timestamp,
}

fn record(hash: &[u8; 32]) -> RecordId {
    use std::fmt::Write;
    let mut hex = String::with_capacity(64);
    for byte in hash {
        write!(hex, "{byte:02x}").expect("a string takes all that is written");
    }
    RecordId::new("token", hex)
}

impl Store {
    /// The token behind a hash, unless it was revoked in any of the three ways. It may have expired.
    pub async fn find_token(&self, hash: &[u8; 32]) -> Result<Option<Arc<StoredToken>>> {
        let cache = &self.0.cache;
        let quiet = cache.credentials_quiet();
        let live = |token: &Arc<StoredToken>| token.expires_at > self.clock().now();
        if let Some(token) = current(&cache.tokens, hash, quiet).filter(live) {
            return Ok(Some(token));
        }
        let Some(token) = self.read_token(hash).await?.map(Arc::new) else { return Ok(None) };
        if let Some(quiet) = quiet {
            cache.tokens.insert(*hash, (quiet, Arc::clone(&token)));
        }
        Ok(Some(token))
    }

    async fn read_token(&self, hash: &[u8; 32]) -> Result<Option<StoredToken>> {
        const FIND: &str = "SELECT application, scopes, epoch, expires_at, application.epoch AS current_epoch,
            application.rate_hour AS rate_hour, application.rate_minute AS rate_minute,
            application.client_id AS client_id FROM ONLY $row";
        let row: Option<Row> = self.ask(FIND, vars! { "row" => record(hash) }).await?;
        let Some(row) = row.filter(|row| row.current_epoch == Some(row.epoch)) else { return Ok(None) };
        let (organization, application) = owner(&row.application)?;
        Ok(Some(StoredToken {
            organization,
            application,
            client_id: row.client_id.unwrap_or_default(),
            scopes: row.scopes,
            limits: limits(row.rate_hour.unwrap_or(0), row.rate_minute.unwrap_or(0)),
            expires_at: row.expires_at,
        }))
    }

    /// Stores a token of `client`, which is thereby used. A secret that was regenerated in between makes the token void
    /// from the start, because it carries the epoch that was authenticated.
    pub async fn put_token(&self, hash: &[u8; 32], client: &Client, scopes: Scopes) -> Result<()> {
        const PUT: &str = "
            CREATE ONLY $row CONTENT $content RETURN NONE;
            UPDATE $application SET last_used_at = $now RETURN NONE;";
        let now = self.clock().now();
        let tenant = self.tenant(client.application.organization_id, None);
        let application = tenant.record("application", client.application.id.key());
        let content = vars! {
            "application" => application.clone(),
            "scopes" => scopes,
            "epoch" => client.epoch,
            "expires_at" => now.plus(TimeDelta::seconds(TOKEN_LIFETIME)),
        };
        let vars = vars! { "row" => record(hash), "content" => content, "application" => application, "now" => now };
        tenant.in_lane(Block::default().then(PUT, vars)).await
    }

    /// Deletes a token of this organization.
    pub async fn delete_token(&self, organization: OrganizationId, hash: &[u8; 32]) -> Result<()> {
        let block = Block::default().then("DELETE $row;", vars! { "row" => record(hash) }).voiding_credentials();
        self.tenant(organization, None).in_lane(block).await
    }
}

impl Tenant {
    /// A change that reads nothing and answers nothing, with the retries of every write.
    async fn in_lane(&self, block: Block) -> Result<()> {
        self.write(|| async { Ok(Plan::quiet((), block.clone())) }).await
    }
}
