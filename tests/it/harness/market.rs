//! A service whose organization is connected to both marketplaces, simulated: [`Market`]. Both sides go by one clock.

use std::sync::Arc;

use chrono::TimeDelta;
use mercato::marketplace::accounts::{Account, CloudAAccount, CloudBAccount};
use mercato::marketplace::simulator::{MOST, Simulator, SimulatorSettings};
use mercato::model::entitlement::{Entitlement, NewEntitlement};
use mercato::model::id::{CustomerId, OrganizationId};
use mercato::model::scope::Scope;
use mercato::resolvers::marketplaces;
use serde_json::{Value, json};

use super::{Party, TestApp};

pub struct Market {
    pub app: Arc<TestApp>,
    pub simulator: Simulator,
    pub organization: OrganizationId,
    pub party: Party,
}

impl Market {
    /// Connected to both.
    pub async fn new() -> Self {
        let market = Self::unconnected().await;
        market.connect().await;
        market
    }

    pub async fn unconnected() -> Self {
        Self::around(TestApp::new().await).await
    }

    /// Not connected yet.
    pub async fn around(app: TestApp) -> Self {
        Self::at(Arc::new(app)).await
    }

    /// Another organization of the same service, at marketplaces of its own.
    pub async fn beside(&self) -> Self {
        let market = Self::at(Arc::clone(&self.app)).await;
        market.connect().await;
        market
    }

    /// The same organization, at marketplaces that know nothing.
    pub async fn forgotten(self) -> Self {
        let simulator = simulate(&self.app).await;
        let market = Self { simulator, ..self };
        market.connect().await;
        market
    }

    async fn at(app: Arc<TestApp>) -> Self {
        let simulator = simulate(&app).await;
        let organization = app.organization("Acme").await;
        let party = app.party_in(organization, Scope::ALL).await;
        Self { app, simulator, organization, party }
    }

    pub async fn connect(&self) {
        let (a, b) = (self.cloud_a(), self.cloud_b());
        let told = format!("{}/marketplace", self.app.app.base_url);
        let publisher = json!({
            "cloudA": {
                "accessKeyId": a.access_key_id, "secretAccessKey": a.secret_access_key, "region": a.region,
                "secret": a.notification_secret, "notificationUrl": format!("{told}/cloud_a/{}", self.organization),
            },
            "cloudB": {
                "tenantId": b.tenant_id, "clientId": b.client_id, "clientSecret": b.client_secret,
                "publisherId": b.publisher_id, "notificationUrl": format!("{told}/cloud_b/{}", self.organization),
            },
        });
        self.control("PUT", &format!("publishers/{}", self.organization), publisher).await;
        for account in [Account::CloudA(a), Account::CloudB(b)] {
            let text = serde_json::to_string(&account).expect("an account is plain data");
            let call = self.app.operator(self.organization);
            marketplaces::connect(&call, account.vendor(), &text).await.expect("it is kept");
        }
    }

    pub fn cloud_a(&self) -> CloudAAccount {
        let url = format!("{}/cloud_a", self.simulator.url());
        CloudAAccount {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: "s3cret/key".into(),
            region: "us-east-1".to_owned(),
            metering_url: url.clone(),
            catalog_url: url.clone(),
            agreements_url: url,
            notification_secret: "told".into(),
        }
    }

    pub fn cloud_b(&self) -> CloudBAccount {
        let url = format!("{}/cloud_b", self.simulator.url());
        CloudBAccount {
            tenant_id: "tenant-1".to_owned(),
            client_id: "client-1".to_owned(),
            client_secret: "s3cret&=".into(),
            token_url: format!("{url}/tenant-1/oauth2/v2.0/token"),
            base_url: url.clone(),
            ingestion_url: url.clone(),
            keys_url: format!("{url}/keys"),
            audience: "client-1".to_owned(),
            publisher_id: "publisher-1".to_owned(),
        }
    }

    pub async fn control(&self, method: &str, path: &str, body: Value) -> Value {
        let method = method.parse().expect("a method");
        let url = format!("{}/control/{path}", self.simulator.url());
        let response = self.app.http.request(method, url).json(&body).send().await.expect("an answer");
        let (status, text) = (response.status(), response.text().await.expect("text"));
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// All that the marketplaces hold.
    pub async fn world(&self) -> Value {
        let url = format!("{}/control", self.simulator.url());
        let text = self.app.http.get(url).send().await.expect("an answer").text().await.expect("text");
        serde_json::from_str(&text).expect("JSON")
    }

    pub async fn faults(&self, faults: Value) {
        self.control("PUT", "faults", faults).await;
    }

    /// Time passes on both sides, and the workers do what became due.
    pub async fn pass(&self, time: TimeDelta) {
        self.app.advance(time);
        self.control("POST", "advance", json!({ "seconds": 0 })).await;
        self.work().await;
    }

    pub async fn work(&self) -> usize {
        self.app.app.clerk.run().await.expect("the outbox's work")
    }

    /// A customer of a marketplace.
    pub async fn customer(&self, vendor: &str, account: &str) -> Value {
        let field = if vendor == "cloud_a" { "cloudAccountId" } else { "tenantId" };
        let body = json!({ "vendor": vendor, field: account, "companyName": "Northwind" });
        self.party.post("/api/v1/customers", &body).await.created()
    }

    /// A contract of a customer of cloud_b, and its subscription at the marketplace.
    pub async fn subscribed(&self, customer: &Value) -> Entitlement {
        let body = json!({
            "publisher": self.organization, "offerId": "lst_1", "planId": "gold", "tenantId": customer["tenantId"],
        });
        let bought = self.control("POST", "cloud_b/subscriptions", body).await;
        let id = bought["subscription"]["id"].as_str().expect("an id").to_owned();
        self.subscribed_at(&id).await;
        let id_of = customer["id"].as_str().and_then(CustomerId::parse).expect("an id");
        let new = NewEntitlement {
            plan_id: Some("gold".to_owned()),
            vendor_subscription_id: Some(id),
            ..NewEntitlement::of(id_of, "lst_1")
        };
        self.app.entitlement(self.organization, new).await
    }

    /// A subscription is activated, as its publisher does.
    pub async fn subscribed_at(&self, id: &str) {
        let adapter = mercato::marketplace::cloud_b::CloudB::new(self.cloud_b(), self.client());
        adapter.activate(id, "gold", None).await.expect("it can be activated");
    }

    /// A contract of a customer of cloud_a at the marketplace, which takes usage from then on.
    pub async fn agreed(&self, customer: &Value) -> Value {
        let body = json!({
            "publisher": self.organization, "accountId": customer["cloudAccountId"], "productId": "lst_1",
            "productCode": "lst_1",
        });
        self.control("POST", "cloud_a/agreements", body).await
    }

    pub fn client(&self) -> mercato::marketplace::http::Client {
        let allowed = vec!["127.0.0.0/8".parse().expect("a subnet")];
        let settings = mercato::marketplace::http::ClientSettings { allowed, ..Default::default() };
        mercato::marketplace::http::Client::new(settings, self.app.clock.clone()).expect("a client")
    }

    /// An offer as REST answers it.
    pub async fn offer(&self, offer: &Value) -> Value {
        self.party.get(&format!("/api/v1/private-offers/{}", offer["id"].as_str().expect("an id"))).await.data()
    }

    pub async fn new_offer(&self, customer: &Value, vendor: &str) -> Value {
        let body = json!({
            "vendor": vendor, "listingId": "lst_1", "customerId": customer["id"],
            "details": { "pricing": { "duration": 12, "discountPercentage": 20 } },
        });
        self.party.post("/api/v1/private-offers", &body).await.created()
    }

    /// The kinds of the organization's events about a record, in order.
    pub async fn told_of(&self, record: &Value) -> Vec<String> {
        let events = self.app.events(self.organization).await;
        let about = events.iter().filter(|event| event["data"]["id"] == record["id"]);
        about.map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

async fn simulate(app: &TestApp) -> Simulator {
    let settings = SimulatorSettings {
        listen: ([127, 0, 0, 1], 0).into(),
        publish: TimeDelta::seconds(60),
        clock: app.clock.clone(),
        most: MOST,
    };
    Simulator::start(settings).await.expect("the simulator starts")
}
