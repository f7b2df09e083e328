//! The sixteen kinds of event (spec "Events"): each happens once here, has a reviewed sample in `snapshots/events/`, and is
//! the same bytes in the log, in a webhook's body, in both transports of the subscription and in a pull.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use mercato::model::entitlement::{Dimension, NewEntitlement};
use mercato::model::event::EventKind;
use mercato::model::id::{CustomerId, MeteringId, PrivateOfferId};
use mercato::model::lifecycle::{Amendment, Step, Term};
use mercato::model::metering::Verdict;
use mercato::model::offer::{Acceptance, Published};
use mercato::resolvers::{metering, offers};
use serde_json::{Value, json};

use crate::deliveries::app;
use crate::harness::receiver::Receiver;
use crate::harness::socket::{Feed, Transport};
use crate::harness::{Party, TestApp, golden, new_offer};

fn id(record: &Value) -> &str {
    record["id"].as_str().unwrap_or_else(|| panic!("an id in {record}"))
}

async fn customers_happen(party: &Party) -> String {
    let new = json!({
        "vendor": "cloud_a", "cloudAccountId": "123456789012", "companyName": "Northwind Analytics",
        "email": "ops@northwind.example",
    });
    let kept = party.post("/api/v1/customers", &new).await.created();
    let gone = party.customer("gone").await;
    let change = json!({ "companyName": "Northwind", "email": null });
    party.put(&format!("/api/v1/customers/{}", id(&kept)), &change).await.ok();
    party.delete(&format!("/api/v1/customers/{}", id(&gone))).await.ok();
    id(&kept).to_owned()
}

async fn entitlements_happen(app: &TestApp, party: &Party, customer: &str) {
    let new = || NewEntitlement {
        end_date: Some(app.clock.now().plus(TimeDelta::days(10))),
        dimensions: vec![seats(10)],
        plan_id: Some("pro".to_owned()),
        ..NewEntitlement::of(CustomerId::parse(customer).expect("an id"), "lst_analytics_pro")
    };
    let kept = app.entitlement(party.organization(), new()).await;
    let ending = app.entitlement(party.organization(), new()).await;
    app.step(&kept, Step::Amend(Amendment { dimensions: vec![seats(20)], ..Amendment::default() })).await;
    let term = Term { start: None, end: Some(app.clock.now().plus(TimeDelta::days(400))) };
    app.step(&kept, Step::Renew(term)).await;
    app.step(&kept, Step::Cancel).await;
    app.step(&ending, Step::Expire).await;
}

fn seats(value: i64) -> Dimension {
    Dimension { key: "seats".to_owned(), value: value.into(), description: Some("Seats".to_owned()) }
}

async fn offers_happen(app: &TestApp, party: &mut Party, customer: &str) {
    let tenant = app.tenant(party.organization());
    let path = "/api/v1/private-offers";
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(id(&party.post(path, &new_offer(customer)).await.created()).to_owned());
    }
    let offer = PrivateOfferId::parse(&made[0]).expect("an id");
    let live = Published::Live { vendor_offer_id: "vo-1".to_owned() };
    offers::publish(&tenant, offer, live).await.expect("published");
    let acceptance = Acceptance { agreement_id: Some("agr-1".to_owned()), ..Acceptance::default() };
    offers::accept(&tenant, offer, acceptance).await.expect("accepted");
    party.delete(&format!("{path}/{}", made[1])).await.ok();
    app.advance(TimeDelta::days(31));
    app.tick().await;
    party.refresh().await;
}

async fn usage_happens(app: &TestApp, party: &Party, customer: &str) {
    let tenant = app.tenant(party.organization());
    for (dimension, verdict) in [("api_calls", Verdict::Confirmed), ("unknown", Verdict::InvalidDimension)] {
        let usage = json!([{ "dimension": dimension, "quantity": 12.5 }]);
        let report = json!({ "listingId": "lst_1", "details": { "customer": { "id": customer }, "usage": usage } });
        let made = party.post("/api/v1/metering", &report).await.created();
        let report = MeteringId::parse(id(&made)).expect("an id");
        metering::submit_to_vendor(&tenant, report).await.expect("submitted");
        metering::settle(&tenant, report, &[(verdict, None)]).await.expect("settled");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_is_the_same_bytes_everywhere() {
    let (app, authority) = app().await;
    let mut party = app.party().await;
    let receiver = Receiver::start(&authority).await;
    let body = json!({ "name": "All", "url": receiver.url(), "events": EventKind::ALL });
    party.post("/api/v1/webhook", &body).await.created();
    let customer = customers_happen(&party).await;
    entitlements_happen(&app, &party, &customer).await;
    offers_happen(&app, &mut party, &customer).await;
    usage_happens(&app, &party, &customer).await;
    app.settle().await;
    let stored = app.rows("SELECT * FROM event ORDER BY id").await;
    let inbox = receiver.take();
    assert_eq!(inbox.len(), stored.len());
    let document = "subscription { events(afterSequence: 0) { sequence payload } }";
    let mut feeds = Vec::new();
    for transport in Transport::BOTH {
        feeds.push(Feed::open(transport, &party, document, json!({})).await);
    }
    let mut samples = BTreeMap::new();
    for (row, delivered) in stored.iter().zip(&inbox) {
        let envelope = row["envelope"].as_str().expect("an envelope");
        assert_eq!(delivered.body, envelope.as_bytes());
        for feed in &mut feeds {
            assert_eq!(feed.event().await["payload"].as_str(), Some(envelope));
        }
        let event: Value = serde_json::from_str(envelope).expect("JSON");
        let pulled = party.get(&format!("/api/v1/events/{}", id(&event))).await;
        assert_eq!(pulled.text, format!("{{\"code\":200,\"data\":{envelope}}}"));
        samples.entry(event["type"].as_str().expect("a kind").to_owned()).or_insert(envelope.to_owned());
    }
    let seen: Vec<&str> = samples.keys().map(String::as_str).collect();
    let mut all: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    all.sort_unstable();
    assert_eq!(seen, all);
    for (kind, envelope) in &samples {
        // The order of the fields is part of what is reviewed.
        let lines: Box<serde_json::value::RawValue> = serde_json::from_str(envelope).expect("JSON");
        golden(&format!("snapshots/events/{kind}.json"), &pretty(lines.get()));
    }
}

/// JSON with a line for each field of the envelope and of its data, in the order in which they stand.
fn pretty(envelope: &str) -> String {
    let mut text = String::new();
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for character in envelope.chars() {
        let plain = !quoted;
        if plain && character == '}' {
            depth -= 1;
            text.push('\n');
            text.push_str(&"  ".repeat(depth));
        }
        text.push(character);
        quoted ^= character == '"' && !escaped;
        escaped = quoted && character == '\\' && !escaped;
        if plain && matches!(character, '{' | ',') {
            depth += usize::from(character == '{');
            text.push('\n');
            text.push_str(&"  ".repeat(depth));
        }
        if plain && character == ':' {
            text.push(' ');
        }
    }
    text + "\n"
}
