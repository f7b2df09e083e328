//! What changed between two forms of a record: dotted field paths, each with `from` and `to` (spec, `history[].changes`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `{"email": {"from": "a@b.c", "to": null}}`; ordered by path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Changes(Map<String, Value>);

impl Changes {
    /// Compares objects field by field, and anything else as a whole. `updatedAt` follows every change, so it is none.
    pub fn between(before: &Value, after: &Value) -> Self {
        let mut changes = Map::new();
        collect("", before, after, &mut changes);
        Self(changes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn collect(path: &str, before: &Value, after: &Value, changes: &mut Map<String, Value>) {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        if before != after {
            changes.insert(path.to_owned(), serde_json::json!({ "from": before, "to": after }));
        }
        return;
    };
    let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
    for name in names.filter(|name| *name != "updatedAt") {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect(&path, old.get(name).unwrap_or(&Value::Null), new.get(name).unwrap_or(&Value::Null), changes);
    }
}
