//! The life of a cloud_b subscription: its states, the operations that move it, and what is told of them.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::{Wrong, lean};
use super::world::{Due, Side, World, check_months, months_after};
use crate::model::time::Timestamp;

/// How long a purchase token is good.
const TOKEN_LIFE: TimeDelta = TimeDelta::hours(24);
const OPERATION_SECONDS: i64 = 10;
const SUSPENSION_DAYS: i64 = 30;
/// Operations of a subscription that are remembered: beyond that the oldest settled one is forgotten.
const OPERATIONS: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum State {
    PendingFulfillmentStart,
    Subscribed,
    Suspended,
    Unsubscribed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum OperationStatus {
    InProgress,
    Succeeded,
    Failed,
}

#[derive(Clone, Debug)]
pub struct Operation {
    pub id: String,
    pub activity_id: String,
    pub action: String,
    pub plan_id: String,
    pub quantity: Option<i64>,
    pub at: Timestamp,
    pub status: OperationStatus,
}

#[derive(Clone, Debug)]
pub struct Subscription {
    pub id: String,
    pub publisher: String,
    pub publisher_id: String,
    pub offer_id: String,
    pub plan_id: String,
    pub quantity: Option<i64>,
    pub tenant_id: String,
    pub email: String,
    pub object_id: String,
    pub state: State,
    pub months: u32,
    pub start: Option<Timestamp>,
    pub end: Option<Timestamp>,
    pub auto_renew: bool,
    pub private_offer_id: Option<String>,
    pub created: Timestamp,
    pub suspended_at: Option<Timestamp>,
    pub operations: BTreeMap<String, Operation>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewSubscription {
    pub publisher: String,
    pub offer_id: String,
    pub plan_id: String,
    pub quantity: Option<i64>,
    pub tenant_id: String,
    pub email: Option<String>,
    pub private_offer_id: Option<String>,
    pub months: Option<u32>,
    pub auto_renew: Option<bool>,
}

/// What an action changes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Change {
    pub plan_id: Option<String>,
    pub quantity: Option<i64>,
}

impl Subscription {
    pub fn json(&self) -> Value {
        let person = json!({"emailId": self.email, "objectId": self.object_id, "tenantId": self.tenant_id});
        lean(json!({
            "id": self.id,
            "name": format!("Subscription {}", &self.id[..8]),
            "publisherId": self.publisher_id,
            "offerId": self.offer_id,
            "planId": self.plan_id,
            "quantity": self.quantity,
            "beneficiary": person,
            "purchaser": person,
            "term": {"startDate": self.start, "endDate": self.end, "termUnit": self.term_unit()},
            "autoRenew": self.auto_renew,
            "isTest": false,
            "saasSubscriptionStatus": self.state,
            "privateOfferId": self.private_offer_id,
            "created": self.created,
        }))
    }

    fn term_unit(&self) -> String {
        if self.months.is_multiple_of(12) { format!("P{}Y", self.months / 12) } else { format!("P{}M", self.months) }
    }

    pub fn operation_json(&self, operation: &Operation) -> Value {
        lean(json!({
            "id": operation.id,
            "activityId": operation.activity_id,
            "subscriptionId": self.id,
            "offerId": self.offer_id,
            "publisherId": self.publisher_id,
            "planId": operation.plan_id,
            "quantity": operation.quantity,
            "action": operation.action,
            "timeStamp": operation.at,
            "status": operation.status,
        }))
    }

    fn begin_term(&mut self, start: Timestamp) -> Timestamp {
        let end = months_after(start, self.months);
        (self.start, self.end) = (Some(start), Some(end));
        end
    }

    fn is_waiting_for(&self) -> Option<&Operation> {
        self.operations.values().find(|operation| operation.status == OperationStatus::InProgress)
    }

    fn remember(&mut self, operation: Operation) {
        let settled = self.operations.values().filter(|it| it.status != OperationStatus::InProgress);
        let oldest = settled.min_by_key(|it| it.at).map(|it| it.id.clone());
        if let Some(oldest) = oldest.filter(|_| self.operations.len() >= OPERATIONS) {
            self.operations.remove(&oldest);
        }
        self.operations.insert(operation.id.clone(), operation);
    }

    fn must_be(&self, allowed: bool, action: &str) -> Result<(), Wrong> {
        let refused = || Wrong::conflict(format!("a subscription that is {:?} takes no {action}", self.state));
        if allowed { Ok(()) } else { Err(refused()) }
    }

    /// What is checked before an action, and the plan and quantity that it asks for.
    fn check(&self, action: &str, change: &Change) -> Result<(), Wrong> {
        let subscribed = self.state == State::Subscribed;
        match action {
            "ChangePlan" if change.plan_id.is_none() => return Err(Wrong::bad("ChangePlan needs a planId")),
            "ChangeQuantity" if change.quantity.is_none_or(|quantity| quantity <= 0) => {
                return Err(Wrong::bad("ChangeQuantity needs a quantity above 0"));
            }
            "ChangePlan" | "ChangeQuantity" | "Suspend" | "Renew" => self.must_be(subscribed, action)?,
            "Reinstate" => self.must_be(self.state == State::Suspended, action)?,
            "Unsubscribe" => self.must_be(self.state != State::Unsubscribed, action)?,
            _ => {}
        }
        if waits(action) && self.is_waiting_for().is_some() {
            return Err(Wrong::conflict("another operation of this subscription is in progress"));
        }
        Ok(())
    }
}

/// Whether an action waits for the publisher's word.
fn waits(action: &str) -> bool {
    matches!(action, "ChangePlan" | "ChangeQuantity" | "Reinstate")
}

fn check_quantity(quantity: Option<i64>) -> Result<(), Wrong> {
    if quantity.is_some_and(|quantity| quantity <= 0) { Err(Wrong::bad("quantity must be above 0")) } else { Ok(()) }
}

impl World {
    /// A subscription that waits for its activation, and its purchase token.
    pub fn subscribe(&mut self, new: NewSubscription) -> Result<(String, String), Wrong> {
        self.room(self.subscriptions.len(), "subscriptions")?;
        let publisher = self.publisher_at(&new.publisher, Side::CloudB)?;
        let publisher_id = publisher.cloud_b.as_ref().map(|account| account.publisher_id.clone()).unwrap_or_default();
        let months = check_months(new.months.unwrap_or(1))?;
        check_quantity(new.quantity)?;
        let id = self.guid();
        let subscription = Subscription {
            id: id.clone(),
            publisher: new.publisher,
            publisher_id,
            offer_id: new.offer_id,
            plan_id: new.plan_id,
            quantity: new.quantity,
            email: new.email.unwrap_or_else(|| format!("buyer@{}.example", new.tenant_id)),
            tenant_id: new.tenant_id,
            object_id: self.guid(),
            state: State::PendingFulfillmentStart,
            months,
            start: None,
            end: None,
            auto_renew: new.auto_renew.unwrap_or(true),
            private_offer_id: new.private_offer_id,
            created: self.now,
            suspended_at: None,
            operations: BTreeMap::new(),
        };
        self.subscriptions.insert(id.clone(), subscription);
        let token = self.purchase_token(&id);
        self.begin(&id, "Subscribe", &Change::default());
        Ok((id, token))
    }

    fn purchase_token(&mut self, subscription: &str) -> String {
        let token = format!("{}{}", self.guid(), self.guid()).replace('-', "");
        let oldest = self.now.plus(-TOKEN_LIFE);
        self.tokens.retain(|_, (_, since)| *since >= oldest);
        self.tokens.insert(token.clone(), (subscription.to_owned(), self.now));
        token
    }

    /// The subscription that a purchase token is for, while the token is good.
    pub fn resolve(&self, token: &str) -> Option<&Subscription> {
        let (subscription, since) = self.tokens.get(token)?;
        let good = self.now <= since.plus(TOKEN_LIFE);
        self.subscriptions.get(subscription).filter(|_| good)
    }

    pub fn activate(&mut self, id: &str, plan_id: &str, quantity: Option<i64>) -> Result<(), Wrong> {
        let now = self.now;
        let unknown = || Wrong::unknown("there is no such subscription");
        let subscription = self.subscriptions.get_mut(id).ok_or_else(unknown)?;
        if subscription.state == State::Unsubscribed {
            return Err(unknown());
        }
        if subscription.plan_id != plan_id || subscription.quantity != quantity {
            return Err(Wrong::bad("plan or quantity is not what was bought"));
        }
        match subscription.state {
            State::PendingFulfillmentStart => {
                subscription.state = State::Subscribed;
                let end = subscription.begin_term(now);
                self.schedule(end, Due::TermEnds { subscription: id.to_owned(), end });
                Ok(())
            }
            State::Subscribed => Ok(()),
            _ => Err(Wrong::bad("a suspended subscription cannot be activated")),
        }
    }

    /// What a customer or the marketplace does to a subscription; answers with the operation's id.
    pub fn act(&mut self, id: &str, action: &str, change: &Change) -> Result<String, Wrong> {
        let subscription = self.subscriptions.get(id);
        let subscription = subscription.ok_or_else(|| Wrong::unknown("there is no such subscription"))?;
        check_quantity(change.quantity)?;
        subscription.check(action, change)?;
        match action {
            "Suspend" => self.suspend(id),
            "Renew" => self.renew(id),
            "Unsubscribe" => self.end(id),
            _ => {}
        }
        let operation = self.begin(id, action, change);
        if matches!(action, "ChangePlan" | "ChangeQuantity") {
            let when = self.now.plus(TimeDelta::seconds(OPERATION_SECONDS));
            let due = Due::OperationSucceeds { subscription: id.to_owned(), operation: operation.clone() };
            self.schedule(when, due);
        }
        Ok(operation)
    }

    /// The operation, and the notification of it: the new values at the top, those that hold under `subscription`.
    fn begin(&mut self, id: &str, action: &str, change: &Change) -> String {
        let (operation_id, activity_id, at) = (self.guid(), self.guid(), self.now);
        let Some(subscription) = self.subscriptions.get_mut(id) else { return operation_id };
        let operation = Operation {
            id: operation_id.clone(),
            activity_id,
            action: action.to_owned(),
            plan_id: change.plan_id.clone().unwrap_or_else(|| subscription.plan_id.clone()),
            quantity: change.quantity.or(subscription.quantity),
            at,
            status: if waits(action) { OperationStatus::InProgress } else { OperationStatus::Succeeded },
        };
        let mut body = subscription.operation_json(&operation);
        body["operationRequestSource"] = json!("Azure");
        body["subscription"] = subscription.json();
        let publisher = subscription.publisher.clone();
        subscription.remember(operation);
        self.notify(&publisher, Side::CloudB, action, body);
        operation_id
    }

    /// The publisher's word on an operation.
    pub fn settle_operation(&mut self, id: &str, operation: &str, success: bool) -> Result<(), Wrong> {
        let found = self.subscriptions.get_mut(id).and_then(|subscription| subscription.operations.get_mut(operation));
        let found = found.ok_or_else(|| Wrong::unknown("there is no such operation"))?;
        let wanted = if success { OperationStatus::Succeeded } else { OperationStatus::Failed };
        match found.status {
            status if status == wanted => Ok(()),
            OperationStatus::InProgress => {
                found.status = wanted;
                if success {
                    self.apply(id, operation);
                }
                Ok(())
            }
            _ => Err(Wrong::conflict("the operation was settled otherwise")),
        }
    }

    fn apply(&mut self, id: &str, operation: &str) {
        let Some(subscription) = self.subscriptions.get_mut(id) else { return };
        let Some(operation) = subscription.operations.get(operation) else { return };
        match operation.action.as_str() {
            "ChangePlan" => subscription.plan_id.clone_from(&operation.plan_id),
            "ChangeQuantity" => subscription.quantity = operation.quantity,
            _ => {
                subscription.state = State::Subscribed;
                subscription.suspended_at = None;
                // A term that ended meanwhile is dealt with at once.
                if let Some(end) = subscription.end {
                    self.schedule(end, Due::TermEnds { subscription: id.to_owned(), end });
                }
            }
        }
    }

    fn suspend(&mut self, id: &str) {
        let since = self.now;
        let Some(subscription) = self.subscriptions.get_mut(id) else { return };
        (subscription.state, subscription.suspended_at) = (State::Suspended, Some(since));
        let due = Due::SuspensionEnds { subscription: id.to_owned(), since };
        self.schedule(since.plus(TimeDelta::days(SUSPENSION_DAYS)), due);
    }

    fn renew(&mut self, id: &str) {
        let now = self.now;
        let Some(subscription) = self.subscriptions.get_mut(id) else { return };
        let end = subscription.begin_term(subscription.end.unwrap_or(now));
        self.schedule(end, Due::TermEnds { subscription: id.to_owned(), end });
    }

    fn end(&mut self, id: &str) {
        let Some(subscription) = self.subscriptions.get_mut(id) else { return };
        subscription.state = State::Unsubscribed;
        for operation in subscription.operations.values_mut().filter(|it| it.status == OperationStatus::InProgress) {
            operation.status = OperationStatus::Failed;
        }
    }

    pub fn operation_succeeds(&mut self, subscription: &str, operation: &str) {
        // It was settled before, or it succeeds now: both are right.
        drop(self.settle_operation(subscription, operation, true));
    }

    pub fn suspension_ends(&mut self, id: &str, since: Timestamp) {
        let held = |it: &&Subscription| it.state == State::Suspended && it.suspended_at == Some(since);
        if self.subscriptions.get(id).as_ref().is_some_and(held) {
            self.end(id);
            self.begin(id, "Unsubscribe", &Change::default());
        }
    }

    pub fn term_ends(&mut self, id: &str, end: Timestamp) {
        let ends = |it: &&Subscription| it.state == State::Subscribed && it.end == Some(end);
        let Some(auto_renew) = self.subscriptions.get(id).filter(ends).map(|it| it.auto_renew) else { return };
        if auto_renew {
            self.renew(id);
            self.begin(id, "Renew", &Change::default());
        } else {
            self.end(id);
            self.begin(id, "Unsubscribe", &Change::default());
        }
    }
}
