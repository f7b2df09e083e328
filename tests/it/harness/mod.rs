//! The vocabulary of the tests.
//!
//! - [`TestApp`]: the real service on a fresh database, a real loopback port and a manual clock. Its workers do not run,
//!   but in [`TestApp::working`].
//! - [`Party`]: an application of an organization, with a token from the real `/oauth/token`, and the verbs of both
//!   facades: [`Party::get`], [`Party::post`], [`Party::graphql`] …
//! - [`Reply`]: an answer with its status, headers, text and JSON.
//! - [`Facade`]: one scenario through both doors.
//! - [`Socket`], [`EventStream`]: a WebSocket and an event stream; [`Feed`]: one subscription over either.

#![expect(clippy::expect_used, reason = "a test fails by panicking, and says why")]

mod facade;
pub mod market;
pub mod receiver;
mod reply;
pub mod socket;

use std::sync::Arc;
use std::time::Duration;

use mercato::app::{App, Workers};
use mercato::call::{Call, Caller};
use mercato::clock::Clock;
use mercato::config::{ListenOptions, MarketplaceOptions, SimulationOptions, WebhookOptions};
use mercato::model::application::{ApplicationInput, ApplicationWithSecret, RateLimits};
use mercato::model::entitlement::{Entitlement, NewEntitlement};
use mercato::model::environment::Environment;
use mercato::model::id::OrganizationId;
use mercato::model::lifecycle::Step;
use mercato::model::scope::Scope;
use mercato::resolvers::{applications, clockwork, entitlements};
use mercato::store::connect::Target;
use mercato::store::migrate::Resume;
use mercato::store::vault::SecretKey;
use mercato::store::{Store, Tenant};
use reqwest::Method;
use serde_json::{Value, json};

pub use facade::{CUSTOMERS, ENTITLEMENTS, Facade, METERING, OFFERS, WEBHOOKS};
pub use market::Market;
pub use reply::Reply;
pub use socket::{EventStream, Feed, Socket, Transport};

pub struct TestApp {
    pub app: App,
    pub clock: Clock,
    pub store: Store,
    pub http: reqwest::Client,
}

/// The settings of a test: a free port and no limit for the one address that all tests come from.
pub fn listen_options() -> ListenOptions {
    ListenOptions {
        listen: ([127, 0, 0, 1], 0).into(),
        auth_listen: None,
        base_url: None,
        auth_url: None,
        ready_file: None,
        trusted_proxy: Vec::new(),
        address_limit: 1_000_000,
        max_connections: 4_000,
        max_connections_per_address: 4_000,
        header_timeout: 15,
        body_timeout: 15,
        write_timeout: 15,
        max_subscriptions_per_application: 200,
        socket_init_timeout: 3,
        socket_ping_interval: 30,
        stream_keep_alive: 15,
        event_retention_days: 30,
        webhooks: WebhookOptions {
            webhook_allow_subnet: vec!["127.0.0.0/8".parse().expect("a subnet")],
            webhook_extra_ca: None,
            webhook_timeout: Duration::from_secs(5),
            webhook_retries: [5, 60, 300, 1800, 3600, 10_800, 21_600, 43_200, 86_400].map(Duration::from_secs).to_vec(),
            webhook_failures: 10,
            webhook_concurrency: 16,
            webhook_organization_concurrency: 64,
            webhook_total_concurrency: 1024,
        },
        marketplaces: MarketplaceOptions { marketplace_allow_subnet: vec!["127.0.0.0/8".parse().expect("a subnet")] },
        simulation: SimulationOptions::default(),
        log: mercato::config::LogForm::Text,
    }
}

pub fn target(url: &str) -> Target {
    let secret_key = Some(SecretKey([7; 32]));
    Target { url: url.to_owned(), environment: Environment::Production, login: None, secret_key }
}

impl TestApp {
    pub async fn new() -> Self {
        Self::with(listen_options()).await
    }

    pub async fn with(options: ListenOptions) -> Self {
        Self::on("mem://", options).await
    }

    pub async fn on(url: &str, options: ListenOptions) -> Self {
        Self::at(url, options, Clock::manual()).await
    }

    /// On a database that another app left, at that app's time.
    pub async fn at(url: &str, options: ListenOptions, clock: Clock) -> Self {
        Self::start(url, options, clock, Workers::ByHand).await
    }

    /// As in production: its workers run by themselves.
    pub async fn working() -> Self {
        Self::start("mem://", listen_options(), Clock::manual(), Workers::Running).await
    }

    async fn start(url: &str, options: ListenOptions, clock: Clock, workers: Workers) -> Self {
        let store = Store::open(&target(url), clock.clone(), Resume::Refuse).await.expect("the database opens");
        let app = App::start(store.clone(), &options, workers).await.expect("the service starts");
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { app, clock, store, http }
    }

    pub fn advance(&self, by: chrono::TimeDelta) {
        self.clock.advance(by);
    }

    pub async fn organization(&self, name: &str) -> OrganizationId {
        self.store.create_organization(name).await.expect("an organization")
    }

    /// An application of `organization` with these scopes and no limits in the way, and a token of it.
    pub async fn party_in(&self, organization: OrganizationId, scopes: &[Scope]) -> Party {
        self.party_with(organization, scopes, RateLimits::UNLIMITED).await
    }

    pub async fn party_with(&self, organization: OrganizationId, scopes: &[Scope], limits: RateLimits) -> Party {
        let input = ApplicationInput {
            name: Some("Test".to_owned()),
            scopes: Some(scopes.to_vec()),
            ..ApplicationInput::default()
        };
        let created = applications::create_with_limits(&self.operator(organization), input, limits).await;
        let application = created.expect("an application");
        let mut party = Party { base: self.app.base_url.clone(), http: self.http.clone(), application, token: None };
        party.refresh().await;
        party
    }

    /// An application with all scopes, in an organization of its own.
    pub async fn party(&self) -> Party {
        self.party_in(self.organization("Acme").await, Scope::ALL).await
    }

    pub fn operator(&self, organization: OrganizationId) -> Call {
        Call::new(self.store.clone(), Caller::Operator { organization }, None)
    }

    /// A caller without a token.
    pub fn stranger(&self) -> Party {
        let application = ApplicationWithSecret {
            application: serde_json::from_value(json!({
                "id": "app_00000000000000000000000000", "organizationId": "org_00000000000000000000000000", "name": "",
                "description": "", "scopes": [], "clientId": "mci_unknown", "createdAt": "2026-01-05T10:00:00Z",
                "updatedAt": "2026-01-05T10:00:00Z", "lastUsedAt": null, "secretRotatedAt": "2026-01-05T10:00:00Z",
            }))
            .expect("an application"),
            client_secret: String::new(),
        };
        Party { base: self.app.base_url.clone(), http: self.http.clone(), application, token: None }
    }

    /// Rows of a query on the engine itself, as JSON.
    pub async fn rows(&self, surrealql: &str) -> Vec<Value> {
        let mut response = self.store.engine().query(surrealql).await.expect("the query runs");
        let value: surrealdb::types::Value = response.take(0).expect("the query succeeds");
        match value.into_json_value() {
            Value::Array(rows) => rows,
            Value::Null => Vec::new(),
            one => vec![one],
        }
    }

    /// The envelopes of an organization's events, in order.
    pub async fn events(&self, organization: OrganizationId) -> Vec<Value> {
        let rows = self.rows(&format!("SELECT * FROM event WHERE id[0] = '{organization}' ORDER BY id")).await;
        let envelope = |row: &Value| serde_json::from_str(row["envelope"].as_str().unwrap_or_default());
        rows.iter().map(|row| envelope(row).expect("an envelope is JSON")).collect()
    }

    /// What workers see of an organization.
    pub fn tenant(&self, organization: OrganizationId) -> Tenant {
        self.store.tenant(organization, None)
    }

    /// An entitlement of a customer, as a marketplace would open it.
    pub async fn entitlement(&self, organization: OrganizationId, new: NewEntitlement) -> Entitlement {
        entitlements::open(&self.tenant(organization), new).await.expect("an entitlement")
    }

    /// Something happens to an entitlement.
    pub async fn step(&self, of: &Entitlement, step: Step) -> Entitlement {
        entitlements::advance(&self.tenant(of.organization_id), of.id, step).await.expect("the step applies")
    }

    /// What the dispatcher does, until nothing is due; answers how many deliveries that settled.
    pub async fn settle(&self) -> usize {
        let dispatcher = self.app.dispatcher.as_ref().expect("its workers are driven by hand");
        dispatcher.settle().await.expect("the dispatcher's work")
    }

    /// What the clock worker does, until nothing is due.
    pub async fn tick(&self) -> usize {
        clockwork::run(&self.store).await.expect("the clock's work")
    }
}

/// An application that calls the service.
#[derive(Clone)]
pub struct Party {
    base: String,
    http: reqwest::Client,
    pub application: ApplicationWithSecret,
    pub token: Option<String>,
}

impl Party {
    pub fn organization(&self) -> OrganizationId {
        self.application.application.organization_id
    }

    pub fn id(&self) -> String {
        self.application.application.id.to_string()
    }

    pub fn client_id(&self) -> &str {
        &self.application.application.client_id
    }

    /// Gets a new token.
    pub async fn refresh(&mut self) {
        let reply = self.form("/oauth/token", &self.grant()).await;
        self.token = Some(reply.ok()["access_token"].as_str().expect("a token").to_owned());
    }

    /// The form fields of a token request.
    pub fn grant(&self) -> Vec<(&'static str, String)> {
        vec![
            ("grant_type", "client_credentials".to_owned()),
            ("client_id", self.client_id().to_owned()),
            ("client_secret", self.application.client_secret.clone()),
        ]
    }

    /// A request with the token, if there is one.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub async fn get(&self, path: &str) -> Reply {
        Reply::of(self.request(Method::GET, path)).await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        Reply::of(self.request(Method::DELETE, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        Reply::of(self.request(Method::POST, path).json(body)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Reply {
        Reply::of(self.request(Method::PUT, path).json(body)).await
    }

    /// A write under an idempotency key.
    pub async fn keyed(&self, method: Method, path: &str, key: &str, body: &Value) -> Reply {
        Reply::of(self.request(method, path).header("Idempotency-Key", key).json(body)).await
    }

    pub async fn graphql(&self, query: &str, variables: Value) -> Reply {
        self.post("/graphql", &json!({ "query": query, "variables": variables })).await
    }

    /// A form post without the bearer token.
    pub async fn form(&self, path: &str, fields: &[(&str, String)]) -> Reply {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self.http.post(format!("{}{path}", self.base)).body(body);
        Reply::of(request.header("content-type", "application/x-www-form-urlencoded")).await
    }

    /// A customer of cloud_a that nobody made yet.
    pub async fn customer(&self, account: &str) -> Value {
        self.post("/api/v1/customers", &new_customer(account)).await.created()
    }
}

pub fn new_customer(account: &str) -> Value {
    json!({ "vendor": "cloud_a", "cloudAccountId": account, "companyName": format!("Company {account}") })
}

/// The least that makes a private offer.
pub fn new_offer(customer: &str) -> Value {
    json!({
        "vendor": "cloud_a", "listingId": "lst_1", "customerId": customer,
        "details": { "pricing": { "discountPercentage": 10, "duration": 12 } },
    })
}

/// Checks a golden file in the repository; `MERCATO_ACCEPT=1` writes it instead.
pub fn golden(path: &str, actual: &str) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("MERCATO_ACCEPT").is_some() {
        std::fs::write(&file, actual).expect("the golden file is written");
    }
    let golden = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(golden == actual, "{path} is not what the code says; look at the difference, then run `just accept`");
}

/// A snapshot under `snapshots/`.
#[macro_export]
macro_rules! snapshot {
    ($name:expr, $value:expr) => {
        insta::with_settings!(
            { snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"), prepend_module_to_snapshot => false,
              omit_expression => true },
            { insta::assert_json_snapshot!($name, $value) }
        )
    };
}

/// Shares an app between tasks.
pub fn shared(app: TestApp) -> Arc<TestApp> {
    Arc::new(app)
}
