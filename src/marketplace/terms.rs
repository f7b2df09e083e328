//! What workers say to a marketplace and hear from it, whichever it is.

use chrono::{NaiveDate, TimeDelta};
use serde::{Deserialize, Serialize};

use crate::model::customer::Customer;
use crate::model::decimal::Decimal;
use crate::model::entitlement::{Dimension, EntitlementStatus};
use crate::model::metering::Verdict;
use crate::model::offer::{OfferType, PrivateOffer};
use crate::model::time::Timestamp;

/// What is said of one row of usage: the verdict, and the marketplace's own words or ours about them.
pub type RowVerdict = (Verdict, Option<String>);

/// A private offer as marketplaces know one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draft {
    /// Our id of the offer: the name under which it is found again.
    pub name: String,
    /// With whom the deal is made. (Drafts that were written down before all say the same.)
    #[serde(default = "direct")]
    pub deal: OfferType,
    /// What people see.
    pub title: String,
    pub listing: String,
    /// The buyer's account or tenant.
    pub buyer: String,
    /// E-mail addresses that are told.
    pub contacts: Vec<String>,
    pub discount: Discount,
    pub annual_value: Option<Decimal>,
    /// ISO 4217.
    pub currency: String,
    pub months: u32,
    pub expires_at: Timestamp,
    /// The agreement that it replaces.
    pub replaces: Option<String>,
    /// The marketplace's id of it, once it is published.
    #[serde(default)]
    pub vendor_offer_id: Option<String>,
    /// How often it was withdrawn before: an offer of the same terms as an earlier one is another offer.
    #[serde(default)]
    pub edition: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Discount {
    /// 0 to 100.
    Percentage(Decimal),
    /// In the offer's currency.
    Amount(Decimal),
}

impl Draft {
    pub fn of(offer: &PrivateOffer, customer: &Customer) -> Self {
        let (summary, pricing, cloud) = (&offer.details.summary, &offer.details.pricing, &offer.details.cloud);
        let percentage = Discount::Percentage(pricing.discount_percentage.unwrap_or_default());
        Self {
            name: offer.id.to_string(),
            deal: cloud.offer_type,
            title: summary.offer_name.clone(),
            listing: offer.listing_id.clone(),
            buyer: customer.cloud_account_id.clone().or_else(|| customer.tenant_id.clone()).unwrap_or_default(),
            contacts: summary.buyer_notifications.iter().map(|buyer| buyer.email.clone()).collect(),
            discount: pricing.discount_amount.map_or(percentage, Discount::Amount),
            annual_value: pricing.annual_value,
            currency: pricing.currency.clone(),
            months: pricing.duration,
            expires_at: offer.expires_at,
            replaces: cloud.agreement_id.clone().filter(|_| cloud.is_replacement),
            vendor_offer_id: offer.vendor_offer_id.clone(),
            edition: 0,
        }
    }

    /// The last day (UTC) on which it can be accepted: marketplaces know days, not moments. It is the last that is over by
    /// its expiry, so it is never open longer there than here; but a day that is over already cannot be sent, so what
    /// expires today is open until the day is.
    pub fn last_day(&self, now: Timestamp) -> NaiveDate {
        let before = self.expires_at.plus(-TimeDelta::days(1));
        before.max(now).as_datetime().date_naive()
    }
}

fn direct() -> OfferType {
    OfferType::Direct
}

/// Something that a marketplace does in its own time. To be written down: it is asked about by this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum Job {
    /// By the marketplace's id of it; the offer's id if it was known before.
    Submitted { id: String, vendor_offer_id: Option<String> },
    /// There is nothing to wait for: an earlier call had made it.
    Done { vendor_offer_id: String },
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    Pending,
    /// Carried out; the offer has this id.
    Live {
        vendor_offer_id: String,
    },
    Failed {
        message: String,
    },
}

/// One row of usage to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageItem {
    /// The product's code; `cloud_a` only.
    pub product: String,
    /// The buyer's account, or the subscription.
    pub customer: String,
    /// `cloud_b` only.
    pub plan: Option<String>,
    pub dimension: String,
    pub quantity: Decimal,
    pub at: Timestamp,
    /// `cloud_a` only.
    pub licence: Option<String>,
}

/// Usage that a marketplace has accepted, by day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedUsage {
    pub day: Option<Timestamp>,
    pub subscription: String,
    pub dimension: String,
    pub plan: Option<String>,
    pub quantity: Decimal,
}

/// A subscription or an agreement as the marketplace has it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    pub id: String,
    /// The buyer's account or tenant.
    pub customer: String,
    pub email: Option<String>,
    pub listing: String,
    pub plan: Option<String>,
    /// As far as the marketplace lists them.
    pub dimensions: Vec<Dimension>,
    pub vendor_offer_id: Option<String>,
    pub start: Option<Timestamp>,
    pub end: Option<Timestamp>,
    pub status: ContractStatus,
    pub auto_renew: Option<bool>,
    pub licence: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContractStatus {
    Known(EntitlementStatus),
    /// Another agreement carries it on.
    Superseded,
    /// The marketplace's own word.
    Other(String),
}
