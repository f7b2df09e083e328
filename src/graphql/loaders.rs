//! Nested reads, batched: however many parents a page has, each kind of child is one query.

use std::collections::HashMap;
use std::sync::Arc;

use async_graphql::dataloader::{DataLoader, Loader};

use crate::call::Call;
use crate::error::Error;
use crate::model::entitlement::EntitlementSummary;
use crate::model::id::CustomerId;
use crate::resolvers::customers;

/// Loads for one request, with its caller's rights.
pub struct Loaders(Call);

pub fn loaders(call: Call) -> DataLoader<Loaders> {
    DataLoader::new(Loaders(call), tokio::spawn)
}

impl Loader<CustomerId> for Loaders {
    type Value = Vec<EntitlementSummary>;
    type Error = Arc<Error>;

    async fn load(&self, keys: &[CustomerId]) -> Result<HashMap<CustomerId, Self::Value>, Self::Error> {
        customers::entitlements_of(&self.0, keys).await.map_err(Arc::new)
    }
}
