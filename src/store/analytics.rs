//! The counts of contracts in the store: one row for each node of the trees of `model::tally`.

use surrealdb::types::{Array, Bytes, RecordId, RecordIdKey, SurrealValue, Value};

use super::{Tenant, vars};
use crate::error::{Error, Result};
use crate::model::tally::{Node, Nodes, Place, Side};

#[derive(SurrealValue)]
struct Row {
    id: RecordId,
    counts: Bytes,
}

/// The roots of these sides, and single nodes, in one query.
const READ: &str = "RETURN array::concat(
    array::flatten($sides.map(|$side| (SELECT * FROM type::record('tally', [$org, $side, 0]..[$org, $side, 0, ..])))),
    (SELECT * FROM $nodes)
)";

impl Tenant {
    pub(super) fn tally_record(&self, place: Place) -> RecordId {
        let parts = vec![
            self.organization.to_string().into_value(),
            place.side.as_str().into_value(),
            place.level.into_value(),
            place.index.into_value(),
        ];
        RecordId::new("tally", Array::from(parts))
    }

    /// Those of these nodes that count anything.
    pub(super) async fn tally_nodes(&self, places: &[Place]) -> Result<Nodes> {
        let records: Vec<RecordId> = places.iter().map(|place| self.tally_record(*place)).collect();
        nodes_of(self.store.ask("SELECT * FROM $nodes", vars! { "nodes" => records }).await?)
    }

    /// What counting needs: the roots of these sides, and these nodes below them.
    pub async fn tally(&self, sides: &[Side], below: &[Place]) -> Result<Nodes> {
        let records: Vec<RecordId> = below.iter().map(|place| self.tally_record(*place)).collect();
        let sides: Vec<&str> = sides.iter().map(|side| side.as_str()).collect();
        let vars = vars! { "org" => self.organization.to_string(), "sides" => sides, "nodes" => records };
        nodes_of(self.store.ask(READ, vars).await?)
    }
}

fn nodes_of(rows: Vec<Row>) -> Result<Nodes> {
    let node = |row: Row| {
        let place = place_of(&row.id);
        let read = place.zip(Node::decode(&row.counts));
        read.ok_or_else(|| Error::internal("a node of the contract counts is broken"))
    };
    rows.into_iter().map(node).collect::<Result<_>>().map(Nodes)
}

fn place_of(id: &RecordId) -> Option<Place> {
    let RecordIdKey::Array(parts) = &id.key else { return None };
    let [_, Value::String(side), level, index] = parts.as_slice() else { return None };
    let number = |value: &Value| i64::from_value(value.clone()).ok();
    Some(Place { side: Side::parse(side)?, level: number(level)?, index: number(index)? })
}
