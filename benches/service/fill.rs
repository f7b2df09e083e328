//! Databases with very many records, filled past the service because nobody has an hour.

use std::ops::Range;
use std::sync::Arc;

use mercato::model::customer::{Customer, CustomerStatus};
use mercato::model::id::{CustomerId, OrganizationId};
use mercato::model::vendor::Vendor;
use mercato::store::Store;
use surrealdb::Surreal;
use surrealdb::engine::any::Any;
use surrealdb::types::{Object, SurrealValue};
use ulid::Ulid;

use crate::place::Place;
use crate::rows::{self, own};

const CHUNK: usize = 2_500;
/// 2026-01-01T00:00:00Z: when the first customer came.
const FIRST_MILLISECOND: u64 = 1_767_225_600_000;

/// Inserts `count` rows of a table in bulk; `row` makes each from its number.
pub async fn insert<R>(store: &Store, table: &'static str, count: usize, row: R)
where
    R: Fn(usize) -> Object + Send + Sync + 'static,
{
    let (db, row) = (store.engine(), Arc::new(row));
    let mut pending = tokio::task::JoinSet::new();
    for start in (0..count).step_by(CHUNK) {
        if pending.len() >= 2 {
            pending.join_next().await.expect("there are two").expect("a chunk can be inserted");
        }
        pending.spawn(insert_chunk(db.clone(), table, start..count.min(start + CHUNK), Arc::clone(&row)));
    }
    pending.join_all().await;
}

async fn insert_chunk<R>(db: Surreal<Any>, table: &'static str, numbers: Range<usize>, row: Arc<R>)
where
    R: Fn(usize) -> Object,
{
    let rows: Vec<Object> = numbers.map(|number| row(number)).collect();
    let inserted = db.query(format!("INSERT INTO {table} $rows RETURN NONE")).bind(("rows", rows)).await;
    inserted.and_then(surrealdb::IndexedResults::check).expect("the rows fit the schema");
}

/// A database of one organization with `count` customers. Their words and events are left out: no page reads them.
pub async fn customers(count: usize) -> (Place, OrganizationId) {
    let place = Place::new();
    let store = place.store().await;
    let organization = store.create_organization("Bench").await.expect("an organization can be made");
    insert(&store, "customer", count, move |number| {
        let customer = customer(organization, number);
        let mut row = rows::customer(&customer);
        row.insert("id".to_owned(), own("customer", organization, customer.id.0).into_value());
        row
    })
    .await;
    (place, organization)
}

/// The id of a customer by its number; the highest is the newest.
pub fn ulid(number: usize) -> Ulid {
    Ulid::from_parts(FIRST_MILLISECOND + number as u64, chance(number))
}

/// Spread like chance, and the same every time.
pub fn chance(number: usize) -> u128 {
    (number as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
}

fn customer(organization_id: OrganizationId, number: usize) -> Customer {
    let id = CustomerId(ulid(number));
    Customer {
        id,
        organization_id,
        vendor: Vendor::CloudA,
        cloud_account_id: Some(format!("{number:012}")),
        tenant_id: None,
        email: Some(format!("procurement@customer-{number}.example")),
        company_name: format!("Customer {number} Inc"),
        status: CustomerStatus::Active,
        created_at: id.created_at(),
        updated_at: id.created_at(),
    }
}
