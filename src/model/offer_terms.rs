//! The fields of a private offer's `details` that callers set, at creation and while the offer is open: reading them, their
//! rules, setting them (`contract.md` §10).

use serde_json::Value;

use super::customer::COMPANY_NAME_MAX;
use super::decimal::{Decimal, check_decimal, read_decimal};
use super::input::{Fields, Problems, check_email, check_text};
use super::offer::{Buyer, Details, Pricing};
use super::vendor::Vendor;

pub const OFFER_NAME_MAX: usize = 150;
pub const BUYERS_MAX: usize = 5;
pub const BUYER_NAME_MAX: usize = 200;
pub const PERCENTAGE_MAX: i64 = 100;
/// Months.
pub const DURATION: std::ops::RangeInclusive<i64> = 1..=36;

pub(super) const PERCENTAGE: &str = "details.pricing.discountPercentage";
pub(super) const AMOUNT: &str = "details.pricing.discountAmount";

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

impl Terms {
    pub(super) fn read(details: &mut Fields) -> Self {
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

    pub(super) fn check(&self, problems: &mut Problems) {
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
    pub(super) fn apply(&self, details: &mut Details) {
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
pub(super) fn check_vendor_discount(problems: &mut Problems, vendor: Vendor, pricing: &Pricing) {
    if pricing.discount_amount.is_some() && vendor != Vendor::CloudB {
        problems.invalid(AMOUNT, format!("does not apply to {vendor}; use discountPercentage"));
    }
}

pub(super) fn has_discount(pricing: &Pricing) -> bool {
    pricing.discount_percentage.is_some() || pricing.discount_amount.is_some()
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
        return;
    }
    for (index, buyer) in buyers.iter().enumerate() {
        check_text(problems, &format!("{FIELD}[{index}].name"), &buyer.name, BUYER_NAME_MAX);
        check_email(problems, &format!("{FIELD}[{index}].email"), &buyer.email);
    }
}
