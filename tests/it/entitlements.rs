//! Entitlements through both doors (`contract.md` §9): what callers read of what marketplaces and administrators do.

use chrono::TimeDelta;
use mercato::model::entitlement::{Dimension, NewEntitlement};
use mercato::model::id::CustomerId;
use mercato::model::lifecycle::{Amendment, Step, Term};
use mercato::resolvers::entitlements;
use serde_json::{Value, json};

use crate::harness::{CUSTOMERS, ENTITLEMENTS, Facade, TestApp};
use crate::snapshot;

fn seats(value: i64) -> Vec<Dimension> {
    vec![Dimension { key: "seats".to_owned(), value: value.into(), description: Some("Named users".to_owned()) }]
}

/// The life of one entitlement, and what both lists and both details show of it.
async fn scenario(facade: Facade) -> Vec<Value> {
    let app = TestApp::new().await;
    let mut party = app.party().await;
    let organization = party.organization();
    let mut said = Vec::new();
    let mut say = |what: &str, outcome: Value| said.push(json!({ what: outcome }));
    let customer = party.customer("1").await["id"].as_str().expect("an id").to_owned();
    let now = app.clock.now();
    let new = NewEntitlement {
        start_date: Some(now.plus(TimeDelta::days(2))),
        end_date: Some(now.plus(TimeDelta::days(40))),
        dimensions: seats(10),
        plan_id: Some("gold".to_owned()),
        agreement_id: Some("agr-1".to_owned()),
        ..NewEntitlement::of(CustomerId::parse(&customer).expect("an id"), "lst_1")
    };
    let entitlement = app.entitlement(organization, new).await;
    let id = entitlement.id.to_string();
    say("pending until its start", facade.get(&party, ENTITLEMENTS, &id).await);
    app.advance(TimeDelta::days(2));
    party.refresh().await;
    assert_eq!(app.tick().await, 1);
    let amendment = Amendment { dimensions: seats(20), ..Amendment::default() };
    app.step(&entitlement, Step::Amend(amendment)).await;
    app.step(&entitlement, Step::Suspend).await;
    say("its customer is suspended with it", facade.get(&party, CUSTOMERS, &customer).await);
    app.step(&entitlement, Step::Reinstate).await;
    let term = Term { start: None, end: Some(now.plus(TimeDelta::days(60))) };
    app.step(&entitlement, Step::Renew(term)).await;
    app.advance(TimeDelta::days(60));
    party.refresh().await;
    assert_eq!(app.tick().await, 1);
    say("expired, with its history", facade.get(&party, ENTITLEMENTS, &id).await);
    say("in the list", facade.list(&party, ENTITLEMENTS, 10, None).await);
    say("an unknown one", facade.get(&party, ENTITLEMENTS, "ent_01KE6X17G0C9ZQ4T8V2N5B7XKD").await);
    say("a bad cursor", facade.list(&party, ENTITLEMENTS, 10, Some("x")).await);
    said.push(json!({ "events": app.events(organization).await }));
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn both_doors_lead_to_the_same_rooms() {
    let (rest, graphql) = (scenario(Facade::Rest).await, scenario(Facade::Graphql).await);
    for (rest, graphql) in rest.iter().zip(&graphql) {
        assert_eq!(without_nulls(rest), without_nulls(graphql));
    }
    snapshot!("entitlements", rest);
}

/// REST leaves an absent description and absent changes out; GraphQL's fields are always there.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect::<serde_json::Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// What does not apply is a conflict that names the state, and leaves no trace.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_does_not_apply_changes_nothing() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let organization = party.organization();
    let customer = CustomerId::parse(party.customer("1").await["id"].as_str().expect("an id")).expect("an id");
    let entitlement = app.entitlement(organization, NewEntitlement::of(customer, "lst_1")).await;
    app.step(&entitlement, Step::Cancel).await;
    let before = app.events(organization).await.len();
    for step in [Step::Suspend, Step::Reinstate, Step::Expire, Step::Cancel, Step::Amend(Amendment::default())] {
        let refused = entitlements::advance(&app.tenant(organization), entitlement.id, step).await;
        let message = refused.expect_err("it does not apply").to_string();
        assert!(message.starts_with("The entitlement is cancelled;"), "{message}");
    }
    assert_eq!(app.events(organization).await.len(), before);
}

/// A person may do by hand what an application may not; the rules are the same.
#[tokio::test(flavor = "multi_thread")]
async fn administrators_move_entitlements_by_hand() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let organization = party.organization();
    let customer = CustomerId::parse(party.customer("1").await["id"].as_str().expect("an id")).expect("an id");
    let id = app.entitlement(organization, NewEntitlement::of(customer, "lst_1")).await.id.to_string();
    let operator = app.operator(organization);
    assert_eq!(entitlements::suspend(&operator, &id).await.expect("suspended").status.as_str(), "suspended");
    assert_eq!(entitlements::reinstate(&operator, &id).await.expect("active").status.as_str(), "active");
    let past = Term { start: None, end: Some(app.clock.now().plus(TimeDelta::days(-1))) };
    let refused = entitlements::renew(&operator, &id, past).await.expect_err("it ends before it starts");
    assert_eq!(refused.fields()[0].field, "endDate");
    let term = Term { start: None, end: Some(app.clock.now().plus(TimeDelta::days(9))) };
    assert_eq!(entitlements::renew(&operator, &id, term).await.expect("renewed").end_date, term.end);
    assert_eq!(entitlements::cancel(&operator, &id).await.expect("cancelled").status.as_str(), "cancelled");
    let history = entitlements::get(&operator, &id).await.expect("it is there").history;
    let actions: Vec<&str> = history.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["created", "updated", "updated", "renewed", "cancelled"]);
}
