//! CSV exports: whole lists, harmless cells, the list's own scope.

use mercato::model::scope::Scope;
use serde_json::json;

use crate::harness::{TestApp, new_offer};

#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_the_whole_list() {
    let app = TestApp::new().await;
    let party = app.party().await;
    for number in 0..620 {
        party.customer(&format!("{number:04}")).await;
    }
    let reply = party.get("/api/v1/customers/export.csv").await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.headers["content-type"], "text/csv; charset=utf-8; header=present");
    let lines: Vec<&str> = reply.text.split("\r\n").collect();
    assert_eq!(lines.len(), 1 + 620 + 1);
    assert_eq!(
        lines[0],
        "\"id\",\"vendor\",\"cloudAccountId\",\"tenantId\",\"email\",\"companyName\",\"status\",\"createdAt\",\"updatedAt\""
    );
    assert!(lines[1].contains(",\"cloud_a\",0619,\"\","), "{}", lines[1]);
    assert!(lines[620].contains(",\"cloud_a\",0000,\"\","), "{}", lines[620]);
    assert_eq!(party.get("/api/v1/customers/export.csv?limit=1").await.status, 400);
}

/// What a spreadsheet would run is text, and what CSV would break is quoted.
#[tokio::test(flavor = "multi_thread")]
async fn cells_are_harmless() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let names = [
        "=HYPERLINK(\"http://x\")",
        "+1-2",
        "-2+3",
        "@SUM(A1)",
        "＝1",
        "\u{feff}=1",
        " =1+1",
        "-inf",
        "plain, \"quoted\"",
    ];
    for (account, name) in names.iter().enumerate() {
        let new = json!({ "vendor": "cloud_a", "cloudAccountId": format!("{account}"), "companyName": name });
        assert_eq!(party.post("/api/v1/customers", &new).await.status, 201);
    }
    let text = party.get("/api/v1/customers/export.csv").await.text;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let cells: Vec<String> = reader.records().map(|record| record.expect("a line")[5].to_owned()).collect();
    let expected: Vec<String> = names
        .iter()
        .rev()
        .map(|name| match name.chars().next() {
            Some('p') => (*name).to_owned(),
            _ => format!("'{name}"),
        })
        .collect();
    assert_eq!(cells, expected);
}

/// Every export has a line for each record (for each row of a usage report), and as many cells as its header.
#[tokio::test(flavor = "multi_thread")]
async fn every_list_can_be_exported() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let id = party.customer("1").await["id"].as_str().expect("an id").to_owned();
    let customer = mercato::model::id::CustomerId::parse(&id).expect("an id");
    app.entitlement(party.organization(), mercato::model::entitlement::NewEntitlement::of(customer, "lst_1")).await;
    party.post("/api/v1/private-offers", &new_offer(&id)).await;
    let usage = json!([{ "dimension": "a", "quantity": 1.5 }, { "dimension": "b", "quantity": 2 }]);
    party.post("/api/v1/metering", &json!({ "details": { "customer": { "id": id }, "usage": usage } })).await;
    for (path, lines) in [("entitlements", 1), ("private-offers", 1), ("metering", 2)] {
        let text = party.get(&format!("/api/v1/{path}/export.csv")).await.text;
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let read =
            reader.records().filter(|record| record.as_ref().expect("as many cells as the header").len() > 1).count();
        assert_eq!(read, lines, "{path}: {text}");
    }
    let other = app.party_in(party.organization(), &[Scope::ReadCustomers]).await;
    other.get("/api/v1/metering/export.csv").await.refused(403, "INSUFFICIENT_SCOPE");
}
