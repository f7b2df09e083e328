//! What `cloud_b` tells of its subscriptions. A notification only says that something happened; what is so now, the
//! marketplace is asked. So it does not matter in which order they come, or how often.

use serde::Deserialize;

use super::CloudB;
use super::fulfillment::{Operation, Subscription};
use crate::error::Error;
use crate::marketplace::converge::{Outcome, Told, Trouble, converge};
use crate::marketplace::http::{MarketplaceError, lenient};
use crate::marketplace::inbox::Envelope;
use crate::marketplace::terms::{Contract, ContractStatus};
use crate::model::entitlement::EntitlementStatus::{self, Active, Suspended};
use crate::model::notification::{Notification, NotificationVerdict};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::store::Tenant;

const CHANGE_PLAN: &str = "ChangePlan";
const CHANGE_QUANTITY: &str = "ChangeQuantity";
const REINSTATE: &str = "Reinstate";
/// What is known of, besides those that want an answer.
const PLAIN: [&str; 4] = ["Subscribe", "Suspend", "Renew", "Unsubscribe"];
const IN_PROGRESS: &str = "InProgress";
/// Subscriptions of an account whose operations are asked for in one comparison: each is a call.
const ASKED_FOR_OPERATIONS: usize = 200;
/// What waits for our word.
const WAITING: [&str; 3] = [CHANGE_PLAN, CHANGE_QUANTITY, REINSTATE];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notice {
    /// The operation's.
    #[serde(default, deserialize_with = "lenient::text")]
    id: Option<String>,
    #[serde(default, deserialize_with = "lenient::text")]
    action: Option<String>,
    #[serde(default, deserialize_with = "lenient::text")]
    subscription_id: Option<String>,
    #[serde(default, deserialize_with = "lenient::moment")]
    time_stamp: Option<Timestamp>,
}

/// What stands on a notification, whatever is in it.
pub fn read(body: &str) -> Option<Envelope> {
    let Notice { id, action, subscription_id, time_stamp } = serde_json::from_str(body).ok()?;
    Some(Envelope { id, kind: action, subject: subscription_id, at: time_stamp })
}

/// Does what a notification asks for, and brings the entitlement to what the subscription is.
pub async fn apply(tenant: &Tenant, cloud: &CloudB, notification: &Notification) -> Result<Outcome, Trouble> {
    let (action, subscription) = (notification.kind.as_str(), notification.subject.as_str());
    if !PLAIN.contains(&action) && !WAITING.contains(&action) {
        return Ok(Outcome::Ignored(format!("unknown action {action}")));
    }
    let operation = if WAITING.contains(&action) {
        Some(cloud.operation(subscription, &notification.external_id).await?)
    } else {
        None
    };
    carry_out(tenant, cloud, subscription, operation).await
}

/// Acknowledges a change that waits for it, and brings the entitlement to what the subscription is.
async fn carry_out(
    tenant: &Tenant,
    cloud: &CloudB,
    subscription: &str,
    operation: Option<Operation>,
) -> Result<Outcome, Trouble> {
    let mut settled = None;
    if let Some(operation) = operation
        && acknowledge(cloud, &operation).await?
    {
        settled = Some(operation);
    }
    let outcome = receive(tenant, cloud, subscription, settled.as_ref()).await?;
    Ok(match (settled, outcome) {
        (Some(_), Outcome::Applied(done)) => Outcome::Applied(format!("acknowledged, {done}")),
        (Some(_), Outcome::Ignored(why)) => Outcome::Applied(format!("acknowledged, {why}")),
        (None, outcome) => outcome,
    })
}

/// The changes that wait for our word although nobody told us of them, or what was told came to nothing: by subscription
/// and operation, in words.
pub async fn untold(tenant: &Tenant, cloud: &CloudB, contracts: &[Contract]) -> Result<Vec<(String, String)>, Error> {
    let is = |contract: &Contract, status| contract.status == ContractStatus::Known(status);
    let mut live: Vec<&Contract> = contracts.iter().filter(|it| is(it, Active) || is(it, Suspended)).collect();
    // A reinstatement waits until it is answered; changes of plan and quantity settle by themselves after seconds.
    live.sort_by_key(|contract| !is(contract, Suspended));
    let mut found = Vec::new();
    for contract in live.into_iter().take(ASKED_FOR_OPERATIONS) {
        let waiting = match cloud.operations(&contract.id).await {
            // It may be gone by now, or its list not be ours to see.
            Err(MarketplaceError::Refused { status: 400..500, .. }) => continue,
            waiting => waiting.map_err(MarketplaceError::unavailable)?,
        };
        let mut waiting: Vec<Operation> = waiting.into_iter().filter(is_answerable).collect();
        if waiting.is_empty() {
            continue;
        }
        let told = tenant.notifications_of(Vendor::CloudB, &contract.id).await?;
        let in_hand =
            |id: &str| told.iter().any(|it| it.external_id == id && it.verdict != Some(NotificationVerdict::Failed));
        waiting.retain(|operation| !in_hand(&operation.id));
        found.extend(waiting.iter().map(|operation| {
            let what = format!("{} of {} waits for our word", operation.action, contract.id);
            (format!("{}/{}", contract.id, operation.id), what)
        }));
    }
    Ok(found)
}

fn is_answerable(operation: &Operation) -> bool {
    operation.status == IN_PROGRESS && WAITING.contains(&operation.action.as_str())
}

/// Does what the notification of such a change would have done.
pub async fn adopt(tenant: &Tenant, cloud: &CloudB, named: &str) -> Result<Outcome, Trouble> {
    let unknown = || Trouble::Never("it names no operation".to_owned());
    let (subscription, id) = named.split_once('/').ok_or_else(unknown)?;
    let operation = cloud.operation(subscription, id).await?;
    if !is_answerable(&operation) {
        return Ok(Outcome::Ignored("it was settled otherwise".to_owned()));
    }
    carry_out(tenant, cloud, subscription, Some(operation)).await
}

/// Says that a change was carried out, if it waits for that, and answers whether it did.
async fn acknowledge(cloud: &CloudB, operation: &Operation) -> Result<bool, Trouble> {
    if operation.status != IN_PROGRESS {
        return Ok(false);
    }
    match cloud.patch_operation(&operation.subscription_id, &operation.id, true).await {
        Ok(()) => Ok(true),
        // It was settled in between.
        Err(MarketplaceError::Refused { status: 409, .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Brings the entitlement to what a subscription is, after activating one that waits for it. What `settled` changed counts
/// at once: the marketplace may take a moment to show it.
pub async fn receive(
    tenant: &Tenant,
    cloud: &CloudB,
    id: &str,
    settled: Option<&Operation>,
) -> Result<Outcome, Trouble> {
    let mut subscription = cloud.subscription(id).await?;
    if subscription.saas_subscription_status == "PendingFulfillmentStart" {
        let plan = subscription.plan_id.clone().unwrap_or_default();
        cloud.activate(id, &plan, subscription.quantity()).await?;
        subscription = cloud.subscription(id).await?;
    }
    let mut contract = subscription.into_contract();
    if let Some(operation) = settled {
        overlay(&mut contract, operation);
    }
    let ContractStatus::Known(status) = contract.status else {
        return Ok(Outcome::Ignored("the subscription is in a state that is not known".to_owned()));
    };
    let told = Told { vendor: Vendor::CloudB, contract, status, renews: false };
    if status == EntitlementStatus::Cancelled && tenant.entitlements_at(told.vendor, id).await?.is_empty() {
        return Ok(Outcome::Ignored("the subscription ended before anybody knew it".to_owned()));
    }
    converge(tenant, &told, None).await
}

fn overlay(contract: &mut Contract, operation: &Operation) {
    match operation.action.as_str() {
        CHANGE_PLAN => contract.plan = operation.plan_id.clone().or(contract.plan.take()),
        CHANGE_QUANTITY => contract.dimensions = operation.quantity().map(Subscription::seats).into_iter().collect(),
        REINSTATE => contract.status = ContractStatus::Known(EntitlementStatus::Active),
        _ => {}
    }
}
