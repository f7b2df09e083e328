//! A database in a temporary folder, opened as a [`Store`] or, beside it, with the engine's own client.

use std::time::{Duration, Instant};

use mercato::clock::Clock;
use mercato::model::environment::Environment;
use mercato::store::Store;
use mercato::store::connect::Target;
use mercato::store::migrate::Resume;
use mercato::store::vault::SecretKey;
use surrealdb::Surreal;
use surrealdb::engine::any::{self, Any};

/// A dropped handle closes its database a little later, in the background; a large one has much to put in order.
const PATIENCE: Duration = Duration::from_mins(2);

/// What secrets are sealed with in all these databases.
pub const SECRET_KEY: [u8; 32] = [7; 32];

pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::Builder::new().prefix("mercato-bench-").tempdir().expect("the temporary folder can be written"))
    }

    pub fn path(&self) -> &std::path::Path {
        self.0.path()
    }

    pub fn url(&self) -> String {
        format!("surrealkv://{}", self.path().join("data").display())
    }

    /// Opens it as the service does; the first time, that makes the schema.
    pub async fn store(&self) -> Store {
        self.store_at(Clock::system()).await
    }

    /// The same with a clock that is told.
    pub async fn store_at(&self, clock: Clock) -> Store {
        let secret_key = Some(SecretKey(SECRET_KEY));
        let target = Target { url: self.url(), environment: Environment::Production, login: None, secret_key };
        let began = Instant::now();
        loop {
            match Store::open(&target, clock.clone(), Resume::Refuse).await {
                Ok(store) => return store,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Opens it without us. Nobody else may hold it.
    pub async fn raw(&self) -> Surreal<Any> {
        let began = Instant::now();
        loop {
            match any::connect(self.url()).await {
                Ok(db) => {
                    db.use_ns("mercato").use_db("production").await.expect("the store made this database");
                    return db;
                }
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
