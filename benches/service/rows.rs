//! Rows as the store writes them, for what goes past it: the bare blocks, and databases that are filled in bulk.

use mercato::model::customer::Customer;
use mercato::model::entitlement::Entitlement;
use mercato::model::filter::{OrderBy, OrderKeys, words};
use mercato::model::id::{OrganizationId, PrivateOfferId, invert};
use mercato::model::lifecycle::{Memo, due};
use mercato::model::offer::{OfferStatus, PrivateOffer};
use mercato::model::time::Timestamp;
use serde::Serialize;
use surrealdb::types::{Array, Object, RecordId, SurrealValue, Value};
use ulid::Ulid;

/// Named values, for the engine's own client.
pub fn object<const N: usize>(fields: [(&str, Value); N]) -> Object {
    let mut object = Object::new();
    for (name, value) in fields {
        object.insert(name.to_owned(), value);
    }
    object
}

/// The id of a record whose key has several parts.
pub fn record<const N: usize>(table: &'static str, parts: [Value; N]) -> RecordId {
    RecordId::new(table, Array::from(parts.to_vec()))
}

/// The id of an organization's record.
pub fn own(table: &'static str, organization: OrganizationId, id: Ulid) -> RecordId {
    record(table, [organization.to_string().into_value(), invert(id).into_value()])
}

pub fn organization(id: OrganizationId) -> RecordId {
    RecordId::new("organization", id.to_string())
}

/// Where words of a record occur, each as a row.
pub fn word_rows(table: &str, organization: OrganizationId, id: Ulid, words: &[String]) -> Vec<Object> {
    let row = |word: &String| {
        let parts = [organization.to_string(), table.to_owned(), word.clone(), invert(id)];
        object([("id", record("word", parts.map(SurrealValue::into_value)).into_value())])
    };
    words.iter().map(row).collect()
}

pub fn words_of_customer(customer: &Customer) -> Vec<String> {
    let fields = [
        Some(&customer.company_name),
        customer.email.as_ref(),
        customer.cloud_account_id.as_ref(),
        customer.tenant_id.as_ref(),
    ];
    words(&fields.into_iter().flatten().cloned().collect::<Vec<_>>().join(" "))
}

pub fn words_of_offer(offer: &PrivateOffer) -> Vec<String> {
    let summary = &offer.details.summary;
    let vendor_id = offer.vendor_offer_id.as_deref().unwrap_or_default();
    words(&format!("{} {} {} {vendor_id}", summary.offer_name, summary.company_name, offer.listing_id))
}

/// As `Tenant::plan_customer_created` writes it.
pub fn customer(customer: &Customer) -> Object {
    let account = customer.cloud_account_id.clone().or_else(|| customer.tenant_id.clone());
    let mut row = listed(customer.organization_id, customer.id.0, &OrderBy::Text(&customer.company_name));
    row.extend(object([
        ("vendor", customer.vendor.into_value()),
        ("account", account.into_value()),
        ("live", 0_i64.into_value()),
        ("suspended", 0_i64.into_value()),
        ("email", customer.email.clone().into_value()),
        ("company_name", customer.company_name.clone().into_value()),
        ("status", customer.status.into_value()),
        ("updated_at", customer.updated_at.into_value()),
        ("words", words_column(&words_of_customer(customer)).into_value()),
    ]));
    row
}

/// As `Tenant::save_offer` writes one that replaces nothing.
pub fn offer(offer: &PrivateOffer) -> Object {
    let due = if offer.status == OfferStatus::Created { offer.expires_at } else { never() };
    let mut row = listed(offer.organization_id, offer.id.0, &OrderBy::Moment(Some(offer.expires_at)));
    row.extend(object([
        ("customer", offer.customer_id.key().into_value()),
        ("listing_id", offer.listing_id.clone().into_value()),
        ("vendor", offer.vendor.into_value()),
        ("status", offer.status.as_str().into_value()),
        ("words", words_column(&words_of_offer(offer)).into_value()),
        ("replaces", None::<String>.into_value()),
        ("due", due.into_value()),
        ("body", body(offer).into_value()),
    ]));
    row
}

/// As `Tenant::save_entitlement` writes it.
pub fn entitlement(entitlement: &Entitlement, memo: Memo) -> Object {
    let due = due(entitlement, memo).map_or_else(never, |(at, _)| at);
    let mut row = listed(entitlement.organization_id, entitlement.id.0, &OrderBy::Moment(entitlement.end_date));
    row.extend(object([
        ("customer", entitlement.customer_id.key().into_value()),
        ("listing_id", entitlement.listing_id.clone().into_value()),
        ("vendor", entitlement.vendor.into_value()),
        ("status", entitlement.status.into_value()),
        ("agreement", entitlement.agreement_id.clone().into_value()),
        ("subscription", entitlement.vendor_subscription_id.clone().into_value()),
        ("offer", entitlement.private_offer_id.map(PrivateOfferId::key).into_value()),
        ("for_activation", memo.for_activation.into_value()),
        ("suspended_at", memo.suspended_at.into_value()),
        ("ended_at", memo.ended_at.into_value()),
        ("due", due.into_value()),
        ("body", body(entitlement).into_value()),
    ]));
    row
}

/// The columns of every listed table.
fn listed(organization: OrganizationId, id: Ulid, order: &OrderBy<'_>) -> Object {
    let keys = OrderKeys::of(id, order);
    object([
        ("organization", organization.to_string().into_value()),
        ("key", invert(id).into_value()),
        ("oldest", keys.oldest.into_value()),
        ("ascending", keys.ascending.into_value()),
        ("descending", keys.descending.into_value()),
    ])
}

fn words_column(words: &[String]) -> String {
    format!(" {}", words.join(" "))
}

fn body(form: &impl Serialize) -> String {
    serde_json::to_string(form).expect("records are plain data")
}

/// Where a due date is put that never comes.
fn never() -> Timestamp {
    Timestamp::from_millis(253_402_300_799_000)
}
