//! Applies the notifications that were kept: of each contract one at a time and in order, of different ones side by side;
//! and forgets them in time.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use super::adapter::Adapter;
use super::adapters::Adapters;
use super::clerk::again;
use super::converge::{Outcome, Trouble};
use super::hands::{self, Hands, Worker};
use super::http::error::bounded;
use super::refusals::{Kind, Refusals};
use super::{cloud_a, cloud_b};
use crate::error::Result;
use crate::model::id::{NotificationId, OrganizationId};
use crate::model::notification::{Notification, NotificationVerdict};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::store::inbox::{End, Turn};
use crate::store::notifications::RETENTION;
use crate::store::{Store, Tenant};

/// What an organization has in hand at once: a marketplace that answers slowly must not hold up those of others.
const SHARE: usize = 16;
/// How long applying one may take: within the lease.
const LONGEST: Duration = Duration::from_secs(150);
/// After so many tries, which take a day, it is given up.
const TRIES: u32 = 293;
/// How many are looked at together when they are forgotten.
const PORTION: usize = 200;

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
    refusals: Refusals,
}

impl Worker for Inbox {
    type Owner = OrganizationId;

    const INTERVAL: Duration = Duration::from_millis(250);
    const AT_ONCE: usize = 256;
    const WHAT: &'static str = "notifications";

    async fn take(self: &Arc<Self>, hands: &mut Hands<OrganizationId>) -> Result<usize> {
        if hands.room() == 0 {
            return Ok(0);
        }
        let taken = self.store.take_turns(hands.room(), SHARE, hands.load()).await?;
        let count = taken.len();
        for turn in taken {
            let inbox = Arc::clone(self);
            hands.begin(turn.organization, async move {
                if let Err(error) = inbox.handle(&turn).await {
                    let cause = error.cause();
                    tracing::warn!(cause, "a notification came to no end; it is applied again after its lease");
                }
            });
        }
        Ok(count)
    }

    async fn woken(&self) {
        self.wake.notified().await;
    }
}

impl Inbox {
    pub fn new(store: Store, adapters: Arc<Adapters>) -> Self {
        Self { store, adapters, wake: Notify::new(), refusals: Refusals::default() }
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

    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Applies all that is due, and answers how much there was.
    pub async fn run(self: &Arc<Self>) -> Result<usize> {
        hands::run(self).await
    }

    /// Applies the first notification that waits, and gives the turn back.
    async fn handle(&self, turn: &Turn) -> Result<()> {
        let tenant = self.store.tenant(turn.organization, None);
        let Some(notification) = tenant.first_waiting(turn).await? else { return tenant.end_turn(turn).await };
        let late = |_| Err(Trouble::Later("it took too long".to_owned()));
        let outcome = timeout(LONGEST, self.apply(&tenant, &notification)).await.unwrap_or_else(late);
        let (end, reason) = match outcome {
            Ok(Outcome::Applied(done)) => (End::Verdict(NotificationVerdict::Applied), done),
            Ok(Outcome::Ignored(why)) | Err(Trouble::Moot(why)) => (End::Verdict(NotificationVerdict::Ignored), why),
            Err(Trouble::Later(why)) if notification.tries + 1 < TRIES => {
                (End::Again(again(&tenant, notification.tries)), why)
            }
            Err(Trouble::Later(why) | Trouble::Never(why)) => (End::Verdict(NotificationVerdict::Failed), why),
        };
        tracing::info!(
            notification = %notification.id, organization = %turn.organization, vendor = %notification.vendor,
            kind = notification.kind, ?end, reason, "a notification"
        );
        tenant.settle(turn, notification.id, end, bounded(&reason)).await
    }

    async fn apply(&self, tenant: &Tenant, notification: &Notification) -> std::result::Result<Outcome, Trouble> {
        // It may be the replay of one that was applied and is forgotten.
        if notification.occurred_at.plus(RETENTION) < notification.received_at {
            return Ok(Outcome::Ignored(format!("it came more than {} days late", RETENTION.num_days())));
        }
        match notification.vendor {
            Vendor::CloudA => cloud_a::notices::apply(tenant, notification).await,
            Vendor::CloudB => match self.adapters.of(tenant, Vendor::CloudB).await? {
                Some(Adapter::CloudB(cloud)) => cloud_b::notices::apply(tenant, &cloud, notification).await,
                _ => Err(Trouble::Later("no account is connected".to_owned())),
            },
        }
    }
}

/// Forgetting.
impl Inbox {
    /// Forgets what is past its retention and not needed any more, and answers how much that was. Writes down how many were
    /// refused.
    pub async fn sweep(&self) -> Result<usize> {
        self.note(self.refusals.due(self.store.clock().now())).await;
        let limit = self.store.clock().now().plus(-RETENTION);
        let mut forgotten = HashSet::new();
        loop {
            let old = self.store.old_notifications(limit, i64::try_from(PORTION).unwrap_or(i64::MAX)).await?;
            for notification in &old {
                if !forgotten.contains(&notification.id) {
                    forgotten.extend(self.forget(notification, limit).await?);
                }
            }
            if old.len() < PORTION {
                return Ok(forgotten.len());
            }
        }
    }

    /// Forgets a notification with those that go with it, or spares it.
    async fn forget(&self, old: &Notification, limit: Timestamp) -> Result<Vec<NotificationId>> {
        let tenant = self.store.tenant(old.organization_id, None);
        let gone = match old.vendor {
            Vendor::CloudA => cloud_a::notices::forgettable(&tenant, old, limit).await?,
            // It was only a reason to ask.
            Vendor::CloudB => vec![old.id],
        };
        if gone.is_empty() {
            tenant.spare_notification(old.id).await?;
        }
        tenant.forget_notifications(&gone).await?;
        Ok(gone)
    }

    /// Writes down what was only counted: nobody counts it any more.
    pub async fn close(&self) {
        self.note(self.refusals.rest(self.store.clock().now())).await;
    }

    async fn note(&self, refusals: Vec<(Kind, String)>) {
        for (kind, words) in refusals {
            let tenant = self.store.tenant(kind.organization, None);
            if let Err(error) = tenant.note_refusal(kind.vendor, &words).await {
                tracing::warn!(cause = error.cause(), words, "refused notifications were not written down");
            }
        }
    }
}
