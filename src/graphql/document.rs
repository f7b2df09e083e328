//! What a document must satisfy before the library works on it. The library expands every fragment wherever it is spread
//! and descends into values without a bound of its own, so size and depth are settled here, in one pass each.

use std::collections::{HashMap, HashSet};

use async_graphql::parser::types::{ExecutableDocument, OperationDefinition, OperationType, Selection, SelectionSet};
use async_graphql::{Name, Positioned, ServerError, Variables};

use super::plan::root_selections;
use super::{errors, limits};
use crate::error::Error;
use crate::http::json;

/// Bounds the source: its size, and how deep real brackets nest. Those in comments and strings are text.
pub fn check_source(query: &str) -> Result<(), Error> {
    if query.len() > limits::DOCUMENT {
        return Err(Error::malformed("query", format!("must not be larger than {} bytes", limits::DOCUMENT)));
    }
    let mut open = 0_usize;
    let mut rest = query.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = match byte {
            b'#' => skip_comment(after),
            b'"' => skip_string(rest),
            _ => after,
        };
        match byte {
            b'{' | b'[' | b'(' => open += 1,
            b'}' | b']' | b')' => open = open.saturating_sub(1),
            _ => {}
        }
        if open > limits::NESTING {
            return Err(Error::malformed("query", format!("must not nest deeper than {}", limits::NESTING)));
        }
    }
    // The library reads numbers as doubles.
    if let Some(number) = json::inexact_numbers(query.as_bytes()).into_iter().next() {
        let place = format!("has a number of more than 15 digits at {}; send it as a string", number.start);
        return Err(Error::malformed("query", place));
    }
    Ok(())
}

fn skip_comment(rest: &[u8]) -> &[u8] {
    let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
    &rest[end..]
}

/// What follows the string that `rest` begins with. One that does not end is the parser's to refuse.
fn skip_string(rest: &[u8]) -> &[u8] {
    let (quote, escape): (&[u8], &[u8]) =
        if rest.starts_with(b"\"\"\"") { (b"\"\"\"", b"\\\"\"\"") } else { (b"\"", b"\\") };
    let mut rest = &rest[quote.len()..];
    while !rest.is_empty() {
        if rest.starts_with(escape) {
            // A block string escapes its quote only; a plain one whatever follows.
            rest = rest.get(escape.len().max(2)..).unwrap_or_default();
        } else if rest.starts_with(quote) {
            return &rest[quote.len()..];
        } else if quote.len() == 1 && matches!(rest[0], b'\n' | b'\r') {
            // The parser refuses a plain string that runs over its line; what follows is counted again.
            return rest;
        } else {
            rest = &rest[1..];
        }
    }
    rest
}

/// Parses and checks the document of a request, once; the execution takes what was parsed.
pub fn understand(request: &mut async_graphql::Request) -> Result<Option<OperationType>, ServerError> {
    let (name, variables) = (request.operation_name.clone(), request.variables.clone());
    check(request.parsed_query()?, name.as_deref(), &variables)
}

/// Checks a parsed document, and tells what its chosen operation is.
pub fn check(
    document: &ExecutableDocument,
    operation_name: Option<&str>,
    variables: &Variables,
) -> Result<Option<OperationType>, ServerError> {
    bound(document).map_err(|error| refused(&error))?;
    let mut operations = document.operations.iter();
    let chosen = operations.find(|(name, _)| match operation_name {
        Some(wanted) => name.is_some_and(|name| name.as_str() == wanted),
        None => document.operations.iter().count() == 1,
    });
    // An ambiguous or unknown name is reported by the library, which has the words for it.
    let Some((_, operation)) = chosen else { return Ok(None) };
    require_variables(&operation.node, variables)?;
    if operation.node.ty == OperationType::Subscription {
        require_one_root(document, operation)?;
    }
    Ok(Some(operation.node.ty))
}

/// A variable without which nothing may run (GraphQL, "Coercing Variable Values"): found now, not after half of a mutation.
fn require_variables(operation: &OperationDefinition, variables: &Variables) -> Result<(), ServerError> {
    for definition in &operation.variable_definitions {
        let definition = &definition.node;
        let given = variables.get(&definition.name.node);
        let needed = !definition.var_type.node.nullable;
        let missing = given.is_none() && definition.default_value.is_none();
        let null = given.is_some_and(|value| matches!(value, async_graphql::Value::Null));
        if needed && (missing || null) {
            let text =
                format!("Variable ${} of required type {} was not provided", definition.name.node, definition.var_type);
            return Err(ServerError::new(text, Some(definition.name.pos)));
        }
    }
    Ok(())
}

/// A subscription has one root field (GraphQL, "Single Root Field"), and nothing at its root is conditional.
fn require_one_root(
    document: &ExecutableDocument,
    operation: &Positioned<OperationDefinition>,
) -> Result<(), ServerError> {
    let refuse = |text: &str| Err(ServerError::new(text, Some(operation.pos)));
    let (mut fields, mut is_conditional) = (Vec::new(), false);
    root_selections(&operation.node.selection_set.node, &document.fragments, &mut |item| {
        is_conditional |= !item.directives().is_empty();
        if let Selection::Field(field) = item {
            fields.push(&field.node);
        }
    });
    let keys: HashSet<&Name> = fields.iter().map(|field| &field.response_key().node).collect();
    if keys.len() != 1 {
        return refuse("A subscription must have exactly one root field");
    }
    if fields.iter().any(|field| field.name.node.starts_with("__")) {
        return refuse("A subscription must not have an introspection field at its root");
    }
    if is_conditional {
        return refuse("A subscription must not have directives at its root");
    }
    Ok(())
}

pub fn refused(error: &Error) -> ServerError {
    let mut refusal = ServerError::new(error.to_string(), None);
    refusal.extensions = Some(errors::extensions(error));
    refusal
}

/// Fields and aliases, every fragment counted wherever it is spread.
#[derive(Clone, Copy, Default)]
struct Weight {
    fields: usize,
    aliases: usize,
}

impl Weight {
    fn add(&mut self, other: Self) {
        self.fields = self.fields.saturating_add(other.fields);
        self.aliases = self.aliases.saturating_add(other.aliases);
    }
}

fn bound(document: &ExecutableDocument) -> Result<(), Error> {
    if document.fragments.len() > limits::FRAGMENTS {
        return Err(Error::malformed("query", format!("has more than {} fragments", limits::FRAGMENTS)));
    }
    let mut scale = Scale { document, known: HashMap::new() };
    let mut total = Weight::default();
    let fragments = document.fragments.values().map(|fragment| &fragment.node.selection_set.node);
    let operations = document.operations.iter().map(|(_, operation)| &operation.node.selection_set.node);
    for set in operations.chain(fragments) {
        total.add(scale.weigh(set)?);
    }
    if total.aliases > limits::ALIASES {
        return Err(Error::malformed("query", format!("has more than {} aliases", limits::ALIASES)));
    }
    if total.fields > limits::COMPLEXITY {
        return Err(Error::malformed("query", format!("has more than {} fields", limits::COMPLEXITY)));
    }
    Ok(())
}

/// Weighs selections; each fragment once, whatever spreads it.
struct Scale<'a> {
    document: &'a ExecutableDocument,
    /// None while the fragment is being weighed, to see one that spreads itself.
    known: HashMap<&'a Name, Option<Weight>>,
}

impl<'a> Scale<'a> {
    fn weigh(&mut self, set: &'a SelectionSet) -> Result<Weight, Error> {
        let mut weight = Weight::default();
        for item in &set.items {
            let inside = match &item.node {
                Selection::Field(field) => {
                    weight.add(Weight { fields: 1, aliases: usize::from(field.node.alias.is_some()) });
                    self.weigh(&field.node.selection_set.node)?
                }
                Selection::InlineFragment(fragment) => self.weigh(&fragment.node.selection_set.node)?,
                Selection::FragmentSpread(spread) => self.weigh_fragment(&spread.node.fragment_name.node)?,
            };
            weight.add(inside);
        }
        Ok(weight)
    }

    fn weigh_fragment(&mut self, name: &'a Name) -> Result<Weight, Error> {
        // An unknown fragment is reported by the library's validation.
        let Some(fragment) = self.document.fragments.get(name) else { return Ok(Weight::default()) };
        match self.known.get(name) {
            Some(Some(weight)) => return Ok(*weight),
            Some(None) => {
                return Err(Error::malformed("query", format!("has the fragment {name}, which spreads itself")));
            }
            None => {}
        }
        self.known.insert(name, None);
        let weight = self.weigh(&fragment.node.selection_set.node)?;
        self.known.insert(name, Some(weight));
        Ok(weight)
    }
}
