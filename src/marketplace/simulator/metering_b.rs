//! cloud_b's metering: one event per resource, dimension and UTC hour, of the last 24 hours, while it is subscribed.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use chrono::TimeDelta;
use http::{HeaderMap, Uri};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Sim;
use super::answer::{Answer, Wrong, end_of, lean, query, read};
use super::cloud_b::admit_saas;
use super::subscriptions::State as Life;
use super::world::{Side, Slot, Usage, World};
use crate::model::decimal::Decimal;
use crate::model::time::Timestamp;

const MOST: usize = 25;
const WINDOW: TimeDelta = TimeDelta::hours(24);

pub fn routes() -> Router<Sim> {
    Router::new().route("/cloud_b/api/batchUsageEvent", post(batch)).route("/cloud_b/api/usageEvents", get(accepted))
}

#[derive(Deserialize)]
struct Batch {
    request: Vec<Value>,
}

async fn batch(State(sim): State<Sim>, headers: HeaderMap, uri: Uri, body: Bytes) -> Answer {
    let mut world = sim.world();
    let publisher = admit_saas(&world, &headers, &uri)?;
    let batch: Batch = read(&body).map_err(Wrong::for_cloud_b)?;
    if batch.request.is_empty() || batch.request.len() > MOST {
        return Err(Wrong::bad(format!("a batch has from 1 to {MOST} events")).for_cloud_b());
    }
    world.room_for_usage().map_err(Wrong::for_cloud_b)?;
    let result: Vec<Value> = batch.request.iter().map(|event| world.meter(&publisher, event)).collect();
    Ok(Json(json!({"count": result.len(), "result": result})))
}

/// Why an event was not accepted.
struct Rejected {
    status: &'static str,
    message: &'static str,
    before: Option<Box<Usage>>,
}

fn rejected(status: &'static str, message: &'static str) -> Rejected {
    Rejected { status, message, before: None }
}

/// An event that may be accepted.
struct Sound {
    slot: Slot,
    usage: Usage,
}

impl World {
    fn meter(&mut self, publisher: &str, event: &Value) -> Value {
        let mut result = json!({
            "messageTime": self.now,
            "resourceId": event["resourceId"],
            "quantity": event["quantity"],
            "dimension": event["dimension"],
            "effectiveStartTime": event["effectiveStartTime"],
            "planId": event["planId"],
        });
        match self.examine(publisher, event) {
            Ok(Sound { slot, usage }) => {
                result["status"] = json!("Accepted");
                result["usageEventId"] = json!(usage.id);
                self.usage.insert(slot, usage);
            }
            Err(rejected) => {
                result["status"] = json!(rejected.status);
                let more = rejected.before.as_deref().map(|usage| json!({"acceptedMessage": accepted_message(usage)}));
                let message = rejected.message;
                result["error"] = json!({"code": rejected.status, "message": message, "additionalInfo": more});
            }
        }
        lean(result)
    }

    fn examine(&self, publisher: &str, event: &Value) -> Result<Sound, Rejected> {
        let text = |name: &str| event[name].as_str().filter(|text| !text.is_empty());
        let Some(resource) = text("resourceId") else {
            return Err(rejected("BadArgument", "resourceId is missing"));
        };
        let (Some(dimension), Some(plan)) = (text("dimension"), text("planId")) else {
            return Err(rejected("BadArgument", "dimension or planId is missing"));
        };
        let Some(at) = text("effectiveStartTime").and_then(|time| time.parse::<Timestamp>().ok()) else {
            return Err(rejected("BadArgument", "effectiveStartTime is no moment in UTC"));
        };
        let Some(subscription) = self.subscriptions.get(resource) else {
            return Err(rejected("ResourceNotFound", "there is no such resource"));
        };
        if subscription.publisher != publisher {
            return Err(rejected("ResourceNotAuthorized", "the resource is another publisher's"));
        }
        if self.faults.is_poison(dimension) {
            return Err(rejected("Error", "an error on demand"));
        }
        if subscription.state != Life::Subscribed {
            return Err(rejected("ResourceNotActive", "the resource is not subscribed"));
        }
        if subscription.plan_id != plan {
            return Err(rejected("BadArgument", "the resource has another plan"));
        }
        if !self.knows_dimension(&subscription.offer_id, dimension) {
            return Err(rejected("InvalidDimension", "the plan has no such dimension"));
        }
        if exact(&event["quantity"]).is_none_or(|quantity| quantity <= Decimal::ZERO) {
            return Err(rejected("InvalidQuantity", "the quantity must be above 0"));
        }
        if at > self.now {
            return Err(rejected("BadArgument", "effectiveStartTime lies ahead"));
        }
        if at < self.now.plus(-WINDOW) {
            return Err(rejected("Expired", "the event is older than 24 hours"));
        }
        let slot = (Side::CloudB, resource.to_owned(), String::new(), dimension.to_owned(), at.hour());
        if let Some(before) = self.usage.get(&slot) {
            let message = "an event of this resource, dimension and hour was accepted before";
            return Err(Rejected { status: "Duplicate", message, before: Some(Box::new(before.clone())) });
        }
        let usage = Usage {
            id: self.guid(),
            side: Side::CloudB,
            publisher: publisher.to_owned(),
            resource: resource.to_owned(),
            product: plan.to_owned(),
            license_arn: None,
            dimension: dimension.to_owned(),
            quantity: event["quantity"].clone(),
            at,
            accepted_at: self.now,
        };
        Ok(Sound { slot, usage })
    }
}

/// Whether it was written with an exponent or without one.
fn exact(quantity: &Value) -> Option<Decimal> {
    Decimal::deserialize(quantity).ok()
}

fn accepted_message(usage: &Usage) -> Value {
    json!({
        "usageEventId": usage.id,
        "status": "Duplicate",
        "messageTime": usage.accepted_at,
        "resourceId": usage.resource,
        "quantity": usage.quantity,
        "dimension": usage.dimension,
        "effectiveStartTime": usage.at,
        "planId": usage.product,
    })
}

async fn accepted(State(sim): State<Sim>, headers: HeaderMap, uri: Uri) -> Answer {
    let world = sim.world();
    let publisher = admit_saas(&world, &headers, &uri)?;
    let start = query(&uri).remove("usageStartDate").and_then(|text| start_of(&text));
    let start = start.ok_or_else(|| Wrong::bad("usageStartDate must be a date").for_cloud_b())?;
    let own = |usage: &&Usage| usage.side == Side::CloudB && usage.publisher == publisher && usage.at >= start;
    let mut days: BTreeMap<_, (Decimal, u32)> = BTreeMap::new();
    for usage in world.usage.values().filter(own) {
        let key = (usage.at.as_datetime().date_naive(), &usage.resource, &usage.dimension, &usage.product);
        let (quantity, count) = days.entry(key).or_insert((Decimal::ZERO, 0));
        *quantity = *quantity + exact(&usage.quantity).unwrap_or(Decimal::ZERO);
        *count += 1;
    }
    let rows = days.into_iter().map(|((day, resource, dimension, plan), (quantity, count))| {
        json!({
            "usageDate": format!("{day}T00:00:00Z"),
            "usageResourceId": resource,
            "dimension": dimension,
            "planId": plan,
            "processedQuantity": quantity,
            "submittedCount": count,
        })
    });
    Ok(Json(rows.collect()))
}

/// The beginning of a date, or the moment itself.
fn start_of(text: &str) -> Option<Timestamp> {
    let moment = text.parse().ok();
    moment.or_else(|| end_of(text).map(|end| end.plus(TimeDelta::days(-1))))
}
