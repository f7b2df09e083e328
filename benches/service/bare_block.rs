//! The floor of a creation: the block that `Tenant::write` commits, run with the engine's own client and nothing around
//! it. Its values are made before the clock runs.

use mercato::clock::Clock;
use mercato::model::event::{EventKind, NewEvent};
use mercato::model::id::{EventId, OrganizationId};
use mercato::model::vendor::Vendor;
use serde::Serialize;
use surrealdb::Surreal;
use surrealdb::engine::any::Any;
use surrealdb::types::{Bytes, Object, SurrealValue, Value};
use ulid::Ulid;

use crate::place::Place;
use crate::rows::{object, organization, own, record, word_rows};
use crate::writes::{Subject, new_key, prepare};

/// From `src/store/write.rs`, which puts them before and after the record's own statements.
const ONCE: &str = "CREATE ONLY $once CONTENT $memory RETURN NONE;";
const UNSEEN: &str = "IF $organization.sequence != $seen { THROW 'moved' };";
const EVENTS: &str = "
    FOR $news IN $events {
        LET $sequence = (UPDATE ONLY $organization SET sequence += 1 RETURN AFTER).sequence;
        CREATE ONLY type::record('event', [$event_org, $sequence]) CONTENT {
            kind: $news.kind, vendor: $news.vendor, at: $news.at,
            envelope: string::concat($news.head, <string> $sequence, $news.tail)
        } RETURN NONE;
    };";
/// From `src/store/lists.rs`.
const WORDS: &str = "INSERT INTO word $fresh_words RETURN NONE;";

/// The engine with what the creations need in it.
pub struct Bare<S> {
    db: Surreal<Any>,
    _place: Place,
    pub subjects: Vec<S>,
}

impl<S: Subject> Bare<S> {
    pub async fn open(organizations: usize) -> Self {
        let place = Place::new();
        let store = place.store().await;
        let subjects = prepare(&store, organizations).await;
        drop(store);
        Self { db: place.raw().await, _place: place, subjects }
    }

    /// The number of an organization's last event.
    pub async fn last_event(&self, id: OrganizationId) -> i64 {
        const LAST: &str = "SELECT VALUE sequence FROM ONLY $organization";
        let asked = self.db.query(LAST).bind(object([("organization", organization(id).into_value())])).await;
        let last: Option<i64> = asked.expect("the query is valid").take(0).expect("the organization can be read");
        last.expect("the organization is there")
    }

    /// A writer: commits one block after the other.
    pub fn writer(&self, blocks: Vec<Block>) -> impl Future<Output = ()> + Send + use<S> + 'static {
        let db = self.db.clone();
        async move {
            for Block { text, values } in blocks {
                let mut response = db.query(text).bind(values).await.expect("the block is valid");
                response.take::<Value>(0).expect("nobody else writes to this organization");
            }
        }
    }
}

/// Statements of one transaction, and their values.
pub struct Block {
    text: String,
    values: Object,
}

/// A new record and what is told of it.
pub struct Creation<'a, T> {
    pub table: &'static str,
    /// Its own statement: `$record` is its id, `$content` its columns.
    pub save: &'static str,
    pub organization: OrganizationId,
    pub id: Ulid,
    pub content: Object,
    pub words: Vec<String>,
    /// The organization's last event, if the store's plan would be guarded by it.
    pub seen: Option<i64>,
    pub kind: EventKind,
    pub vendor: Vendor,
    /// The single-object form: in the event, and remembered under the idempotency key.
    pub form: &'a T,
}

impl<T: Serialize> Creation<'_, T> {
    pub fn block(self, clock: &Clock) -> Block {
        let guard = if self.seen.is_some() { UNSEEN } else { "" };
        let key = ["operator".into_value(), new_key(clock).into_value(), 0_i64.into_value()];
        let words = word_rows(self.table, self.organization, self.id, &self.words);
        let values = object([
            ("once", record("idempotency", key).into_value()),
            ("memory", memory(self.form, clock).into_value()),
            ("organization", organization(self.organization).into_value()),
            ("seen", self.seen.into_value()),
            ("record", own(self.table, self.organization, self.id).into_value()),
            ("events", vec![self.news(clock)].into_value()),
            ("content", self.content.into_value()),
            ("fresh_words", words.into_value()),
            ("event_org", self.organization.to_string().into_value()),
        ]);
        Block { text: format!("{{ {ONCE}{guard}{}{WORDS}{EVENTS} }}", self.save), values }
    }

    fn news(&self, clock: &Clock) -> Object {
        let (id, of) = (EventId(clock.mint()), (self.organization, self.vendor));
        let event = NewEvent::about(self.kind, id, of, self.form, None).expect("records are plain data");
        let (head, tail) = event.halves(mercato::model::environment::Environment::Production);
        object([
            ("kind", event.kind.as_str().into_value()),
            ("vendor", event.vendor.into_value()),
            ("at", event.id.created_at().into_value()),
            ("head", head.into_value()),
            ("tail", tail.into_value()),
        ])
    }
}

/// What the idempotency row remembers.
fn memory(form: &impl Serialize, clock: &Clock) -> Object {
    object([
        ("request", Bytes::from(clock.random::<32>().to_vec()).into_value()),
        ("outcome", serde_json::json!({ "done": form }).to_string().into_value()),
        ("at", clock.now().into_value()),
    ])
}
