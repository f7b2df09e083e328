//! What a worker has in hand: some things at once, each in a task of its own that belongs to an account. So whoever is slow
//! has its own things slow, and nobody else's.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use crate::error::Result;
use crate::http::server::stopped;
use crate::model::id::OrganizationId;
use crate::model::vendor::Vendor;

/// Whose marketplace is worked with.
pub type Place = (OrganizationId, Vendor);

/// How long a worker rests after a look, as a multiple of what the look took (but no longer than its interval): however much
/// waits, looking for it leaves time for what was found, and for callers.
const REST: u32 = 4;
/// How long a process that stops waits for marketplaces.
const GRACE: Duration = Duration::from_secs(5);

/// Tasks, and whom each is for.
pub struct Hands<K> {
    tasks: JoinSet<()>,
    owners: HashMap<Id, K>,
    most: usize,
}

impl<K: Copy + Eq + Hash> Hands<K> {
    /// For so many tasks at once.
    fn new(most: usize) -> Self {
        Self { tasks: JoinSet::new(), owners: HashMap::new(), most }
    }

    /// How many tasks may begin.
    pub fn room(&self) -> usize {
        self.most.saturating_sub(self.owners.len())
    }

    /// Who has something in hand, and how much.
    pub fn load(&self) -> HashMap<K, usize> {
        let mut load = HashMap::new();
        for owner in self.owners.values() {
            *load.entry(*owner).or_default() += 1;
        }
        load
    }

    pub fn begin(&mut self, owner: K, task: impl Future<Output = ()> + Send + 'static) {
        let id = self.tasks.spawn(task).id();
        self.owners.insert(id, owner);
    }

    /// Waits for a task to end; false when there is none.
    async fn end_one(&mut self) -> bool {
        let Some(ended) = self.tasks.join_next_with_id().await else { return false };
        self.let_go(ended);
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.let_go(ended);
        }
        true
    }

    fn let_go(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = ended.map_or_else(
            |error| {
                tracing::error!(%error, "a task ended badly; what it had in hand waits for its lease to end");
                error.id()
            },
            |(id, ())| id,
        );
        self.owners.remove(&id);
    }
}

/// Somebody who takes up what is due.
pub trait Worker: Send + Sync + 'static {
    type Owner: Copy + Eq + Hash + Send + Sync;

    /// How often it looks for what is due, when nobody says that something is.
    const INTERVAL: Duration;
    /// How many things it has in hand at once.
    const AT_ONCE: usize;
    /// What it does, for the log.
    const WHAT: &'static str;

    /// Takes up what there is room for, and answers how much that was.
    fn take(self: &Arc<Self>, hands: &mut Hands<Self::Owner>) -> impl Future<Output = Result<usize>> + Send;

    /// Returns when somebody says that there is something to do.
    fn woken(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// Does all that is due, and answers how much there was.
pub async fn run<W: Worker>(worker: &Arc<W>) -> Result<usize> {
    let (mut hands, mut done) = (Hands::new(W::AT_ONCE), 0);
    loop {
        let taken = worker.take(&mut hands).await?;
        done += taken;
        if taken == 0 && !hands.end_one().await {
            return Ok(done);
        }
    }
}

/// Does what is due as it comes, until the order to stop. What is in hand is finished if that takes no longer than the grace;
/// the rest is as though the process had died, and done again after its lease.
pub async fn work<W: Worker>(worker: Arc<W>, mut stop: watch::Receiver<bool>) {
    let mut hands = Hands::new(W::AT_ONCE);
    loop {
        let began = Instant::now();
        let taken = worker.take(&mut hands).await.unwrap_or_else(|error| {
            tracing::warn!(cause = error.cause(), "{} could not be taken up; it is tried again", W::WHAT);
            0
        });
        let rest = (began.elapsed() * REST).min(W::INTERVAL);
        // Behind what was taken there may be more.
        let pause = if taken > 0 { Duration::ZERO } else { W::INTERVAL };
        tokio::select! {
            () = stopped(&mut stop) => break,
            () = sleep(rest) => {}
        }
        tokio::select! {
            () = stopped(&mut stop) => break,
            true = hands.end_one() => {}
            () = worker.woken() => {}
            () = sleep(pause) => {}
        }
    }
    let finished = async { while hands.end_one().await {} };
    if timeout(GRACE, finished).await.is_err() {
        tracing::info!("{} are left in hand, and done again after their lease", W::WHAT);
    }
}
