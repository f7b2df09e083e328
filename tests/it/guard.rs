//! The guard, for every operation of the catalogue and both facades: without a token 401, with each scope alone exactly
//! the operations of that scope. A new operation is in here by being in the catalogue.

use mercato::model::operation::{Access, Method, Operation};
use mercato::model::scope::Scope;
use serde_json::json;

use crate::harness::{Party, Reply, TestApp};

const UNKNOWN: &str = "cus_01KE6X17G0C9ZQ4T8V2N5B7XKD";

async fn rest(party: &Party, operation: Operation) -> u16 {
    let spec = operation.spec();
    let method = match spec.method {
        Method::Get => reqwest::Method::GET,
        Method::Post => reqwest::Method::POST,
        Method::Put => reqwest::Method::PUT,
        Method::Delete => reqwest::Method::DELETE,
    };
    let request = party.request(method, &spec.path.replace("{id}", UNKNOWN));
    let request = match spec.method {
        Method::Post | Method::Put => request.json(&json!({})),
        Method::Get | Method::Delete => request,
    };
    Reply::of(request).await.status
}

/// The shortest document that runs a root field. A new root field needs a line here.
fn document(field: &str) -> String {
    match field {
        "Query.customers" => "{ customers { nodes { id } } }".to_owned(),
        "Query.customer" => format!("{{ customer(id: \"{UNKNOWN}\") {{ id }} }}"),
        "Mutation.createCustomer" => {
            "mutation { createCustomer(input: { vendor: CLOUD_A, companyName: \"\" }) { userErrors { code } } }"
                .to_owned()
        }
        "Mutation.updateCustomer" => {
            format!("mutation {{ updateCustomer(id: \"{UNKNOWN}\", input: {{}}) {{ userErrors {{ code }} }} }}")
        }
        "Mutation.deleteCustomer" => {
            format!("mutation {{ deleteCustomer(id: \"{UNKNOWN}\") {{ userErrors {{ code }} }} }}")
        }
        other => panic!("write a document for {other}"),
    }
}

/// The status of a field: that of its error, or 200.
async fn graphql(party: &Party, field: &str) -> u16 {
    let body = party.graphql(&document(field), json!({})).await.json();
    let status = body["errors"][0]["extensions"]["status"].as_u64().unwrap_or(200);
    u16::try_from(status).expect("a status")
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_passes_without_a_token() {
    let app = TestApp::new().await;
    let stranger = app.stranger();
    for operation in Operation::ALL.iter().filter(|operation| operation.access() != Access::Public) {
        assert_eq!(rest(&stranger, *operation).await, 401, "{operation:?}");
        if let Some(field) = operation.spec().graphql {
            assert_eq!(graphql(&stranger, field).await, 401, "{field}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_scope_opens_its_operations_and_no_others() {
    let app = TestApp::new().await;
    let organization = app.organization("A").await;
    for scope in Scope::ALL {
        let party = app.party_in(organization, &[*scope]).await;
        for operation in Operation::ALL {
            let Access::Scope(needed) = operation.access() else { continue };
            let refused = needed != *scope;
            assert_eq!(rest(&party, *operation).await == 403, refused, "{operation:?} with {scope}");
            if let Some(field) = operation.spec().graphql {
                assert_eq!(graphql(&party, field).await == 403, refused, "{field} with {scope}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_person_or_oneself_is_closed_to_other_applications() {
    let app = TestApp::new().await;
    let organization = app.organization("A").await;
    let (party, sibling) = (app.party_in(organization, Scope::ALL).await, app.party_in(organization, Scope::ALL).await);
    for operation in Operation::ALL {
        let spec = operation.spec();
        if !matches!(spec.access, Access::Administrator | Access::Itself) {
            continue;
        }
        let path = spec.path.replace("{id}", &sibling.id());
        let reply = match spec.method {
            Method::Delete => party.delete(&path).await,
            Method::Put => party.put(&path, &json!({})).await,
            _ if spec.path.ends_with("secret") => Reply::of(party.request(reqwest::Method::POST, &path)).await,
            _ => party.post(&path, &json!({})).await,
        };
        reply.refused(403, "INSUFFICIENT_SCOPE");
    }
}
