//! cloud_b's private offers: a job takes the resource, and succeeds or fails when its time is over.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, Uri};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Sim;
use super::answer::{Answer, Refusal, Wrong, end_of, lean, query, read};
use super::cloud_b::admit;
use super::offers::{Offer, OfferState};
use super::world::{Due, Side, World, check_months};
use crate::model::time::Timestamp;

const ROOT: &str = "/cloud_b/rp/product-ingestion";
const PREFIX: &str = "private-offer/";

pub fn routes() -> Router<Sim> {
    Router::new()
        .route(&format!("{ROOT}/configure"), post(configure))
        .route(&format!("{ROOT}/configure/{{job}}/status"), get(status))
        .route(&format!("{ROOT}/private-offer"), get(named))
}

#[derive(Clone, Debug)]
pub struct Job {
    id: String,
    publisher: String,
    resource: Value,
    started: Timestamp,
    /// The offer's guid, or what was wrong.
    outcome: Option<Result<String, (&'static str, String)>>,
}

impl Job {
    pub fn json(&self, world: &World) -> Value {
        let begun = world.now >= self.started.plus(world.publish / 2);
        let (status, result, errors, uri) = match &self.outcome {
            None => (if begun { "running" } else { "notStarted" }, "pending", Vec::new(), None),
            Some(Ok(offer)) => ("completed", "succeeded", Vec::new(), Some(format!("{PREFIX}{offer}"))),
            Some(Err((code, message))) => {
                ("completed", "failed", vec![json!({"code": code, "message": message})], None)
            }
        };
        lean(json!({
            "jobId": self.id,
            "jobStatus": status,
            "jobResult": result,
            "jobStart": self.started,
            "errors": errors,
            "resourceUri": uri,
        }))
    }
}

fn admitted(world: &World, headers: &HeaderMap, uri: &Uri) -> Result<String, Refusal> {
    admit(world, headers, uri, "$version", "2022-07-01")
}

#[derive(Deserialize)]
struct Configuration {
    resources: Vec<Value>,
}

async fn configure(State(sim): State<Sim>, headers: HeaderMap, uri: Uri, body: Bytes) -> Result<Response, Refusal> {
    let mut world = sim.world();
    let publisher = admitted(&world, &headers, &uri)?;
    let configuration: Configuration = read(&body).map_err(Wrong::for_cloud_b)?;
    let [resource] = configuration.resources.as_slice() else {
        return Err(Wrong::bad("resources must hold one private offer").for_cloud_b());
    };
    world.room(world.jobs.len(), "jobs").map_err(Wrong::for_cloud_b)?;
    let id = world.guid();
    let (started, due) = (world.now, world.now.plus(world.publish));
    let job = Job { id: id.clone(), publisher, resource: resource.clone(), started, outcome: None };
    world.jobs.insert(id.clone(), job);
    world.schedule(due, Due::JobEnds(id.clone()));
    let accepted = json!({"jobId": id, "jobStatus": "notStarted", "errors": []});
    Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
}

async fn status(State(sim): State<Sim>, Path(job): Path<String>, headers: HeaderMap, uri: Uri) -> Answer {
    let world = sim.world();
    let publisher = admitted(&world, &headers, &uri)?;
    let job = world.jobs.get(&job).filter(|job| job.publisher == publisher);
    let job = job.ok_or_else(|| Wrong::unknown("there is no such job").for_cloud_b())?;
    Ok(Json(job.json(&world)))
}

async fn named(State(sim): State<Sim>, headers: HeaderMap, uri: Uri) -> Answer {
    let world = sim.world();
    let publisher = admitted(&world, &headers, &uri)?;
    let name = query(&uri).remove("name");
    let own = |offer: &&Offer| offer.side == Side::CloudB && offer.publisher == publisher;
    let named = |offer: &&Offer| name.as_ref().is_none_or(|name| *name == offer.name);
    let value: Vec<Value> = world.offers.values().filter(own).filter(named).map(resource).collect();
    Ok(Json(json!({"value": value})))
}

/// The offer as it was submitted, and what became of it.
fn resource(offer: &Offer) -> Value {
    let mut resource = offer.details.clone();
    resource["id"] = json!(format!("{PREFIX}{}", offer.id));
    resource["state"] = json!(match offer.state {
        OfferState::Draft => "draft",
        OfferState::Withdrawn => "withdrawn",
        OfferState::Deleted => "deleted",
        _ => "live",
    });
    resource
}

type Refused = (&'static str, String);

fn invalid(message: &str) -> Refused {
    ("invalidResource", message.to_owned())
}

fn conflicting(message: &str) -> Refused {
    ("conflict", message.to_owned())
}

impl World {
    pub fn job_ends(&mut self, id: &str) {
        let Some(job) = self.jobs.get(id).cloned() else { return };
        let done = if self.faults.fails_publication() {
            Err(("internalError", "a failure on demand".to_owned()))
        } else {
            self.configured(&job)
        };
        let outcome = done.map(|offer| {
            let id = offer.id.clone();
            self.put_offer(offer);
            id
        });
        if let Some(job) = self.jobs.get_mut(id) {
            job.outcome = Some(outcome);
        }
    }

    /// The offer as the resource wants it.
    fn configured(&self, job: &Job) -> Result<Offer, Refused> {
        let resource = &job.resource;
        let earlier = resource["id"].as_str().map(|id| self.configured_earlier(job, id)).transpose()?;
        let state = wanted_state(resource, earlier)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = text(&resource["name"]);
        let pricing = &resource["pricing"][0];
        let (buyer, product) = (text(&resource["beneficiaries"][0]["id"]), text(&pricing["product"]));
        if name.is_empty() || buyer.is_empty() || product.is_empty() {
            return Err(invalid("name, a beneficiary and a priced product are needed"));
        }
        let months = pricing["durationMonths"].as_u64().and_then(|months| u32::try_from(months).ok());
        let months = months.and_then(|months| check_months(months).ok());
        let expires = check_dates(resource)?;
        if state == OfferState::Live && expires <= self.now {
            return Err(invalid("the offer would have expired already"));
        }
        check_discount(pricing)?;
        check_deal(resource)?;
        let replaces = resource["replaces"].as_str();
        if let Some(old) = replaces.filter(|_| state == OfferState::Live) {
            self.replaceable(old, &job.publisher).map_err(|_| invalid("there is no such subscription to replace"))?;
        }
        Ok(Offer {
            id: earlier.map_or_else(|| self.guid(), |offer| offer.id.clone()),
            side: Side::CloudB,
            publisher: job.publisher.clone(),
            name,
            state,
            buyer,
            product,
            months: months.ok_or_else(|| invalid("durationMonths is not a term"))?,
            expires: Some(expires),
            replaces: replaces.map(str::to_owned),
            details: resource.clone(),
            outcome: None,
        })
    }

    fn configured_earlier(&self, job: &Job, id: &str) -> Result<&Offer, Refused> {
        let guid = id.strip_prefix(PREFIX).unwrap_or(id);
        let offer = self.offers.get(guid).filter(|it| it.side == Side::CloudB && it.publisher == job.publisher);
        offer.ok_or_else(|| ("notFound", "there is no such private offer".to_owned()))
    }
}

fn wanted_state(resource: &Value, earlier: Option<&Offer>) -> Result<OfferState, Refused> {
    let before = earlier.map(|offer| offer.state);
    match (resource["state"].as_str(), before) {
        (_, Some(OfferState::Accepted)) => Err(conflicting("the offer was accepted; it changes only by a replacement")),
        (_, Some(OfferState::Deleted)) => Err(conflicting("the offer was deleted")),
        (Some("live"), Some(OfferState::Withdrawn)) => Err(conflicting("the offer was withdrawn")),
        (Some("live"), _) => Ok(OfferState::Live),
        (Some("draft"), None) => Ok(OfferState::Draft),
        (Some("withdrawn"), Some(_)) => Ok(OfferState::Withdrawn),
        (Some("deleted"), Some(_)) => Ok(OfferState::Deleted),
        _ => Err(invalid("state must be live, withdrawn or deleted")),
    }
}

/// The dates, and when it can be accepted or bought no longer.
fn check_dates(resource: &Value) -> Result<Timestamp, Refused> {
    let date = |field: &str| match &resource[field] {
        Value::Null => Ok(None),
        value => {
            let end = value.as_str().and_then(end_of);
            end.map(Some).ok_or_else(|| invalid(&format!("{field} must be a date, YYYY-MM-DD")))
        }
    };
    let (start, end, accept_by) = (date("start")?, date("end")?, date("acceptBy")?);
    let end = end.ok_or_else(|| invalid("end is missing"))?;
    match (resource["variableStartDate"].as_bool(), start) {
        (Some(true), None) | (Some(false), Some(_)) => Ok(accept_by.map_or(end, |accept_by| accept_by.min(end))),
        _ => Err(invalid("there must be a start, or variableStartDate")),
    }
}

/// What belongs to an offer of its type, and what does not.
fn check_deal(resource: &Value) -> Result<(), Refused> {
    let needs = |field: &str| {
        if resource[field].is_null() { Err(invalid(&format!("{field} is missing"))) } else { Ok(()) }
    };
    match resource["privateOfferType"].as_str() {
        Some("multipartyPromotionOriginator") if resource["partners"][0]["id"].is_null() => {
            Err(invalid("a multiparty offer needs a selling partner"))
        }
        Some("customerPromotion" | "multipartyPromotionOriginator") => needs("acceptBy").and(needs("offerPricingType")),
        Some("cspPromotion") if resource["pricing"][0]["discountType"] != "percentage" => {
            Err(invalid("a margin for partners is a percentage"))
        }
        Some("cspPromotion") if !resource["acceptBy"].is_null() || !resource["replaces"].is_null() => {
            Err(invalid("a margin for partners is not accepted and replaces nothing"))
        }
        Some("cspPromotion") => Ok(()),
        _ => Err(invalid("privateOfferType is not one of those that there are")),
    }
}

fn check_discount(pricing: &Value) -> Result<(), Refused> {
    let field = match pricing["discountType"].as_str() {
        Some("percentage") => "discountPercentage",
        Some("absolute") => "absoluteAmount",
        _ => return Err(invalid("discountType must be percentage or absolute")),
    };
    if pricing[field].is_null() { Err(invalid(&format!("{field} is missing"))) } else { Ok(()) }
}
