//! Compares what we know of contracts with what the marketplaces have: each account every hour. Differences are listed;
//! one that somebody asks for is adopted, by the same steps as a notification that was missed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::adapters::Adapters;
use super::converge::{Told, Trouble, converge};
use super::hands::{self, Hands, Place, Worker};
use super::terms::{Contract, ContractStatus};
use crate::error::{Error, Result};
use crate::model::difference::Difference;
use crate::model::vendor::Vendor;
use crate::store::{Store, Tenant};

/// How long adopting for an account may take: within the lease.
const ADOPTING: Duration = Duration::from_secs(150);
/// How long a comparison may take; the next is an hour later.
const COMPARING: Duration = Duration::from_mins(10);

pub struct Reconciler {
    store: Store,
    adapters: Arc<Adapters>,
}

impl Worker for Reconciler {
    type Owner = Place;

    const INTERVAL: Duration = Duration::from_secs(5);
    const AT_ONCE: usize = 32;
    const WHAT: &'static str = "comparisons";

    /// One task for each account: what somebody asked for first, then what it is time for.
    async fn take(self: &Arc<Self>, hands: &mut Hands<Place>) -> Result<usize> {
        let mut orders: HashMap<Place, Vec<String>> = HashMap::new();
        if hands.room() > 0 {
            for (organization, vendor, contract) in self.store.take_adoptions(room(hands), &busy(hands)).await? {
                orders.entry((organization, vendor)).or_default().push(contract);
            }
        }
        let mut count = 0;
        for (place, contracts) in orders {
            count += contracts.len();
            let reconciler = Arc::clone(self);
            let task = async move { reconciler.adopt_all(place, contracts).await };
            self.begin(hands, place, ADOPTING, task);
        }
        if hands.room() > 0 {
            for place in self.store.take_comparisons(room(hands), &busy(hands)).await? {
                count += 1;
                let reconciler = Arc::clone(self);
                self.begin(hands, place, COMPARING, async move { reconciler.compare(place).await });
            }
        }
        Ok(count)
    }
}

fn room(hands: &Hands<Place>) -> i64 {
    i64::try_from(hands.room()).unwrap_or(i64::MAX)
}

fn busy(hands: &Hands<Place>) -> Vec<Place> {
    hands.load().into_keys().collect()
}

impl Reconciler {
    pub fn new(store: Store, adapters: Arc<Adapters>) -> Self {
        Self { store, adapters }
    }

    /// Adopts what somebody asked for, and compares what it is time for. Answers how much there was.
    pub async fn run(self: &Arc<Self>) -> Result<usize> {
        hands::run(self).await
    }

    /// Does something for an account, within its time.
    fn begin(
        &self,
        hands: &mut Hands<Place>,
        place: Place,
        patience: Duration,
        task: impl Future<Output = Result<()>> + Send + 'static,
    ) {
        let (organization, vendor) = place;
        hands.begin(place, async move {
            let late = || Err(Error::Unavailable("it took too long".to_owned()));
            if let Err(error) = timeout(patience, task).await.unwrap_or_else(|_| late()) {
                tracing::warn!(%organization, %vendor, %error, cause = error.cause(), "a marketplace could not be compared");
            }
        });
    }

    async fn compare(&self, (organization, vendor): Place) -> Result<()> {
        let tenant = &self.store.tenant(organization, None);
        let Some(adapter) = self.adapters.of(tenant, vendor).await? else { return Ok(()) };
        let contracts = adapter.contracts().await.map_err(|error| Error::Unavailable(error.to_string()))?;
        let mut found = Vec::new();
        for contract in contracts {
            let id = contract.id.clone();
            let Some(what) = differs(tenant, vendor, contract).await? else { continue };
            let found_at = tenant.clock().now();
            found.push(Difference { vendor, contract: id, what, found_at, is_being_adopted: false });
        }
        tenant.keep_differences(vendor, &found).await
    }

    /// Adopts what the marketplace has of these contracts by now. What may work later is still ordered.
    async fn adopt_all(&self, (organization, vendor): Place, ids: Vec<String>) -> Result<()> {
        let tenant = &self.store.tenant(organization, None);
        let Some(adapter) = self.adapters.of(tenant, vendor).await? else { return Ok(()) };
        let contracts = adapter.contracts().await.map_err(|error| Error::Unavailable(error.to_string()))?;
        for id in ids {
            let found = contracts.iter().find(|contract| contract.id == id);
            if let Some(told) = found.and_then(|it| told(vendor, it.clone())) {
                let outcome = converge(tenant, &told, None).await;
                tracing::info!(%organization, %vendor, contract = id, ?outcome, "a difference was adopted");
                if matches!(outcome, Err(Trouble::Later(_))) {
                    continue;
                }
            }
            tenant.end_difference(vendor, &id).await?;
        }
        Ok(())
    }
}

/// None of a contract that another one carries on, and of one whose state is not known.
fn told(vendor: Vendor, contract: Contract) -> Option<Told> {
    match contract.status {
        ContractStatus::Known(status) => Some(Told { vendor, contract, status, renews: false }),
        ContractStatus::Superseded | ContractStatus::Other(_) => None,
    }
}

/// What is different of a contract, if anything is.
async fn differs(tenant: &Tenant, vendor: Vendor, contract: Contract) -> Result<Option<String>> {
    let Some(told) = told(vendor, contract) else { return Ok(None) };
    let known = tenant.entitlements_at(vendor, &told.contract.id).await?.into_iter().next();
    Ok(match known {
        Some(known) => told.differs(&known, tenant.clock().now()),
        None if told.status.is_live() => Some(format!("not known here; {} at the marketplace", told.status)),
        None => None,
    })
}
