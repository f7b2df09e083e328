//! cloud_a's calls: signed, and told apart by path or by target.

use axum::extract::{Request, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Sim;
use super::agreements::Agreement;
use super::answer::{Answer, Wrong, invalid_a, lean, query, read, refuse_a};
use super::change_sets::{NewChangeSet, arn};
use super::metering_a;
use super::signature::{Signed, verify};
use super::world::World;

const SEARCH: &str = "AWSMPCommerceService_v20200301.SearchAgreements";
const PAGE: usize = 50;
const LARGEST_PAGE: usize = 100;

pub fn routes() -> Router<Sim> {
    Router::new()
        .route("/cloud_a", post(targeted))
        .route("/cloud_a/", post(targeted))
        .route("/cloud_a/StartChangeSet", post(start_change_set))
        .route("/cloud_a/DescribeChangeSet", get(describe_change_set))
}

async fn targeted(State(sim): State<Sim>, headers: HeaderMap, method: Method, uri: Uri, body: Bytes) -> Answer {
    let mut world = sim.world();
    let signed = Signed { method: &method, uri: &uri, headers: &headers, body: &body };
    let publisher = verify(&world, &signed)?;
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    match target {
        metering_a::TARGET => world.meter_batch(&publisher, &body),
        SEARCH => search(&world, &publisher, &body),
        _ => Err(refuse_a(StatusCode::BAD_REQUEST, "UnknownOperationException", "there is no such operation")),
    }
}

pub fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, super::answer::Refusal> {
    read(body).map_err(Wrong::for_cloud_a)
}

async fn start_change_set(State(sim): State<Sim>, headers: HeaderMap, method: Method, uri: Uri, body: Bytes) -> Answer {
    let mut world = sim.world();
    let publisher = verify(&world, &Signed { method: &method, uri: &uri, headers: &headers, body: &body })?;
    let new: NewChangeSet = parse(&body)?;
    world.room(world.change_sets.len(), "change sets").map_err(Wrong::for_cloud_a)?;
    let id = world.start_change_set(&publisher, new).map_err(invalid_a)?;
    Ok(Json(json!({"ChangeSetId": id, "ChangeSetArn": arn(&id)})))
}

async fn describe_change_set(State(sim): State<Sim>, request: Request) -> Answer {
    let (parts, _) = request.into_parts();
    let world = sim.world();
    let signed = Signed { method: &parts.method, uri: &parts.uri, headers: &parts.headers, body: &[] };
    let publisher = verify(&world, &signed)?;
    let parameters = query(&parts.uri);
    if parameters.get("catalog").is_none_or(|catalog| catalog != "AWSMarketplace") {
        return Err(invalid_a("catalog must be AWSMarketplace"));
    }
    let change_set = parameters.get("changeSetId").and_then(|id| world.change_sets.get(id));
    let change_set = change_set
        .filter(|change_set| change_set.publisher == publisher)
        .ok_or_else(|| refuse_a(StatusCode::BAD_REQUEST, "ResourceNotFoundException", "there is no such change set"))?;
    Ok(Json(change_set.json(&world)))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Search {
    catalog: String,
    #[serde(default)]
    filters: Vec<Filter>,
    max_results: Option<usize>,
    next_token: Option<String>,
}

#[derive(Deserialize)]
struct Filter {
    name: String,
    values: Vec<String>,
}

impl Filter {
    fn lets_through(&self, agreement: &Agreement) -> bool {
        let value = match self.name.as_str() {
            "Status" => agreement.status,
            "AcceptorAccountId" => &agreement.account_id,
            "ResourceIdentifier" => &agreement.product_id,
            "OfferId" => &agreement.offer_id,
            _ => return true,
        };
        self.values.iter().any(|wanted| wanted == value)
    }
}

fn search(world: &World, publisher: &str, body: &[u8]) -> Answer {
    let search: Search = parse(body)?;
    check_search(&search)?;
    let after = search.next_token.unwrap_or_default();
    let own = |it: &&Agreement| it.publisher == publisher && it.id > after;
    let mut found =
        world.agreements.values().filter(own).filter(|it| search.filters.iter().all(|f| f.lets_through(it)));
    let most = search.max_results.unwrap_or(PAGE).clamp(1, LARGEST_PAGE);
    let page: Vec<&Agreement> = found.by_ref().take(most).collect();
    let next = page.last().filter(|_| found.next().is_some()).map(|last| &last.id);
    let summaries: Vec<Value> = page.iter().copied().map(summary).collect();
    Ok(Json(lean(json!({"agreementViewSummaries": summaries, "nextToken": next}))))
}

fn check_search(search: &Search) -> Result<(), super::answer::Refusal> {
    const OPTIONAL: [&str; 4] = ["Status", "AcceptorAccountId", "ResourceIdentifier", "OfferId"];
    if search.catalog != "AWSMarketplace" {
        return Err(invalid_a("catalog must be AWSMarketplace"));
    }
    let has = |name: &str, value: &str| search.filters.iter().any(|it| it.name == name && it.values == [value]);
    if !has("PartyType", "Proposer") || !has("AgreementType", "PurchaseAgreement") {
        return Err(invalid_a("the filters PartyType and AgreementType are needed"));
    }
    let known = |name: &str| matches!(name, "PartyType" | "AgreementType") || OPTIONAL.contains(&name);
    if search.filters.iter().any(|filter| !known(&filter.name)) {
        return Err(invalid_a("there is no such filter"));
    }
    Ok(())
}

fn summary(agreement: &Agreement) -> Value {
    json!({
        "agreementId": agreement.id,
        "agreementType": "PurchaseAgreement",
        "acceptanceTime": agreement.accepted,
        "startTime": agreement.start,
        "endTime": agreement.end,
        "status": agreement.status,
        "acceptor": {"accountId": agreement.account_id},
        "proposalSummary": {
            "offerId": agreement.offer_id,
            "resources": [{"id": agreement.product_id, "type": "SaaSProduct"}],
        },
        "license": agreement.licence.as_ref().map(|arn| json!({"arn": arn})),
        "intent": agreement.intent,
    })
}
