//! What was bought at `cloud_a`.

use http::Method;
use serde::{Deserialize, Serialize};

use super::{Call, CloudA, JSON_1_0, write};
use crate::marketplace::http::{MarketplaceError, Result, lenient, place};
use crate::marketplace::terms::{Contract, ContractStatus};
use crate::model::entitlement::EntitlementStatus;
use crate::model::time::Timestamp;

const SEARCH: &str = "AWSMPCommerceService_v20200301.SearchAgreements";
/// How an agreement ends that was renewed.
pub const RENEWED: &str = "RENEWED";
const CATALOG: &str = "AWSMarketplace";
/// Agreements of a page, and pages of a search.
const PAGE: u32 = 50;
const PAGES_MAX: usize = 2_000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Search<'a> {
    catalog: &'static str,
    filters: [Filter; 2],
    max_results: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_token: Option<&'a str>,
}

#[derive(Serialize)]
struct Filter {
    name: &'static str,
    values: [&'static str; 1],
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    agreement_view_summaries: Vec<Agreement>,
    #[serde(default)]
    next_token: Option<String>,
}

/// An agreement as the marketplace lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub contract: Contract,
    pub accepted: Option<Timestamp>,
    /// Whether it ended because it was renewed.
    pub is_renewed: bool,
    /// What it is to the agreement before it, if the marketplace says so: `NEW`, `RENEW`, `REPLACE`.
    pub intent: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agreement {
    #[serde(rename = "agreementId")]
    id: String,
    #[serde(default, deserialize_with = "lenient::moment")]
    acceptance_time: Option<Timestamp>,
    #[serde(default, deserialize_with = "lenient::moment")]
    start_time: Option<Timestamp>,
    #[serde(default, deserialize_with = "lenient::moment")]
    end_time: Option<Timestamp>,
    status: String,
    acceptor: Acceptor,
    #[serde(default)]
    proposal_summary: Proposal,
    #[serde(default)]
    license: Option<Licence>,
    #[serde(default)]
    intent: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Acceptor {
    account_id: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Proposal {
    #[serde(default)]
    offer_id: Option<String>,
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    id: String,
}

#[derive(Deserialize)]
struct Licence {
    #[serde(default)]
    arn: Option<String>,
}

impl CloudA {
    /// All agreements of the seller, whatever their state. Their dimensions are not listed.
    pub async fn agreements(&self) -> Result<Vec<Listed>> {
        let now = self.client.clock().now();
        let mut listed = Vec::new();
        let mut next_token: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let page: Page = self.search(next_token.as_deref()).await?;
            listed.extend(page.agreement_view_summaries.into_iter().map(|agreement| agreement.into_listed(now)));
            next_token = page.next_token.filter(|token| !token.is_empty());
            if next_token.is_none() {
                return Ok(listed);
            }
        }
        Err(MarketplaceError::garbled(format!("agreements on more than {PAGES_MAX} pages")))
    }

    async fn search(&self, next_token: Option<&str>) -> Result<Page> {
        let filters = [("PartyType", "Proposer"), ("AgreementType", "PurchaseAgreement")];
        let filters = filters.map(|(name, value)| Filter { name, values: [value] });
        let url = place(&self.account.agreements_url, &[])?;
        let body = write(&Search { catalog: CATALOG, filters, max_results: PAGE, next_token });
        self.call(Call { method: Method::POST, url, target: Some(SEARCH), content_type: JSON_1_0, body }).await
    }
}

impl Agreement {
    fn into_listed(self, now: Timestamp) -> Listed {
        let (accepted, is_renewed, intent) = (self.acceptance_time, self.status == RENEWED, self.intent.clone());
        Listed { contract: self.into_contract(now), accepted, is_renewed, intent }
    }

    fn into_contract(self, now: Timestamp) -> Contract {
        let licence = self.license.and_then(|licence| licence.arn);
        let started = self.start_time.is_none_or(|start| start <= now) && licence.is_some();
        Contract {
            status: status(&self.status, started),
            id: self.id,
            customer: self.acceptor.account_id,
            email: None,
            listing: self.proposal_summary.resources.into_iter().next().map(|resource| resource.id).unwrap_or_default(),
            plan: None,
            dimensions: Vec::new(),
            vendor_offer_id: self.proposal_summary.offer_id,
            start: self.start_time,
            end: self.end_time,
            auto_renew: None,
            licence,
        }
    }
}

/// An agreement is active once it has begun and its licence is known.
pub fn status(word: &str, started: bool) -> ContractStatus {
    ContractStatus::Known(match word {
        "ACTIVE" if started => EntitlementStatus::Active,
        "ACTIVE" => EntitlementStatus::Pending,
        "CANCELLED" | "TERMINATED" => EntitlementStatus::Cancelled,
        "EXPIRED" | "ARCHIVED" => EntitlementStatus::Expired,
        RENEWED | "REPLACED" => return ContractStatus::Superseded,
        other => return ContractStatus::Other(other.to_owned()),
    })
}
