//! Both marketplaces' own end of their protocols (`docs/marketplaces.md`), in memory and over real HTTP.
//!
//! - `world`: what it holds, its time, and the agenda of what becomes due.
//! - `cloud_b`, `ingestion`, `metering_b`: the calls of the one; `subscriptions` has its rules.
//! - `cloud_a`, `change_sets`, `metering_a`: the calls of the other; `agreements` has its rules, `signature` its
//!   guard.
//! - `offers`: private offers of both, and what follows from them.
//! - `notify`: the queue of notifications and the task that sends them; `keys` signs some.
//! - `faults`: what goes wrong on demand. `control`: how it is driven.
//!
//! Whatever is asked, the world first catches up with its clock; nothing is sent and nothing is awaited while it is held.

mod agreements;
mod answer;
mod change_sets;
mod cloud_a;
mod cloud_b;
mod control;
mod faults;
mod ingestion;
mod keys;
mod metering_a;
mod metering_b;
mod notify;
mod offers;
mod signature;
mod subscriptions;
mod world;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::{Router, middleware};
use chrono::TimeDelta;
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::http::server::{Limits, serve};
use keys::SigningKey;
pub use world::MOST;
use world::World;

/// How it is run.
pub struct SimulatorSettings {
    /// Port 0 takes a free one.
    pub listen: SocketAddr,
    /// How long a publication takes, of its own clock.
    pub publish: TimeDelta,
    /// Its own clock is this one and what it was advanced by. Whatever has to do with credentials (signatures, bearer
    /// tokens, the tokens of notifications) goes by this one, because the other side does.
    pub clock: Clock,
    /// What each of its lists holds at most: [`MOST`] is good.
    pub most: usize,
}

/// A running simulator. It ends when it is stopped or dropped.
pub struct Simulator {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    tasks: [JoinHandle<()>; 2],
}

struct Shared {
    world: Mutex<World>,
    /// Something was queued, or became due.
    wake: Arc<Notify>,
    /// An attempt ended.
    attempted: Notify,
}

type Sim = Arc<Shared>;

impl Shared {
    /// The world at this moment: what was due has happened.
    fn world(&self) -> MutexGuard<'_, World> {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        world.catch_up();
        world
    }
}

impl Simulator {
    /// Answers requests when it returns. Fails when the address is taken.
    pub async fn start(settings: SimulatorSettings) -> std::io::Result<Self> {
        let listener = TcpListener::bind(settings.listen).await?;
        let address = listener.local_addr()?;
        let key = tokio::task::spawn_blocking(SigningKey::generate).await.map_err(std::io::Error::other)?;
        let client = notify::client().map_err(std::io::Error::other)?;
        let wake = Arc::new(Notify::new());
        let world = World::new(settings, key, Arc::clone(&wake));
        let shared = Arc::new(Shared { world: Mutex::new(world), wake, attempted: Notify::new() });
        let (stop, stopping) = watch::channel(false);
        let router = router(&shared);
        let server = serve(listener, router, Limits::default(), Arc::new(Gauge::default()), stopping.clone());
        let tasks = [tokio::spawn(server), tokio::spawn(notify::send_all(shared, client, stopping))];
        Ok(Self { address, stop, tasks })
    }

    /// Without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Lets running requests end; notifications that were not sent are lost with everything else.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::warn!(%error, "a task of the simulator ended badly");
            }
        }
    }
}

fn router(shared: &Sim) -> Router {
    let faulty = Router::new().merge(cloud_a::routes()).merge(cloud_b::routes()).merge(ingestion::routes());
    faulty
        .layer(middleware::from_fn_with_state(Arc::clone(shared), faults::intrude))
        .merge(cloud_b::identity_routes())
        .merge(control::routes())
        .fallback(answer::nothing_here)
        .with_state(Arc::clone(shared))
}
