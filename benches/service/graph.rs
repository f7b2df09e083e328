//! A page of customers with what they have: one GraphQL request, against the REST calls that give the same data, one
//! after the other on one connection.

use std::collections::HashMap;
use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mercato::call::{Call, Caller};
use mercato::model::customer::Customer;
use mercato::model::decimal::Decimal;
use mercato::model::entitlement::{Dimension, NewEntitlement};
use mercato::model::operation::Operation;
use mercato::model::page::PageRequest;
use mercato::resolvers::{customers, entitlements, offers};
use mercato::store::{Store, Tenant};
use serde_json::{Value, json};

use crate::client::Client;
use crate::creations::new_offer;
use crate::report::{Line, Round};
use crate::scale::{Scale, median};
use crate::service::Running;

const LEAST: f64 = 8.0;
const MOST_QUERIES: usize = 4;
const CUSTOMERS: usize = 100;
const LISTED: usize = 50;
const ENTITLEMENTS: usize = 3;
const WARM_UP: usize = 5;

const QUERY: &str = "{ customers(first: 50) { nodes { id companyName entitlements { nodes { id listingId status } } \
                     privateOffers { nodes { id status } } } } }";

pub async fn measure(scale: &Scale) -> Vec<Line> {
    let service = Running::start(CUSTOMERS).await;
    let offers = populate(&service).await;
    let (both, store) = (Both::new(&service), service.app.services.store.clone());
    let (address, rounds) = (service.address(), scale.graph_rounds);
    let measured = tokio::task::spawn_blocking(move || both.compare(address, &offers, &store, rounds)).await;
    service.app.stop().await;
    lines(&measured.expect("the client does not panic"))
}

/// The id of each customer's offer, by the customer's.
type OfferOf = HashMap<String, String>;

/// Gives each customer its entitlements and an offer.
async fn populate(service: &Running) -> OfferOf {
    let caller = Caller::Operator { organization: service.organization };
    let call = Call::new(service.app.services.store.clone(), caller, None);
    let tenant = call.grant(Operation::EntitlementsList.access()).expect("an operator may do everything");
    let page = PageRequest::from_query(&format!("limit={CUSTOMERS}"));
    let mut offer_of = HashMap::new();
    for customer in customers::list(&call, page).await.expect("the page is there").items {
        for number in 0..ENTITLEMENTS {
            entitle(&tenant, &customer, number).await;
        }
        let offer = offers::create(&call, new_offer(&customer)).await.expect("the offer breaks no rule");
        offer_of.insert(customer.id.to_string(), offer.id.to_string());
    }
    offer_of
}

async fn entitle(tenant: &Tenant, customer: &Customer, number: usize) {
    let seats = Dimension { key: "seats".to_owned(), value: Decimal::from(25), description: None };
    let new = NewEntitlement {
        dimensions: vec![seats],
        plan_id: Some("team".to_owned()),
        agreement_id: Some(format!("agr-{}-{number}", customer.id)),
        ..NewEntitlement::of(customer.id, format!("lst_{number}"))
    };
    entitlements::open(tenant, new).await.expect("the entitlement breaks no rule");
}

/// Both ways to the same data.
struct Both {
    /// The head that all requests share.
    head: String,
    graph: String,
}

struct Measured {
    rest: Vec<Duration>,
    graph: Vec<Duration>,
    queries: usize,
    calls: usize,
}

impl Both {
    fn new(service: &Running) -> Self {
        let head = format!("HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\n", service.token);
        let body = json!({ "query": QUERY }).to_string();
        let length = body.len();
        let graph =
            format!("POST /graphql {head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
        Self { head, graph }
    }

    fn get(&self, path: &str) -> String {
        format!("GET /api/v1/{path} {}\r\n", self.head)
    }

    fn compare(&self, address: SocketAddr, offer_of: &OfferOf, store: &Store, rounds: usize) -> Measured {
        let mut client = Client::connect(address);
        let list = self.get(&format!("customers?limit={LISTED}"));
        let listed = data(client.ask(&list))["items"].clone();
        let ids: Vec<&str> = items(&listed).iter().filter_map(|customer| customer["id"].as_str()).collect();
        assert_eq!(ids.len(), LISTED, "{listed}");
        let details = ids.iter().map(|id| self.get(&format!("customers/{id}")));
        let offers = ids.iter().map(|id| self.get(&format!("private-offers/{}", offer_of[*id])));
        let requests: Vec<String> = std::iter::once(list).chain(details).chain(offers).collect();
        assert_eq!(self.by_graph(&mut client), by_rest(&mut client, &requests), "both give the same data");
        let mut measured = Measured { rest: Vec::new(), graph: Vec::new(), queries: usize::MAX, calls: requests.len() };
        for round in 0..WARM_UP + rounds {
            let rest = time(&mut client, &requests);
            let before = store.queries();
            let graph = time(&mut client, std::slice::from_ref(&self.graph));
            // The least, because the workers ask now and then, too.
            measured.queries = measured.queries.min(store.queries() - before);
            if round >= WARM_UP {
                measured.rest.push(rest);
                measured.graph.push(graph);
            }
        }
        measured
    }

    /// What GraphQL says of each customer. REST writes states in small letters.
    fn by_graph(&self, client: &mut Client) -> Vec<Value> {
        let text = String::from_utf8_lossy(client.ask(&self.graph));
        let text = text.replace("\"ACTIVE\"", "\"active\"").replace("\"CREATED\"", "\"created\"");
        let body: Value = serde_json::from_str(&text).expect("the answer is JSON");
        let customer = |node: &Value| {
            let children = |name: &str| node[name]["nodes"].clone();
            told(node, &children("entitlements"), &children("privateOffers"))
        };
        items(&body["data"]["customers"]["nodes"]).iter().map(customer).collect()
    }
}

/// What REST says of each customer: the list, its members, their offers.
fn by_rest(client: &mut Client, requests: &[String]) -> Vec<Value> {
    let answers: Vec<Value> = requests.iter().map(|request| data(client.ask(request))).collect();
    let (customers, offers) = answers[1..].split_at(LISTED);
    let customer = |(customer, offer): (&Value, &Value)| {
        assert_eq!(items(&customer["entitlements"]).len(), ENTITLEMENTS, "{customer}");
        told(customer, &customer["entitlements"], &json!([{ "id": offer["id"], "status": offer["status"] }]))
    };
    customers.iter().zip(offers).map(customer).collect()
}

fn told(customer: &Value, entitlements: &Value, offers: &Value) -> Value {
    let (id, name) = (&customer["id"], &customer["companyName"]);
    json!({ "id": id, "companyName": name, "entitlements": entitlements, "privateOffers": offers })
}

fn data(body: &[u8]) -> Value {
    let body: Value = serde_json::from_slice(body).expect("the answer is JSON");
    body["data"].clone()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

/// How long it takes to have these answered one after the other.
fn time(client: &mut Client, requests: &[String]) -> Duration {
    let began = Instant::now();
    for request in requests {
        black_box(client.ask(request));
    }
    began.elapsed()
}

fn lines(measured: &Measured) -> Vec<Line> {
    let Measured { rest, graph, queries, calls } = measured;
    let rounds = rest.iter().zip(graph);
    let rounds: Vec<Round> = rounds
        .map(|(rest, graph)| Round { floor: 1.0 / rest.as_secs_f64(), ours: 1.0 / graph.as_secs_f64() })
        .collect();
    let millis = |took: &[Duration]| format!("{:.2} ms", median(took).as_secs_f64() * 1e3);
    let what = format!("{LISTED} customers with what they have: GraphQL against {calls} REST calls");
    let times = Line { floor: millis(rest), ..Line::note("  how long each way takes", millis(graph)) };
    let asked = Line {
        target: format!("<= {MOST_QUERIES}"),
        passed: Some(*queries <= MOST_QUERIES),
        ..Line::note("  database queries of that GraphQL request", queries.to_string())
    };
    vec![Line::rate_ratio(what, &rounds, LEAST), times, asked]
}
