//! Private offers: the record, its states, and what becomes of it (spec "Private offer", `contract.md` §10). What callers
//! may write is in [`super::offer_input`].

use chrono::{Months, TimeDelta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::decimal::Decimal;
use super::entitlement::Dimension;
use super::id::{CustomerId, EntitlementId, OrganizationId, PrivateOfferId};
use super::time::Timestamp;
use super::vendor::Vendor;
use crate::error::{Error, Result};

/// How long an offer is open unless its creator says otherwise.
pub const OPEN_FOR: TimeDelta = TimeDelta::days(30);

super::wire_enum! {
    /// An expired offer is open again (`created`) once its `expiresAt` is moved into the future; the other two are final.
    OfferStatus {
        Created = "created",
        Accepted = "accepted",
        Expired = "expired",
        Cancelled = "cancelled",
    }
}

super::wire_enum! {
    /// The kind of an offer; the last two exist on `cloud_b` only.
    OfferType {
        Direct = "direct",
        MultiParty = "multi_party",
        Csp = "csp",
    }
}

super::wire_enum! {
    /// How far publishing at the marketplace is; it happens some time after the offer was created.
    PublicationState {
        Pending = "pending",
        Live = "live",
        Failed = "failed",
    }
}

/// A private offer in full: the single-offer form, and what events carry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrivateOffer {
    pub id: PrivateOfferId,
    pub organization_id: OrganizationId,
    pub listing_id: String,
    pub customer_id: CustomerId,
    pub vendor: Vendor,
    pub status: OfferStatus,
    /// The marketplace's own id, known once it is published.
    pub vendor_offer_id: Option<String>,
    pub expires_at: Timestamp,
    /// What its acceptance created, or for a replacement updated.
    pub entitlement_id: Option<EntitlementId>,
    pub details: Details,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, async_graphql::SimpleObject)]
#[graphql(name = "PrivateOfferDetails")]
pub struct Details {
    pub summary: Summary,
    pub pricing: Pricing,
    pub cloud: Cloud,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, async_graphql::SimpleObject)]
#[serde(rename_all = "camelCase")]
#[graphql(name = "PrivateOfferSummary")]
pub struct Summary {
    pub offer_name: String,
    pub company_name: String,
    pub buyer_notifications: Vec<Buyer>,
}

/// Somebody whom the marketplace tells of the offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, async_graphql::SimpleObject)]
#[graphql(name = "BuyerNotification")]
pub struct Buyer {
    pub name: String,
    pub email: String,
}

/// Exactly one of the two discounts is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, async_graphql::SimpleObject)]
#[serde(rename_all = "camelCase")]
#[graphql(name = "PrivateOfferPricing")]
pub struct Pricing {
    /// 0 to 100.
    pub discount_percentage: Option<Decimal>,
    /// In `currency`; `cloud_b` only.
    pub discount_amount: Option<Decimal>,
    /// Months.
    pub duration: u32,
    /// In `currency`.
    pub annual_value: Option<Decimal>,
    /// ISO 4217.
    pub currency: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, async_graphql::SimpleObject)]
#[serde(rename_all = "camelCase")]
#[graphql(name = "PrivateOfferCloud")]
pub struct Cloud {
    pub offer_type: OfferType,
    /// The agreement that a replacement replaces; after acceptance, the one that came of it.
    pub agreement_id: Option<String>,
    pub is_replacement: bool,
    pub publication: Publication,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, async_graphql::SimpleObject)]
pub struct Publication {
    pub state: PublicationState,
    /// Why it failed.
    pub message: Option<String>,
}

/// The list form: the fields that the spec does not keep for the single-offer response.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedOffer {
    pub id: PrivateOfferId,
    pub organization_id: OrganizationId,
    pub listing_id: String,
    pub customer_id: CustomerId,
    pub vendor: Vendor,
    pub status: OfferStatus,
    pub vendor_offer_id: Option<String>,
    pub expires_at: Timestamp,
    pub entitlement_id: Option<EntitlementId>,
    pub details: Value,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl From<PrivateOffer> for ListedOffer {
    fn from(offer: PrivateOffer) -> Self {
        let Details { summary, pricing, cloud } = offer.details;
        let details = serde_json::json!({
            "summary": { "offerName": summary.offer_name, "companyName": summary.company_name },
            "pricing": {
                "discountPercentage": pricing.discount_percentage, "discountAmount": pricing.discount_amount,
                "duration": pricing.duration, "currency": pricing.currency,
            },
            "cloud": { "offerType": cloud.offer_type, "publication": cloud.publication },
        });
        Self {
            id: offer.id,
            organization_id: offer.organization_id,
            listing_id: offer.listing_id,
            customer_id: offer.customer_id,
            vendor: offer.vendor,
            status: offer.status,
            vendor_offer_id: offer.vendor_offer_id,
            expires_at: offer.expires_at,
            entitlement_id: offer.entitlement_id,
            details,
            created_at: offer.created_at,
            updated_at: offer.updated_at,
        }
    }
}

/// What the marketplace says of publishing.
#[derive(Clone, Debug)]
pub enum Published {
    /// It is not there, and will be.
    Pending,
    Live {
        vendor_offer_id: String,
    },
    Failed {
        message: String,
    },
}

/// What the marketplace says of an acceptance.
#[derive(Clone, Debug, Default)]
pub struct Acceptance {
    pub agreement_id: Option<String>,
    pub vendor_subscription_id: Option<String>,
    pub plan_id: Option<String>,
    pub dimensions: Vec<Dimension>,
    /// Absent means now.
    pub start_date: Option<Timestamp>,
    /// Absent means the offer's duration after the start.
    pub end_date: Option<Timestamp>,
    /// Whether what it creates stays pending until the marketplace activates it.
    pub awaits_activation: bool,
}

impl PrivateOffer {
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("an offer is plain data")
    }

    /// 409 with the state named, unless the offer is in one of these.
    pub fn must_be(&self, allowed: &[OfferStatus], action: &str) -> Result<()> {
        if allowed.contains(&self.status) {
            return Ok(());
        }
        Err(Error::conflict(format!("The private offer is {} and cannot be {action}", self.status)))
    }

    /// The term that an acceptance begins.
    pub fn term(&self, acceptance: &Acceptance, now: Timestamp) -> (Timestamp, Timestamp) {
        let start = acceptance.start_date.unwrap_or(now);
        let end = start.as_datetime().checked_add_months(Months::new(self.details.pricing.duration));
        (start, acceptance.end_date.unwrap_or_else(|| Timestamp::from_datetime(end.unwrap_or(start.as_datetime()))))
    }
}
