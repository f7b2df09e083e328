//! What a document must satisfy before it runs: bounded aliases, and a cost that the caller can still pay. The cost is
//! known only after validation, so the limiter is asked here, once, and not by the transport.

use std::sync::Arc;

use async_graphql::extensions::{Extension, ExtensionContext, ExtensionFactory, NextParseQuery, NextValidation};
use async_graphql::parser::types::{ExecutableDocument, Selection, SelectionSet};
use async_graphql::{ServerError, ServerResult, ValidationResult, Variables, async_trait};

use super::{errors, limits};
use crate::auth::meter::Meter;
use crate::error::Error;

/// Complexity that costs one unit of the rate limit (`contract.md` §7).
const UNIT: usize = 100;

pub struct AdmissionFactory;

impl ExtensionFactory for AdmissionFactory {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Admission)
    }
}

struct Admission;

#[async_trait::async_trait]
impl Extension for Admission {
    async fn parse_query(
        &self,
        ctx: &ExtensionContext<'_>,
        query: &str,
        variables: &Variables,
        next: NextParseQuery<'_>,
    ) -> ServerResult<ExecutableDocument> {
        let document = next.run(ctx, query, variables).await?;
        let fragments = document.fragments.values().map(|fragment| &fragment.node.selection_set.node);
        let operations = document.operations.iter().map(|(_, operation)| &operation.node.selection_set.node);
        let aliases: usize = operations.chain(fragments).map(count_aliases).sum();
        if aliases > limits::ALIASES {
            return Err(refused(&Error::malformed("query", format!("has more than {} aliases", limits::ALIASES))));
        }
        Ok(document)
    }

    async fn validation(
        &self,
        ctx: &ExtensionContext<'_>,
        next: NextValidation<'_>,
    ) -> Result<ValidationResult, Vec<ServerError>> {
        let result = next.run(ctx).await?;
        if let Some(meter) = ctx.data_opt::<Arc<Meter>>() {
            let units = u32::try_from(result.complexity.div_ceil(UNIT)).unwrap_or(u32::MAX).max(1);
            meter.charge(units).map_err(|error| vec![refused(&error)])?;
        }
        Ok(result)
    }
}

fn refused(error: &Error) -> ServerError {
    let mut refusal = ServerError::new(error.to_string(), None);
    refusal.extensions = Some(errors::extensions(error));
    refusal
}

fn count_aliases(set: &SelectionSet) -> usize {
    set.items
        .iter()
        .map(|item| match &item.node {
            Selection::Field(field) => {
                usize::from(field.node.alias.is_some()) + count_aliases(&field.node.selection_set.node)
            }
            Selection::InlineFragment(fragment) => count_aliases(&fragment.node.selection_set.node),
            Selection::FragmentSpread(_) => 0,
        })
        .sum()
}
