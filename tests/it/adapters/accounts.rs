//! Accounts: what may be written, what is sealed, what is read back.

use mercato::error::Error;
use mercato::marketplace::accounts::{Account, NewAccount};
use serde_json::{Value, json};

use super::stub::{account_a, account_b};

fn input_a(changed: Value) -> Value {
    with(
        json!({
            "vendor": "cloud_a", "accessKeyId": "AKIDEXAMPLE", "secretAccessKey": "hidden/1", "region": "us-east-1",
            "meteringUrl": "https://metering.example.com", "catalogUrl": "https://catalog.example.com/x/",
            "agreementsUrl": "https://agreements.example.com", "notificationSecret": "hidden-2",
        }),
        changed,
    )
}

fn input_b(changed: Value) -> Value {
    with(
        json!({
            "vendor": "cloud_b", "tenantId": "tenant-1", "clientId": "client-1", "clientSecret": "hidden-3",
            "tokenUrl": "https://login.example.com/tenant-1/oauth2/v2.0/token", "baseUrl": "https://api.example.com",
            "ingestionUrl": "https://graph.example.com", "keysUrl": "https://login.example.com/keys?v=2",
            "audience": "client-1", "publisherId": "acme",
        }),
        changed,
    )
}

fn with(mut input: Value, changed: Value) -> Value {
    for (name, value) in changed.as_object().expect("an object") {
        input[name] = value.clone();
    }
    input
}

fn without(mut input: Value, field: &str) -> Value {
    input.as_object_mut().expect("an object").remove(field);
    input
}

fn check(input: Value, loopback: bool) -> Result<Account, Error> {
    NewAccount::from_json(Ok(input)).check(loopback)
}

/// The fields that are complained of, and the status it comes to.
fn complaints(input: Value, loopback: bool) -> (u16, Vec<String>) {
    let error = check(input, loopback).expect_err("something is wrong");
    (error.class().0, error.fields().iter().map(|problem| problem.field.clone()).collect())
}

#[test]
fn an_account_is_kept_whole_and_read_back_without_secrets() {
    for input in [input_a(json!({})), input_b(json!({}))] {
        let account = check(input.clone(), false).expect("an account");
        let sealed = serde_json::to_value(&account).expect("JSON");
        assert_eq!(sealed, input);
        assert_eq!(serde_json::from_value::<Account>(sealed).expect("an account"), account);
        let shown = serde_json::to_string(&account.redacted()).expect("JSON");
        for text in [shown.clone(), format!("{account:?}"), format!("{:?}", NewAccount::from_json(Ok(input)))] {
            assert!(!text.contains("hidden"), "{text}");
        }
        assert!(shown.contains(r#""hasSecret":true"#), "{shown}");
    }
    let shown = serde_json::to_value(check(input_a(json!({})), false).expect("an account").redacted()).expect("JSON");
    let expected = json!({
        "vendor": "cloud_a", "ids": { "accessKeyId": "AKIDEXAMPLE" }, "region": "us-east-1", "hasSecret": true,
        "urls": { "meteringUrl": "https://metering.example.com", "catalogUrl": "https://catalog.example.com/x/",
                  "agreementsUrl": "https://agreements.example.com" },
    });
    assert_eq!(shown, expected);
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let missing = complaints(without(input_a(json!({ "region": 7, "more": 1 })), "accessKeyId"), false);
    assert_eq!(missing, (400, vec!["accessKeyId".to_owned(), "region".to_owned(), "more".to_owned()]));
    assert_eq!(complaints(json!({}), false), (400, vec!["vendor".to_owned()]));
    assert_eq!(complaints(input_a(json!({ "vendor": "cloud_c" })), false), (400, vec!["vendor".to_owned()]));
    let foreign = complaints(input_a(json!({ "tenantId": "t" })), false);
    assert_eq!(foreign, (400, vec!["tenantId".to_owned()]));
    let rules = input_b(json!({
        "tenantId": "a b", "clientSecret": "", "tokenUrl": "http://login.example.com/", "baseUrl": "https://10.0.0.1/",
        "ingestionUrl": "https://graph.example.com/?a=b", "keysUrl": "https://user@login.example.com/keys",
    }));
    let fields = ["tenantId", "clientSecret", "tokenUrl", "baseUrl", "ingestionUrl", "keysUrl"];
    assert_eq!(complaints(rules, false), (422, fields.map(str::to_owned).to_vec()));
    let header = input_a(json!({ "accessKeyId": "A,B", "region": "us east", "secretAccessKey": "a\nb" }));
    assert_eq!(complaints(header, false).1, ["accessKeyId", "secretAccessKey", "region"]);
}

#[test]
fn this_machine_is_a_marketplace_only_where_it_is_allowed() {
    for url in ["http://127.0.0.1:8080/cloud_a", "http://[::1]:8080", "http://localhost/x", "https://127.0.0.1"] {
        let input = input_a(json!({ "meteringUrl": url }));
        assert_eq!(complaints(input.clone(), false), (422, vec!["meteringUrl".to_owned()]), "{url}");
        check(input, true).unwrap_or_else(|error| panic!("{url}: {error:?}"));
    }
    for url in ["http://10.0.0.1", "http://example.com", "https://10.0.0.1", "ftp://127.0.0.1", "http://127.0.0.1?a"] {
        assert_eq!(complaints(input_a(json!({ "meteringUrl": url })), true).0, 422, "{url}");
    }
}

/// The accounts of the other tests are such as a caller may write.
#[test]
fn accounts_of_tests_pass_the_rules() {
    for account in [Account::CloudA(account_a("http://127.0.0.1:1")), Account::CloudB(account_b("http://127.0.0.1:1"))]
    {
        let input = serde_json::to_value(&account).expect("JSON");
        assert_eq!(check(input, true).expect("an account"), account);
    }
}
