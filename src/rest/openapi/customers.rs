//! The schemas and examples of customers.

use serde_json::{Value, json};

use super::parts::{Schemas, echo, echoed, email, id, nullable, object, only, record, reference, text, timestamp};
use crate::model::customer::{ACCOUNT_MAX, COMPANY_NAME_MAX, CustomerStatus, READ_ONLY, account_field};
use crate::model::vendor::Vendor;

pub fn schemas() -> Schemas {
    vec![
        ("Customer", customer(false)),
        ("CustomerDetail", customer(true)),
        ("NewCustomer", new_customer()),
        ("CustomerPatch", customer_patch()),
    ]
}

fn customer(detail: bool) -> Value {
    let mut fields = json!({
        "id": id("cus"), "organizationId": id("org"), "vendor": reference("Vendor"),
        "cloudAccountId": { "type": ["string", "null"], "description": "The account id of a `cloud_a` customer." },
        "tenantId": { "type": ["string", "null"], "description": "The tenant id of a `cloud_b` customer." },
        "email": { "type": ["string", "null"] },
        "companyName": { "type": "string" },
        "status": {
            "type": "string",
            "enum": [CustomerStatus::Active, CustomerStatus::Suspended, CustomerStatus::Inactive],
        },
        "createdAt": timestamp(), "updatedAt": timestamp(),
    });
    if detail {
        fields["entitlements"] = entitlements();
    }
    record(fields)
}

fn entitlements() -> Value {
    json!({ "type": "array", "items": reference("EntitlementSummary") })
}

/// One form for each vendor, because each identifies its customers in its own field.
fn new_customer() -> Value {
    let form = |vendor: Vendor, other: Vendor| {
        let field = account_field(vendor);
        let mut properties = json!({
            "vendor": { "type": "string", "const": vendor },
            "companyName": text(COMPANY_NAME_MAX),
            "email": nullable(email()),
        });
        properties[field] = json!({ "type": "string", "pattern": format!("^[A-Za-z0-9._:-]{{1,{ACCOUNT_MAX}}}$") });
        properties[account_field(other)] = json!({ "type": "null" });
        object(&["vendor", "companyName", field], properties)
    };
    json!({ "oneOf": [form(Vendor::CloudA, Vendor::CloudB), form(Vendor::CloudB, Vendor::CloudA)] })
}

fn customer_patch() -> Value {
    let mut properties = echo(&READ_ONLY);
    properties.insert("entitlements".to_owned(), echoed(entitlements()));
    properties.insert("email".to_owned(), nullable(email()));
    properties.insert("companyName".to_owned(), text(COMPANY_NAME_MAX));
    let statuses = [CustomerStatus::Active, CustomerStatus::Suspended, CustomerStatus::Inactive];
    let status = json!({
        "type": "string", "enum": statuses,
        "description": "`active` or `inactive`; `suspended` may be sent back as it was read.",
    });
    properties.insert("status".to_owned(), status);
    object(&[], properties.into())
}

pub fn example() -> Value {
    json!({
        "id": "cus_01KE6X17G0C9ZQ4T8V2N5B7XKD", "organizationId": "org_01KE6X0MRGW3T5Y8J1R6F4HSAP", "vendor": "cloud_a",
        "cloudAccountId": "123456789012", "tenantId": null, "email": "ops@northwind.example",
        "companyName": "Northwind Analytics", "status": "active",
        "createdAt": "2026-01-05T10:00:00.000Z", "updatedAt": "2026-01-05T10:00:00.000Z",
    })
}

pub fn new_example() -> Value {
    only(&example(), &["vendor", "cloudAccountId", "email", "companyName"])
}

pub fn patch_example() -> Value {
    json!({ "email": "billing@northwind.example" })
}

/// The single-customer form.
pub fn detailed_example() -> Value {
    let mut example = example();
    example["entitlements"] = json!([
        { "id": "ent_01KE6X2V5Z8M1P3R6T9W4YBCFH", "listingId": "lst_analytics_pro", "status": "active" },
    ]);
    example
}

pub const CSV: &str = "id,vendor,cloudAccountId,tenantId,email,companyName,status,createdAt,updatedAt\r\n\
    cus_01KE6X17G0C9ZQ4T8V2N5B7XKD,cloud_a,123456789012,,ops@northwind.example,Northwind Analytics,active,\
    2026-01-05T10:00:00.000Z,2026-01-05T10:00:00.000Z\r\n";
