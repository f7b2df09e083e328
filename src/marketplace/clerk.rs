//! Works off the outbox: what is due is taken up, the most urgent first, and given to the publisher or the reporter.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use tokio::time::Instant;

use super::adapters::Adapters;
use super::hands::{self, Hands, Place, Worker};
use super::{publisher, reporter};
use crate::error::Result;
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::store::outbox::{Errand, Taken};
use crate::store::{Store, Tenant};

/// What is taken up at once, be it all of one account: as much as is done within the lease, also by a marketplace that takes
/// a second for each.
const PORTION: usize = 50;
/// How often it is looked whether an account was connected.
const NO_ACCOUNT: TimeDelta = TimeDelta::minutes(5);
/// How long an account is worked on before another offer is begun. With the steps of the last one it is within the lease.
const PATIENCE: Duration = Duration::from_secs(40);
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

pub struct Clerk {
    store: Store,
    adapters: Arc<Adapters>,
}

impl Worker for Clerk {
    type Owner = Place;

    const INTERVAL: Duration = Duration::from_secs(1);
    const AT_ONCE: usize = 128;
    const WHAT: &'static str = "errands";

    /// One task for each account. While it lasts, nothing more of the account is taken up: others get in, however much of
    /// it is due.
    async fn take(self: &Arc<Self>, hands: &mut Hands<Place>) -> Result<usize> {
        let room = hands.room().min(PORTION);
        if room == 0 {
            return Ok(0);
        }
        let busy: Vec<Place> = hands.load().into_keys().collect();
        let taken = self.store.take_errands(i64::try_from(room).unwrap_or(i64::MAX), &busy).await?;
        let count = taken.len();
        let mut accounts: HashMap<Place, Vec<Taken>> = HashMap::new();
        for errand in taken {
            accounts.entry((errand.organization, errand.vendor)).or_default().push(errand);
        }
        for ((organization, vendor), errands) in accounts {
            let clerk = Arc::clone(self);
            hands.begin((organization, vendor), async move {
                let tenant = clerk.store.tenant(organization, None);
                if let Err(error) = clerk.serve(&tenant, vendor, errands).await {
                    tracing::error!(cause = error.cause(), %organization, %vendor, "{error}: errands wait for their lease to end");
                }
            });
        }
        Ok(count)
    }
}

impl Clerk {
    pub fn new(store: Store, adapters: Arc<Adapters>) -> Self {
        Self { store, adapters }
    }

    /// Does all that is due, and answers how much there was.
    pub async fn run(self: &Arc<Self>) -> Result<usize> {
        hands::run(self).await
    }

    async fn serve(&self, tenant: &Tenant, vendor: Vendor, errands: Vec<Taken>) -> Result<()> {
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
        let (began, mut reached) = (Instant::now(), true);
        reporter::report(tenant, &adapter, usage).await?;
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
