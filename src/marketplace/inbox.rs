//! Applies the notifications that were kept: of each contract one at a time and in order, of different ones side by side.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::adapter::Adapter;
use super::adapters::Adapters;
use super::clerk::again;
use super::converge::{Outcome, Trouble};
use super::hands::{self, Hands, Worker};
use super::http::error::bounded;
use super::{cloud_a, cloud_b};
use crate::error::Result;
use crate::model::id::OrganizationId;
use crate::model::notification::{Notification, NotificationVerdict};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::store::{Store, Tenant};

/// What an organization has in hand at once: a marketplace that answers slowly must not hold up those of others.
const SHARE: usize = 16;
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

impl Worker for Inbox {
    type Owner = OrganizationId;

    const INTERVAL: Duration = Duration::from_millis(250);
    const AT_ONCE: usize = 64;
    const WHAT: &'static str = "notifications";

    async fn take(self: &Arc<Self>, hands: &mut Hands<OrganizationId>) -> Result<usize> {
        if hands.room() == 0 {
            return Ok(0);
        }
        let taken = self.store.take_notifications(hands.room(), SHARE, hands.load()).await?;
        let count = taken.len();
        for notification in taken {
            let inbox = Arc::clone(self);
            hands.begin(notification.organization_id, async move { inbox.handle(notification).await });
        }
        Ok(count)
    }

    async fn woken(&self) {
        self.wake.notified().await;
    }
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
        hands::run(self).await
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
