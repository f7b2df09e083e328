//! The graph: nested reads in a bounded number of queries, filters, search, order, `node`, the agreement chain, and scopes
//! at every depth.

use chrono::TimeDelta;
use mercato::model::entitlement::NewEntitlement;
use mercato::model::id::{CustomerId, PrivateOfferId};
use mercato::model::lifecycle::Step;
use mercato::model::offer::Acceptance;
use mercato::model::scope::Scope;
use mercato::resolvers::offers;
use serde_json::{Value, json};

use crate::harness::{Party, TestApp, new_offer};

async fn data(party: &Party, query: &str) -> Value {
    let body = party.graphql(query, json!({})).await.json();
    assert_eq!(body.get("errors"), None, "{query}");
    body["data"].clone()
}

async fn customer(party: &Party, account: &str) -> CustomerId {
    CustomerId::parse(party.customer(account).await["id"].as_str().expect("an id")).expect("an id")
}

/// `customers` customers with two entitlements and one offer each.
async fn population(app: &TestApp, party: &Party, customers: usize) -> Vec<CustomerId> {
    let mut made = Vec::new();
    for number in 0..customers {
        let id = customer(party, &number.to_string()).await;
        for listing in ["lst_1", "lst_2"] {
            app.entitlement(party.organization(), NewEntitlement::of(id, listing)).await;
        }
        assert_eq!(party.post("/api/v1/private-offers", &new_offer(&id.to_string())).await.status, 201);
        made.push(id);
    }
    made
}

/// However many parents: one query for the page and one for each kind of child.
#[tokio::test(flavor = "multi_thread")]
async fn nested_reads_take_a_bounded_number_of_queries() {
    let app = TestApp::new().await;
    let party = app.party().await;
    population(&app, &party, 30).await;
    let query = |first: usize| {
        format!(
            "{{ customers(first: {first}) {{ nodes {{ id entitlements {{ nodes {{ id listingId customer {{ id }} }} }} \
             privateOffers {{ nodes {{ id status }} }} }} }} }}"
        )
    };
    let mut taken = Vec::new();
    for first in [1, 10, 30] {
        data(&party, &query(first)).await;
        let before = app.store.queries();
        let seen = data(&party, &query(first)).await;
        taken.push(app.store.queries() - before);
        let nodes = seen["customers"]["nodes"].as_array().expect("nodes");
        assert_eq!(nodes.len(), first);
        for node in nodes {
            assert_eq!(node["entitlements"]["nodes"].as_array().map(Vec::len), Some(2));
            assert_eq!(node["entitlements"]["nodes"][0]["customer"]["id"], node["id"]);
            assert_eq!(node["privateOffers"]["nodes"].as_array().map(Vec::len), Some(1));
        }
    }
    assert!(taken.iter().all(|queries| *queries <= 4), "{taken:?}");
}

/// A nested connection goes on where its first page ended.
#[tokio::test(flavor = "multi_thread")]
async fn nested_connections_can_be_walked() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let id = customer(&party, "1").await;
    let other = customer(&party, "2").await;
    for number in 0..5 {
        for owner in [id, other] {
            app.entitlement(party.organization(), NewEntitlement::of(owner, format!("lst_{number}"))).await;
        }
    }
    let (mut after, mut listings) = (String::new(), Vec::new());
    for _ in 0..3 {
        let query = format!(
            "{{ customer(id: \"{id}\") {{ entitlements(first: 2{after}) {{ nodes {{ listingId }} pageInfo {{ hasNextPage endCursor }} }} }} }}"
        );
        let page = data(&party, &query).await["customer"]["entitlements"].clone();
        listings.extend(page["nodes"].as_array().expect("nodes").iter().map(|node| node["listingId"].clone()));
        assert_eq!(page["pageInfo"]["hasNextPage"], listings.len() < 5);
        after = format!(", after: {}", page["pageInfo"]["endCursor"]);
    }
    assert_eq!(json!(listings), json!(["lst_4", "lst_3", "lst_2", "lst_1", "lst_0"]));
}

/// A child needs its own scope: its field fails, the rest stands.
#[tokio::test(flavor = "multi_thread")]
async fn a_parents_scope_does_not_open_its_children() {
    let app = TestApp::new().await;
    let all = app.party().await;
    population(&app, &all, 1).await;
    let party = app.party_in(all.organization(), &[Scope::ReadCustomers]).await;
    let query = "{ customers { nodes { companyName entitlements { nodes { id } } privateOffers { nodes { id } } \
                 meteringSubmissions { nodes { id } } entitlementSummaries { status } } } }";
    let body = party.graphql(query, json!({})).await.json();
    let node = &body["data"]["customers"]["nodes"][0];
    assert_eq!((&node["companyName"], &node["entitlements"]), (&json!("Company 0"), &Value::Null));
    assert_eq!(node["entitlementSummaries"].as_array().map(Vec::len), Some(2));
    let errors = body["errors"].as_array().expect("errors");
    assert_eq!(errors.len(), 3);
    assert!(errors.iter().all(|error| error["extensions"]["status"] == 403), "{errors:?}");
}

/// Every filter alone, filters together, ranges, and both directions of every order.
#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_and_ordered() {
    let app = TestApp::new().await;
    let mut party = app.party().await;
    let organization = party.organization();
    let (one, two) = (customer(&party, "1").await, customer(&party, "2").await);
    let b = json!({ "vendor": "cloud_b", "tenantId": "t", "companyName": "alpha" });
    let b =
        party.post("/api/v1/customers", &b).await.created()["id"].as_str().and_then(CustomerId::parse).expect("an id");
    let start = app.clock.now();
    for (number, (owner, days)) in [(one, 30), (two, 10), (b, 20), (one, 0)].into_iter().enumerate() {
        let end_date = (days > 0).then(|| start.plus(TimeDelta::days(days)));
        let new = NewEntitlement { end_date, ..NewEntitlement::of(owner, format!("lst_{number}")) };
        let entitlement = app.entitlement(organization, new).await;
        if number == 1 {
            app.step(&entitlement, Step::Suspend).await;
        }
        app.advance(TimeDelta::hours(1));
    }
    party.refresh().await;
    let listed = async |arguments: &str| {
        let query = format!("{{ entitlements({arguments}) {{ nodes {{ listingId }} }} }}");
        let nodes = data(&party, &query).await["entitlements"]["nodes"].clone();
        let number = |node: &Value| node["listingId"].as_str().and_then(|listing| listing.chars().last());
        nodes.as_array().expect("nodes").iter().filter_map(number).collect::<String>()
    };
    for (arguments, expected) in [
        ("filter: {}".to_owned(), "3210"),
        ("filter: { status: ACTIVE }".to_owned(), "320"),
        ("filter: { vendor: CLOUD_B }".to_owned(), "2"),
        ("filter: { listingId: \"lst_3\" }".to_owned(), "3"),
        (format!("filter: {{ customerId: \"{one}\" }}"), "30"),
        (format!("filter: {{ customerId: \"{one}\", status: SUSPENDED }}"), ""),
        ("filter: { vendor: CLOUD_A, status: ACTIVE }".to_owned(), "30"),
        ("filter: { createdAt: { from: \"2026-01-05T11:00:00Z\", to: \"2026-01-05T13:00:00Z\" } }".to_owned(), "21"),
        ("filter: { status: ACTIVE, createdAt: { to: \"2026-01-05T13:00:00Z\" } }".to_owned(), "20"),
        ("filter: { createdAt: { from: \"2026-01-05T11:00:00Z\" } }, orderBy: { field: CREATED_AT, direction: ASC }".to_owned(), "123"),
        ("filter: { endDate: { from: \"2026-01-15T10:00:00Z\", to: \"2026-02-04T10:00:00Z\" } }".to_owned(), "21"),
        ("orderBy: { field: CREATED_AT, direction: ASC }".to_owned(), "0123"),
        ("orderBy: { field: END_DATE, direction: ASC }".to_owned(), "1203"),
        ("orderBy: { field: END_DATE, direction: DESC }".to_owned(), "3021"),
        ("filter: { vendor: CLOUD_A }, orderBy: { field: END_DATE, direction: ASC }".to_owned(), "103"),
        ("filter: { endDate: { from: \"2026-01-15T10:00:00.001Z\" } }, orderBy: { field: END_DATE, direction: DESC }".to_owned(), "02"),
        ("filter: { endDate: { to: \"2026-02-04T10:00:00Z\" } }, orderBy: { field: END_DATE, direction: ASC }".to_owned(), "12"),
    ] {
        assert_eq!(listed(&arguments).await, expected, "{arguments}");
    }
    let names = async |direction: &str| {
        let query = format!(
            "{{ customers(orderBy: {{ field: COMPANY_NAME, direction: {direction} }}) {{ nodes {{ companyName }} }} }}"
        );
        data(&party, &query).await["customers"]["nodes"].clone()
    };
    let name = |name: &str| json!({ "companyName": name });
    assert_eq!(names("ASC").await, json!([name("alpha"), name("Company 1"), name("Company 2")]));
    assert_eq!(names("DESC").await, json!([name("Company 2"), name("Company 1"), name("alpha")]));
}

/// A cursor belongs to one order; in it, a walk meets everything once.
#[tokio::test(flavor = "multi_thread")]
async fn ordered_lists_can_be_walked() {
    let app = TestApp::new().await;
    let party = app.party().await;
    for number in [3, 1, 2, 1, 3] {
        let account = app.clock.mint().to_string();
        let new = json!({ "vendor": "cloud_a", "cloudAccountId": account, "companyName": format!("N{number}") });
        assert_eq!(party.post("/api/v1/customers", &new).await.status, 201);
    }
    for (order, expected) in [("ASC", "11233"), ("DESC", "33211")] {
        let (mut after, mut seen) = (String::new(), String::new());
        for _ in 0..3 {
            let query = format!(
                "{{ customers(first: 2, orderBy: {{ field: COMPANY_NAME, direction: {order} }}{after}) \
                 {{ nodes {{ companyName }} pageInfo {{ endCursor }} }} }}"
            );
            let page = data(&party, &query).await["customers"].clone();
            seen.extend(
                page["nodes"]
                    .as_array()
                    .expect("nodes")
                    .iter()
                    .filter_map(|node| node["companyName"].as_str()?.chars().last()),
            );
            after = format!(", after: {}", page["pageInfo"]["endCursor"]);
        }
        assert_eq!(seen, expected);
        let foreign = party.graphql(&format!("{{ customers(first: 2{after}) {{ nodes {{ id }} }} }}"), json!({})).await;
        assert_eq!(foreign.json()["errors"][0]["extensions"]["status"], 400);
    }
}

/// Words and beginnings of words, in any order, among few and among many; renaming moves a record.
#[tokio::test(flavor = "multi_thread")]
async fn customers_and_offers_are_found_by_words() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let make = async |account: &str, name: &str, email: &str| {
        let new = json!({ "vendor": "cloud_a", "cloudAccountId": account, "companyName": name, "email": email });
        let made = party.post("/api/v1/customers", &new).await;
        assert_eq!(made.status, 201, "{}", made.text);
        made.created()["id"].as_str().expect("an id").to_owned()
    };
    let first = make("111", "Northwind Analytics GmbH", "it@nw.example").await;
    make("222", "Züricher Nordwind", "billing@zuerich.example").await;
    make("333", "Blue Harbor", "north@blue.example").await;
    let found = async |search: &str| {
        let query = "query ($search: String) { customers(filter: { search: $search }) { nodes { cloudAccountId } } }";
        let body = party.graphql(query, json!({ "search": search })).await.json();
        let nodes = body["data"]["customers"]["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().filter_map(|node| node["cloudAccountId"].as_str()?.chars().next()).collect::<String>()
    };
    for (search, expected) in [
        ("north", "31"),
        ("NORTHWIND analytics", "1"),
        ("gmbh north", "1"),
        ("wind", ""),
        ("züri", "2"),
        ("222", "2"),
        ("north blue", "3"),
        ("example", "321"),
        ("nobody", ""),
        ("%", ""),
        ("' OR 1=1 --", ""),
    ] {
        assert_eq!(found(search).await, expected, "{search}");
    }
    party.put(&format!("/api/v1/customers/{first}"), &json!({ "companyName": "Southwind" })).await;
    assert_eq!((found("northwind").await, found("southw").await), (String::new(), "1".to_owned()));
    party.delete(&format!("/api/v1/customers/{first}")).await;
    assert_eq!(found("southwind").await, "");
    for number in 0..520 {
        make(&format!("9{number}"), "Commonplace", "x@many.example").await;
    }
    assert_eq!(found("commonpl many").await, "9".repeat(20));
    let third = party.get("/api/v1/customers?limit=100").await.data()["items"][0]["id"].clone();
    let mut offer = new_offer(third.as_str().expect("an id"));
    offer["details"]["summary"] = json!({ "offerName": "Three years, half price" });
    party.post("/api/v1/private-offers", &offer).await;
    let query = "{ privateOffers(filter: { search: \"half thr\" }) { nodes { details { summary { offerName } } } } }";
    assert_eq!(data(&party, query).await["privateOffers"]["nodes"].as_array().map(Vec::len), Some(1));
    for search in ["", "a b c d e f", &"x".repeat(201)] {
        let query = "query ($search: String) { customers(filter: { search: $search }) { nodes { id } } }";
        let refused = party.graphql(query, json!({ "search": search })).await.json();
        assert_eq!(refused["errors"][0]["extensions"]["errors"][0]["field"], "filter.search", "{search}");
    }
}

/// An accepted offer, its replacement, and the contract that both are about.
#[tokio::test(flavor = "multi_thread")]
async fn the_agreement_chain_can_be_followed() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let tenant = app.tenant(party.organization());
    let id = customer(&party, "1").await.to_string();
    let offer = async |agreement: Option<&str>| {
        let mut new = new_offer(&id);
        if let Some(agreement) = agreement {
            new["details"]["cloud"] = json!({ "isReplacement": true, "agreementId": agreement });
        }
        let made = party.post("/api/v1/private-offers", &new).await.created();
        PrivateOfferId::parse(made["id"].as_str().expect("an id")).expect("an id")
    };
    let accept = async |id: PrivateOfferId, agreement: &str| {
        let acceptance = Acceptance { agreement_id: Some(agreement.to_owned()), ..Acceptance::default() };
        offers::accept(&tenant, id, acceptance).await.expect("accepted");
    };
    let first = offer(None).await;
    accept(first, "agr-1").await;
    let second = offer(Some("agr-1")).await;
    accept(second, "agr-2").await;
    let third = offer(Some("agr-2")).await;
    let query = format!(
        "{{ node(id: \"{second}\") {{ __typename id ... on PrivateOffer {{ replaces {{ id replaces {{ id }} }} replacedBy {{ id }} \
         customer {{ id }} entitlement {{ agreementId privateOffer {{ id }} history {{ action }} }} }} }} }}"
    );
    let node = data(&party, &query).await["node"].clone();
    assert_eq!(
        node,
        json!({
            "__typename": "PrivateOffer", "id": second,
            "replaces": { "id": first, "replaces": null }, "replacedBy": [{ "id": third }], "customer": { "id": id },
            "entitlement": { "agreementId": "agr-2", "privateOffer": { "id": second },
                "history": [{ "action": "CREATED" }, { "action": "UPDATED" }] },
        })
    );
}

/// `node` finds every kind of record by its id alone.
#[tokio::test(flavor = "multi_thread")]
async fn node_finds_everything() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let customer = population(&app, &party, 1).await[0].to_string();
    party.post("/api/v1/metering", &json!({ "details": { "customer": { "id": customer } } })).await;
    let query = "{ customers { nodes { id } } entitlements { nodes { id } } privateOffers { nodes { id } } \
                 meteringSubmissions { nodes { id } } applications { nodes { id } } }";
    for (kind, connection) in data(&party, query).await.as_object().expect("lists") {
        let id = &connection["nodes"][0]["id"];
        let node = data(&party, &format!("{{ node(id: {id}) {{ __typename id }} }}")).await["node"].clone();
        assert_eq!(&node["id"], id, "{kind}");
    }
    for id in ["", "x", "evt_01KE6X17G0C9ZQ4T8V2N5B7XKD", "cus_x"] {
        let body = party.graphql(&format!("{{ node(id: \"{id}\") {{ id }} }}"), json!({})).await.json();
        assert_eq!((&body["data"]["node"], &body["errors"][0]["extensions"]["status"]), (&Value::Null, &json!(404)));
    }
}
