//! GraphQL over HTTP (`contract.md` §15): negotiation, statuses, bounds, field order, null propagation.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Party, Reply, TestApp};

const JSON: &str = "application/json";
const RESPONSE: &str = "application/graphql-response+json";

async fn post(party: &Party, accept: &str, body: &Value) -> Reply {
    Reply::of(party.request(Method::POST, "/graphql").header("accept", accept).json(body)).await
}

async fn post_text(party: &Party, kind: &str, body: &str) -> Reply {
    let request = party.request(Method::POST, "/graphql").header("content-type", kind);
    Reply::of(request.body(body.to_owned())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_form_is_what_the_client_accepts() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let query = json!({ "query": "{ __typename }" });
    for (accept, kind) in [
        (JSON, JSON),
        (RESPONSE, RESPONSE),
        ("*/*", JSON),
        ("text/html, application/graphql-response+json;q=0.9, application/json;q=0.5", RESPONSE),
        ("application/json, application/graphql-response+json", JSON),
        ("application/graphql-response+json, application/json", RESPONSE),
        ("application/json;q=0, */*", RESPONSE),
        ("application/*;q=0.2, application/json;q=0.1", RESPONSE),
    ] {
        let reply = post(&party, accept, &query).await;
        reply.ok();
        assert!(reply.header("content-type").starts_with(kind), "{accept}: {}", reply.header("content-type"));
        assert_eq!(reply.header("x-ratelimit-limit"), "1000000000");
    }
    for accept in ["text/html", "*/*;q=0", "application/json;q=0.0"] {
        assert_eq!(post(&party, accept, &query).await.status, 406, "{accept}");
    }
}

/// Request errors have no `data`; their status depends on the form. Errors of fields have `data` and are 200.
#[tokio::test(flavor = "multi_thread")]
async fn statuses_tell_request_errors_from_field_errors() {
    let app = TestApp::new().await;
    let party = app.party().await;
    for query in ["{", "{ nothing }", "query A { __typename } query B { __typename }"] {
        for (accept, status) in [(JSON, 200), (RESPONSE, 400)] {
            let body = post(&party, accept, &json!({ "query": query })).await.expect(status);
            assert!(body.get("data").is_none() && body["errors"].is_array(), "{body}");
        }
    }
    for body in
        [json!({}), json!({ "query": 7 }), json!({ "query": "{a}", "variables": [] }), json!([{ "query": "{a}" }])]
    {
        for accept in [JSON, RESPONSE] {
            let reply = post(&party, accept, &body).await.expect(400);
            assert!(reply.get("data").is_none());
            assert_eq!(reply["errors"][0]["extensions"]["code"], json!("INVALID_PARAMS"));
        }
    }
    post_text(&party, JSON, "{\"query\"").await.expect(400);
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "multipart/form-data"]
    {
        post_text(&party, kind, "{\"query\":\"{__typename}\"}").await.expect(415);
    }
    let field = post(&party, RESPONSE, &json!({ "query": "{ customer(id: \"x\") { id } }" })).await.ok();
    assert_eq!(field["data"], json!({ "customer": null }));
    assert_eq!(field["errors"][0]["extensions"], json!({ "code": "NOT_FOUND", "status": 404 }));
}

/// A variable that is missing is a request error: it must not come to light after half of a mutation.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_runs_without_its_variables() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let query = "mutation ($id: ID!) { createCustomer(input: { vendor: CLOUD_A, companyName: \"X\", cloudAccountId: \"1\" }) \
                 { customer { id } } deleteCustomer(id: $id) { customer { id } } }";
    for variables in [json!({}), json!({ "id": null }), json!({ "id": { "a": 1 } })] {
        let body = post(&party, RESPONSE, &json!({ "query": query, "variables": variables })).await.expect(400);
        assert!(body.get("data").is_none(), "{body}");
    }
    assert!(app.events(party.organization()).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn get_runs_queries_and_refuses_mutations() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let get = |query: &str, name: &str| {
        let pairs = [("query", query), ("operationName", name)];
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        Reply::of(party.request(Method::GET, &format!("/graphql?{query}")))
    };
    get("{ customers { nodes { id } } }", "").await.ok();
    let mutation = "mutation B { deleteCustomer(id: \"x\") { userErrors { code } } }";
    let both = format!("query A {{ __typename }} {mutation}");
    for (document, name) in [(mutation, ""), (mutation, "B"), (both.as_str(), "B")] {
        let reply = get(document, name).await;
        reply.expect(405);
        assert_eq!(reply.header("allow"), "POST");
    }
    get(&both, "A").await.ok();
    assert!(get(&both, "").await.ok().get("data").is_none(), "nothing runs unchosen");
    Reply::of(party.request(Method::GET, "/graphql")).await.expect(400);
    Reply::of(party.request(Method::GET, "/graphql?query={__typename}&variables={")).await.expect(400);
    let reply = Reply::of(party.request(Method::DELETE, "/graphql")).await;
    reply.expect(405);
    assert_eq!(reply.header("allow"), "GET, HEAD, POST");
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_are_known_before_anything_runs() {
    let app = TestApp::new().await;
    let reply = app.stranger().graphql("{ __typename }", json!({})).await;
    assert_eq!(reply.expect(401)["errors"][0]["extensions"]["code"], json!("UNAUTHORIZED"));
    assert!(reply.header("www-authenticate").starts_with("Bearer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_bounded() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let aliases = (0..31).map(|index| format!("a{index}: __typename")).collect::<Vec<_>>().join(" ");
    let deep = "{ a ".repeat(70) + &"}".repeat(70);
    let lists = format!("{{ customers(first: {}1{}) {{ nodes {{ id }} }} }}", "[".repeat(20_000), "]".repeat(20_000));
    let costly = "{ customers(first: 100) { nodes { id vendor email status companyName entitlementSummaries { id listingId status } } \
                  edges { cursor node { id vendor email status companyName entitlementSummaries { id listingId status } } } \
                  } b: customers(first: 100) { nodes { id vendor email status companyName } edges { node { id vendor \
                  email status companyName organizationId createdAt updatedAt tenantId cloudAccountId } } } \
                  c: customers(first: 100) { nodes { id vendor email status companyName } edges { node { id vendor \
                  email status companyName organizationId createdAt updatedAt tenantId cloudAccountId } } } }";
    let long = format!("{{ __typename }} #{}", "x".repeat(70_000));
    let directives = format!("{{ __typename {} }}", "@include(if: true) ".repeat(11));
    let documents = [format!("{{ {aliases} }}"), deep, lists, costly.to_owned(), long, directives, "[".repeat(60_000)];
    for document in documents {
        let reply = post(&party, RESPONSE, &json!({ "query": document })).await;
        let body = reply.expect(400);
        assert!(body.get("data").is_none(), "{body}");
    }
    // Brackets that comments close, fragments that double, a fragment that spreads itself, too many of them.
    let hidden = format!("{{customers(after:{}1{}){{nodes{{id}}}}}}", "[#]\n".repeat(2000), "]#[\n".repeat(2000));
    let doubling = (0..40).map(|n| format!("fragment F{n} on Query {{ ...F{} ...F{} }}", n + 1, n + 1));
    let doubling =
        format!("{{ ...F0 }} {} fragment F40 on Query {{ __typename }}", doubling.collect::<Vec<_>>().join(" "));
    let circle = "{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }".to_owned();
    let spreads = (0..40).map(|_| "...A".to_owned()).collect::<Vec<_>>().join(" ");
    let aliases = format!("{{ {spreads} }} fragment A on Query {{ a: __typename }}");
    let many = (0..101).map(|n| format!("fragment F{n} on Query {{ __typename }}")).collect::<Vec<_>>().join(" ");
    for document in [hidden, doubling, circle, aliases, format!("{{ ...F0 }} {many}")] {
        let body = post(&party, RESPONSE, &json!({ "query": document })).await.expect(400);
        assert!(body.get("data").is_none(), "{body}");
    }
    let unused = (0..3000).map(|n| format!("$v{n}: Int")).collect::<Vec<_>>().join(" ");
    let body =
        post(&party, RESPONSE, &json!({ "query": format!("query ({unused}) {{ __typename }}") })).await.expect(400);
    assert_eq!(body["errors"].as_array().map(Vec::len), Some(100));
    // Brackets in strings and comments are text.
    let text = format!(
        "{{ a: customer(id: \"{0}\") {{ id }} b: customer(id: \"\"\"{0} \\\"\"\" {0}\"\"\") {{ id }} }} # {0}",
        "[".repeat(70)
    );
    let body = post(&party, RESPONSE, &json!({ "query": text })).await.ok();
    assert_eq!(body["data"], json!({ "a": null, "b": null }));
    let big = "x".repeat(1024 * 1024 + 1);
    assert_eq!(post_text(&party, JSON, &big).await.status, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn introspection_is_open_to_callers() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let query = "query { __schema { queryType { name } types { kind name fields(includeDeprecated: true) { name args { name \
                 type { ...T } } type { ...T } } inputFields { name type { ...T } } enumValues { name } possibleTypes { \
                 ...T } } directives { name locations args { name type { ...T } } } } } fragment T on __Type { kind name \
                 ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { \
                 kind name ofType { kind name } } } } } } } }";
    let body = party.graphql(query, json!({})).await.ok();
    assert!(body.get("errors").is_none(), "{body}");
}

/// Two defects of neighbouring versions of the library: fields in the order of their completion, and an error in a
/// non-null child that leaves the field out instead of nulling its parent.
#[tokio::test(flavor = "multi_thread")]
async fn fields_keep_their_order() {
    let app = TestApp::new().await;
    let party = app.party().await;
    for account in ["1", "2"] {
        party.customer(account).await;
    }
    let query = "{ z: customers { nodes { entitlementSummaries { id } companyName id } pageInfo { hasNextPage } } a: __typename \
                 m: customers(first: 1) { edges { node { updatedAt entitlementSummaries { id } status } cursor } } b: __typename }";
    let text = party.graphql(query, json!({})).await.text;
    let expected = [
        "\"z\"",
        "\"nodes\"",
        "\"entitlementSummaries\"",
        "\"companyName\"",
        "\"id\"",
        "\"pageInfo\"",
        "\"a\"",
        "\"m\"",
        "\"edges\"",
        "\"node\"",
        "\"updatedAt\"",
        "\"status\"",
        "\"cursor\"",
        "\"b\"",
    ];
    let mut from = 0;
    for name in expected {
        let at = text[from..].find(name).unwrap_or_else(|| panic!("{name} is not after {from} in {text}"));
        from += at + 1;
    }
}

mod nulls {
    //! The library's null propagation, on a schema made for it: ours has no non-null field that can fail.

    use async_graphql::{EmptyMutation, EmptySubscription, Error, Object, Result, Schema};
    use serde_json::json;

    struct Leaf;

    #[Object]
    impl Leaf {
        async fn fine(&self) -> i32 {
            1
        }
        async fn broken(&self) -> Result<i32> {
            std::future::ready(Err(Error::new("broken"))).await
        }
    }

    struct Query;

    #[Object]
    impl Query {
        async fn nullable(&self) -> Option<Leaf> {
            Some(Leaf)
        }
        async fn list(&self) -> Vec<Option<Leaf>> {
            vec![Some(Leaf)]
        }
        async fn sibling(&self) -> i32 {
            2
        }
        async fn optional(&self) -> Option<Result<i32>> {
            Some(Err(Error::new("broken")))
        }
        async fn required(&self) -> Leaf {
            Leaf
        }
    }

    #[tokio::test]
    async fn an_error_nulls_the_nearest_nullable_parent() {
        let schema = Schema::new(Query, EmptyMutation, EmptySubscription);
        let data = |query: &'static str| {
            let schema = schema.clone();
            async move { serde_json::to_value(schema.execute(query).await.data).expect("JSON") }
        };
        assert_eq!(data("{ nullable { fine broken } sibling }").await, json!({ "nullable": null, "sibling": 2 }));
        assert_eq!(data("{ list { broken fine } sibling }").await, json!({ "list": [null], "sibling": 2 }));
        assert_eq!(data("{ optional sibling }").await, json!({ "optional": null, "sibling": 2 }));
        assert_eq!(data("{ sibling required { broken } }").await, json!(null));
    }
}
