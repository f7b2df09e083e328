//! What callers may write of a private offer: [`NewOffer`] and [`OfferPatch`], from JSON or from GraphQL, and their rules
//! (`contract.md` §10).

use serde_json::{Map, Value};

use super::customer::Customer;
use super::entitlement::{Entitlement, EntitlementStatus, LISTING_MAX};
use super::id::PrivateOfferId;
use super::input::{Fields, Problems, check_echo, check_text};
use super::offer::{
    Cloud, Details, OPEN_FOR, OfferStatus, OfferType, Pricing, PrivateOffer, Publication, PublicationState, Summary,
};
use super::offer_terms::{AMOUNT, OFFER_NAME_MAX, PERCENTAGE, Terms, check_vendor_discount, has_discount};
use super::time::Timestamp;
use super::vendor::Vendor;
use crate::error::{Error, Result};

/// What a caller asks to create, as it came.
#[derive(Clone, Debug, Default)]
pub struct NewOffer {
    pub vendor: Option<Vendor>,
    pub listing_id: Option<String>,
    /// As the caller wrote it: whether it names a customer is found out later.
    pub customer_id: Option<String>,
    pub terms: Terms,
    pub offer_type: Option<OfferType>,
    pub is_replacement: Option<bool>,
    pub agreement_id: Option<String>,
    pub expires_at: Option<Timestamp>,
    pub problems: Problems,
}

/// What a caller asks to change, as it came. Absent means "leave it".
#[derive(Clone, Debug, Default)]
pub struct OfferPatch {
    pub terms: Terms,
    pub expires_at: Option<Timestamp>,
    /// Read-only fields that came along, because clients write back what they read.
    pub echo: Map<String, Value>,
    pub problems: Problems,
}

/// Fields of an offer that no PUT changes.
pub const READ_ONLY: [&str; 10] = [
    "id",
    "organizationId",
    "listingId",
    "customerId",
    "vendor",
    "status",
    "vendorOfferId",
    "entitlementId",
    "createdAt",
    "updatedAt",
];

fn check_expiry(problems: &mut Problems, expires_at: Timestamp, now: Timestamp) {
    if expires_at <= now {
        problems.invalid("expiresAt", "must be in the future");
    }
}

impl NewOffer {
    pub fn from_json(body: Result<Value, String>) -> Self {
        let mut fields = Fields::read(body);
        let mut details = fields.object("details");
        let mut cloud = details.object("cloud");
        let new = Self {
            vendor: fields.choice("vendor"),
            listing_id: fields.string("listingId"),
            customer_id: fields.string("customerId"),
            terms: Terms::read(&mut details),
            offer_type: cloud.choice("offerType"),
            is_replacement: cloud.boolean("isReplacement"),
            agreement_id: cloud.optional_string("agreementId"),
            expires_at: fields.timestamp("expiresAt"),
            problems: Problems::default(),
        };
        fields.require("vendor", new.vendor.as_ref());
        fields.require("listingId", new.listing_id.as_ref());
        fields.require("customerId", new.customer_id.as_ref());
        details.join(cloud);
        fields.join(details);
        fields.require("details.pricing.duration", new.terms.duration.as_ref());
        Self { problems: fields.finish(), ..new }
    }

    /// The offer as it will be, or everything that is wrong with it. `customer` is whom `customer_id` names, `replaced`
    /// what the customer has under `agreement_id`.
    pub fn check(
        self,
        id: PrivateOfferId,
        customer: Option<&Customer>,
        replaced: Option<&Entitlement>,
    ) -> Result<PrivateOffer> {
        let now = id.created_at();
        let (offer_type, is_replacement) =
            (self.offer_type.unwrap_or(OfferType::Direct), self.is_replacement.unwrap_or(false));
        let mut problems = self.problems;
        if let Some(listing) = &self.listing_id {
            check_text(&mut problems, "listingId", listing, LISTING_MAX);
        }
        if let Some(expires_at) = self.expires_at {
            check_expiry(&mut problems, expires_at, now);
        }
        check_customer(&mut problems, self.customer_id.as_deref(), self.vendor, customer);
        if offer_type != OfferType::Direct && self.vendor.is_some_and(|vendor| vendor != Vendor::CloudB) {
            problems.invalid("details.cloud.offerType", "can only be direct on cloud_a");
        }
        check_agreement(&mut problems, is_replacement, self.agreement_id.as_deref(), replaced);
        self.terms.check(&mut problems);
        let mut details = blank(customer, offer_type, is_replacement, self.agreement_id);
        self.terms.apply(&mut details);
        if let Some(vendor) = self.vendor {
            check_vendor_discount(&mut problems, vendor, &details.pricing);
        }
        problems.require(PERCENTAGE, has_discount(&details.pricing) || problems.is_about(AMOUNT));
        problems.raise()?;
        let (Some(vendor), Some(listing_id), Some(customer)) = (self.vendor, self.listing_id, customer) else {
            return Err(Error::internal("an offer without problems lacks a required field"));
        };
        Ok(PrivateOffer {
            id,
            organization_id: customer.organization_id,
            listing_id,
            customer_id: customer.id,
            vendor,
            status: OfferStatus::Created,
            vendor_offer_id: None,
            expires_at: self.expires_at.unwrap_or_else(|| now.plus(OPEN_FOR)),
            entitlement_id: None,
            details,
            created_at: now,
            updated_at: now,
        })
    }
}

/// Unknown and foreign ids in the same words; and the offer is for the marketplace that the customer is on.
fn check_customer(problems: &mut Problems, named: Option<&str>, vendor: Option<Vendor>, customer: Option<&Customer>) {
    match (customer, vendor) {
        (None, _) if named.is_some() => problems.invalid("customerId", "is not a known customer"),
        (Some(customer), Some(vendor)) if customer.vendor != vendor => {
            problems.invalid("vendor", format!("must be that of the customer, {}", customer.vendor));
        }
        _ => {}
    }
}

fn check_agreement(problems: &mut Problems, is_replacement: bool, named: Option<&str>, replaced: Option<&Entitlement>) {
    const FIELD: &str = "details.cloud.agreementId";
    match named {
        None if is_replacement => problems.invalid(FIELD, "is required for a replacement"),
        Some(_) if !is_replacement => problems.invalid(FIELD, "applies to a replacement only"),
        Some(_) if replaced.is_none_or(|entitlement| entitlement.status != EntitlementStatus::Active) => {
            problems.invalid(FIELD, "is not an active agreement of the customer");
        }
        _ => {}
    }
}

/// What is not said: a name for the offer, the customer's name, US dollars.
fn blank(
    customer: Option<&Customer>,
    offer_type: OfferType,
    is_replacement: bool,
    agreement_id: Option<String>,
) -> Details {
    let company_name = customer.map(|customer| customer.company_name.clone()).unwrap_or_default();
    let offer_name = format!("Private offer for {company_name}").chars().take(OFFER_NAME_MAX).collect();
    Details {
        summary: Summary { offer_name, company_name, buyer_notifications: Vec::new() },
        pricing: Pricing {
            discount_percentage: None,
            discount_amount: None,
            duration: 0,
            annual_value: None,
            currency: "USD".to_owned(),
        },
        cloud: Cloud {
            offer_type,
            agreement_id,
            is_replacement,
            publication: Publication { state: PublicationState::Pending, message: None },
        },
    }
}

impl OfferPatch {
    pub fn from_json(body: Result<Value, String>) -> Self {
        let mut fields = Fields::read(body);
        let mut details = fields.object("details");
        let patch = Self {
            terms: Terms::read(&mut details),
            expires_at: fields.timestamp("expiresAt"),
            echo: Map::new(),
            problems: Problems::default(),
        };
        let mut echo = fields.take_echo(&READ_ONLY);
        if let Some(cloud) = details.take("cloud") {
            echo.insert("details.cloud".to_owned(), cloud);
        }
        fields.join(details);
        Self { echo, problems: fields.finish(), ..patch }
    }

    /// The offer as it would be, or why it may not become so.
    pub fn apply(&self, current: &PrivateOffer, now: Timestamp) -> Result<PrivateOffer> {
        let mut problems = self.problems.clone();
        self.terms.check(&mut problems);
        let mut known = current.to_json();
        known["details.cloud"] = known["details"]["cloud"].clone();
        check_echo(&mut problems, &self.echo, &known);
        let mut next = current.clone();
        self.terms.apply(&mut next.details);
        next.expires_at = self.expires_at.unwrap_or(next.expires_at);
        check_vendor_discount(&mut problems, next.vendor, &next.details.pricing);
        if !has_discount(&next.details.pricing) {
            problems.invalid(PERCENTAGE, "cannot be removed without a discountAmount");
        }
        if next.expires_at != current.expires_at {
            check_expiry(&mut problems, next.expires_at, now);
        }
        problems.raise()?;
        current.must_be(&[OfferStatus::Created, OfferStatus::Expired], "changed")?;
        if current.status == OfferStatus::Expired {
            if next.details != current.details {
                return Err(Error::conflict("The private offer is expired; only expiresAt can be changed"));
            }
            if next.expires_at != current.expires_at {
                next.status = OfferStatus::Created;
            }
        }
        Ok(next)
    }
}
