//! What marketplaces tell us: kept as it came, applied afterwards, and what became of it.

use serde::{Deserialize, Serialize};

use super::id::{NotificationId, OrganizationId};
use super::time::Timestamp;
use super::vendor::Vendor;

super::wire_enum! {
    /// What became of a notification.
    NotificationVerdict {
        /// It changed something.
        Applied = "applied",
        /// There was nothing to do, or nothing that can be done by it; the reason says which.
        Ignored = "ignored",
        /// It could not be applied. It can be run again.
        Failed = "failed",
    }
}

/// A notification with its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    pub id: NotificationId,
    pub organization_id: OrganizationId,
    pub vendor: Vendor,
    /// The marketplace's own id of it: it is kept once.
    pub external_id: String,
    /// The marketplace's word for what happened.
    pub kind: String,
    /// The subscription, the agreement or the change set that it is about; empty when it names none.
    pub subject: String,
    /// By the marketplace's clock.
    pub occurred_at: Timestamp,
    pub received_at: Timestamp,
    /// None while it waits.
    pub verdict: Option<NotificationVerdict>,
    /// Why; or, while it waits, why it could not be applied yet.
    pub reason: Option<String>,
    /// How often it was tried to apply it since it was received or run again.
    pub tries: u32,
    /// As it came.
    pub body: String,
}

/// A notification as it comes in.
#[derive(Clone, Debug)]
pub struct NewNotification {
    pub vendor: Vendor,
    pub external_id: String,
    pub kind: String,
    pub subject: String,
    /// None when it does not say.
    pub occurred_at: Option<Timestamp>,
    pub body: String,
}

/// Which notifications; all conditions hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotificationFilter {
    pub vendor: Option<Vendor>,
    /// One of these.
    pub verdicts: Option<Vec<NotificationVerdict>>,
    /// Whether there is no verdict yet.
    pub waiting: Option<bool>,
    pub subject: Option<String>,
}

impl NotificationFilter {
    /// The verdicts that are admitted, and whether none is; `None` when all are.
    pub fn states(&self) -> Option<Vec<Option<NotificationVerdict>>> {
        if self.verdicts.is_none() && self.waiting.is_none() {
            return None;
        }
        let waits = self.verdicts.is_none() && self.waiting != Some(false);
        let settled = NotificationVerdict::ALL.iter().copied().filter(|verdict| {
            self.waiting != Some(true) && self.verdicts.as_ref().is_none_or(|wanted| wanted.contains(verdict))
        });
        Some(waits.then_some(None).into_iter().chain(settled.map(Some)).collect())
    }
}
