//! Private offers of both sides, and what follows when one is accepted.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::agreements::{Agreement, Licence, NewAgreement};
use super::answer::Wrong;
use super::subscriptions::{Change, NewSubscription, State as Life, Subscription};
use super::world::{Due, Side, World};
use crate::model::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum OfferState {
    /// Made, and not released.
    Draft,
    Live,
    Accepted,
    Expired,
    Withdrawn,
    Deleted,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Offer {
    pub id: String,
    pub side: Side,
    pub publisher: String,
    pub name: String,
    pub state: OfferState,
    /// The account or tenant that it is for.
    pub buyer: String,
    pub product: String,
    pub months: u32,
    pub expires: Option<Timestamp>,
    /// The agreement that it takes the place of.
    pub replaces: Option<String>,
    /// What was submitted: the resource, or the details by kind of change.
    pub details: Value,
    /// The agreement or subscription that followed.
    pub outcome: Option<String>,
}

/// What is decided when an offer is accepted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Acceptance {
    pub plan_id: Option<String>,
    pub quantity: Option<i64>,
    pub dimensions: Option<Vec<Value>>,
}

impl World {
    /// Puts an offer into the world, and its expiry on the agenda.
    pub fn put_offer(&mut self, offer: Offer) {
        if let (OfferState::Live, Some(end)) = (offer.state, offer.expires) {
            self.schedule(end, Due::OfferExpires { offer: offer.id.clone(), end });
        }
        self.offers.insert(offer.id.clone(), offer);
    }

    pub fn offer_expires(&mut self, id: &str, end: Timestamp) {
        let offer = self.offers.get_mut(id);
        if let Some(offer) = offer.filter(|it| it.state == OfferState::Live && it.expires == Some(end)) {
            offer.state = OfferState::Expired;
        }
    }

    fn live_offer(&self, id: &str) -> Result<&Offer, Wrong> {
        let offer = self.offers.get(id).ok_or_else(|| Wrong::unknown(format!("there is no offer {id:?}")))?;
        match offer.state {
            OfferState::Live => Ok(offer),
            state => Err(Wrong::conflict(format!("the offer is not live: it is {state:?}"))),
        }
    }

    pub fn expire_offer(&mut self, id: &str) -> Result<Value, Wrong> {
        let mut offer = self.live_offer(id)?.clone();
        (offer.state, offer.expires) = (OfferState::Expired, Some(self.now));
        let shown = json!(offer);
        self.offers.insert(id.to_owned(), offer);
        Ok(shown)
    }

    pub fn accept_offer(&mut self, id: &str, acceptance: Acceptance) -> Result<Value, Wrong> {
        let offer = self.live_offer(id)?.clone();
        let (outcome, shown) = match offer.side {
            Side::CloudA => self.agreement_from(&offer, acceptance)?,
            Side::CloudB => self.subscription_from(&offer, acceptance)?,
        };
        if let Some(offer) = self.offers.get_mut(id) {
            (offer.state, offer.outcome) = (OfferState::Accepted, Some(outcome));
        }
        Ok(shown)
    }

    fn agreement_from(&mut self, offer: &Offer, acceptance: Acceptance) -> Result<(String, Value), Wrong> {
        let mut codes = self.agreements.values().filter(|it| it.product_id == offer.product);
        let product_code = codes.next().map(|agreement| agreement.product_code.clone());
        let new = NewAgreement {
            publisher: Some(offer.publisher.clone()),
            account_id: Some(offer.buyer.clone()),
            product_id: Some(offer.product.clone()),
            product_code,
            offer_id: Some(offer.id.clone()),
            months: Some(offer.months),
            start_time: None,
            dimensions: acceptance.dimensions,
            licence: Some(Licence::After),
            auto_renew: None,
        };
        let id = match &offer.replaces {
            Some(old) => self.replace(old, new)?,
            None => self.agree(new, "NEW")?,
        };
        let shown = self.agreements.get(&id).map_or(Value::Null, Agreement::json);
        Ok((id, shown))
    }

    /// A replacement's subscription is told first, then the end of the one that it replaces.
    fn subscription_from(&mut self, offer: &Offer, acceptance: Acceptance) -> Result<(String, Value), Wrong> {
        let pricing = &offer.details["pricing"][0];
        let plan = acceptance.plan_id.or_else(|| pricing["plan"].as_str().map(str::to_owned));
        let old = offer.replaces.as_ref().map(|old| self.replaceable(old, &offer.publisher)).transpose()?;
        let new = NewSubscription {
            publisher: offer.publisher.clone(),
            offer_id: offer.product.clone(),
            plan_id: plan.or_else(|| old.as_ref().map(|(_, plan)| plan.clone())).unwrap_or_else(|| "plan".to_owned()),
            quantity: acceptance.quantity,
            tenant_id: offer.buyer.clone(),
            email: None,
            private_offer_id: Some(offer.id.clone()),
            months: Some(offer.months),
            auto_renew: None,
        };
        let (id, token) = self.subscribe(new)?;
        if let Some((old, _)) = old {
            self.act(&old, "Unsubscribe", &Change::default())?;
        }
        let subscription = self.subscriptions.get(&id).map_or(Value::Null, Subscription::json);
        Ok((id, json!({"subscription": subscription, "token": token})))
    }

    /// The subscription that an offer takes the place of, and its plan.
    pub fn replaceable(&self, id: &str, publisher: &str) -> Result<(String, String), Wrong> {
        let old = self.subscriptions.get(id).filter(|old| old.publisher == publisher);
        let old = old.ok_or_else(|| Wrong::conflict(format!("there is no subscription {id:?} to replace")))?;
        if old.state == Life::Unsubscribed {
            return Err(Wrong::conflict("the subscription to replace has ended"));
        }
        Ok((old.id.clone(), old.plan_id.clone()))
    }
}
