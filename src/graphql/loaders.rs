//! Nested reads, batched: however many parents a page has, each kind of child is one query. Each passes the guard of its
//! own resource, so a parent's scope does not open its children.

use std::collections::HashMap;
use std::future::poll_fn;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_graphql::Context;
use async_graphql::dataloader::{DataLoader, Loader};
use futures_util::future::BoxFuture;
use tracing::Instrument;

use super::errors::fault;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::model::customer::Customer;
use crate::model::delivery::Delivery;
use crate::model::entitlement::{Entitlement, EntitlementSummary, HistoryEntry};
use crate::model::event::Kinds;
use crate::model::id::{CustomerId, EntitlementId, PrivateOfferId, WebhookId};
use crate::model::metering::MeteringSubmission;
use crate::model::offer::PrivateOffer;
use crate::model::page::Page;
use crate::resolvers::{customers, deliveries, entitlements, metering, offers};

/// Loads for one request, with its caller's rights.
pub struct Loaders(Call);

/// Loads that wait for the rest of their batch.
#[derive(Clone, Default)]
pub struct Batches(Arc<Mutex<Vec<BoxFuture<'static, ()>>>>);

pub fn loaders(call: Call) -> (DataLoader<Loaders>, Batches) {
    let batches = Batches::default();
    let waiting = batches.clone();
    let spawner = move |load| waiting.0.lock().unwrap_or_else(PoisonError::into_inner).push(load);
    (DataLoader::new(Loaders(call), spawner).delay(Duration::ZERO), batches)
}

impl Batches {
    /// Runs an execution. A load starts when the execution can go no further without it, and never sooner: by then every
    /// sibling has asked, so one level of the answer is one query, without waiting for a timer.
    pub async fn drive<T>(self, execution: impl Future<Output = T>) -> T {
        let mut execution = pin!(execution);
        poll_fn(|context| {
            let polled = execution.as_mut().poll(context);
            if polled.is_pending() {
                let waiting = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
                for load in waiting {
                    drop(tokio::spawn(load.in_current_span()));
                }
            }
            polled
        })
        .await
    }
}

/// One value, loaded with its siblings'.
pub async fn load<K>(ctx: &Context<'_>, key: K) -> async_graphql::Result<Option<<Loaders as Loader<K>>::Value>>
where
    K: Send + Sync + Hash + Eq + Clone + 'static,
    Loaders: Loader<K, Error = Arc<Error>>,
{
    let loaded = ctx.data_unchecked::<DataLoader<Loaders>>().load_one(key).await;
    loaded.map_err(|error| fault(Arc::unwrap_or_clone(error)))
}

type Loaded<K, V> = Result<HashMap<K, V>, Arc<Error>>;

/// The short forms that a customer's single form shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SummariesOf(pub CustomerId);

impl Loader<SummariesOf> for Loaders {
    type Value = Vec<EntitlementSummary>;
    type Error = Arc<Error>;

    async fn load(&self, keys: &[SummariesOf]) -> Loaded<SummariesOf, Self::Value> {
        let ids: Vec<CustomerId> = keys.iter().map(|key| key.0).collect();
        let found = customers::entitlements_of(&self.0, &ids).await?;
        Ok(found.into_iter().map(|(id, summaries)| (SummariesOf(id), summaries)).collect())
    }
}

/// The first page of one kind of a customer's children.
macro_rules! children {
    ($key:ident, $value:ty, $load:path) => {
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $key {
            pub customer: CustomerId,
            pub limit: usize,
        }

        impl Loader<$key> for Loaders {
            type Value = Page<Arc<$value>>;
            type Error = Arc<Error>;

            async fn load(&self, keys: &[$key]) -> Loaded<$key, Self::Value> {
                let mut by_limit: HashMap<usize, Vec<CustomerId>> = HashMap::new();
                for key in keys {
                    by_limit.entry(key.limit).or_default().push(key.customer);
                }
                let mut pages = HashMap::new();
                for (limit, customers) in by_limit {
                    let found = $load(&self.0, &customers, limit).await?;
                    pages.extend(found.into_iter().map(|(customer, page)| ($key { customer, limit }, page)));
                }
                Ok(pages)
            }
        }
    };
}

children!(EntitlementsOf, Entitlement, entitlements::of_each);
children!(OffersOf, PrivateOffer, offers::of_each);
children!(MeteringOf, MeteringSubmission, metering::of_each);

/// The first page of a webhook's deliveries. Its kinds are asked for, because they decide who may read them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeliveriesOf {
    pub webhook: WebhookId,
    pub kinds: Kinds,
    pub limit: usize,
}

impl Loader<DeliveriesOf> for Loaders {
    type Value = Page<Delivery>;
    type Error = Arc<Error>;

    async fn load(&self, keys: &[DeliveriesOf]) -> Loaded<DeliveriesOf, Self::Value> {
        let kinds = keys.iter().flat_map(|key| key.kinds.iter()).collect();
        let limit = keys.iter().map(|key| key.limit).max().unwrap_or_default();
        let webhooks: Vec<WebhookId> = keys.iter().map(|key| key.webhook).collect();
        let found = deliveries::of_each(&self.0, &webhooks, kinds, limit).await?;
        let page = |key: &DeliveriesOf| (*key, found.get(&key.webhook).cloned().unwrap_or_default().cut(key.limit));
        Ok(keys.iter().map(page).collect())
    }
}

impl Loader<CustomerId> for Loaders {
    type Value = Customer;
    type Error = Arc<Error>;

    async fn load(&self, ids: &[CustomerId]) -> Loaded<CustomerId, Customer> {
        let found = customers::get_many(&self.0, ids).await?;
        Ok(found.into_iter().map(|customer| (customer.id, customer)).collect())
    }
}

impl Loader<EntitlementId> for Loaders {
    type Value = Entitlement;
    type Error = Arc<Error>;

    async fn load(&self, ids: &[EntitlementId]) -> Loaded<EntitlementId, Entitlement> {
        let found = entitlements::get_many(&self.0, ids).await?;
        Ok(found.into_iter().map(|entitlement| (entitlement.id, entitlement)).collect())
    }
}

/// The history of an entitlement.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HistoryOf(pub EntitlementId);

impl Loader<HistoryOf> for Loaders {
    type Value = Vec<HistoryEntry>;
    type Error = Arc<Error>;

    async fn load(&self, keys: &[HistoryOf]) -> Loaded<HistoryOf, Vec<HistoryEntry>> {
        let ids: Vec<EntitlementId> = keys.iter().map(|key| key.0).collect();
        let found = entitlements::histories(&self.0, &ids).await?;
        Ok(found.into_iter().map(|(id, history)| (HistoryOf(id), history)).collect())
    }
}

impl Loader<PrivateOfferId> for Loaders {
    type Value = PrivateOffer;
    type Error = Arc<Error>;

    async fn load(&self, ids: &[PrivateOfferId]) -> Loaded<PrivateOfferId, PrivateOffer> {
        let found = offers::get_many(&self.0, ids).await?;
        Ok(found.into_iter().map(|offer| (offer.id, offer)).collect())
    }
}

/// The neighbours of an offer in its agreement chain.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainOf(pub PrivateOfferId);

#[derive(Clone, Default)]
pub struct Neighbours {
    pub replaces: Option<PrivateOfferId>,
    pub replaced_by: Vec<PrivateOfferId>,
}

impl Loader<ChainOf> for Loaders {
    type Value = Neighbours;
    type Error = Arc<Error>;

    async fn load(&self, keys: &[ChainOf]) -> Loaded<ChainOf, Neighbours> {
        let ids: Vec<PrivateOfferId> = keys.iter().map(|key| key.0).collect();
        let mut chains: HashMap<ChainOf, Neighbours> = HashMap::new();
        for (newer, older) in offers::replacements(&self.0, &ids).await? {
            chains.entry(ChainOf(newer)).or_default().replaces = Some(older);
            let replacing = &mut chains.entry(ChainOf(older)).or_default().replaced_by;
            if !replacing.contains(&newer) {
                replacing.push(newer);
            }
        }
        Ok(chains)
    }
}
