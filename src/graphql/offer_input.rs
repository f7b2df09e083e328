//! What mutations take of private offers: the same shape as the JSON of REST.

use async_graphql::{ID, InputObject, MaybeUndefined};

use super::connections::{nullable, set};
use crate::model::decimal::Decimal;
use crate::model::input::Problems;
use crate::model::offer::{Buyer, OfferType};
use crate::model::offer_input::{NewOffer, OfferPatch};
use crate::model::offer_terms::Terms;
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;

#[derive(InputObject)]
pub struct CreatePrivateOfferInput {
    /// The customer's.
    vendor: Vendor,
    listing_id: String,
    customer_id: ID,
    details: CreatePrivateOfferDetailsInput,
    /// In 30 days unless told.
    expires_at: Option<Timestamp>,
}

#[derive(InputObject)]
pub struct CreatePrivateOfferDetailsInput {
    summary: Option<PrivateOfferSummaryInput>,
    pricing: CreatePrivateOfferPricingInput,
    cloud: Option<PrivateOfferCloudInput>,
}

#[derive(InputObject, Default)]
pub struct PrivateOfferSummaryInput {
    /// At most 150 characters.
    offer_name: Option<String>,
    /// That of the customer unless told.
    company_name: Option<String>,
    /// At most 5.
    buyer_notifications: Option<Vec<BuyerNotificationInput>>,
}

#[derive(InputObject)]
pub struct BuyerNotificationInput {
    name: String,
    email: String,
}

/// Exactly one discount.
#[derive(InputObject)]
pub struct CreatePrivateOfferPricingInput {
    /// 0 to 100.
    discount_percentage: Option<Decimal>,
    /// Above 0; CLOUD_B only.
    discount_amount: Option<Decimal>,
    /// Months, 1 to 36.
    duration: i32,
    annual_value: Option<Decimal>,
    /// ISO 4217; USD unless told.
    currency: Option<String>,
}

#[derive(InputObject, Default)]
pub struct PrivateOfferCloudInput {
    /// DIRECT unless told; the others exist on CLOUD_B only.
    offer_type: Option<OfferType>,
    is_replacement: Option<bool>,
    /// With `isReplacement`: an active agreement of the customer.
    agreement_id: Option<String>,
}

/// Absent fields stay as they are.
#[derive(InputObject)]
pub struct UpdatePrivateOfferInput {
    details: Option<UpdatePrivateOfferDetailsInput>,
    expires_at: MaybeUndefined<Timestamp>,
}

#[derive(InputObject, Default)]
pub struct UpdatePrivateOfferDetailsInput {
    summary: Option<UpdatePrivateOfferSummaryInput>,
    pricing: Option<UpdatePrivateOfferPricingInput>,
}

#[derive(InputObject, Default)]
pub struct UpdatePrivateOfferSummaryInput {
    offer_name: MaybeUndefined<String>,
    company_name: MaybeUndefined<String>,
    /// At most 5.
    buyer_notifications: MaybeUndefined<Vec<BuyerNotificationInput>>,
}

/// Setting one discount takes the other away.
#[derive(InputObject, Default)]
pub struct UpdatePrivateOfferPricingInput {
    discount_percentage: MaybeUndefined<Decimal>,
    discount_amount: MaybeUndefined<Decimal>,
    duration: MaybeUndefined<i32>,
    /// Null removes it.
    annual_value: MaybeUndefined<Decimal>,
    currency: MaybeUndefined<String>,
}

impl From<CreatePrivateOfferInput> for NewOffer {
    fn from(input: CreatePrivateOfferInput) -> Self {
        let CreatePrivateOfferDetailsInput { summary, pricing, cloud } = input.details;
        let cloud = cloud.unwrap_or_default();
        let mut terms = Terms {
            discount_percentage: pricing.discount_percentage.map(Some),
            discount_amount: pricing.discount_amount.map(Some),
            duration: Some(pricing.duration.into()),
            annual_value: pricing.annual_value.map(Some),
            currency: pricing.currency,
            ..Terms::default()
        };
        summary.unwrap_or_default().fill(&mut terms);
        Self {
            vendor: Some(input.vendor),
            listing_id: Some(input.listing_id),
            customer_id: Some(input.customer_id.0),
            terms,
            offer_type: cloud.offer_type,
            is_replacement: cloud.is_replacement,
            agreement_id: cloud.agreement_id,
            expires_at: input.expires_at,
            problems: Problems::default(),
        }
    }
}

impl From<UpdatePrivateOfferInput> for OfferPatch {
    fn from(input: UpdatePrivateOfferInput) -> Self {
        let details = input.details.unwrap_or_default();
        let (summary, pricing) = (details.summary.unwrap_or_default(), details.pricing.unwrap_or_default());
        let mut problems = Problems::default();
        let terms = Terms {
            offer_name: set(summary.offer_name, &mut problems, "details.summary.offerName"),
            company_name: set(summary.company_name, &mut problems, "details.summary.companyName"),
            buyer_notifications: set(summary.buyer_notifications, &mut problems, "details.summary.buyerNotifications")
                .map(buyers),
            discount_percentage: nullable(pricing.discount_percentage),
            discount_amount: nullable(pricing.discount_amount),
            duration: set(pricing.duration, &mut problems, "details.pricing.duration").map(i64::from),
            annual_value: nullable(pricing.annual_value),
            currency: set(pricing.currency, &mut problems, "details.pricing.currency"),
        };
        let expires_at = set(input.expires_at, &mut problems, "expiresAt");
        Self { terms, expires_at, problems, ..Self::default() }
    }
}

impl PrivateOfferSummaryInput {
    fn fill(self, terms: &mut Terms) {
        terms.offer_name = self.offer_name;
        terms.company_name = self.company_name;
        terms.buyer_notifications = self.buyer_notifications.map(buyers);
    }
}

fn buyers(inputs: Vec<BuyerNotificationInput>) -> Vec<Buyer> {
    inputs.into_iter().map(|buyer| Buyer { name: buyer.name, email: buyer.email }).collect()
}
