//! The stage of rehearsals, in staging and in the demo: a simulator in the place of the marketplaces, the accounts of every
//! organization there, and our end of its control (`docs/marketplaces.md`).
//!
//! It is reached over HTTP like the marketplaces, also where it runs in this process. Its memory ends with it, so the
//! accounts are registered at every start and then from time to time; what they hold follows from the database alone, so
//! that processes which share one do not contend.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use http::Method;
use ipnet::IpNet;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::time::Instant;
use url::{Host, Url};

use super::accounts::{Account, CloudAAccount, CloudBAccount, Secret};
use super::http::place;
use crate::call::{Call, Caller};
use crate::error::{Error, Result};
use crate::model::id::OrganizationId;
use crate::model::operation::Access;
use crate::model::vendor::Vendor;
use crate::resolvers::marketplaces;
use crate::store::Store;

/// For one call of the control.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long it is trusted that the simulator knows an organization: one that runs elsewhere may begin anew.
const TRUSTED: Duration = Duration::from_secs(30);
const REGION: &str = "us-east-1";

pub struct Stage {
    store: Store,
    url: String,
    home: String,
    http: reqwest::Client,
    enrolled: Mutex<HashMap<OrganizationId, Instant>>,
}

/// Where something at the simulator stands.
pub struct Place {
    pub vendor: Vendor,
    pub id: String,
}

impl Stage {
    /// `url` is the simulator's; `home` is ours, where it sends notifications. Both without a slash at the end.
    pub fn new(store: Store, url: String, home: String) -> Result<Self, String> {
        let client =
            reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(TIMEOUT).build();
        let http = client.map_err(|error| format!("the simulator's client cannot be made: {error}"))?;
        Ok(Self { store, url, home, http, enrolled: Mutex::default() })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// What has to be connected to although it is not public, as far as the address says so.
    pub fn subnets(url: &str) -> Vec<IpNet> {
        let url = Url::parse(url).ok();
        match url.as_ref().and_then(Url::host) {
            Some(Host::Ipv4(address)) => vec![IpNet::from(std::net::IpAddr::from(address))],
            Some(Host::Ipv6(address)) => vec![IpNet::from(std::net::IpAddr::from(address))],
            Some(Host::Domain("localhost")) => {
                ["127.0.0.0/8", "::1/128"].iter().filter_map(|net| net.parse().ok()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Registers every organization that has not been lately.
    pub async fn enrol_all(&self) -> Result<()> {
        for organization in self.store.organizations().await? {
            // One that cannot be registered keeps no other from it.
            if let Err(error) = self.enrol(organization).await {
                tracing::warn!(%organization, %error, cause = error.cause(), "an organization could not be registered at the simulator");
            }
        }
        Ok(())
    }

    /// Registers an organization, and connects it where it is not connected to anything else.
    pub async fn enrol(&self, organization: OrganizationId) -> Result<()> {
        let known = self.enrolled.lock().unwrap_or_else(PoisonError::into_inner).get(&organization).copied();
        if known.is_some_and(|since| since.elapsed() < TRUSTED) {
            return Ok(());
        }
        let (a, b) = (self.cloud_a(organization), self.cloud_b(organization));
        self.register(organization, &a, &b).await?;
        self.connect(organization, Account::CloudA(a)).await?;
        self.connect(organization, Account::CloudB(b)).await?;
        self.enrolled.lock().unwrap_or_else(PoisonError::into_inner).insert(organization, Instant::now());
        Ok(())
    }

    async fn register(&self, organization: OrganizationId, a: &CloudAAccount, b: &CloudBAccount) -> Result<()> {
        let told = |vendor: Vendor| format!("{}/marketplace/{vendor}/{organization}", self.home);
        let publisher = json!({
            "cloudA": {
                "accessKeyId": a.access_key_id, "secretAccessKey": a.secret_access_key, "region": a.region,
                "secret": a.notification_secret, "notificationUrl": told(Vendor::CloudA),
            },
            "cloudB": {
                "tenantId": b.tenant_id, "clientId": b.client_id, "clientSecret": b.client_secret,
                "publisherId": b.publisher_id, "notificationUrl": told(Vendor::CloudB),
            },
        });
        self.control(Method::PUT, &["publishers", &organization.to_string()], &publisher).await.map(drop)
    }

    async fn connect(&self, organization: OrganizationId, account: Account) -> Result<()> {
        let call = Call::new(self.store.clone(), Caller::Operator { organization }, None);
        let stored = call.grant(Access::Administrator)?.marketplace_account(account.vendor()).await?;
        let text = serde_json::to_string(&account).map_err(Error::internal)?;
        if let Some(stored) = stored {
            let kept: Account = serde_json::from_str(&stored.account).map_err(Error::internal)?;
            if kept == account || name_of(&kept) != name_of(&account) {
                return Ok(());
            }
        }
        marketplaces::connect(&call, account.vendor(), &text).await
    }

    fn cloud_a(&self, organization: OrganizationId) -> CloudAAccount {
        let url = format!("{}/cloud_a", self.url);
        CloudAAccount {
            access_key_id: simulated(organization),
            secret_access_key: self.secret(organization, "cloud_a"),
            region: REGION.to_owned(),
            metering_url: url.clone(),
            catalog_url: url.clone(),
            agreements_url: url,
            notification_secret: self.secret(organization, "notifications"),
        }
    }

    fn cloud_b(&self, organization: OrganizationId) -> CloudBAccount {
        let (url, tenant_id) = (format!("{}/cloud_b", self.url), organization.to_string());
        CloudBAccount {
            client_id: simulated(organization),
            client_secret: self.secret(organization, "cloud_b"),
            token_url: format!("{url}/{tenant_id}/oauth2/v2.0/token"),
            keys_url: format!("{url}/keys"),
            base_url: url.clone(),
            ingestion_url: url,
            audience: simulated(organization),
            publisher_id: tenant_id.clone(),
            tenant_id,
        }
    }

    /// What nobody guesses who does not know the database.
    fn secret(&self, organization: OrganizationId, purpose: &str) -> Secret {
        let mac = Hmac::<Sha256>::new_from_slice(&self.store.cursor_key().0).expect("HMAC takes keys of any length");
        let mac = mac.chain_update(format!("simulator/{organization}/{purpose}"));
        BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()).as_str().into()
    }

    /// A subscription or an agreement of this organization.
    pub async fn find(&self, organization: OrganizationId, id: &str) -> Result<Place> {
        let world = self.control(Method::GET, &[], &Value::Null).await?;
        let holds = |list: &str| {
            let own = |it: &Value| it["id"] == id && it["publisher"] == organization.to_string();
            world[list].as_array().is_some_and(|list| list.iter().any(own))
        };
        let vendor = match (holds("subscriptions"), holds("agreements")) {
            (true, _) => Vendor::CloudB,
            (_, true) => Vendor::CloudA,
            _ => return Err(Error::NOT_FOUND),
        };
        Ok(Place { vendor, id: id.to_owned() })
    }

    /// One call of the control. What it refuses is refused in its words.
    pub async fn control(&self, method: Method, segments: &[&str], body: &Value) -> Result<Value> {
        let gone =
            |error: &dyn std::fmt::Display| Error::Unavailable(format!("the simulator at {}: {error}", self.url));
        let path = [&["control"], segments].concat();
        let url = place(&self.url, &path).map_err(|_| Error::NOT_FOUND)?;
        let mut request = self.http.request(method.clone(), url);
        if method != Method::GET {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|error| gone(&error))?;
        let status = response.status().as_u16();
        let answer: Value = response.json().await.map_err(|error| gone(&error))?;
        let message = || answer["message"].as_str().unwrap_or("refused without a word").to_owned();
        match status {
            200..300 => Ok(answer),
            400 => Err(Error::invalid("input", message())),
            404 | 409 => Err(Error::conflict(format!("The simulator refused: {}", message()))),
            _ => Err(gone(&format!("status {status}"))),
        }
    }
}

/// Names our own accounts, so that no other is touched.
fn simulated(organization: OrganizationId) -> String {
    format!("simulated-{organization}")
}

fn name_of(account: &Account) -> &str {
    match account {
        Account::CloudA(account) => &account.access_key_id,
        Account::CloudB(account) => &account.client_id,
    }
}
