//! The store on the engine that production uses: plans, migrations, errors of a database, backup and restore.

use std::path::Path;

use mercato::clock::Clock;
use mercato::model::scope::Scope;
use mercato::store::Store;
use mercato::store::migrate::Resume;
use serde_json::{Value, json};

use crate::harness::{TestApp, listen_options, target};

fn url(folder: &Path) -> String {
    format!("surrealkv://{}", folder.join("db").display())
}

async fn open(url: &str) -> Result<Store, String> {
    Store::open(&target(url), Clock::manual(), Resume::Refuse).await.map_err(|error| error.0)
}

/// Runs statements on a database as it lies there.
async fn tamper(url: &str, surrealql: &str) {
    let store = Store::connect(&target(url), Clock::manual()).await.expect("the database opens");
    store.engine().query(surrealql).await.expect("the query runs").check().expect("the query succeeds");
}

/// The page query must be a scan of the range that stops at its limit, on the engine that production uses.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_a_bounded_forward_scan_on_surrealkv() {
    let folder = tempfile::tempdir().expect("a folder");
    let app = TestApp::on(&url(folder.path()), listen_options()).await;
    let party = app.party().await;
    for account in 0..5 {
        party.customer(&account.to_string()).await;
    }
    let organization = party.organization();
    for query in mercato::store::page_queries() {
        let mut response = app
            .store
            .engine()
            .query(format!("{query} EXPLAIN"))
            .bind(("table", "customer"))
            .bind(("org", organization.to_string()))
            .bind(("after", "0"))
            .bind(("rows", 3))
            .await
            .expect("the query runs");
        let plan: surrealdb::types::Value = response.take(0).expect("a plan");
        let plan = plan.into_json_value();
        let scan = &plan["children"][0];
        assert_eq!(scan["operator"], json!("DynamicScan"), "{plan:#}");
        assert_eq!(scan["attributes"]["limit"], json!("$rows"), "{plan:#}");
    }
    let page = party.get("/api/v1/customers?limit=3").await.data();
    let accounts: Vec<&Value> =
        page["items"].as_array().expect("items").iter().map(|item| &item["cloudAccountId"]).collect();
    assert_eq!(accounts, [&json!("4"), &json!("3"), &json!("2")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_survives_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = url(folder.path());
    let clock = Clock::manual();
    let (first, text, cursor) = {
        let app = TestApp::at(&url, listen_options(), clock.clone()).await;
        let party = app.party().await;
        party.customer("1").await;
        let reply =
            party.keyed(reqwest::Method::POST, "/api/v1/customers", "k", &crate::harness::new_customer("2")).await;
        let cursor = party.get("/api/v1/customers?limit=1").await.data()["nextCursor"].clone();
        app.app.stop().await;
        (party, reply.text, cursor)
    };
    let app = TestApp::at(&url, listen_options(), clock).await;
    let mut party = app.party().await;
    party.application = first.application.clone();
    party.token = first.token.clone();
    let again = party.keyed(reqwest::Method::POST, "/api/v1/customers", "k", &crate::harness::new_customer("2")).await;
    assert_eq!(again.text, text);
    let path = format!("/api/v1/customers?cursor={}", cursor.as_str().expect("a cursor"));
    assert_eq!(party.get(&path).await.data()["items"][0]["cloudAccountId"], json!("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_in_use_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = url(folder.path());
    let held = open(&url).await.expect("a database");
    let said = open(&url).await.err().expect("a refusal");
    assert!(said.contains("in use by another process"), "{said}");
    drop(held);
    // The engine lets go on a task of its own; opening waits for that.
    open(&url).await.expect("the database is free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_not_ours_is_refused_by_name() {
    for (tampering, words) in [
        ("UPDATE migration:1 SET checksum = 'x'", "The migration 0001_house was changed"),
        ("UPDATE migration:1 SET state = 'applying'", "The migration 0001_house of the database"),
        ("UPDATE migration:1 SET name = '0001_other'", "was migrated by 0001_other"),
        (
            "CREATE migration:99 SET number = 99, name = '0099_future', checksum = 'x', state = 'applied'",
            "that this mercato knows; use a newer mercato",
        ),
        ("CREATE restoring:now", "A restore into the database"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let url = url(folder.path());
        drop(open(&url).await.expect("a database"));
        tamper(&url, tampering).await;
        let said = open(&url).await.err().expect("a refusal");
        assert!(said.contains(words) && !said.contains('\n'), "{said}");
    }
}

/// Customers of the first schema, which knew neither order nor search: after the migration they are like new ones.
#[tokio::test(flavor = "multi_thread")]
async fn customers_of_the_first_schema_are_listed_and_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = url(folder.path());
    let organization =
        open(&url).await.expect("a database").create_organization("Acme").await.expect("an organization");
    let ids = [1_u128, 2].map(|number| mercato::model::id::CustomerId(ulid::Ulid(number << 80)));
    let row = |(id, name): (&mercato::model::id::CustomerId, &str)| {
        format!(
            "CREATE type::record('customer', ['{organization}', '{}']) SET organization = '{organization}', vendor = 'cloud_a', \
             account = '{name}', company_name = '{name}', status = 'active', updated_at = time::now(), revision = 1;",
            id.key()
        )
    };
    let fields = ["key", "oldest", "ascending", "descending", "words", "live", "suspended"];
    let forget: String = fields.map(|field| format!("REMOVE FIELD {field} ON customer;")).concat();
    let rows: String = ids.iter().zip(["Zeta", "alpha"]).map(row).collect();
    let older = "DEFINE FIELD revision ON customer TYPE int;";
    tamper(&url, &format!("{forget}{older}{rows} UPDATE migration:2 SET state = 'applying'")).await;
    let store = Store::connect(&target(&url), Clock::manual()).await.expect("the database opens");
    assert_eq!(store.migrate(Resume::Finish).await.map_err(|error| error.0), Ok(1));
    drop(store);
    let app = TestApp::on(&url, listen_options()).await;
    let party = app.party_in(organization, Scope::ALL).await;
    let names = async |arguments: &str| {
        let query = format!("{{ customers({arguments}) {{ nodes {{ companyName }} }} }}");
        party.graphql(&query, json!({})).await.ok()["data"]["customers"]["nodes"].to_string()
    };
    let (zeta, alpha) = ("{\"companyName\":\"Zeta\"}", "{\"companyName\":\"alpha\"}");
    assert_eq!(names("first: 5").await, format!("[{alpha},{zeta}]"));
    assert_eq!(names("orderBy: { field: CREATED_AT, direction: ASC }").await, format!("[{zeta},{alpha}]"));
    assert_eq!(names("orderBy: { field: COMPANY_NAME, direction: ASC }").await, format!("[{alpha},{zeta}]"));
    assert_eq!(names("filter: { search: \"zet\" }").await, format!("[{zeta}]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_migration_can_be_finished() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = url(folder.path());
    drop(open(&url).await.expect("a database"));
    tamper(&url, "UPDATE migration:1 SET state = 'applying'; REMOVE INDEX customer_account ON customer").await;
    let said = open(&url).await.err().expect("a refusal");
    assert!(said.contains("run `mercato migrate`"), "{said}");
    let store = Store::connect(&target(&url), Clock::manual()).await.expect("the database opens");
    assert_eq!(store.migrate(Resume::Finish).await.map_err(|error| error.0), Ok(1));
    drop(store);
    open(&url).await.expect("the database is whole again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_restores_into_an_empty_database_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to, file) = (url(folder.path()), url(&folder.path().join("other")), folder.path().join("backup.surql"));
    let clock = Clock::manual();
    let (party, list) = {
        let app = TestApp::at(&from, listen_options(), clock.clone()).await;
        let party = app.party().await;
        for account in 0..30 {
            let name = format!("It's {account} \\ \"quoted\"; DROP");
            let body = json!({ "vendor": "cloud_a", "cloudAccountId": account.to_string(), "companyName": name });
            party.post("/api/v1/customers", &body).await.created();
        }
        party.get("/api/v1/customers?limit=100").await.data();
        app.store.backup(&file).await.expect("a backup");
        let list = party.get("/api/v1/customers?limit=100").await.data();
        (party, list)
    };
    let store = Store::connect(&target(&to), Clock::manual()).await.expect("a database");
    store.restore(&file).await.map_err(|error| error.0).expect("a restore");
    assert!(store.examine().await.expect("an examination").iter().all(|finding| finding.healthy));
    let refused = store.restore(&file).await.expect_err("a refusal").0;
    assert!(refused.contains("is not empty"), "{refused}");
    drop(store);
    let app = TestApp::at(&to, listen_options(), clock).await;
    let mut same = app.party().await;
    same.token = party.token.clone();
    assert_eq!(same.get("/api/v1/customers?limit=100").await.data(), list);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_finds_a_gap() {
    let app = TestApp::new().await;
    let party = app.party().await;
    for account in 0..3 {
        party.customer(&account.to_string()).await;
    }
    assert!(app.store.examine().await.expect("an examination").iter().all(|finding| finding.healthy));
    app.rows("DELETE event WHERE id[1] = 2").await;
    let findings = app.store.examine().await.expect("an examination");
    let broken: Vec<_> = findings.iter().filter(|finding| !finding.healthy).map(|finding| finding.check).collect();
    assert_eq!(broken, ["event sequences"]);
}
