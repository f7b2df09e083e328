//! Opening a database by its URL: `surrealkv://FOLDER` (durable, embedded), `mem://` (gone at exit) or `ws://` and
//! `wss://` (a SurrealDB server, which several processes can share). What goes wrong is one sentence.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use surrealdb::Surreal;
use surrealdb::engine::any::{self, Any};
use surrealdb::opt::auth::Root;
use surrealdb::types::{Bytes, SurrealValue};

use super::migrate::Resume;
use super::vault::SecretKey;
use super::{Inner, OpenError, Store, cache, idempotency, lanes, log, vars};
use crate::clock::Clock;
use crate::model::environment::Environment;
use crate::model::page::CursorKey;

const NAMESPACE: &str = "mercato";
/// Requests on one connection to a server queue there, so we hold a few.
const SERVER_CONNECTIONS: usize = 8;
/// How long we wait for another process to let go of an embedded database (a restart), or for a server to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where the database is and who we are there.
#[derive(Clone, Debug)]
pub struct Target {
    pub url: String,
    /// Each is a database of its own.
    pub environment: Environment,
    /// User name and password of a SurrealDB server.
    pub login: Option<(String, String)>,
    /// What secrets are sealed with; every process of a database has the same. Without one, webhooks cannot be used.
    pub secret_key: Option<SecretKey>,
}

#[derive(SurrealValue)]
struct SettingRow {
    value: Bytes,
}

impl Store {
    /// Connects, brings the schema up to date, and reads what every process must agree on.
    pub async fn open(target: &Target, clock: Clock, resume: Resume) -> Result<Self, OpenError> {
        let store = Self::connect(target, clock).await?;
        store.migrate(resume).await?;
        store.read_cursor_key().await?;
        store.check_secret_key().await?;
        Ok(store)
    }

    /// Connects and nothing more: for the commands that look at a database as it is.
    pub async fn connect(target: &Target, clock: Clock) -> Result<Self, OpenError> {
        let url = prepared_url(&target.url)?;
        let embedded = !url.starts_with("ws");
        let mut connections = Vec::new();
        for _ in 0..if embedded { 1 } else { SERVER_CONNECTIONS } {
            connections.push(connect_patiently(&url, target).await?);
        }
        Ok(Self(Arc::new(Inner {
            connections,
            queries: AtomicUsize::new(0),
            embedded,
            url: target.url.clone(),
            environment: target.environment,
            clock,
            lanes: lanes::Lanes::default(),
            running: idempotency::Running::default(),
            cache: Arc::new(cache::ReadCache::new(embedded)),
            cursor_key: OnceLock::new(),
            log: log::Log::default(),
            secret_key: target.secret_key.clone(),
        })))
    }

    /// Whether this process owns the engine, so that no other process can be at work on it.
    pub fn is_embedded(&self) -> bool {
        self.0.embedded
    }

    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// The key of the cursors; the first process to come makes it.
    async fn read_cursor_key(&self) -> Result<(), OpenError> {
        const MAKE: &str = "INSERT IGNORE INTO setting { id: 'cursor_key', value: $value } RETURN NONE";
        let fresh = Bytes::from(self.clock().random::<32>().to_vec());
        let unreadable = |error: crate::error::Error| {
            OpenError(format!(
                "The database {} cannot be read: {}.",
                self.url(),
                error.cause().unwrap_or("unknown reason")
            ))
        };
        self.step(MAKE, vars! { "value" => fresh }).await?;
        let row: Option<SettingRow> =
            self.ask("SELECT * FROM ONLY setting:cursor_key", vars! {}).await.map_err(unreadable)?;
        let key: Option<[u8; 32]> = row.and_then(|row| row.value.to_vec().try_into().ok());
        let key = key.ok_or_else(|| OpenError(format!("The database {} holds no valid cursor key.", self.url())))?;
        self.0.cursor_key.get_or_init(|| CursorKey(key));
        Ok(())
    }
}

/// Checks the scheme, makes the folder, and refuses what the engine would explain badly.
fn prepared_url(url: &str) -> Result<String, OpenError> {
    if let Some(folder) = url.strip_prefix("surrealkv://") {
        let folder = folder.split('?').next().unwrap_or_default();
        if folder.is_empty() {
            return Err(OpenError(
                "The database URL surrealkv:// names no folder; write surrealkv://./data.".to_owned(),
            ));
        }
        std::fs::create_dir_all(folder)
            .map_err(|error| OpenError(format!("The database folder {folder} cannot be made: {error}.")))?;
        Ok(url.to_owned())
    } else if url == "mem://" || url.starts_with("ws://") || url.starts_with("wss://") {
        Ok(url.to_owned())
    } else {
        Err(OpenError(format!(
            "The database URL {url} is not one of surrealkv://FOLDER, mem://, ws://HOST:PORT or wss://HOST:PORT."
        )))
    }
}

async fn connect_patiently(url: &str, target: &Target) -> Result<Surreal<Any>, OpenError> {
    let started = tokio::time::Instant::now();
    loop {
        let attempt = tokio::time::timeout(PATIENCE, connect_once(url, target)).await;
        let error = match attempt {
            Ok(Ok(db)) => return Ok(db),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        if started.elapsed() >= PATIENCE || !is_passing(&error) {
            return Err(OpenError(explain(url, &error)));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn connect_once(url: &str, target: &Target) -> surrealdb::Result<Surreal<Any>> {
    let db = any::connect(url).await?;
    if let Some((username, password)) = &target.login {
        db.signin(Root { username: username.clone(), password: password.clone() }).await?;
    }
    db.use_ns(NAMESPACE).use_db(target.environment.as_str()).await?;
    Ok(db)
}

/// A process that is just leaving, a server that is just starting, or a process that is starting like us.
fn is_passing(error: &str) -> bool {
    ["already locked", "Connection refused", "no answer", "Transaction conflict"]
        .iter()
        .any(|sign| error.contains(sign))
}

fn explain(url: &str, error: &str) -> String {
    if error.contains("already locked") {
        format!(
            "The database {url} is in use by another process; stop that process, or run a SurrealDB server and share it \
             by ws://."
        )
    } else if url.starts_with("ws") {
        format!(
            "The SurrealDB server at {url} cannot be used ({error}); check its address, that it runs, and \
             MERCATO_DATABASE_USER and MERCATO_DATABASE_PASSWORD."
        )
    } else {
        format!("The database {url} cannot be opened: {error}.")
    }
}
