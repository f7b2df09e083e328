//! What was bought with an agreement, as usage of it has to name it: the product's code there, and the licence.

use surrealdb::types::{RecordId, SurrealValue};

use super::{Tenant, vars};
use crate::error::Result;
use crate::model::time::Timestamp;

#[derive(Clone, Debug, Default, PartialEq, Eq, SurrealValue)]
pub struct Bought {
    pub product_code: Option<String>,
    pub licence: Option<String>,
    /// When the agreement begins.
    pub since: Option<Timestamp>,
}

impl Tenant {
    /// Nothing is known of an agreement that was never told of.
    pub async fn bought(&self, agreement: &str) -> Result<Bought> {
        const FIND: &str = "SELECT product_code, licence, since FROM ONLY $record";
        let vars = vars! { "record" => self.bought_record(agreement) };
        Ok(self.store.ask::<Option<Bought>>(FIND, vars).await?.unwrap_or_default())
    }

    /// Keeps what was told. What was not told this time stays as it was, but a licence that is gone goes.
    pub async fn keep_bought(&self, agreement: &str, told: &Bought, licence_is_gone: bool) -> Result<()> {
        const KEEP: &str = "UPSERT ONLY $record SET product_code = $code ?? product_code, since = $since ?? since,
            licence = IF $gone { NONE } ELSE { $licence ?? licence } RETURN NONE";
        let vars = vars! {
            "record" => self.bought_record(agreement), "code" => told.product_code.clone(), "since" => told.since,
            "licence" => told.licence.clone(), "gone" => licence_is_gone,
        };
        self.store.run(KEEP, vars).await
    }

    fn bought_record(&self, agreement: &str) -> RecordId {
        self.record("bought", agreement)
    }
}
