//! Accounts at the marketplaces: the person who runs the service connects an organization to each. What a marketplace has
//! otherwise than we, and having it adopted.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::model::difference::{Difference, Subject};
use crate::model::operation::{Access, Operation};
use crate::model::vendor::Vendor;

/// Keeps an account, also in the place of another. It is sealed and never read back.
pub async fn connect(call: &Call, vendor: Vendor, account: &str) -> Result<()> {
    let tenant = call.grant(Access::Administrator)?;
    tenant.write(|| async { tenant.plan_account(vendor, account, &call.caller().name()) }).await
}

/// Forgets an account. What waits for it goes on waiting.
pub async fn disconnect(call: &Call, vendor: Vendor) -> Result<()> {
    let tenant = call.grant(Access::Administrator)?;
    tenant.write(|| async { Ok(tenant.plan_account_removed(vendor, &call.caller().name())) }).await
}

/// What the last comparisons found.
pub async fn differences(call: &Call) -> Result<Vec<Difference>> {
    call.grant(Operation::MarketplacesDifferences.access())?.list_differences().await
}

/// Has what the marketplace has become ours. It happens soon after, and emits what was missed.
pub async fn adopt(call: &Call, vendor: Vendor, subject: &Subject) -> Result<Difference> {
    let tenant = call.grant(Operation::MarketplacesAdopt.access())?;
    tenant
        .write(|| async {
            let known = tenant.list_differences().await?.into_iter();
            let mut named = known.filter(|known| known.vendor == vendor && known.subject == *subject);
            let difference = named.next().ok_or(Error::NOT_FOUND)?;
            if !difference.is_adoptable {
                return Err(Error::conflict(format!("There is nothing to adopt: {}", difference.what)));
            }
            Ok(tenant.plan_adoption(difference, &call.caller().name()))
        })
        .await
}

/// Has a marketplace compared now, and not only within the hour.
pub async fn compare(call: &Call, vendor: Vendor) -> Result<()> {
    let tenant = call.grant(Operation::MarketplacesCompare.access())?;
    let connected = tenant.compare_now(vendor).await?;
    if connected { Ok(()) } else { Err(Error::conflict(format!("No account of {vendor} is connected"))) }
}
