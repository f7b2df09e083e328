//! Accounts at the marketplaces, sealed. What is in one is known in `marketplace`; here it is a text.

use surrealdb::types::{RecordId, SurrealValue};

use super::write::{Block, Plan};
use super::{Tenant, vars};
use crate::error::Result;
use crate::model::vendor::Vendor;

/// An account, and how often it was changed.
pub struct StoredAccount {
    pub account: String,
    pub revision: i64,
}

#[derive(SurrealValue)]
struct Row {
    account: String,
    revision: i64,
}

impl Tenant {
    pub async fn marketplace_account(&self, vendor: Vendor) -> Result<Option<StoredAccount>> {
        let vars = vars! { "record" => self.account_record(vendor) };
        let row: Option<Row> = self.store.ask("SELECT account, revision FROM ONLY $record", vars).await?;
        let open = |row: Row| {
            let account = self.unseal(&self.account_place(vendor), &row.account)?;
            Ok(StoredAccount { account, revision: row.revision })
        };
        row.map(open).transpose()
    }

    /// Keeps an account, also in the place of another.
    pub fn plan_account(&self, vendor: Vendor, account: &str, actor: &str) -> Result<Plan<()>> {
        const KEEP: &str = "UPSERT ONLY $account SET account = $sealed, updated_at = $now, compare_at = $now,
            revision = (revision OR 0) + 1 RETURN NONE;";
        let vars = vars! {
            "account" => self.account_record(vendor), "now" => self.clock().now(),
            "sealed" => self.seal(&self.account_place(vendor), account)?,
        };
        let block = Block::default().then(KEEP, vars);
        Ok(Plan::quiet((), self.audited(block, actor, "marketplace.connected", vendor.as_str().to_owned())))
    }

    pub fn plan_account_removed(&self, vendor: Vendor, actor: &str) -> Plan<()> {
        let block = Block::default().then("DELETE $account;", vars! { "account" => self.account_record(vendor) });
        Plan::quiet((), self.audited(block, actor, "marketplace.disconnected", vendor.as_str().to_owned()))
    }

    fn account_record(&self, vendor: Vendor) -> RecordId {
        self.record("marketplace", vendor.as_str())
    }

    /// What an account is sealed for: it opens nowhere else.
    fn account_place(&self, vendor: Vendor) -> String {
        format!("{}/{vendor}", self.organization)
    }
}
