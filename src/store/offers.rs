//! Private offers in the store.

use std::collections::HashMap;
use std::sync::Arc;

use surrealdb::types::SurrealValue;
use ulid::Ulid;

use super::customers::{CustomerState, Row as CustomerRow};
use super::documents::{Owned, body, listed_columns, never, parse};
use super::lists::words_column;
use super::write::{Block, Seen};
use super::{Tenant, vars};
use crate::error::{Error, Result};
use crate::model::filter::{Filter, Order, OrderBy, words};
use crate::model::id::{CustomerId, PrivateOfferId};
use crate::model::offer::{OfferStatus, PrivateOffer};
use crate::model::page::{Page, Window};
use crate::model::vendor::Vendor;

const TABLE: &str = "private_offer";

impl Owned for PrivateOffer {
    const TABLE: &'static str = TABLE;

    fn owner(&self) -> CustomerId {
        self.customer_id
    }

    fn ulid(&self) -> Ulid {
        self.id.0
    }
}

/// What a change of an offer starts from.
pub struct OfferSeen {
    pub seen: Seen,
    pub offer: PrivateOffer,
    /// The offer whose agreement it replaces.
    pub replaces: Option<PrivateOfferId>,
    /// None once the customer was deleted.
    pub customer: Option<CustomerState>,
}

#[derive(SurrealValue)]
struct SeenRow {
    sequence: i64,
    body: String,
    replaces: Option<String>,
    customer: Option<CustomerRow>,
}

const SEEN: &str = "{
    LET $row = SELECT * FROM ONLY $record;
    IF $row = NONE { RETURN NONE };
    LET $customer = SELECT * FROM ONLY type::record('customer', [$org, $row.customer]);
    RETURN { sequence: $organization.sequence, body: $row.body, replaces: $row.replaces, customer: $customer };
}";

#[derive(SurrealValue)]
struct LinkRow {
    key: String,
    replaces: Option<String>,
}

/// Two offers of which the first replaces the second.
pub type Replacement = (PrivateOfferId, PrivateOfferId);

fn words_of(offer: &PrivateOffer) -> Vec<String> {
    let summary = &offer.details.summary;
    let vendor_id = offer.vendor_offer_id.as_deref().unwrap_or_default();
    words(&format!("{} {} {} {vendor_id}", summary.offer_name, summary.company_name, offer.listing_id))
}

impl Tenant {
    pub async fn list_offers(&self, filter: &Filter, order: Order, window: Window) -> Result<Page<PrivateOffer>> {
        self.list_documents(TABLE, filter, order, window).await
    }

    pub async fn offers(&self, ids: &[PrivateOfferId]) -> Result<Vec<PrivateOffer>> {
        self.documents(TABLE, ids.iter().map(|id| id.key()).collect()).await
    }

    pub async fn get_offer(&self, id: PrivateOfferId) -> Result<PrivateOffer> {
        self.find_document(TABLE, id.key()).await?.ok_or(Error::NOT_FOUND)
    }

    /// For planners.
    pub async fn see_offer(&self, id: PrivateOfferId) -> Result<OfferSeen> {
        let vars = vars! {
            "record" => self.record(TABLE, id.key()), "org" => self.organization.to_string(),
            "organization" => self.organization_record(),
        };
        let found: SeenRow = self.store.ask::<Option<_>>(SEEN, vars).await?.ok_or(Error::NOT_FOUND)?;
        let customer = found.customer.map(|row| row.into_state(self.organization)).transpose()?;
        let replaces = found.replaces.as_deref().map(offer_of_key).transpose()?;
        Ok(OfferSeen { seen: Seen(found.sequence), offer: parse(&found.body)?, replaces, customer })
    }

    /// The offer that a marketplace knows by this id.
    pub async fn find_offer_at(&self, vendor: Vendor, vendor_offer: &str) -> Result<Option<PrivateOffer>> {
        const FIND: &str = "SELECT VALUE body FROM private_offer WITH INDEX private_offer_vendor_offer
            WHERE organization = $org AND vendor_offer = $offer AND vendor = $vendor LIMIT 1";
        let vars = vars! { "org" => self.organization.to_string(), "offer" => vendor_offer, "vendor" => vendor };
        self.store.ask::<Vec<String>>(FIND, vars).await?.first().map(|body| parse(body)).transpose()
    }

    /// The newest offers of each customer, in one query.
    pub async fn offers_of_each(
        &self,
        customers: &[CustomerId],
        limit: usize,
    ) -> Result<HashMap<CustomerId, Page<Arc<PrivateOffer>>>> {
        self.children(customers, limit).await
    }

    /// The links of the agreement chain that touch any of these offers, on either side.
    pub async fn replacements(&self, offers: &[PrivateOfferId]) -> Result<Vec<Replacement>> {
        const FIND: &str = "RETURN array::concat(
            (SELECT key, replaces FROM $records WHERE replaces != NONE),
            array::flatten($keys.map(|$key| (SELECT key, replaces FROM private_offer WITH INDEX private_offer_replaces
                WHERE organization = $org AND replaces = $key LIMIT 10))))";
        let keys: Vec<String> = offers.iter().map(|id| id.key()).collect();
        let records: Vec<_> = keys.iter().map(|key| self.record(TABLE, key.as_str())).collect();
        let vars = vars! { "org" => self.organization.to_string(), "keys" => keys, "records" => records };
        let rows: Vec<LinkRow> = self.store.ask(FIND, vars).await?;
        let link = |row: LinkRow| {
            let replaced = row.replaces.ok_or_else(|| Error::internal("a replacement replaces nothing"))?;
            Ok((offer_of_key(&row.key)?, offer_of_key(&replaced)?))
        };
        rows.into_iter().map(link).collect()
    }

    /// The statements that bring an offer from one form to the next.
    pub fn save_offer(
        &self,
        from: Option<&PrivateOffer>,
        to: &PrivateOffer,
        replaces: Option<PrivateOfferId>,
    ) -> Result<Block> {
        const SAVE: &str = "UPSERT ONLY $offer CONTENT $offer_content RETURN NONE;";
        let key = to.id.key();
        let (before, after, body) = (from.map(words_of).unwrap_or_default(), words_of(to), body(to)?);
        let mut content = listed_columns(self.organization.to_string(), to.id.0, &OrderBy::Moment(Some(to.expires_at)));
        content.extend(vars! {
            "customer" => to.customer_id.key(),
            "listing_id" => to.listing_id.clone(),
            "vendor" => to.vendor,
            "status" => to.status.as_str(),
            "words" => words_column(&after),
            "replaces" => replaces.map(PrivateOfferId::key),
            "vendor_offer" => to.vendor_offer_id.clone(),
            "due" => if to.status == OfferStatus::Created { to.expires_at } else { never() },
            "body" => body.clone(),
        });
        let vars = vars! { "offer" => self.record(TABLE, key.as_str()), "offer_content" => content };
        let saved = Block::default().then(SAVE, vars).and(self.save_child(to, body));
        Ok(saved.and(self.reword(TABLE, &key, &before, &after)))
    }
}

fn offer_of_key(key: &str) -> Result<PrivateOfferId> {
    PrivateOfferId::from_key(key).ok_or_else(|| Error::internal("an offer's key is broken"))
}
