//! Finds webhooks that have something to do, and starts a lane for each. It hears of the commits of its own process at
//! once; it looks by itself for what became due, and for what other processes committed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::lane::Lane;
use super::{DispatchSettings, Shared, Slots};
use crate::courier::Courier;
use crate::error::{Error, Result};
use crate::model::id::{OrganizationId, WebhookId};
use crate::store::Store;

/// How often it looks for what became due.
const LOOK: Duration = Duration::from_millis(250);
/// How often it looks at all webhooks: where other processes commit, and where nobody else does.
const LOOK_AROUND_SHARED: Duration = Duration::from_millis(500);
const LOOK_AROUND_ALONE: Duration = Duration::from_secs(30);
/// Webhooks that are taken up at one look.
const PORTION: i64 = 500;

type Place = (OrganizationId, WebhookId);

/// A lane that runs, and whether something happened meanwhile.
struct Running {
    nudge: Arc<Notify>,
    again: bool,
}

pub struct Dispatcher {
    shared: Arc<Shared>,
}

impl Dispatcher {
    pub fn new(store: Store, courier: Courier, settings: DispatchSettings) -> Self {
        let slots = Slots {
            all: Arc::new(Semaphore::new(settings.in_all)),
            per_organization: settings.per_organization,
            organizations: std::sync::Mutex::default(),
        };
        let stop = watch::Sender::new(false);
        Self { shared: Arc::new(Shared { store, courier, settings, slots, stop }) }
    }

    /// Does what there is to do by now, and answers how many deliveries were settled: for tests, which move the clock by
    /// hand.
    pub async fn settle(&self) -> Result<usize> {
        let mut done = 0;
        loop {
            let mut lanes = JoinSet::new();
            for place in self.places().await? {
                lanes.spawn(work(Arc::clone(&self.shared), place, Arc::default()));
            }
            let mut moved = 0;
            while let Some(lane) = lanes.join_next().await {
                moved += lane.map_err(Error::internal)?.1?;
            }
            if moved == 0 {
                return Ok(done);
            }
            done += moved;
        }
    }

    async fn places(&self) -> Result<HashSet<Place>> {
        let due = self.shared.store.webhooks_due(PORTION).await?;
        let behind = self.shared.store.webhooks_behind().await?;
        Ok(due.into_iter().chain(behind).collect())
    }

    /// Works until the order to stop; attempts that are under way then are finished and written down.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut desk = Desk::new(self.shared);
        let mut commits = desk.shared.store.commits();
        loop {
            desk.look().await;
            tokio::select! {
                news = commits.recv() => match news {
                    Ok(organization) => desk.hear(organization),
                    Err(RecvError::Lagged(_)) => desk.around_at = Instant::now(),
                    Err(RecvError::Closed) => break,
                },
                Some(ended) = desk.lanes.join_next_with_id(), if !desk.lanes.is_empty() => desk.joined(ended),
                () = tokio::time::sleep(LOOK) => desk.due = true,
                () = &mut stop => break,
            }
            while let Ok(organization) = commits.try_recv() {
                desk.hear(organization);
            }
        }
        desk.close().await;
    }
}

/// Serves one webhook to the end.
async fn work(shared: Arc<Shared>, place: Place, nudge: Arc<Notify>) -> (Place, Result<usize>) {
    let (organization, webhook) = place;
    let tenant = shared.store.tenant(organization, None);
    let result = match Lane::enter(shared, tenant, webhook, nudge).await {
        Ok(Some(lane)) => lane.run().await,
        Ok(None) => Ok(0),
        Err(error) => Err(error),
    };
    (place, result)
}

/// The dispatcher's own state.
struct Desk {
    shared: Arc<Shared>,
    running: HashMap<Place, Running>,
    lanes: JoinSet<(Place, Result<usize>)>,
    /// Whose each of them is.
    places: HashMap<Id, Place>,
    /// Organizations in which something was committed.
    heard: HashSet<OrganizationId>,
    /// Organizations without a webhook, as of that many changes of webhooks.
    bare: (u64, HashSet<OrganizationId>),
    /// Whether it is time to look for what became due.
    due: bool,
    /// When to look at all webhooks.
    around_at: Instant,
}

impl Desk {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            running: HashMap::new(),
            lanes: JoinSet::new(),
            places: HashMap::new(),
            heard: HashSet::new(),
            bare: (0, HashSet::new()),
            due: true,
            around_at: Instant::now(),
        }
    }

    fn hear(&mut self, organization: OrganizationId) {
        let changes = self.shared.store.webhook_changes();
        if self.bare.0 != changes {
            self.bare = (changes, HashSet::new());
        }
        if self.bare.1.contains(&organization) {
            return;
        }
        self.heard.insert(organization);
        for (_, lane) in self.running.iter_mut().filter(|(place, _)| place.0 == organization) {
            lane.again = true;
            lane.nudge.notify_one();
        }
    }

    async fn look(&mut self) {
        if let Err(error) = self.try_look().await {
            tracing::warn!(cause = error.cause(), "looking for deliveries failed; it is tried again");
        }
    }

    async fn try_look(&mut self) -> Result<()> {
        let store = self.shared.store.clone();
        if self.around_at <= Instant::now() {
            let pause = if store.is_embedded() { LOOK_AROUND_ALONE } else { LOOK_AROUND_SHARED };
            self.around_at = Instant::now() + pause;
            self.start(store.webhooks_behind().await?);
        }
        if std::mem::take(&mut self.due) {
            self.start(store.webhooks_due(PORTION).await?);
        }
        for organization in std::mem::take(&mut self.heard) {
            let (webhooks, total) = store.tenant(organization, None).webhooks_to_serve().await?;
            if total == 0 && store.is_embedded() {
                self.bare.1.insert(organization);
            }
            self.start(webhooks.into_iter().map(|webhook| (organization, webhook)).collect());
        }
        Ok(())
    }

    fn start(&mut self, places: Vec<Place>) {
        for place in places {
            if self.running.contains_key(&place) {
                continue;
            }
            let nudge = Arc::new(Notify::new());
            self.running.insert(place, Running { nudge: Arc::clone(&nudge), again: false });
            let lane = self.lanes.spawn(work(Arc::clone(&self.shared), place, nudge));
            self.places.insert(lane.id(), place);
        }
    }

    fn joined(&mut self, ended: Result<(Id, (Place, Result<usize>)), JoinError>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let place = self.places.remove(&id);
        match (ended, place) {
            (Ok((_, (place, result))), _) => self.ended(place, result),
            (Err(error), Some(place)) => self.ended(place, Err(Error::internal(error))),
            (Err(error), None) => tracing::error!(%error, "a lane broke down"),
        }
    }

    fn ended(&mut self, place: Place, result: Result<usize>) {
        if let Err(error) = result {
            tracing::warn!(webhook = %place.1, cause = error.cause(), "{error}: deliveries stopped; they are taken up again");
        }
        // What was committed after the lane last looked may have been meant for it.
        if self.running.remove(&place).is_some_and(|lane| lane.again) {
            self.heard.insert(place.0);
        }
    }

    async fn close(mut self) {
        self.shared.stop.send_replace(true);
        for lane in self.running.values() {
            lane.nudge.notify_one();
        }
        while let Some(ended) = self.lanes.join_next_with_id().await {
            self.joined(ended);
        }
    }
}
