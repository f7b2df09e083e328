//! Following events (`contract.md` §13, §15), over both transports: what comes, in which order, and who may see it.

use chrono::TimeDelta;
use mercato::model::scope::Scope;
use serde_json::{Value, json};

use crate::harness::{EventStream, Feed, Party, TestApp, Transport, new_offer, shared};

const ALL: &str = "subscription ($after: Sequence) { events(afterSequence: $after) { sequence type } }";

async fn follow(transport: Transport, party: &Party, after: Option<i64>) -> Feed {
    Feed::open(transport, party, ALL, json!({ "after": after })).await
}

fn renderings(app: &TestApp) -> u64 {
    app.app.services.metrics.renderings.get()
}

/// Waits until this many subscriptions run.
async fn running(app: &TestApp, count: i64) {
    let began = std::time::Instant::now();
    while app.app.services.metrics.subscriptions.get() != count {
        assert!(began.elapsed().as_secs() < 20, "{} run", app.app.services.metrics.subscriptions.get());
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// The log, then live, while writers write: no gap, no duplicate, in order.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_and_then_live_without_a_gap() {
    let app = shared(TestApp::new().await);
    let party = app.party().await;
    for account in 0..10 {
        party.customer(&account.to_string()).await;
    }
    let writers = (0..4).map(|writer| {
        let party = party.clone();
        tokio::spawn(async move {
            for account in 0..15 {
                party.customer(&format!("{writer}-{account}")).await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    for (transport, after) in Transport::BOTH.into_iter().flat_map(|transport| [(transport, 0), (transport, 4)]) {
        let count = 70 - after;
        let seen = follow(transport, &party, Some(after)).await.sequences(usize::try_from(count).unwrap_or(0)).await;
        assert_eq!(seen, (after + 1..=70).collect::<Vec<_>>(), "{transport:?}");
    }
    for writer in writers {
        writer.await.expect("a writer ends");
    }
}

/// Without a point it begins now.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_point_only_what_comes() {
    let app = TestApp::new().await;
    let party = app.party().await;
    party.customer("1").await;
    let mut feeds = Vec::new();
    for transport in Transport::BOTH {
        feeds.push(follow(transport, &party, None).await);
    }
    running(&app, 2).await;
    party.customer("2").await;
    for feed in &mut feeds {
        assert_eq!(feed.sequences(1).await, [2]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_and_vendors_filter() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let tenant = json!({ "vendor": "cloud_b", "tenantId": "9b7b4c7e-4f0c-4f0e-8d3e-0d9b4c7e4f0c", "companyName": "B" });
    party.customer("1").await;
    let id = party.post("/api/v1/customers", &tenant).await.created()["id"].as_str().unwrap_or_default().to_owned();
    party.put(&format!("/api/v1/customers/{id}"), &json!({ "companyName": "C" })).await.ok();
    party.customer("2").await;
    for transport in Transport::BOTH {
        for (arguments, expected) in [
            ("kinds: [CUSTOMER_CREATED]", vec![1, 2, 4]),
            ("kinds: [CUSTOMER_UPDATED, PRIVATE_OFFER_CREATED]", vec![3]),
            ("vendor: CLOUD_B", vec![2, 3]),
            ("vendor: CLOUD_A, kinds: [CUSTOMER_CREATED]", vec![1, 4]),
        ] {
            let query = format!("subscription {{ events(afterSequence: 0, {arguments}) {{ sequence }} }}");
            let mut feed = Feed::open(transport, &party, &query, json!({})).await;
            assert_eq!(feed.sequences(expected.len()).await, expected, "{arguments}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scopes_open_their_kinds() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let reader = app.party_in(party.organization(), &[Scope::ReadCustomers]).await;
    let analyst = app.party_in(party.organization(), &[Scope::ReadAnalytics]).await;
    let customer = party.customer("1").await["id"].as_str().unwrap_or_default().to_owned();
    party.post("/api/v1/private-offers", &new_offer(&customer)).await.created();
    party.customer("2").await;
    let offers = "subscription { events(kinds: [CUSTOMER_CREATED, PRIVATE_OFFER_CREATED]) { sequence } }";
    for transport in Transport::BOTH {
        assert_eq!(follow(transport, &reader, Some(0)).await.sequences(2).await, [1, 3]);
        for (party, query) in [(&reader, offers), (&analyst, ALL)] {
            let refused = Feed::refused(transport, party, query, json!({})).await;
            assert_eq!(refused, json!({ "code": "INSUFFICIENT_SCOPE", "status": 403 }));
        }
    }
}

/// Typed data with what is nested in it, each with its own scope; the payload is what a webhook and a pull get.
#[tokio::test(flavor = "multi_thread")]
async fn events_carry_their_data_and_the_very_bytes() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let customer = party.customer("1").await["id"].as_str().unwrap_or_default().to_owned();
    party.post("/api/v1/private-offers", &new_offer(&customer)).await.created();
    party.post("/api/v1/metering", &json!({ "details": { "customer": { "id": customer } } })).await.created();
    party.put(&format!("/api/v1/customers/{customer}"), &json!({ "companyName": "New" })).await.ok();
    let id = mercato::model::id::CustomerId::parse(&customer).expect("an id");
    let new = mercato::model::entitlement::NewEntitlement::of(id, "lst_1");
    app.entitlement(party.organization(), new).await;
    let count = app.events(party.organization()).await.len();
    let fields = "id type timestamp sequence organizationId vendor test changes payload data { __typename \
                  ... on Customer { id companyName } ... on PrivateOffer { id customer { id } } \
                  ... on Entitlement { id customer { id } } ... on MeteringSubmission { id } }";
    let query = format!("subscription {{ events(afterSequence: 0) {{ {fields} }} }}");
    for transport in Transport::BOTH {
        let mut feed = Feed::open(transport, &party, &query, json!({})).await;
        let mut kinds = Vec::new();
        for _ in 0..count {
            let event = feed.event().await;
            let payload = event["payload"].as_str().unwrap_or_default().to_owned();
            let envelope: Value = serde_json::from_str(&payload).expect("JSON");
            let id = event["id"].as_str().unwrap_or_default();
            assert!(party.get(&format!("/api/v1/events/{id}")).await.text.contains(&payload));
            assert!(app.events(party.organization()).await.contains(&envelope));
            assert_eq!(event["data"]["id"], envelope["data"]["id"]);
            assert_eq!(event["organizationId"], envelope["organizationId"]);
            assert_eq!(event["timestamp"], envelope["timestamp"]);
            assert_eq!(event["changes"], envelope.get("changes").cloned().unwrap_or_default());
            if event["data"]["__typename"] == "PrivateOffer" || event["data"]["__typename"] == "Entitlement" {
                assert_eq!(event["data"]["customer"]["id"], json!(customer));
            }
            kinds.push(event["type"].as_str().unwrap_or_default().to_owned());
            let node = format!("{{ event(id: \"{id}\") {{ {fields} }} node(id: \"{id}\") {{ id __typename }} }}");
            let answer = party.graphql(&node, json!({})).await.data();
            assert_eq!(answer, json!({ "event": event, "node": { "id": id, "__typename": "Event" } }));
        }
        for kind in ["CUSTOMER_CREATED", "CUSTOMER_UPDATED", "PRIVATE_OFFER_CREATED", "ENTITLEMENT_CREATED"] {
            assert!(kinds.iter().any(|seen| seen == kind), "{kinds:?}");
        }
    }
}

/// The page form: oldest first, and it can be walked.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_a_connection() {
    let app = TestApp::new().await;
    let party = app.party().await;
    for account in 0..5 {
        party.customer(&account.to_string()).await;
    }
    let query = "query ($after: String, $sequence: Sequence) { events(first: 2, after: $after, afterSequence: $sequence) \
                 { nodes { sequence } pageInfo { hasNextPage endCursor } } }";
    let (mut seen, mut after) = (Vec::new(), json!({}));
    loop {
        let page = party.graphql(query, after).await.data()["events"].clone();
        seen.extend(page["nodes"].as_array().expect("nodes").iter().filter_map(|node| node["sequence"].as_i64()));
        if page["pageInfo"]["hasNextPage"] == false {
            break;
        }
        after = json!({ "after": page["pageInfo"]["endCursor"] });
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
    let page = party.graphql(query, json!({ "sequence": 3 })).await.data()["events"].clone();
    assert_eq!(page["nodes"], json!([{ "sequence": 4 }, { "sequence": 5 }]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_point_that_the_log_does_not_have_is_told() {
    let app = TestApp::new().await;
    let party = app.party().await;
    party.customer("1").await;
    party.customer("2").await;
    app.advance(TimeDelta::days(31));
    let mut party = party;
    party.refresh().await;
    app.store.sweep(TimeDelta::days(30)).await.expect("the sweep runs");
    party.customer("3").await;
    for transport in Transport::BOTH {
        let expired = Feed::refused(transport, &party, ALL, json!({ "after": 1 })).await;
        assert_eq!(expired, json!({ "code": "EVENTS_EXPIRED", "status": 410, "oldestSequence": 3 }));
        let ahead = Feed::refused(transport, &party, ALL, json!({ "after": 9 })).await;
        assert_eq!((&ahead["code"], &ahead["status"]), (&json!("INVALID_PARAMS"), &json!(422)));
        assert_eq!(follow(transport, &party, Some(2)).await.sequences(1).await, [3]);
    }
}

/// One document, one organization, one set of scopes: executed once for each event, however many listen, and wherever
/// each began.
#[tokio::test(flavor = "multi_thread")]
async fn those_who_ask_the_same_are_rendered_once() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let sibling = app.party_in(party.organization(), Scope::ALL).await;
    let (reader, other) = (app.party_in(party.organization(), &[Scope::ReadCustomers]).await, app.party().await);
    party.customer("1").await;
    let mut feeds = Vec::new();
    for transport in Transport::BOTH {
        for (party, after) in [(&party, None), (&party, Some(1)), (&sibling, Some(1))] {
            feeds.push(follow(transport, party, after).await);
        }
    }
    running(&app, 6).await;
    let before = renderings(&app);
    party.customer("2").await;
    for feed in &mut feeds {
        assert_eq!(feed.sequences(1).await, [2]);
    }
    assert_eq!(renderings(&app), before + 1);
    // Others' scopes and others' organizations are others' bytes.
    let mut reading = follow(Transport::Socket, &reader, Some(1)).await;
    assert_eq!(reading.sequences(1).await, [2]);
    assert_eq!(renderings(&app), before + 2);
    let mut foreign = follow(Transport::Socket, &other, Some(0)).await;
    other.customer("1").await;
    assert_eq!(foreign.sequences(1).await, [1]);
    assert_eq!(renderings(&app), before + 3);
    drop((feeds, reading, foreign));
    running(&app, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_has_one_root_field() {
    let app = TestApp::new().await;
    let party = app.party().await;
    party.customer("1").await;
    for query in [
        "subscription { events { id } again: events { id } }",
        "subscription { __typename }",
        "subscription { ...A } fragment A on Subscription { events { id } __typename }",
        "subscription ($x: Boolean!) { events { id } @skip(if: $x) }",
        "subscription ($x: Boolean!) { ... @include(if: $x) { events { id } } }",
        "subscription { events { nothing } }",
        "subscription { events(afterSequence: -1) { id } }",
        "subscription ($after: Sequence!) { events(afterSequence: $after) { id } }",
        "subscription { ...A ...A } fragment A on Subscription { ...A }",
    ] {
        for transport in Transport::BOTH {
            Feed::refused(transport, &party, query, json!({ "x": true })).await;
        }
    }
    let nested = "query Other { __typename } subscription It($after: Sequence!) { ...A ... { events(afterSequence: $after) \
                  { ...B } } } fragment A on Subscription { events(afterSequence: $after) { sequence } } \
                  fragment B on Event { type }";
    for transport in Transport::BOTH {
        let only = nested.replace("query Other { __typename } ", "");
        let mut feed = Feed::open(transport, &party, &only, json!({ "after": 0 })).await;
        assert_eq!(feed.event().await, json!({ "sequence": 1, "type": "CUSTOMER_CREATED" }));
    }
    let request = party.request(reqwest::Method::POST, "/graphql").header("accept", "text/event-stream");
    let body = json!({ "query": nested, "operationName": "It", "variables": { "after": 0 } });
    let mut stream = EventStream::of(request.json(&body)).await.unwrap_or_else(|reply| panic!("{reply:?}"));
    assert!(stream.next().await.is_some_and(|event| event.data.contains("CUSTOMER_CREATED")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_runs_so_many_and_no_more() {
    let mut options = crate::harness::listen_options();
    options.max_subscriptions_per_application = 2;
    let app = TestApp::with(options).await;
    let (party, other) = (app.party().await, app.party().await);
    let feeds = (follow(Transport::Socket, &party, None).await, follow(Transport::Stream, &party, None).await);
    running(&app, 2).await;
    for transport in Transport::BOTH {
        let refused = Feed::refused(transport, &party, ALL, json!({})).await;
        assert_eq!((&refused["code"], &refused["status"]), (&json!("RATE_LIMITED"), &json!(429)));
    }
    let _others = follow(Transport::Socket, &other, None).await;
    running(&app, 3).await;
    drop(feeds);
    running(&app, 1).await;
    follow(Transport::Stream, &party, None).await;
}

/// A token that ends takes its streams along, idle ones too.
#[tokio::test(flavor = "multi_thread")]
async fn streams_end_with_their_token() {
    let app = TestApp::new().await;
    for (revoke, message) in [(true, "Invalid or revoked token"), (false, "Token expired")] {
        let party = app.party().await;
        let (mut socket, mut stream) =
            (follow(Transport::Socket, &party, None).await, follow(Transport::Stream, &party, None).await);
        running(&app, 2).await;
        if revoke {
            let mut form = party.grant();
            form.push(("token", party.token.clone().unwrap_or_default()));
            party.form("/oauth/revoke", &form).await.expect(200);
        } else {
            app.advance(TimeDelta::hours(2));
        }
        let result = stream.result().await;
        assert_eq!(result["errors"][0]["message"], json!(message));
        assert_eq!(result["errors"][0]["extensions"], json!({ "code": "UNAUTHORIZED", "status": 401 }));
        let Feed::Stream(mut stream) = stream else { unreachable!("it is a stream") };
        assert_eq!(stream.next().await.map(|event| event.event), Some("complete".to_owned()));
        assert_eq!(stream.next().await, None);
        let Feed::Socket(socket) = &mut socket else { unreachable!("it is a socket") };
        assert_eq!(socket.closed().await, (4401, message.to_owned()));
        running(&app, 0).await;
    }
}

/// `Last-Event-ID` is where a browser stands; it counts more than the document.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_resumes_by_its_last_event() {
    let app = TestApp::new().await;
    let party = app.party().await;
    for account in 0..4 {
        party.customer(&account.to_string()).await;
    }
    for nonsense in ["nonsense", "-1", "1e3"] {
        let request = EventStream::post(&party, ALL, &json!({ "after": 1 })).header("last-event-id", nonsense);
        let Err(reply) = EventStream::of(request).await else { panic!("a stream after {nonsense}") };
        reply.expect(400);
    }
    for (last, first) in [("3", 4), ("", 2)] {
        let request = EventStream::post(&party, ALL, &json!({ "after": 1 })).header("last-event-id", last);
        let stream = EventStream::of(request).await.unwrap_or_else(|reply| panic!("{reply:?}"));
        assert_eq!(Feed::Stream(stream).sequences(1).await, [first], "{last}");
    }
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("query", ALL).finish();
    let get = |accept: &str| party.request(reqwest::Method::GET, &format!("/graphql?{query}")).header("accept", accept);
    let stream = EventStream::of(get("text/event-stream").header("last-event-id", "2")).await;
    assert_eq!(Feed::Stream(stream.unwrap_or_else(|reply| panic!("{reply:?}"))).sequences(2).await, [3, 4]);
    for accept in ["application/json", "*/*"] {
        let Err(reply) = EventStream::of(get(accept)).await else { panic!("a stream for {accept}") };
        let body = reply.expect(406);
        assert!(body["errors"][0]["extensions"]["errors"][0]["message"].to_string().contains("text/event-stream"));
    }
    let Ok(_) = EventStream::of(get("application/json, text/event-stream")).await else { panic!("no stream") };
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_and_mutations_can_be_streamed() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let create = "mutation { createCustomer(input: { vendor: CLOUD_A, companyName: \"X\", cloudAccountId: \"1\" }) \
                  { customer { companyName } } }";
    for (query, expected) in [
        ("{ __typename }", json!({ "data": { "__typename": "Query" } })),
        (create, json!({ "data": { "createCustomer": { "customer": { "companyName": "X" } } } })),
    ] {
        let stream = EventStream::of(EventStream::post(&party, query, &json!({}))).await;
        let mut stream = stream.unwrap_or_else(|reply| panic!("{reply:?}"));
        let next = stream.next().await.expect("a result");
        assert_eq!((next.event.as_str(), next.id), ("next", None));
        assert_eq!(serde_json::from_str::<Value>(&next.data).expect("JSON"), expected);
        assert_eq!(stream.next().await.map(|event| event.event), Some("complete".to_owned()));
        assert_eq!(stream.next().await, None);
    }
    let refused = EventStream::of(EventStream::post(&party, "{ nothing }", &json!({}))).await;
    let Err(reply) = refused else { panic!("a stream of nothing") };
    assert!(reply.expect(400).get("data").is_none());
    let mutation = form_urlencoded::Serializer::new(String::new()).append_pair("query", create).finish();
    let get =
        party.request(reqwest::Method::GET, &format!("/graphql?{mutation}")).header("accept", "text/event-stream");
    let Err(reply) = EventStream::of(get).await else { panic!("a mutation over GET") };
    reply.expect(405);
    let Err(reply) = EventStream::of(EventStream::post(&app.stranger(), ALL, &json!({}))).await else {
        panic!("a stream for a stranger")
    };
    reply.expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_stream_gives_signs_of_life_and_the_end_of_the_service_ends_it() {
    let mut options = crate::harness::listen_options();
    options.stream_keep_alive = 1;
    let app = TestApp::with(options).await;
    let party = app.party().await;
    let Feed::Stream(mut stream) = follow(Transport::Stream, &party, None).await else { unreachable!("a stream") };
    let mut feed = follow(Transport::Socket, &party, None).await;
    running(&app, 2).await;
    // A sign of life, where the stream begins, and signs of life.
    for block in [":", "id: 0", ":", ":"] {
        assert_eq!(stream.block().await.as_deref(), Some(block));
    }
    let began = std::time::Instant::now();
    let stopping = tokio::spawn(app.app.stop());
    while let Some(block) = stream.block().await {
        assert_eq!(block, ":");
    }
    let Feed::Socket(socket) = &mut feed else { unreachable!("it is a socket") };
    assert_eq!(socket.closed().await, (1001, "Going Away".to_owned()));
    stopping.await.expect("the service stops");
    assert!(began.elapsed().as_secs() < 7, "{:?}", began.elapsed());
}

/// One unit of the rate limit, whatever it shows.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_costs_one() {
    let app = TestApp::new().await;
    let limits = mercato::model::application::RateLimits { hour: 3, minute: 3 };
    let party = app.party_with(app.organization("A").await, Scope::ALL, limits).await;
    let many =
        "id type sequence payload data { ... on Customer { id entitlements(first: 50) { nodes { id status } } } }";
    let query = format!("subscription {{ events {{ {many} }} }}");
    let Ok(stream) = EventStream::of(EventStream::post(&party, &query, &json!({}))).await else { panic!("refused") };
    let _feed = Feed::open(Transport::Socket, &party, &query, json!({})).await;
    running(&app, 2).await;
    // Invalid ones cost one as well.
    Feed::refused(Transport::Socket, &party, "subscription { nothing }", json!({})).await;
    for transport in Transport::BOTH {
        assert_eq!(Feed::refused(transport, &party, ALL, json!({})).await["code"], json!("RATE_LIMITED"));
    }
    drop(stream);
}
