//! A million deliveries that wait: what they cost the requests of others, and the memory of the process. They wait because
//! their receivers refuse every connection, so the dispatcher probes them now and then.

use std::time::{Duration, Instant};

use mercato::courier::{Courier, CourierSettings};
use mercato::model::event::EventKind;
use mercato::model::id::{EventId, OrganizationId};
use mercato::model::webhook::WebhookInput;
use mercato::resolvers::webhooks;
use mercato::store::Store;
use surrealdb::types::{Array, Object, RecordId, SurrealValue, Value};

use crate::client::Client;
use crate::fill::{insert, ulid};
use crate::place::Place;
use crate::process::Serve;
use crate::report::Line;
use crate::scale::{Scale, median};
use crate::service::{application, issue_token};

const WEBHOOKS: usize = 10;
const MOST_TIMES: f64 = 2.0;
const GROWTH_MB: f64 = 150.0;

pub async fn measure(scale: &Scale) -> Vec<Line> {
    let place = Place::new();
    let (organization, client) = prepare(&place, scale.backlog / WEBHOOKS).await;
    let (mut ratios, mut growths, mut idle, mut busy) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scale.rounds.min(5) {
        point(&place, organization, scale.backlog / WEBHOOKS).await;
        let (without, memory_without) = observed(scale, &place, &client).await;
        point(&place, organization, 0).await;
        let (with, memory_with) = observed(scale, &place, &client).await;
        ratios.push(with / without);
        growths.push(memory_with - memory_without);
        idle.push(without);
        busy.push(with);
    }
    let ratio = median(&ratios);
    let what = format!("GET p99 beside {} deliveries that wait", scale.backlog);
    vec![
        Line {
            floor: format!("{:.2} ms", median(&idle)),
            ratio: format!("{ratio:.2}"),
            target: format!("<= {MOST_TIMES:.1}"),
            passed: Some(ratio <= MOST_TIMES),
            ..Line::note(what, format!("{:.2} ms", median(&busy)))
        },
        Line::at_most("memory that they add", median(&growths), GROWTH_MB, "MB"),
    ]
}

async fn prepare(place: &Place, events: usize) -> (OrganizationId, (String, String)) {
    let store = place.store().await;
    let organization = store.create_organization("Bench").await.expect("an organization can be made");
    let made = application(&store, organization, mercato::model::scope::Scope::ALL).await;
    let settings = CourierSettings { allowed: vec!["127.0.0.0/8".parse().expect("a subnet")], ..Default::default() };
    let courier = Courier::new(settings, store.clock().clone()).expect("there are no extra certificates");
    let caller = mercato::call::Caller::Operator { organization };
    let call = mercato::call::Call::new(store.clone(), caller, None);
    for _ in 0..WEBHOOKS {
        let input = WebhookInput {
            name: Some("Dead".to_owned()),
            url: Some("https://127.0.0.1:1/".to_owned()),
            events: Some(vec![EventKind::CustomerCreated]),
            ..WebhookInput::default()
        };
        webhooks::create(&call, &courier, input).await.expect("the webhook breaks no rule");
    }
    let owner = organization.to_string();
    insert(&store, "event", events, move |number| event(&owner, number)).await;
    (organization, (made.application.client_id, made.client_secret))
}

/// As long as those of customers are.
fn event(owner: &str, number: usize) -> Object {
    let (id, sequence) = (EventId(ulid(number)), i64::try_from(number + 1).expect("few"));
    let key = Array::from(vec![owner.to_owned().into_value(), sequence.into_value()]);
    let filler = "x".repeat(500);
    let mut row = Object::new();
    row.insert("id".to_owned(), RecordId::new("event", key).into_value());
    row.insert("kind".to_owned(), EventKind::CustomerCreated.as_str().into_value());
    row.insert("vendor".to_owned(), "cloud_a".into_value());
    row.insert("at".to_owned(), Value::Datetime(id.created_at().as_datetime().into()));
    let envelope = format!("{{\"id\":\"{id}\",\"sequence\":{sequence},\"data\":\"{filler}\"}}");
    row.insert("envelope".to_owned(), envelope.into_value());
    row
}

/// Puts every webhook at a place of the log.
async fn point(place: &Place, organization: OrganizationId, cursor: usize) {
    let store: Store = place.store().await;
    let text = format!(
        "UPDATE organization:`{organization}` SET sequence = (SELECT VALUE record::id(id)[1] FROM event ORDER BY id DESC LIMIT 1)[0];
         UPDATE dispatch SET cursor = {cursor}, failures = 0, paused_until = NONE, wake_at = d'9999-01-01T00:00:00Z', holder = NONE;
         UPDATE webhook SET status = 'active'; DELETE delivery; DELETE retry; DELETE undelivered;"
    );
    let done = store.engine().query(text).await;
    done.and_then(surrealdb::IndexedResults::check).expect("the rows fit the schema");
}

/// The 99th percentile of a read in milliseconds, and the memory in MB.
async fn observed(scale: &Scale, place: &Place, client: &(String, String)) -> (f64, f64) {
    let serve = Serve::start(place);
    let token = issue_token(&format!("http://{}", serve.address), &client.0, &client.1).await;
    // Until every webhook has failed three times and is probed.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let address = serve.address;
    let time = scale.read_time;
    let took = tokio::task::spawn_blocking(move || {
        let request = format!(
            "GET /api/v1/customers HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\nconnection: keep-alive\r\n\r\n"
        );
        let mut client = Client::connect(address);
        let (until, mut took) = (Instant::now() + time, Vec::new());
        while Instant::now() < until {
            let began = Instant::now();
            client.ask(&request);
            took.push(began.elapsed().as_secs_f64() * 1000.0);
        }
        took.sort_by(f64::total_cmp);
        took[took.len() * 99 / 100]
    });
    let took = took.await.expect("the service answers");
    let memory = serve.resident_mb();
    serve.stop();
    (took, memory)
}
