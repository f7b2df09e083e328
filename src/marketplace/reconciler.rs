//! Compares what we know of contracts with what the marketplaces have: each account every hour. Differences are listed;
//! one that somebody asks for is adopted, by the same steps as a notification that was missed.

use std::sync::Arc;

use super::adapters::Adapters;
use super::converge::{Told, Trouble, converge};
use super::terms::{Contract, ContractStatus};
use crate::error::{Error, Result};
use crate::model::difference::Difference;
use crate::model::id::OrganizationId;
use crate::model::vendor::Vendor;
use crate::store::{Store, Tenant};

/// What is taken up at once.
const PORTION: i64 = 50;

pub struct Reconciler {
    store: Store,
    adapters: Arc<Adapters>,
}

impl Reconciler {
    pub fn new(store: Store, adapters: Arc<Adapters>) -> Self {
        Self { store, adapters }
    }

    /// Adopts what somebody asked for, then compares what it is time for. Answers how much there was.
    pub async fn run(&self) -> Result<usize> {
        let adoptions = self.store.take_adoptions(PORTION).await?;
        let comparisons = self.store.take_comparisons(PORTION).await?;
        let done = adoptions.len() + comparisons.len();
        for (organization, vendor, contract) in adoptions {
            let tenant = self.store.tenant(organization, None);
            report(organization, vendor, self.adopt(&tenant, vendor, &contract).await);
        }
        for (organization, vendor) in comparisons {
            let tenant = self.store.tenant(organization, None);
            report(organization, vendor, self.compare(&tenant, vendor).await);
        }
        Ok(done)
    }

    async fn compare(&self, tenant: &Tenant, vendor: Vendor) -> Result<()> {
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

    /// Adopts what the marketplace has of a contract by now. What may work later is still ordered.
    async fn adopt(&self, tenant: &Tenant, vendor: Vendor, id: &str) -> Result<()> {
        let Some(adapter) = self.adapters.of(tenant, vendor).await? else { return Ok(()) };
        let contracts = adapter.contracts().await.map_err(|error| Error::Unavailable(error.to_string()))?;
        if let Some(told) = contracts.into_iter().find(|contract| contract.id == id).and_then(|it| told(vendor, it)) {
            let outcome = converge(tenant, &told, None).await;
            tracing::info!(organization = %tenant.organization(), %vendor, contract = id, ?outcome, "a difference was adopted");
            if matches!(outcome, Err(Trouble::Later(_))) {
                return Ok(());
            }
        }
        tenant.end_difference(vendor, id).await
    }
}

fn report(organization: OrganizationId, vendor: Vendor, result: Result<()>) {
    if let Err(error) = result {
        tracing::warn!(%organization, %vendor, %error, cause = error.cause(), "a marketplace could not be compared");
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
