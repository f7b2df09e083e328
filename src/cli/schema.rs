//! `schema`: the contracts as text.

use std::fmt::Write;

use crate::config::{Contract, SchemaOptions};
use crate::model::operation::Operation;

pub fn print(options: &SchemaOptions) {
    match options.contract {
        Contract::Graphql => print!("{}", crate::graphql::sdl()),
        Contract::Openapi => {
            println!("{:#}", crate::rest::openapi::document("http://127.0.0.1:8080", "http://127.0.0.1:8080"));
        }
        Contract::Operations => print!("{}", operations_table()),
    }
}

/// Every operation with its access, route, field and events: `snapshots/operations.txt`.
pub fn operations_table() -> String {
    let rows: Vec<[String; 5]> = Operation::ALL
        .iter()
        .map(|operation| {
            let spec = operation.spec();
            let events = spec.events.iter().map(|event| event.as_str()).collect::<Vec<_>>().join(" ");
            let graphql = spec.graphql.unwrap_or("-").to_owned();
            let route = spec.route.map_or("-".to_owned(), |route| format!("{} {}", route.method.as_str(), route.path));
            let events = if events.is_empty() { "-".to_owned() } else { events };
            [spec.name.to_owned(), spec.access.to_string(), route, graphql, events]
        })
        .collect();
    let header = ["operation", "access", "rest", "graphql", "events"].map(str::to_owned);
    let all: Vec<&[String; 5]> = std::iter::once(&header).chain(&rows).collect();
    let widths: Vec<usize> =
        (0..5).map(|column| all.iter().map(|row| row[column].len()).max().unwrap_or_default()).collect();
    let mut table = String::new();
    for row in all {
        let line = row.iter().zip(&widths).fold(String::new(), |mut line, (cell, width)| {
            write!(line, "{cell:<width$}  ").expect("a string takes all that is written");
            line
        });
        table.push_str(line.trim_end());
        table.push('\n');
    }
    table
}
