//! What a subscription asks, found out once, and the document that shows one event to all who asked the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_graphql::parser::types::{
    BaseType, DocumentOperations, ExecutableDocument, FragmentDefinition, OperationDefinition, Selection, SelectionSet,
};
use async_graphql::{Name, Positioned, Request, ServerError, Value, Variables};
use futures_util::StreamExt;
use sha2::{Digest, Sha256};

use super::Graph;
use super::events::Run;
use crate::call::Call;
use crate::model::event::EventsAsked;

/// A subscription that is known to be valid.
pub struct Plan {
    pub asked: EventsAsked,
    /// The chosen operation alone, its root field first hand.
    document: ExecutableDocument,
    variables: Variables,
    /// Equal for those that are rendered alike: the text, the operation's name, the variables.
    pub digest: [u8; 32],
}

impl Plan {
    /// The library validates the document and reads the arguments; nothing else is executed. `request` is parsed and has
    /// passed [`super::document::check`].
    pub async fn make(graph: &Graph, call: &Call, mut request: Request) -> Result<Self, Vec<ServerError>> {
        let document = request.parsed_query().map_err(|error| vec![error])?.clone();
        let (query, name) = (request.query.clone(), request.operation_name.clone());
        let given = request.variables.clone();
        let written = ask(graph, request.data(call.clone())).await?;
        // Validated as it was written, so what is left of it is valid.
        let Some(document) = sole(document, name.as_deref()) else {
            return Err(vec![ServerError::new("The operation was not found", None)]);
        };
        let variables = without_sequences(&document, given.clone());
        let digest = digest(&query, name.as_deref(), &variables);
        let mut plan = Self { asked: EventsAsked::default(), document, variables, digest };
        plan.asked = match written {
            Some(asked) => asked,
            // The library does not look for root fields inside fragments.
            None => {
                let request = plan.request().variables(given).data(call.clone());
                let unasked = || vec![ServerError::new("The subscription has no root field", None)];
                ask(graph, request).await?.ok_or_else(unasked)?
            }
        };
        Ok(plan)
    }

    /// A request that renders, but for its data.
    pub fn request(&self) -> Request {
        let mut request = Request::new("").variables(self.variables.clone());
        request.set_parsed_query(self.document.clone());
        request
    }
}

async fn ask(graph: &Graph, request: Request) -> Result<Option<EventsAsked>, Vec<ServerError>> {
    let asked = Arc::new(Mutex::new(None));
    let mut responses = graph.execute_stream(request.data(Run::Plan(Arc::clone(&asked))));
    while let Some(response) = responses.next().await {
        if !response.errors.is_empty() {
            return Err(response.errors);
        }
    }
    let asked = asked.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(asked)
}

/// The chosen operation, its root field written out, with the fragments that it still spreads.
fn sole(document: ExecutableDocument, name: Option<&str>) -> Option<ExecutableDocument> {
    let mut fragments = document.fragments;
    let mut operation = match (document.operations, name) {
        (DocumentOperations::Single(operation), None) => operation,
        (DocumentOperations::Multiple(mut operations), Some(name)) => operations.remove(name)?,
        (DocumentOperations::Multiple(operations), None) => operations.into_values().next()?,
        (DocumentOperations::Single(_), Some(_)) => return None,
    };
    let mut fields = Vec::new();
    root_selections(&operation.node.selection_set.node, &fragments, &mut |item| {
        if let Selection::Field(field) = item {
            fields.push(field);
        }
    });
    let mut fields = fields.into_iter();
    let mut root = fields.next()?.clone();
    for again in fields {
        // The same field again, which validation has found to be equal: what is selected of it adds up.
        root.node.selection_set.node.items.extend(again.node.selection_set.node.items.iter().cloned());
    }
    let mut spread = Vec::new();
    spreads(&root.node.selection_set.node, &fragments, &mut spread);
    fragments.retain(|name, _| spread.contains(name));
    let pos = root.pos;
    operation.node.selection_set.node.items = vec![Positioned::new(Selection::Field(root), pos)];
    Some(ExecutableDocument { operations: DocumentOperations::Single(operation), fragments })
}

type Fragments = HashMap<Name, Positioned<FragmentDefinition>>;

/// Everything that stands at the root, through fragments. [`super::document::check`] has refused fragments that spread
/// themselves, and bounded what the others multiply to.
pub fn root_selections<'a>(set: &'a SelectionSet, fragments: &'a Fragments, visit: &mut impl FnMut(&'a Selection)) {
    for item in &set.items {
        visit(&item.node);
        let inside = match &item.node {
            Selection::Field(_) => None,
            Selection::InlineFragment(fragment) => Some(&fragment.node.selection_set),
            Selection::FragmentSpread(spread) => {
                fragments.get(&spread.node.fragment_name.node).map(|fragment| &fragment.node.selection_set)
            }
        };
        if let Some(set) = inside {
            root_selections(&set.node, fragments, visit);
        }
    }
}

/// The fragments that a selection needs, each once.
fn spreads(set: &SelectionSet, fragments: &Fragments, found: &mut Vec<Name>) {
    for item in &set.items {
        match &item.node {
            Selection::Field(field) => spreads(&field.node.selection_set.node, fragments, found),
            Selection::InlineFragment(fragment) => spreads(&fragment.node.selection_set.node, fragments, found),
            Selection::FragmentSpread(spread) => {
                let name = &spread.node.fragment_name.node;
                if found.contains(name) {
                    continue;
                }
                found.push(name.clone());
                if let Some(fragment) = fragments.get(name) {
                    spreads(&fragment.node.selection_set.node, fragments, found);
                }
            }
        }
    }
}

/// Variables of the type `Sequence` can only say where to begin, which has nothing to do with how an event looks; so
/// clients that come back with another place still share what is rendered.
fn without_sequences(document: &ExecutableDocument, mut variables: Variables) -> Variables {
    for definition in operations(document).flat_map(|operation| &operation.variable_definitions) {
        let kind = &definition.node.var_type.node;
        if matches!(&kind.base, BaseType::Named(name) if name == "Sequence") {
            let place = if kind.nullable { Value::Null } else { Value::from(0) };
            variables.insert(definition.node.name.node.clone(), place);
        }
    }
    variables
}

fn operations(document: &ExecutableDocument) -> impl Iterator<Item = &OperationDefinition> {
    document.operations.iter().map(|(_, operation)| &operation.node)
}

fn digest(query: &str, name: Option<&str>, variables: &Variables) -> [u8; 32] {
    // Objects are ordered maps here, so equal variables have equal bytes.
    let variables = serde_json::json!(variables).to_string();
    let mut digest = Sha256::new();
    for part in [query, name.unwrap_or_default(), &variables] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}
