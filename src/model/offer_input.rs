//! What callers may write of a private offer: [`NewOffer`] and [`OfferPatch`], from JSON or from GraphQL, and their rules
//! (`contract.md` §10).

use serde_json::{Map, Value};

use super::customer::{COMPANY_NAME_MAX, Customer};
use super::decimal::{Decimal, check_decimal, read_decimal};
use super::entitlement::{Entitlement, EntitlementStatus, LISTING_MAX};
use super::id::PrivateOfferId;
use super::input::{Fields, Problems, check_echo, check_email, check_text};
use super::offer::{
    Buyer, Cloud, Details, OPEN_FOR, OfferStatus, OfferType, Pricing, PrivateOffer, Publication, PublicationState,
    Summary,
};
use super::time::Timestamp;
use super::vendor::Vendor;
use crate::error::{Error, Result};

pub const OFFER_NAME_MAX: usize = 150;
pub const BUYERS_MAX: usize = 5;
pub const BUYER_NAME_MAX: usize = 200;
pub const PERCENTAGE_MAX: i64 = 100;
/// Months.
pub const DURATION: std::ops::RangeInclusive<i64> = 1..=36;

const PERCENTAGE: &str = "details.pricing.discountPercentage";
const AMOUNT: &str = "details.pricing.discountAmount";

/// `Some(None)` is an explicit null: it removes what may be absent.
pub type Nullable<T> = Option<Option<T>>;

/// The fields of `details` that a caller may set, at creation and while the offer is open.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    pub offer_name: Option<String>,
    pub company_name: Option<String>,
    pub buyer_notifications: Option<Vec<Buyer>>,
    pub discount_percentage: Nullable<Decimal>,
    pub discount_amount: Nullable<Decimal>,
    pub duration: Option<i64>,
    pub annual_value: Nullable<Decimal>,
    pub currency: Option<String>,
}

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
pub const READ_ONLY: [&str; 8] =
    ["id", "organizationId", "listingId", "customerId", "vendor", "status", "vendorOfferId", "createdAt"];

impl Terms {
    fn read(details: &mut Fields) -> Self {
        let mut summary = details.object("summary");
        let mut pricing = details.object("pricing");
        let terms = Self {
            offer_name: summary.string("offerName"),
            company_name: summary.string("companyName"),
            buyer_notifications: read_buyers(&mut summary),
            discount_percentage: read_nullable_decimal(&mut pricing, "discountPercentage"),
            discount_amount: read_nullable_decimal(&mut pricing, "discountAmount"),
            duration: pricing.integer("duration"),
            annual_value: read_nullable_decimal(&mut pricing, "annualValue"),
            currency: pricing.string("currency"),
        };
        details.join(summary);
        details.join(pricing);
        terms
    }

    fn check(&self, problems: &mut Problems) {
        for (field, text, max) in
            [("offerName", &self.offer_name, OFFER_NAME_MAX), ("companyName", &self.company_name, COMPANY_NAME_MAX)]
        {
            if let Some(text) = text {
                check_text(problems, &format!("details.summary.{field}"), text, max);
            }
        }
        check_buyers(problems, self.buyer_notifications.as_deref().unwrap_or_default());
        self.check_pricing(problems);
    }

    fn check_pricing(&self, problems: &mut Problems) {
        let (percentage, amount) = (self.discount_percentage.flatten(), self.discount_amount.flatten());
        if let Some(percentage) = percentage {
            check_decimal(problems, PERCENTAGE, percentage, Decimal::ZERO);
            if percentage > Decimal::from(PERCENTAGE_MAX) {
                problems.invalid(PERCENTAGE, format!("must be at most {PERCENTAGE_MAX}"));
            }
        }
        if let Some(amount) = amount {
            check_decimal(problems, AMOUNT, amount, Decimal::ZERO);
            if amount == Decimal::ZERO {
                problems.invalid(AMOUNT, "must be more than 0");
            }
        }
        if percentage.is_some() && amount.is_some() {
            problems.invalid(AMOUNT, "cannot be combined with discountPercentage");
        }
        if let Some(value) = self.annual_value.flatten() {
            check_decimal(problems, "details.pricing.annualValue", value, Decimal::ZERO);
        }
        if self.duration.is_some_and(|months| !DURATION.contains(&months)) {
            problems.invalid(
                "details.pricing.duration",
                format!("must be between {} and {} months", DURATION.start(), DURATION.end()),
            );
        }
        if self.currency.as_deref().is_some_and(|code| iso_currency::Currency::from_code(code).is_none()) {
            problems.invalid("details.pricing.currency", "must be an ISO 4217 code");
        }
    }

    /// Sets what is given. Setting one discount takes the other away.
    fn apply(&self, details: &mut Details) {
        let Details { summary, pricing, .. } = details;
        set(&mut summary.offer_name, self.offer_name.as_ref());
        set(&mut summary.company_name, self.company_name.as_ref());
        set(&mut summary.buyer_notifications, self.buyer_notifications.as_ref());
        set(&mut pricing.annual_value, self.annual_value.as_ref());
        set(&mut pricing.currency, self.currency.as_ref());
        if let Some(months) = self.duration.and_then(|months| u32::try_from(months).ok()) {
            pricing.duration = months;
        }
        set(&mut pricing.discount_percentage, self.discount_percentage.as_ref());
        set(&mut pricing.discount_amount, self.discount_amount.as_ref());
        if self.discount_percentage.flatten().is_some() {
            pricing.discount_amount = None;
        } else if self.discount_amount.flatten().is_some() {
            pricing.discount_percentage = None;
        }
    }
}

fn set<T: Clone>(field: &mut T, value: Option<&T>) {
    if let Some(value) = value {
        field.clone_from(value);
    }
}

/// An amount only where the vendor has amounts.
fn check_vendor_discount(problems: &mut Problems, vendor: Vendor, pricing: &Pricing) {
    if pricing.discount_amount.is_some() && vendor != Vendor::CloudB {
        problems.invalid(AMOUNT, format!("does not apply to {vendor}; use discountPercentage"));
    }
}

fn has_discount(pricing: &Pricing) -> bool {
    pricing.discount_percentage.is_some() || pricing.discount_amount.is_some()
}

fn check_expiry(problems: &mut Problems, expires_at: Timestamp, now: Timestamp) {
    if expires_at <= now {
        problems.invalid("expiresAt", "must be in the future");
    }
}

fn read_nullable_decimal(fields: &mut Fields, field: &str) -> Nullable<Decimal> {
    match fields.take(field)? {
        Value::Null => Some(None),
        value => {
            let path = fields.path(field);
            read_decimal(&mut fields.problems, &path, &value).map(Some)
        }
    }
}

fn read_buyers(summary: &mut Fields) -> Option<Vec<Buyer>> {
    let items = summary.objects("buyerNotifications", BUYERS_MAX)?;
    let mut buyers = Vec::new();
    for mut item in items {
        let (name, email) = (item.string("name"), item.string("email"));
        item.require("name", name.as_ref());
        item.require("email", email.as_ref());
        buyers.push(Buyer { name: name.unwrap_or_default(), email: email.unwrap_or_default() });
        summary.join(item);
    }
    Some(buyers)
}

fn check_buyers(problems: &mut Problems, buyers: &[Buyer]) {
    const FIELD: &str = "details.summary.buyerNotifications";
    if buyers.len() > BUYERS_MAX {
        problems.invalid(FIELD, format!("must not have more than {BUYERS_MAX} items"));
    }
    for (index, buyer) in buyers.iter().enumerate() {
        check_text(problems, &format!("{FIELD}[{index}].name"), &buyer.name, BUYER_NAME_MAX);
        check_email(problems, &format!("{FIELD}[{index}].email"), &buyer.email);
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
        echo.extend(fields.take_echo(&["updatedAt"]));
        if let Some(cloud) = details.take("cloud") {
            echo.insert("details.cloud".to_owned(), cloud);
        }
        fields.join(details);
        Self { echo, problems: fields.finish(), ..patch }
    }

    /// Raises what needs no record to be seen.
    pub fn check(&mut self) -> Result<()> {
        let mut problems = std::mem::take(&mut self.problems);
        self.terms.check(&mut problems);
        problems.raise()
    }

    /// The offer as it would be, or why it may not become so.
    pub fn apply(&self, current: &PrivateOffer, now: Timestamp) -> Result<PrivateOffer> {
        current.must_be(&[OfferStatus::Created, OfferStatus::Expired], "changed")?;
        let mut problems = Problems::default();
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
