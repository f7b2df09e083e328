//! Subscriptions of `cloud_b`: what they are, their activation, and the operations that want an answer.

use http::{HeaderValue, Method};
use serde::{Deserialize, Serialize};

use super::{API_VERSION, Call, CloudB, offers};
use crate::marketplace::http::lenient::{self, Number};
use crate::marketplace::http::{MarketplaceError, Repeat, Result, parse, place};
use crate::marketplace::terms::{Contract, ContractStatus};
use crate::model::decimal::Decimal;
use crate::model::entitlement::{Dimension, EntitlementStatus};
use crate::model::time::Timestamp;

/// Pages of a list.
const PAGES_MAX: usize = 1_000;
/// The key of the dimension that a subscription's quantity is (`contract.md` §9).
const SEATS: &str = "seats";
const TOKEN_HEADER: &str = "x-ms-marketplace-token";

/// What a purchase token stands for.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolved {
    /// The subscription's id.
    pub id: String,
    #[serde(default)]
    pub subscription_name: Option<String>,
    pub offer_id: String,
    pub plan_id: String,
    #[serde(default)]
    quantity: Option<Number>,
    pub subscription: Subscription,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subscription {
    pub id: String,
    #[serde(default)]
    pub name: Option<String>,
    pub offer_id: String,
    #[serde(default)]
    pub plan_id: Option<String>,
    #[serde(default)]
    quantity: Option<Number>,
    #[serde(default)]
    pub beneficiary: Party,
    #[serde(default)]
    pub purchaser: Party,
    #[serde(default)]
    pub term: Term,
    #[serde(default)]
    pub auto_renew: Option<bool>,
    /// `PendingFulfillmentStart`, `Subscribed`, `Suspended`, `Unsubscribed`, or a word that is not known yet.
    pub saas_subscription_status: String,
    #[serde(default)]
    pub private_offer_id: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Party {
    #[serde(default)]
    pub email_id: Option<String>,
    #[serde(default)]
    pub tenant_id: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Term {
    #[serde(default, deserialize_with = "lenient::moment")]
    pub start_date: Option<Timestamp>,
    #[serde(default, deserialize_with = "lenient::moment")]
    pub end_date: Option<Timestamp>,
}

/// A change of a subscription that waits for an answer, or did.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    pub id: String,
    pub subscription_id: String,
    #[serde(default)]
    pub plan_id: Option<String>,
    #[serde(default)]
    quantity: Option<Number>,
    /// As in the notification.
    pub action: String,
    /// `InProgress`, `Succeeded`, `Failed`, `Conflict`, or a word that is not known yet.
    pub status: String,
    #[serde(default, deserialize_with = "lenient::moment")]
    pub time_stamp: Option<Timestamp>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Activation<'a> {
    plan_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    quantity: Option<Number>,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    subscriptions: Vec<Subscription>,
    #[serde(default, rename = "@nextLink")]
    next_link: Option<String>,
}

#[derive(Deserialize)]
struct Operations {
    #[serde(default)]
    operations: Vec<Operation>,
}

impl Resolved {
    pub fn quantity(&self) -> Option<Decimal> {
        self.quantity.map(|number| number.0)
    }
}

impl Operation {
    pub fn quantity(&self) -> Option<Decimal> {
        self.quantity.map(|number| number.0)
    }
}

impl CloudB {
    /// What a buyer's purchase token, which is good for 24 hours, stands for.
    pub async fn resolve(&self, token: &str) -> Result<Resolved> {
        let mut header = HeaderValue::from_str(token).map_err(|_| not_a_token())?;
        header.set_sensitive(true);
        let call = Call { method: Method::POST, ..Call::get(self.subscriptions_url(&["resolve"])?) };
        let make = || {
            let mut request = call.request();
            request.headers_mut().insert(TOKEN_HEADER, header.clone());
            request
        };
        self.call(&self.fulfillment, Repeat::Freely, make).await?.json()
    }

    pub async fn subscription(&self, id: &str) -> Result<Subscription> {
        self.fulfill(Call::get(self.subscriptions_url(&[id])?)).await?.json()
    }

    /// All of them, whatever their state. The rest of a list is looked for only where its beginning was: the token goes
    /// along.
    pub async fn subscriptions(&self) -> Result<Vec<Subscription>> {
        let first = self.subscriptions_url(&[])?;
        let mut found = Vec::new();
        let mut url = first.clone();
        for _ in 0..PAGES_MAX {
            let page: Page = self.fulfill(Call::get(url)).await?.json()?;
            found.extend(page.subscriptions);
            let Some(link) = page.next_link.filter(|link| !link.is_empty()) else { return Ok(found) };
            url = parse(&link).map_err(|_| MarketplaceError::garbled("a next page that is not a URL"))?;
            if url.origin() != first.origin() {
                return Err(MarketplaceError::garbled("a next page at another address"));
            }
        }
        Err(MarketplaceError::garbled(format!("subscriptions on more than {PAGES_MAX} pages")))
    }

    /// Begins a subscription that waits for it. One that was activated with the same values is not touched.
    pub async fn activate(&self, id: &str, plan: &str, quantity: Option<Decimal>) -> Result<()> {
        let url = self.subscriptions_url(&[id, "activate"])?;
        let body = Activation { plan_id: plan, quantity: quantity.map(Number) };
        self.fulfill(Call::with(Method::POST, url, &body)).await.map(drop)
    }

    pub async fn operation(&self, subscription: &str, operation: &str) -> Result<Operation> {
        let url = self.subscriptions_url(&[subscription, "operations", operation])?;
        self.fulfill(Call::get(url)).await?.json()
    }

    /// The changes of a subscription that wait for an answer, as far as the marketplace lists them.
    pub async fn operations(&self, subscription: &str) -> Result<Vec<Operation>> {
        let url = self.subscriptions_url(&[subscription, "operations"])?;
        let list: Operations = self.fulfill(Call::get(url)).await?.json()?;
        Ok(list.operations)
    }

    /// Tells the marketplace whether a change was carried out. Refused with 409 when it was settled otherwise before.
    pub async fn patch_operation(&self, subscription: &str, operation: &str, success: bool) -> Result<()> {
        #[derive(Serialize)]
        struct Settled {
            status: &'static str,
        }
        let url = self.subscriptions_url(&[subscription, "operations", operation])?;
        let body = Settled { status: if success { "Success" } else { "Failure" } };
        self.fulfill(Call::with(Method::PATCH, url, &body)).await.map(drop)
    }

    fn subscriptions_url(&self, rest: &[&str]) -> Result<url::Url> {
        self.api_url(&[&["saas", "subscriptions"], rest].concat())
    }

    pub(super) fn api_url(&self, rest: &[&str]) -> Result<url::Url> {
        let mut url = place(&self.account.base_url, &[&["api"], rest].concat())?;
        url.query_pairs_mut().append_pair(API_VERSION.0, API_VERSION.1);
        Ok(url)
    }
}

fn not_a_token() -> MarketplaceError {
    MarketplaceError::Refused { status: 400, code: String::new(), message: "not a purchase token".to_owned() }
}

impl Subscription {
    pub fn quantity(&self) -> Option<Decimal> {
        self.quantity.map(|number| number.0)
    }

    /// A quantity as a dimension.
    pub fn seats(value: Decimal) -> Dimension {
        Dimension { key: SEATS.to_owned(), value, description: None }
    }

    pub fn into_contract(self) -> Contract {
        let dimensions = self.quantity().map(Self::seats).into_iter().collect();
        Contract {
            status: status(&self.saas_subscription_status),
            id: self.id,
            customer: self.beneficiary.tenant_id.or(self.purchaser.tenant_id).unwrap_or_default(),
            email: self.beneficiary.email_id.or(self.purchaser.email_id),
            listing: self.offer_id,
            plan: self.plan_id,
            dimensions,
            vendor_offer_id: self.private_offer_id.map(|id| offers::bare(&id).to_owned()),
            start: self.term.start_date,
            end: self.term.end_date,
            auto_renew: self.auto_renew,
            licence: None,
        }
    }
}

fn status(word: &str) -> ContractStatus {
    ContractStatus::Known(match word {
        "PendingFulfillmentStart" => EntitlementStatus::Pending,
        "Subscribed" => EntitlementStatus::Active,
        "Suspended" => EntitlementStatus::Suspended,
        "Unsubscribed" => EntitlementStatus::Cancelled,
        other => return ContractStatus::Other(other.to_owned()),
    })
}
