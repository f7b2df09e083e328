//! Accounts at the marketplaces: the person who runs the service connects an organization to each.

use crate::call::Call;
use crate::error::Result;
use crate::model::operation::Access;
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
