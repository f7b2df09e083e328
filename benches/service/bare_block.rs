//! The floor of a creation: the block that `Tenant::write` commits, run with the engine's own client and nothing around
//! it. Its values are made before the clock runs.

use mercato::clock::Clock;
use mercato::model::customer::CustomerDetail;
use mercato::model::event::{EventKind, NewEvent};
use mercato::model::id::{CustomerId, EventId, OrganizationId};
use surrealdb::Surreal;
use surrealdb::engine::any::Any;
use surrealdb::types::{Array, Bytes, Object, RecordId, SurrealValue, Value};

use crate::place::{Place, object};
use crate::writes::{new_customer, new_key};

/// From `src/store/customers.rs` and `src/store/write.rs`.
const BLOCK: &str = "{ CREATE ONLY $record CONTENT $content RETURN NONE;
    LET $sequence = (UPDATE ONLY $organization SET sequence += 1 RETURN AFTER).sequence;
    CREATE ONLY type::record('event', [$event_org, $sequence]) CONTENT {
        kind: $event_kind, vendor: $event_vendor, at: $event_at,
        envelope: string::concat($event_head, <string> $sequence, $event_tail)
    } RETURN NONE;CREATE ONLY $once CONTENT $memory RETURN NONE; }";

pub struct Bare {
    db: Surreal<Any>,
    _place: Place,
    pub organizations: Vec<OrganizationId>,
}

impl Bare {
    pub async fn open(organizations: usize) -> Self {
        let place = Place::new();
        let store = place.store().await;
        let organizations = crate::writes::make_organizations(&store, organizations).await;
        drop(store);
        Self { db: place.raw().await, _place: place, organizations }
    }

    /// A writer: commits one block after the other.
    pub fn writer(&self, blocks: Vec<Object>) -> impl Future<Output = ()> + Send + 'static {
        let db = self.db.clone();
        async move {
            for values in blocks {
                let mut response = db.query(BLOCK).bind(values).await.expect("the block is valid");
                response.take::<Value>(0).expect("nobody else writes to this organization");
            }
        }
    }
}

/// The values of one block.
pub fn values(organization: OrganizationId, clock: &Clock) -> Object {
    let valid = new_customer(clock).check().expect("the bench's customers break no rule");
    let account = valid.account.clone();
    let detail = valid.into_customer(CustomerId(clock.mint()), organization);
    let (head, tail) = event(&detail, clock).halves();
    let customer = &detail.customer;
    let content = object([
        ("organization", organization.to_string().into_value()),
        ("vendor", customer.vendor.into_value()),
        ("account", account.into_value()),
        ("email", customer.email.clone().into_value()),
        ("company_name", customer.company_name.clone().into_value()),
        ("status", customer.status.into_value()),
        ("updated_at", customer.updated_at.into_value()),
        ("revision", 1_i64.into_value()),
    ]);
    let key = vec!["operator".into_value(), new_key(clock).into_value(), 0_i64.into_value()];
    object([
        ("record", record(organization, customer.id)),
        ("content", Value::Object(content)),
        ("organization", RecordId::new("organization", organization.to_string()).into_value()),
        ("event_org", organization.to_string().into_value()),
        ("event_kind", EventKind::CustomerCreated.as_str().into_value()),
        ("event_vendor", customer.vendor.into_value()),
        ("event_at", customer.created_at.into_value()),
        ("event_head", head.into_value()),
        ("event_tail", tail.into_value()),
        ("once", RecordId::new("idempotency", Array::from(key)).into_value()),
        ("memory", Value::Object(memory(&detail, clock))),
    ])
}

fn record(organization: OrganizationId, id: CustomerId) -> Value {
    let key = vec![organization.to_string().into_value(), id.key().into_value()];
    RecordId::new("customer", Array::from(key)).into_value()
}

fn event(detail: &CustomerDetail, clock: &Clock) -> NewEvent {
    NewEvent {
        id: EventId(clock.mint()),
        kind: EventKind::CustomerCreated,
        organization_id: detail.customer.organization_id,
        vendor: detail.customer.vendor,
        data: serde_json::value::to_raw_value(&detail).expect("a customer is plain data"),
        changes: None,
    }
}

/// What the idempotency row remembers.
fn memory(detail: &CustomerDetail, clock: &Clock) -> Object {
    object([
        ("request", Bytes::from(clock.random::<32>().to_vec()).into_value()),
        ("outcome", serde_json::json!({ "done": detail }).to_string().into_value()),
        ("at", clock.now().into_value()),
    ])
}
