//! Applies the notifications that were kept: of each contract one at a time and in order, of different ones side by side.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::adapter::Adapter;
use super::adapters::Adapters;
use super::clerk::again;
use super::converge::{Outcome, Trouble};
use super::http::error::bounded;
use super::{cloud_a, cloud_b};
use crate::error::Result;
use crate::http::server::stopped;
use crate::model::notification::{Notification, NotificationVerdict};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::store::{Store, Tenant};

/// How often it is looked for what is due, when nobody says that something is.
const INTERVAL: Duration = Duration::from_millis(250);
/// What is in hand at once.
const AT_ONCE: usize = 64;
/// After so many tries, which take a day, it is given up.
const TRIES: u32 = 293;

/// What stands on a notification.
pub struct Envelope {
    /// The marketplace's id of it.
    pub id: Option<String>,
    pub kind: Option<String>,
    pub subject: Option<String>,
    pub at: Option<Timestamp>,
}

pub struct Inbox {
    store: Store,
    adapters: Arc<Adapters>,
    wake: Notify,
}

impl Inbox {
    pub fn new(store: Store, adapters: Arc<Adapters>) -> Self {
        Self { store, adapters, wake: Notify::new() }
    }

    /// Something was kept.
    pub fn nudge(&self) {
        self.wake.notify_one();
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    /// Applies all that is due, and answers how much there was.
    pub async fn run(self: &Arc<Self>) -> Result<usize> {
        let (mut running, mut done) = (JoinSet::new(), 0);
        loop {
            let taken = self.take(&mut running).await?;
            done += taken;
            if taken == 0 && running.join_next().await.is_none() {
                return Ok(done);
            }
        }
    }

    /// Applies what is due as it comes, until the order to stop; what is in hand is finished.
    pub async fn work(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut running = JoinSet::new();
        loop {
            if let Err(error) = self.take(&mut running).await {
                tracing::warn!(cause = error.cause(), "notifications could not be taken up; it is tried again");
            }
            tokio::select! {
                () = stopped(&mut stop) => break,
                Some(_) = running.join_next() => {}
                () = self.wake.notified() => {}
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
        while running.join_next().await.is_some() {}
    }

    /// Takes up what there is room for.
    async fn take(self: &Arc<Self>, running: &mut JoinSet<()>) -> Result<usize> {
        let room = AT_ONCE.saturating_sub(running.len());
        if room == 0 {
            return Ok(0);
        }
        let taken = self.store.take_notifications(i64::try_from(room).unwrap_or(i64::MAX)).await?;
        let count = taken.len();
        for notification in taken {
            let inbox = Arc::clone(self);
            running.spawn(async move { inbox.handle(notification).await });
        }
        Ok(count)
    }

    async fn handle(&self, notification: Notification) {
        let tenant = self.store.tenant(notification.organization_id, None);
        let outcome = self.apply(&tenant, &notification).await;
        let (verdict, reason) = match outcome {
            Ok(Outcome::Applied(done)) => (Some(NotificationVerdict::Applied), done),
            Ok(Outcome::Ignored(why)) | Err(Trouble::Moot(why)) => (Some(NotificationVerdict::Ignored), why),
            Err(Trouble::Later(why)) if notification.tries + 1 < TRIES => (None, why),
            Err(Trouble::Later(why) | Trouble::Never(why)) => (Some(NotificationVerdict::Failed), why),
        };
        tracing::info!(
            notification = %notification.id, organization = %notification.organization_id, vendor = %notification.vendor,
            kind = notification.kind, verdict = verdict.map(tracing::field::display), reason, "a notification"
        );
        let due = verdict.is_none().then(|| again(&tenant, notification.tries));
        let settled = tenant.settle_notification(&notification, (verdict, Some(bounded(&reason))), due).await;
        if let Err(error) = settled {
            tracing::warn!(cause = error.cause(), "a verdict was not written; the notification is applied again");
        }
    }

    async fn apply(&self, tenant: &Tenant, notification: &Notification) -> std::result::Result<Outcome, Trouble> {
        match notification.vendor {
            Vendor::CloudA => cloud_a::notices::apply(tenant, notification).await,
            Vendor::CloudB => match self.adapters.of(tenant, Vendor::CloudB).await? {
                Some(Adapter::CloudB(cloud)) => cloud_b::notices::apply(tenant, &cloud, notification).await,
                _ => Err(Trouble::Later("no account is connected".to_owned())),
            },
        }
    }
}
