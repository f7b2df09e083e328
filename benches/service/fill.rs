//! A database with very many customers, filled past the service because nobody has an hour.

use mercato::model::customer::CustomerStatus;
use mercato::model::id::{OrganizationId, invert};
use mercato::model::time::Timestamp;
use mercato::model::vendor::Vendor;
use surrealdb::Surreal;
use surrealdb::engine::any::Any;
use surrealdb::types::{Array, Object, RecordId, SurrealValue, Value};
use ulid::Ulid;

use crate::place::{Place, object};

const CHUNK: usize = 5_000;
/// 2026-01-01T00:00:00Z: when the first customer came.
const FIRST_MILLISECOND: u64 = 1_767_225_600_000;

/// A database of one organization with `count` customers.
pub async fn filled(count: usize) -> (Place, OrganizationId) {
    let place = Place::new();
    let store = place.store().await;
    let organization = store.create_organization("Bench").await.expect("an organization can be made");
    drop(store);
    let db = place.raw().await;
    let mut pending = tokio::task::JoinSet::new();
    for start in (0..count).step_by(CHUNK) {
        if pending.len() >= 2 {
            pending.join_next().await.expect("there are two").expect("a chunk can be inserted");
        }
        pending.spawn(insert(db.clone(), organization, start..count.min(start + CHUNK)));
    }
    pending.join_all().await;
    (place, organization)
}

async fn insert(db: Surreal<Any>, organization: OrganizationId, numbers: std::ops::Range<usize>) {
    let rows: Vec<Value> = numbers.map(|number| Value::Object(row(organization, number))).collect();
    let inserted = db.query("INSERT INTO customer $rows RETURN NONE").bind(("rows", rows)).await;
    inserted.and_then(surrealdb::IndexedResults::check).expect("the rows fit the schema");
}

/// The id of a customer by its number; the highest is the newest.
pub fn ulid(number: usize) -> Ulid {
    // Spread like chance, and the same every time.
    let chance = (number as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    Ulid::from_parts(FIRST_MILLISECOND + number as u64, chance)
}

/// As `Tenant::plan_customer_created` writes it.
fn row(organization: OrganizationId, number: usize) -> Object {
    let ulid = ulid(number);
    let key = vec![organization.to_string().into_value(), invert(ulid).into_value()];
    object([
        ("id", RecordId::new("customer", Array::from(key)).into_value()),
        ("organization", organization.to_string().into_value()),
        ("vendor", Vendor::CloudA.into_value()),
        ("account", format!("{number:012}").into_value()),
        ("email", format!("procurement@customer-{number}.example").into_value()),
        ("company_name", format!("Customer {number} Inc").into_value()),
        ("status", CustomerStatus::Active.into_value()),
        ("updated_at", Timestamp::from_millis(ulid.timestamp_ms().cast_signed()).into_value()),
        ("revision", 1_i64.into_value()),
    ])
}
