//! Entitlements: what a customer is entitled to use, and for how long (spec "Entitlement", `contract.md` §9). How one
//! changes is in [`super::lifecycle`].

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::changes::Changes;
use super::decimal::{Decimal, check_decimal};
use super::id::{CustomerId, EntitlementId, OrganizationId, PrivateOfferId};
use super::input::{Problems, check_text};
use super::time::Timestamp;
use super::vendor::Vendor;

pub const LISTING_MAX: usize = 128;
pub const DIMENSION_MAX: usize = 128;
/// Dimensions of one entitlement.
pub const DIMENSIONS_MAX: usize = 100;

super::wire_enum! {
    /// The state of a contract. The last two are final.
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

super::wire_enum! {
    /// What a history entry says was done.
    HistoryAction {
        Created = "created",
        Updated = "updated",
        Renewed = "renewed",
        Expired = "expired",
        Cancelled = "cancelled",
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

/// What is counted: seats, units, requests. `description` is shown in the single-entitlement form only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, async_graphql::SimpleObject)]
pub struct Dimension {
    pub key: String,
    pub value: Decimal,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// An entitlement without its history: what events carry. In lists its dimensions come without descriptions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entitlement {
    pub id: EntitlementId,
    pub organization_id: OrganizationId,
    pub customer_id: CustomerId,
    pub listing_id: String,
    pub vendor: Vendor,
    pub status: EntitlementStatus,
    pub start_date: Timestamp,
    /// Null for pay-as-you-go.
    pub end_date: Option<Timestamp>,
    pub dimensions: Vec<Dimension>,
    pub plan_id: Option<String>,
    /// The offer whose acceptance created or last replaced it.
    pub private_offer_id: Option<PrivateOfferId>,
    pub agreement_id: Option<String>,
    pub vendor_subscription_id: Option<String>,
    pub auto_renew: Option<bool>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// One line of the history, written in the transaction that made the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    pub action: HistoryAction,
    pub timestamp: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
}

/// The single-entitlement form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntitlementDetail {
    #[serde(flatten)]
    pub entitlement: Entitlement,
    /// Newest last.
    pub history: Vec<HistoryEntry>,
}

impl Entitlement {
    /// The list form.
    pub fn listed(mut self) -> Self {
        self.dimensions.iter_mut().for_each(|dimension| dimension.description = None);
        self
    }

    /// What changed since `before`, with dimensions by their key: `dimensions.seats.value`.
    pub fn changes_since(&self, before: &Self) -> Changes {
        Changes::between(&before.by_dimension(), &self.by_dimension())
    }

    fn by_dimension(&self) -> Value {
        let mut value = serde_json::to_value(self).expect("an entitlement is plain data");
        let fields = |dimension: &Dimension| {
            let value = serde_json::to_value(dimension.value).expect("a number is plain data");
            let description = Value::from(dimension.description.clone());
            Map::from_iter([("value".to_owned(), value), ("description".to_owned(), description)])
        };
        let dimensions: Map<String, Value> =
            self.dimensions.iter().map(|dimension| (dimension.key.clone(), fields(dimension).into())).collect();
        value["dimensions"] = dimensions.into();
        value
    }
}

/// A contract as a marketplace reports it.
#[derive(Clone, Debug)]
pub struct NewEntitlement {
    pub customer_id: CustomerId,
    pub listing_id: String,
    /// Absent means now.
    pub start_date: Option<Timestamp>,
    pub end_date: Option<Timestamp>,
    pub dimensions: Vec<Dimension>,
    pub plan_id: Option<String>,
    pub private_offer_id: Option<PrivateOfferId>,
    pub agreement_id: Option<String>,
    pub vendor_subscription_id: Option<String>,
    pub auto_renew: Option<bool>,
    /// Whether it stays pending until the marketplace or the seller activates it, even when its start has come.
    pub awaits_activation: bool,
}

impl NewEntitlement {
    pub fn of(customer_id: CustomerId, listing_id: impl Into<String>) -> Self {
        Self {
            customer_id,
            listing_id: listing_id.into(),
            start_date: None,
            end_date: None,
            dimensions: Vec::new(),
            plan_id: None,
            private_offer_id: None,
            agreement_id: None,
            vendor_subscription_id: None,
            auto_renew: None,
            awaits_activation: false,
        }
    }

    /// The record as it begins.
    pub fn into_entitlement(
        self,
        id: EntitlementId,
        organization_id: OrganizationId,
        vendor: Vendor,
    ) -> crate::error::Result<Entitlement> {
        let now = id.created_at();
        let start_date = self.start_date.unwrap_or(now);
        let started = start_date <= now && !self.awaits_activation;
        let entitlement = Entitlement {
            id,
            organization_id,
            customer_id: self.customer_id,
            listing_id: self.listing_id,
            vendor,
            status: if started { EntitlementStatus::Active } else { EntitlementStatus::Pending },
            start_date,
            end_date: self.end_date,
            dimensions: self.dimensions,
            plan_id: self.plan_id,
            private_offer_id: self.private_offer_id,
            agreement_id: self.agreement_id,
            vendor_subscription_id: self.vendor_subscription_id,
            auto_renew: self.auto_renew,
            created_at: now,
            updated_at: now,
        };
        entitlement.check()?;
        Ok(entitlement)
    }
}

impl Entitlement {
    /// The rules that hold for every entitlement.
    pub fn check(&self) -> crate::error::Result<()> {
        let mut problems = Problems::default();
        check_text(&mut problems, "listingId", &self.listing_id, LISTING_MAX);
        if self.end_date.is_some_and(|end| end <= self.start_date) {
            problems.invalid("endDate", "must be after startDate");
        }
        if self.dimensions.len() > DIMENSIONS_MAX {
            problems.invalid("dimensions", format!("must not have more than {DIMENSIONS_MAX} items"));
        }
        let mut keys = HashSet::new();
        for (index, dimension) in self.dimensions.iter().take(DIMENSIONS_MAX).enumerate() {
            check_text(&mut problems, &format!("dimensions[{index}].key"), &dimension.key, DIMENSION_MAX);
            check_decimal(&mut problems, &format!("dimensions[{index}].value"), dimension.value, Decimal::ZERO);
            if !keys.insert(&dimension.key) {
                problems.invalid(format!("dimensions[{index}].key"), "is there twice");
            }
        }
        problems.raise()
    }
}
