//! The only place that speaks SurrealQL. Actors, in the order one meets them:
//!
//! - [`Store`]: the connected database, cheap to clone. Workers and the composition root hold it.
//! - [`Tenant`]: the store seen from one organization. Resolvers get it from `Call::grant` and from nowhere else.
//! - [`write::Block`] and [`write::Plan`]: one change as one transaction, with its event and its idempotency row.
//! - the page query in `pages`: newest first by key, forward; filtered, ordered and searched lists in `lists`.
//! - `documents`: records that are kept as the JSON of their single-object form.
//!
//! Values are always bound, never formatted in.

mod analytics;
pub mod applications;
mod audit;
pub mod backup;
pub mod bought;
mod cache;
pub mod connect;
pub mod customers;
mod delivered;
pub mod deliveries;
pub mod differences;
pub mod dispatch;
pub mod doctor;
mod documents;
pub mod due;
pub mod entitlements;
mod errors;
mod idempotency;
pub mod inbox;
mod lanes;
mod lists;
pub mod log;
pub mod marketplaces;
pub mod metering;
pub mod migrate;
pub mod notifications;
pub mod offers;
pub mod organizations;
pub mod outbox;
mod pages;
pub mod rates;
mod recent;
pub mod recording;
pub mod sweep;
pub mod tokens;
mod values;
pub mod vault;
pub mod webhooks;
pub mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use surrealdb::Surreal;
use surrealdb::engine::any::Any;
use surrealdb::types::{Object, RecordId, SurrealValue, Value};

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::model::environment::Environment;
use crate::model::id::OrganizationId;
use crate::model::page::CursorKey;

pub use errors::OpenError;
pub use idempotency::Once;

/// The connected database.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    /// One handle for an embedded engine; a few for a server, because requests on one connection queue.
    connections: Vec<Surreal<Any>>,
    /// How many queries were sent; also who takes the next connection.
    queries: AtomicUsize,
    embedded: bool,
    url: String,
    environment: Environment,
    clock: Clock,
    lanes: lanes::Lanes,
    running: idempotency::Running,
    cache: Arc<cache::ReadCache>,
    cursor_key: std::sync::OnceLock<CursorKey>,
    log: log::Log,
    secret_key: Option<vault::SecretKey>,
}

impl Store {
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Whose database this is.
    pub fn environment(&self) -> Environment {
        self.0.environment
    }

    /// The key that cursors are authenticated with. [`Store::open`](connect) has read it.
    pub fn cursor_key(&self) -> &CursorKey {
        self.0.cursor_key.get().expect("the store was opened")
    }

    /// The store seen from one organization. Only `Call::grant` and workers may call this; `tests/it/tidy.rs` checks it.
    pub fn tenant(&self, organization: OrganizationId, once: Option<Arc<Once>>) -> Tenant {
        Tenant { store: self.clone(), organization, once }
    }

    /// The engine beneath the store: for tests that look at plans or plant rows. `tests/it/tidy.rs` keeps it out of `src`.
    pub fn engine(&self) -> &Surreal<Any> {
        self.0.cache.clear();
        self.db()
    }

    /// How many queries this process has sent to the database.
    pub fn queries(&self) -> usize {
        self.0.queries.load(Ordering::Relaxed)
    }

    fn db(&self) -> &Surreal<Any> {
        let connections = &self.0.connections;
        &connections[self.0.queries.fetch_add(1, Ordering::Relaxed) % connections.len()]
    }

    /// Runs one statement (or one block) and reads its rows as `T`: `Option<Row>`, `Vec<Row>` or a plain value.
    async fn ask<T: SurrealValue>(&self, surrealql: &'static str, vars: Object) -> Result<T>
    where
        usize: surrealdb::opt::QueryResult<T>,
    {
        self.ask_composed(surrealql.to_owned(), vars).await
    }

    /// The same for a text that was put together from our own words. Values are bound there, too.
    async fn ask_composed<T: SurrealValue>(&self, surrealql: String, vars: Object) -> Result<T>
    where
        usize: surrealdb::opt::QueryResult<T>,
    {
        let mut response = self.db().query(surrealql).bind(vars).await.map_err(errors::read)?;
        response.take(0).map_err(errors::read)
    }

    /// Runs statements whose rows nobody needs.
    async fn run(&self, surrealql: &'static str, vars: Object) -> Result<()> {
        let response = self.db().query(surrealql).bind(vars).await.map_err(errors::read)?;
        response.check().map(drop).map_err(errors::read)
    }

    /// Repeats what collided with another process, for a while.
    async fn insist<T, F: Future<Output = Result<T>>>(&self, run: impl Fn() -> F) -> Result<T> {
        let mut pause = std::time::Duration::from_millis(2);
        for _ in 1..INSIST {
            match run().await {
                Err(Error::Unavailable(_)) => tokio::time::sleep(pause.mul_f64(0.5 + self.clock().fraction())).await,
                done => return done,
            }
            pause *= 2;
        }
        run().await
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<()> {
        self.ask::<Option<i64>>("RETURN 1", Object::new()).await.map(drop)
    }
}

/// The store as one organization sees it. Every key that it makes begins with the organization.
#[derive(Clone)]
pub struct Tenant {
    store: Store,
    organization: OrganizationId,
    once: Option<Arc<Once>>,
}

impl Tenant {
    pub fn organization(&self) -> OrganizationId {
        self.organization
    }

    pub fn clock(&self) -> &Clock {
        &self.store.0.clock
    }

    pub fn environment(&self) -> Environment {
        self.store.0.environment
    }

    fn record(&self, table: &'static str, key: impl SurrealValue) -> RecordId {
        let parts = vec![self.organization.to_string().into_value(), key.into_value()];
        RecordId::new(table, surrealdb::types::Array::from(parts))
    }

    fn organization_record(&self) -> RecordId {
        organizations::record(self.organization)
    }
}

/// The second part of a `[organization, key]` record id.
fn own_key(id: &RecordId) -> Result<&str> {
    if let surrealdb::types::RecordIdKey::Array(parts) = &id.key
        && let [_, Value::String(key)] = parts.as_slice()
    {
        return Ok(key);
    }
    Err(Error::internal(format!("a record of {:?} has a foreign key form", id.table)))
}

/// The first part of it.
fn organization_of(id: &RecordId) -> Result<OrganizationId> {
    let surrealdb::types::RecordIdKey::Array(parts) = &id.key else {
        return Err(Error::internal("a key has no owner"));
    };
    let organization = match parts.first() {
        Some(Value::String(organization)) => OrganizationId::parse(organization),
        _ => None,
    };
    organization.ok_or_else(|| Error::internal("a key has no owner"))
}

/// The two statements that every list stands on, for the test that asserts their plans.
pub fn page_queries() -> [&'static str; 2] {
    [pages::FIRST, pages::NEXT]
}

/// How often [`Store::insist`] tries.
const INSIST: u32 = 8;

/// Named values for a query.
macro_rules! vars {
    () => { surrealdb::types::Object::new() };
    ($($name:literal => $value:expr),+ $(,)?) => {{
        let mut vars = surrealdb::types::Object::new();
        $(vars.insert($name.to_owned(), surrealdb::types::SurrealValue::into_value($value));)+
        vars
    }};
}
use vars;
