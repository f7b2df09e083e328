//! The adapters of this process: one for each organization and vendor with an account, made when it is first needed and
//! again when the account was changed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::accounts::Account;
use super::adapter::Adapter;
use super::http::Client;
use crate::error::{Error, Result};
use crate::model::id::OrganizationId;
use crate::model::vendor::Vendor;
use crate::store::Tenant;

pub struct Adapters {
    client: Client,
    known: Mutex<HashMap<(OrganizationId, Vendor), (i64, Adapter)>>,
}

impl Adapters {
    pub fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// The one that was made last, without a look at the database: its account may have changed since.
    pub fn remembered(&self, organization: OrganizationId, vendor: Vendor) -> Option<Adapter> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(organization, vendor)).map(|(_, adapter)| adapter.clone())
    }

    /// None while no account is connected.
    pub async fn of(&self, tenant: &Tenant, vendor: Vendor) -> Result<Option<Adapter>> {
        let place = (tenant.organization(), vendor);
        let Some(stored) = tenant.marketplace_account(vendor).await? else {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
            return Ok(None);
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, adapter)) = known.get(&place).filter(|(revision, _)| *revision == stored.revision) {
            return Ok(Some(adapter.clone()));
        }
        let account: Account = serde_json::from_str(&stored.account).map_err(Error::internal)?;
        let adapter = Adapter::new(account, self.client.clone());
        known.insert(place, (stored.revision, adapter.clone()));
        Ok(Some(adapter))
    }
}
