//! Customers: the record, what may be written, and the rules for it (spec "Customer", `contract.md` §8).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::entitlement::EntitlementSummary;
use super::id::{CustomerId, OrganizationId};
use super::input::{Fields, Problems, check_echo, check_email, check_text};
use super::time::Timestamp;
use super::vendor::Vendor;
use crate::error::{Error, Result};

pub const COMPANY_NAME_MAX: usize = 200;
pub const ACCOUNT_MAX: usize = 64;

super::wire_enum! {
    /// `suspended` is set by the service while all live entitlements are suspended; `deleted` is only seen in the answer
    /// and the event of a deletion.
    CustomerStatus {
        Active = "active",
        Suspended = "suspended",
        Inactive = "inactive",
        Deleted = "deleted",
    }
}

/// A buyer on one marketplace. In lists it comes without `entitlements`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Customer {
    pub id: CustomerId,
    pub organization_id: OrganizationId,
    pub vendor: Vendor,
    /// The buyer's account id on `cloud_a`; null for the other vendor.
    pub cloud_account_id: Option<String>,
    /// The buyer's tenant id on `cloud_b`; null for the other vendor.
    pub tenant_id: Option<String>,
    pub email: Option<String>,
    pub company_name: String,
    pub status: CustomerStatus,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The single-customer form: also what events carry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomerDetail {
    #[serde(flatten)]
    pub customer: Customer,
    /// Newest first.
    pub entitlements: Vec<EntitlementSummary>,
}

impl CustomerDetail {
    /// The JSON of the single-object form.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("a customer is plain data")
    }
}

/// What a caller asks to create, as it came: nothing is checked before [`NewCustomer::check`].
#[derive(Clone, Debug, Default)]
pub struct NewCustomer {
    pub vendor: Option<Vendor>,
    pub company_name: Option<String>,
    pub email: Option<String>,
    pub cloud_account_id: Option<String>,
    pub tenant_id: Option<String>,
    pub problems: Problems,
}

/// A [`NewCustomer`] that breaks no rule.
#[derive(Clone, Debug)]
pub struct ValidCustomer {
    pub vendor: Vendor,
    /// `cloudAccountId` or `tenantId`, whichever the vendor uses.
    pub account: String,
    pub company_name: String,
    pub email: Option<String>,
}

/// The name of the field that identifies a vendor's customers.
pub const fn account_field(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::CloudA => "cloudAccountId",
        Vendor::CloudB => "tenantId",
    }
}

/// `cloudAccountId` and `tenantId` of a customer: the vendor's own holds the identifier, the other is null.
pub fn account_fields(vendor: Vendor, account: String) -> (Option<String>, Option<String>) {
    match vendor {
        Vendor::CloudA => (Some(account), None),
        Vendor::CloudB => (None, Some(account)),
    }
}

impl NewCustomer {
    pub fn from_json(body: Result<Value, String>) -> Self {
        let mut fields = Fields::read(body);
        let vendor = fields.choice("vendor");
        let company_name = fields.string("companyName");
        fields.require("vendor", vendor.as_ref());
        fields.require("companyName", company_name.as_ref());
        Self {
            vendor,
            company_name,
            email: fields.optional_string("email"),
            cloud_account_id: fields.optional_string("cloudAccountId"),
            tenant_id: fields.optional_string("tenantId"),
            problems: fields.finish(),
        }
    }

    pub fn check(self) -> Result<ValidCustomer> {
        let Self { vendor, company_name, email, cloud_account_id, tenant_id, mut problems } = self;
        if let Some(name) = &company_name {
            check_text(&mut problems, "companyName", name, COMPANY_NAME_MAX);
        }
        if let Some(email) = &email {
            check_email(&mut problems, "email", email);
        }
        let account = vendor.and_then(|vendor| {
            let (own, other, other_field) = match vendor {
                Vendor::CloudA => (cloud_account_id, tenant_id, "tenantId"),
                Vendor::CloudB => (tenant_id, cloud_account_id, "cloudAccountId"),
            };
            if other.is_some() {
                let own_field = account_field(vendor);
                problems.invalid(other_field, format!("does not apply to {vendor}; use {own_field}"));
            }
            check_account(&mut problems, account_field(vendor), own, other.is_some())
        });
        problems.raise()?;
        let (Some(vendor), Some(account), Some(company_name)) = (vendor, account, company_name) else {
            return Err(Error::internal("a customer without problems lacks a required field"));
        };
        Ok(ValidCustomer { vendor, account, company_name, email })
    }
}

/// The vendor's identifier: required, 1 to 64 of `A-Z a-z 0-9 . _ : -`.
/// The other vendor's in its place was reported already.
fn check_account(problems: &mut Problems, field: &str, account: Option<String>, replaced: bool) -> Option<String> {
    match &account {
        None if replaced => {}
        None => problems.malformed(field, "is required"),
        Some(text) => {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
            if text.is_empty() || text.len() > ACCOUNT_MAX || !text.bytes().all(allowed) {
                problems.invalid(field, format!("must be 1 to {ACCOUNT_MAX} of the characters A-Z a-z 0-9 . _ : -"));
            }
        }
    }
    account
}

impl ValidCustomer {
    pub fn into_customer(self, id: CustomerId, organization_id: OrganizationId) -> CustomerDetail {
        let (cloud_account_id, tenant_id) = account_fields(self.vendor, self.account);
        let customer = Customer {
            id,
            organization_id,
            vendor: self.vendor,
            cloud_account_id,
            tenant_id,
            email: self.email,
            company_name: self.company_name,
            status: CustomerStatus::Active,
            created_at: id.created_at(),
            updated_at: id.created_at(),
        };
        CustomerDetail { customer, entitlements: Vec::new() }
    }
}

/// What a caller asks to change, as it came. Absent means "leave it".
#[derive(Clone, Debug, Default)]
pub struct CustomerPatch {
    /// `Some(None)` removes the address.
    pub email: Option<Option<String>>,
    pub company_name: Option<String>,
    pub status: Option<CustomerStatus>,
    /// Read-only fields that came along, because clients write back what they read.
    pub echo: Map<String, Value>,
    pub problems: Problems,
}

/// Fields of a customer that no PUT changes.
pub const READ_ONLY: [&str; 8] =
    ["id", "organizationId", "vendor", "cloudAccountId", "tenantId", "entitlements", "createdAt", "updatedAt"];

impl CustomerPatch {
    pub fn from_json(body: Result<Value, String>) -> Self {
        let mut fields = Fields::read(body);
        Self {
            email: fields.nullable_string("email"),
            company_name: fields.string("companyName"),
            status: fields.choice("status"),
            echo: fields.take_echo(&READ_ONLY),
            problems: fields.finish(),
        }
    }

    /// What is wrong with it, whatever the record.
    fn check(&self) -> Problems {
        let mut problems = self.problems.clone();
        if let Some(name) = &self.company_name {
            check_text(&mut problems, "companyName", name, COMPANY_NAME_MAX);
        }
        if let Some(Some(email)) = &self.email {
            check_email(&mut problems, "email", email);
        }
        problems
    }

    /// The customer as it would be, or why it may not become so.
    pub fn apply(&self, current: &CustomerDetail, has_live_entitlement: bool) -> Result<CustomerDetail> {
        let mut problems = self.check();
        check_echo(&mut problems, &self.echo, &current.to_json());
        let was = current.customer.status;
        let status = self.status.unwrap_or(was);
        if status != was && !matches!(status, CustomerStatus::Active | CustomerStatus::Inactive) {
            problems.invalid("status", "can only be set to active or inactive");
        }
        problems.raise()?;
        if status != was && was == CustomerStatus::Suspended {
            return Err(Error::conflict("The customer is suspended; its status follows its entitlements"));
        }
        if status == CustomerStatus::Inactive && status != was && has_live_entitlement {
            return Err(Error::conflict("The customer has a live entitlement and cannot become inactive"));
        }
        let mut next = current.clone();
        next.customer.status = status;
        if let Some(email) = &self.email {
            next.customer.email.clone_from(email);
        }
        if let Some(name) = &self.company_name {
            next.customer.company_name.clone_from(name);
        }
        Ok(next)
    }
}
