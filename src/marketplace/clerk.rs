//! Works off the outbox: what is due is taken up, the most urgent first, and given to the publisher or the reporter.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use tokio::time::Instant;

use super::adapters::Adapters;
use super::{publisher, reporter};
use crate::error::Result;
use crate::model::id::OrganizationId;
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::store::outbox::{Errand, Taken};
use crate::store::{Store, Tenant};

/// What is taken up at once: as much as is done within the lease, also by a marketplace that takes a second for each.
const PORTION: i64 = 50;
/// How often it is looked whether an account was connected.
const NO_ACCOUNT: TimeDelta = TimeDelta::minutes(5);
/// How long offers of an account are worked on at once. With what usage takes before and one call after it, it is within
/// the lease.
const PATIENCE: Duration = Duration::from_secs(40);
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

pub struct Clerk {
    store: Store,
    adapters: Arc<Adapters>,
}

impl Clerk {
    pub fn new(store: Store, adapters: Arc<Adapters>) -> Self {
        Self { store, adapters }
    }

    /// Does all that is due, and answers how much there was.
    pub async fn run(&self) -> Result<usize> {
        let mut done = 0;
        loop {
            let taken = self.store.take_errands(PORTION).await?;
            if taken.is_empty() {
                return Ok(done);
            }
            done += taken.len();
            let mut accounts: HashMap<(OrganizationId, Vendor), Vec<Taken>> = HashMap::new();
            for errand in taken {
                accounts.entry((errand.organization, errand.vendor)).or_default().push(errand);
            }
            // Each account at its own pace: a marketplace that is down holds nobody else up.
            let work = accounts.into_iter().map(|((organization, vendor), errands)| {
                let tenant = self.store.tenant(organization, None);
                async move {
                    if let Err(error) = self.work(&tenant, vendor, errands).await {
                        tracing::error!(cause = error.cause(), %organization, %vendor, "{error}: errands wait for their lease to end");
                    }
                }
            });
            futures_util::future::join_all(work).await;
        }
    }

    async fn work(&self, tenant: &Tenant, vendor: Vendor, errands: Vec<Taken>) -> Result<()> {
        let Some(adapter) = self.adapters.of(tenant, vendor).await? else {
            let due = tenant.clock().now().plus(NO_ACCOUNT);
            for taken in errands {
                match taken.errand {
                    Errand::Usage(_) => reporter::expire(tenant, taken, due).await?,
                    Errand::Offer(_) => tenant.keep_errand(&taken, Some(due), 0, taken.note.clone()).await?,
                }
            }
            return Ok(());
        };
        let (offers, usage): (Vec<_>, Vec<_>) =
            errands.into_iter().partition(|taken| matches!(taken.errand, Errand::Offer(_)));
        reporter::report(tenant, &adapter, usage).await?;
        let (began, mut reached) = (Instant::now(), true);
        for taken in offers {
            if reached && began.elapsed() < PATIENCE {
                reached = publisher::advance(tenant, &adapter, &taken).await?;
            } else {
                // One that cannot be reached, or is slow, would hold the others until their lease is over.
                let due = again(tenant, taken.tries);
                tenant.keep_errand(&taken, Some(due), taken.tries + 1, taken.note.clone()).await?;
            }
        }
        Ok(())
    }
}

/// When something that could not be done is tried again.
pub(super) fn again(tenant: &Tenant, tries: u32) -> Timestamp {
    let pause = (FIRST_PAUSE * 2_u32.pow(tries.min(16))).min(LONGEST_PAUSE);
    let spread = pause.mul_f64(0.9 + 0.2 * tenant.clock().fraction());
    tenant.clock().now().plus(TimeDelta::from_std(spread).unwrap_or_default())
}
