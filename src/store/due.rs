//! What the clock moves: entitlements and offers whose moment has come, over all organizations. Each table has an index
//! on `due`, so a look reads only what is due.

use surrealdb::types::{RecordId, SurrealValue};

use super::{Store, organization_of, own_key, vars};
use crate::error::{Error, Result};
use crate::model::id::{EntitlementId, OrganizationId, PrivateOfferId};
use crate::model::time::Timestamp;

/// Something whose moment has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    Entitlement(EntitlementId),
    PrivateOffer(PrivateOfferId),
}

#[derive(SurrealValue)]
struct Row {
    id: RecordId,
    due: Timestamp,
}

#[derive(SurrealValue)]
struct Look {
    entitlements: Vec<Row>,
    offers: Vec<Row>,
}

const LOOK: &str = "RETURN {
    entitlements: (SELECT id, due FROM entitlement WITH INDEX entitlement_due
        WHERE due <= $now ORDER BY due LIMIT $portion),
    offers: (SELECT id, due FROM private_offer WITH INDEX private_offer_due
        WHERE due <= $now ORDER BY due LIMIT $portion)
}";

impl Store {
    /// The first of what is due, in the order of their moments; at most `portion` of each kind.
    pub async fn due(&self, portion: i64) -> Result<Vec<(Timestamp, OrganizationId, Due)>> {
        let vars = vars! { "now" => self.clock().now(), "portion" => portion };
        let found: Option<Look> = self.ask(LOOK, vars).await?;
        let Look { entitlements, offers } = found.ok_or_else(|| Error::internal("nothing was answered"))?;
        // Behind a full portion there are more; what the other kind has after them waits for its turn.
        let full = |rows: &[Row]| {
            rows.last().filter(|_| i64::try_from(rows.len()).is_ok_and(|found| found >= portion)).map(|row| row.due)
        };
        let horizon = [full(&entitlements), full(&offers)].into_iter().flatten().min();
        let mut due = Vec::new();
        for row in entitlements.into_iter().chain(offers) {
            if horizon.is_none_or(|horizon| row.due <= horizon) {
                let (organization, record) = owner(&row.id)?;
                due.push((row.due, organization, record));
            }
        }
        due.sort_unstable();
        Ok(due)
    }
}

fn owner(id: &RecordId) -> Result<(OrganizationId, Due)> {
    let (organization, key) = (organization_of(id)?, own_key(id)?);
    let due = match id.table.as_str() {
        "entitlement" => EntitlementId::from_key(key).map(Due::Entitlement),
        _ => PrivateOfferId::from_key(key).map(Due::PrivateOffer),
    };
    due.map(|due| (organization, due)).ok_or_else(|| Error::internal("the key of something due is broken"))
}
