//! Compares what we know of contracts, of the changes that wait for an answer and of usage with what the marketplaces have:
//! each account every hour. Differences are listed; one that somebody asks for is adopted, by the same steps as a
//! notification that was missed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::adapter::Adapter;
use super::adapters::Adapters;
use super::converge::{Outcome, Told, Trouble};
use super::hands::{self, Hands, Place, Worker};
use super::http::MarketplaceError;
use super::terms::{Contract, ContractStatus};
use super::{accepted, cloud_a, cloud_b};
use crate::error::{Error, Result};
use crate::model::difference::{Difference, DifferenceKind, Subject};
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
        let mut orders: HashMap<Place, Vec<Subject>> = HashMap::new();
        if hands.room() > 0 {
            for (organization, vendor, subject) in self.store.take_adoptions(room(hands), &busy(hands)).await? {
                orders.entry((organization, vendor)).or_default().push(subject);
            }
        }
        let mut count = 0;
        for (place, subjects) in orders {
            count += subjects.len();
            let reconciler = Arc::clone(self);
            let late = |_| Err(Error::Unavailable("it took too long".to_owned()));
            let task =
                async move { timeout(ADOPTING, reconciler.adopt_all(place, subjects)).await.unwrap_or_else(late) };
            begin(hands, place, task);
        }
        if hands.room() > 0 {
            for place in self.store.take_comparisons(room(hands), &busy(hands)).await? {
                count += 1;
                let reconciler = Arc::clone(self);
                begin(hands, place, async move { reconciler.compare(place).await });
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

/// Does something for an account.
fn begin(hands: &mut Hands<Place>, place: Place, task: impl Future<Output = Result<()>> + Send + 'static) {
    let (organization, vendor) = place;
    hands.begin(place, async move {
        if let Err(error) = task.await {
            tracing::warn!(%organization, %vendor, %error, cause = error.cause(), "a marketplace could not be compared");
        }
    });
}

impl Reconciler {
    pub fn new(store: Store, adapters: Arc<Adapters>) -> Self {
        Self { store, adapters }
    }

    /// Adopts what somebody asked for, and compares what it is time for. Answers how much there was.
    pub async fn run(self: &Arc<Self>) -> Result<usize> {
        hands::run(self).await
    }

    /// What could not be compared is listed as well: nothing found must not look like nothing different.
    async fn compare(&self, (organization, vendor): Place) -> Result<()> {
        let tenant = &self.store.tenant(organization, None);
        let Some(adapter) = self.adapters.of(tenant, vendor).await? else { return Ok(()) };
        let late = |_| Err(Error::Unavailable("it took too long".to_owned()));
        let compared = timeout(COMPARING, look(tenant, vendor, &adapter)).await.unwrap_or_else(late);
        let failed = compared.as_ref().err().map(|error| {
            // What is wrong inside is for the log.
            let why = if let Error::Unavailable(why) = error { why.clone() } else { error.to_string() };
            let (id, what) = (vendor.to_string(), format!("could not be compared: {why}"));
            Difference::new(vendor, DifferenceKind::Account, id, what, tenant.clock().now()).for_a_person()
        });
        tenant.keep_differences(vendor, DifferenceKind::Account, failed.as_slice()).await.and(compared)
    }

    /// Adopts what the marketplace has of these by now. What may work later is still ordered.
    async fn adopt_all(&self, (organization, vendor): Place, subjects: Vec<Subject>) -> Result<()> {
        let tenant = &self.store.tenant(organization, None);
        let Some(adapter) = self.adapters.of(tenant, vendor).await? else { return Ok(()) };
        let agreements = match &adapter {
            Adapter::CloudA(cloud) => cloud.agreements().await.map_err(MarketplaceError::unavailable)?,
            Adapter::CloudB(_) => Vec::new(),
        };
        for subject in subjects {
            let outcome = match (&adapter, subject.kind) {
                (Adapter::CloudA(_), DifferenceKind::Contract) => {
                    cloud_a::notices::adopt(tenant, &agreements, &subject.id).await
                }
                (Adapter::CloudB(cloud), DifferenceKind::Contract) => {
                    cloud_b::notices::receive(tenant, cloud, &subject.id, None).await
                }
                (Adapter::CloudB(cloud), DifferenceKind::Operation) => {
                    cloud_b::notices::adopt(tenant, cloud, &subject.id).await
                }
                (_, DifferenceKind::Usage) => accepted::adopt(tenant, &adapter, &subject.id).await,
                (Adapter::CloudA(_), DifferenceKind::Operation) | (_, DifferenceKind::Account) => {
                    Ok(Outcome::Ignored("there is nothing to adopt".to_owned()))
                }
            };
            tracing::info!(%organization, %vendor, ?subject, ?outcome, "a difference was adopted");
            if !matches!(outcome, Err(Trouble::Later(_))) {
                tenant.end_difference(vendor, &subject).await?;
            }
        }
        Ok(())
    }
}

/// Whatever can be compared is kept, also when the rest cannot.
async fn look(tenant: &Tenant, vendor: Vendor, adapter: &Adapter) -> Result<()> {
    let listed = adapter.contracts().await.map_err(MarketplaceError::unavailable)?;
    let operations = match adapter {
        Adapter::CloudA(_) => Ok(Vec::new()),
        Adapter::CloudB(cloud) => cloud_b::notices::untold(tenant, cloud, &listed).await,
    };
    let now = tenant.clock().now();
    let named = |kind| move |(id, what)| Difference::new(vendor, kind, id, what, now);
    let operations = operations.map(|found| found.into_iter().map(named(DifferenceKind::Operation)).collect());
    let contracts = contracts(tenant, vendor, listed).await;
    let contracts = contracts.map(|found| found.into_iter().map(named(DifferenceKind::Contract)).collect());
    let mut kept = Ok(());
    for (kind, found) in [
        (DifferenceKind::Contract, contracts),
        (DifferenceKind::Operation, operations),
        (DifferenceKind::Usage, accepted::compare(tenant, adapter).await),
    ] {
        let found: Result<Vec<Difference>> = found;
        kept = match found {
            Ok(found) => tenant.keep_differences(vendor, kind, &found).await.and(kept),
            Err(error) => Err(error),
        };
    }
    kept
}

/// The contracts that are different, and in what.
async fn contracts(tenant: &Tenant, vendor: Vendor, listed: Vec<Contract>) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for contract in listed {
        // None of a contract that another one carries on, and of one whose state is not known.
        let ContractStatus::Known(status) = contract.status else { continue };
        let told = Told { vendor, contract, status, renews: false };
        let known = tenant.entitlements_at(vendor, &told.contract.id).await?.into_iter().next();
        let what = match known {
            Some(known) => told.differs(&known, tenant.clock().now()),
            None => status.is_live().then(|| format!("not known here; {status} at the marketplace")),
        };
        found.extend(what.map(|what| (told.contract.id, what)));
    }
    Ok(found)
}
