//! The contracts are files under review. `just accept` renews them.

use std::collections::BTreeSet;

use mercato::model::operation::Operation;
use mercato::{cli, graphql, rest};

use crate::harness::golden;

const LOCAL: &str = "http://127.0.0.1:8080";

#[test]
fn the_operations_are_those_of_the_reviewed_table() {
    golden("snapshots/operations.txt", &cli::operations_table());
}

#[test]
fn the_graphql_schema_is_the_reviewed_one() {
    golden("schema.graphql", graphql::sdl());
}

#[test]
fn the_openapi_document_is_the_reviewed_one() {
    golden("snapshots/openapi.json", &format!("{:#}\n", rest::openapi::document(LOCAL, LOCAL)));
}

/// The other direction of the catalogue: a root field that is no operation has no scope that anybody reviewed.
#[test]
fn every_root_field_of_graphql_is_an_operation() {
    let document = async_graphql::parser::parse_schema(graphql::sdl()).expect("the SDL parses");
    let mut fields = BTreeSet::new();
    for definition in &document.definitions {
        if let async_graphql::parser::types::TypeSystemDefinition::Type(definition) = definition
            && let async_graphql::parser::types::TypeKind::Object(object) = &definition.node.kind
            && ["Query", "Mutation", "Subscription"].contains(&definition.node.name.node.as_str())
        {
            let root = &definition.node.name.node;
            fields.extend(object.fields.iter().map(|field| format!("{root}.{}", field.node.name.node)));
        }
    }
    let operations: BTreeSet<String> =
        Operation::ALL.iter().filter_map(|operation| operation.spec().graphql).map(str::to_owned).collect();
    // Relay's `node` passes the guard of the record's own operation.
    fields.remove("Query.node");
    assert_eq!(fields, operations);
}
