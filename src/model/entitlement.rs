//! Entitlements, as far as customers read them: the states, and the short form inside a customer.

use serde::{Deserialize, Serialize};

use super::id::EntitlementId;

super::wire_enum! {
    /// The state of a contract (`contract.md` §9). The last two are final.
    EntitlementStatus {
        Pending = "pending",
        Active = "active",
        Suspended = "suspended",
        Expired = "expired",
        Cancelled = "cancelled",
    }
}

impl EntitlementStatus {
    /// A live entitlement keeps its customer from being deactivated or deleted (`contract.md` §8).
    pub fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Active | Self::Suspended)
    }
}

/// An entitlement as it appears inside its customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EntitlementSummary {
    pub id: EntitlementId,
    pub listing_id: String,
    pub status: EntitlementStatus,
}
