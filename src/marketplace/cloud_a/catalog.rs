//! Private offers of `cloud_a`: change sets, which the marketplace carries out in minutes.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::TimeDelta;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{Call, CloudA, JSON, write};
use crate::marketplace::http::error::bounded;
use crate::marketplace::http::lenient::Number;
use crate::marketplace::http::{MarketplaceError, Result, place};
use crate::marketplace::terms::{Discount, Draft, JobState};
use crate::model::offer::OfferType;
use crate::model::time::Timestamp;

const CATALOG: &str = "AWSMarketplace";
const OFFER: &str = "Offer@1.0";
/// What the first change of a set is called, and what the others say for the offer that it makes.
const FIRST: &str = "Offer";
const MADE_BY_FIRST: &str = "$Offer.Entity.Identifier";
/// Characters of a token of a request, as many as the vendor takes.
const TOKEN_LENGTH: usize = 36;

/// How often one offer may fail to be published in the same terms.
const ATTEMPTS_MAX: u32 = 10;

/// What a change set is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A new offer, or a replacement of the agreement that the draft names.
    Publish,
    /// To the draft's.
    ChangeExpiry { vendor_offer_id: &'a str },
    /// By an expiry that is over.
    Withdraw { vendor_offer_id: &'a str },
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Request<'a> {
    catalog: &'static str,
    change_set_name: &'a str,
    client_request_token: String,
    change_set: Vec<WireChange<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct WireChange<'a> {
    change_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    change_name: Option<&'static str>,
    entity: Entity<'a>,
    details_document: Box<RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Entity<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    identifier: Option<&'a str>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct NewOffer<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    agreement_id: Option<&'a str>,
    product_id: &'a str,
    name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Targeting<'a> {
    positive_targeting: Buyers<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Buyers<'a> {
    buyer_accounts: [&'a str; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PricingTerms<'a> {
    discount_percentage: Number,
    duration_months: u32,
    currency_code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    annual_value: Option<Number>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Availability {
    availability_end_date: String,
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Started {
    change_set_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Described {
    status: String,
    #[serde(default)]
    failure_code: Option<String>,
    #[serde(default)]
    failure_description: Option<String>,
    #[serde(default)]
    change_set: Vec<DescribedChange>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DescribedChange {
    #[serde(default)]
    entity: DescribedEntity,
    #[serde(default)]
    error_detail_list: Vec<ErrorDetail>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DescribedEntity {
    #[serde(default)]
    identifier: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ErrorDetail {
    #[serde(default)]
    error_code: String,
    #[serde(default)]
    error_message: String,
}

impl CloudA {
    /// Begins to publish; answers the id of the change set. Called again, also by another process after a crash, it finds
    /// the set that it began before, unless that one failed: then it begins another.
    pub async fn publish(&self, draft: &Draft) -> Result<String> {
        let mut id = String::new();
        for attempt in 0..ATTEMPTS_MAX {
            let changes = changes(draft, Change::Publish, self.client.clock().now())?;
            let token = token(draft, attempt, &changes);
            id = self.start_change_set(&draft.name, changes, token).await?;
            if !matches!(self.change_set(&id).await?, JobState::Failed { .. }) {
                break;
            }
        }
        Ok(id)
    }

    /// Begins to change an offer that was released; answers the id of the change set. Doing it twice changes nothing.
    pub async fn change(&self, draft: &Draft, change: Change<'_>) -> Result<String> {
        let clock = self.client.clock();
        self.start_change_set(&draft.name, changes(draft, change, clock.now())?, clock.mint().to_string()).await
    }

    /// One token begins one change set, however often it is sent.
    async fn start_change_set(&self, name: &str, changes: Vec<WireChange<'_>>, token: String) -> Result<String> {
        let url = place(&self.account.catalog_url, &["StartChangeSet"])?;
        let body = write(&Request {
            catalog: CATALOG,
            change_set_name: name,
            client_request_token: token,
            change_set: changes,
        });
        let call = Call { method: Method::POST, url, target: None, content_type: JSON, body };
        let started: Started = self.call(call).await?;
        Ok(started.change_set_id)
    }

    pub async fn change_set(&self, id: &str) -> Result<JobState> {
        let mut url = place(&self.account.catalog_url, &["DescribeChangeSet"])?;
        url.query_pairs_mut().append_pair("catalog", CATALOG).append_pair("changeSetId", id);
        let call = Call { method: Method::GET, url, target: None, content_type: JSON, body: bytes::Bytes::new() };
        let described: Described = self.call(call).await?;
        match described.status.as_str() {
            "SUCCEEDED" => described.offer(),
            "FAILED" | "CANCELLED" => Ok(JobState::Failed { message: described.failure() }),
            _ => Ok(JobState::Pending),
        }
    }
}

impl Described {
    /// The offer that was made or changed. Its identifier may carry a revision: `offer-…@2`.
    fn offer(&self) -> Result<JobState> {
        let mut identifiers = self.change_set.iter().filter_map(|change| change.entity.identifier.as_deref());
        let offer = identifiers.find(|identifier| identifier.starts_with("offer-"));
        let offer = offer.ok_or_else(|| MarketplaceError::garbled("a change set that succeeded without an offer"))?;
        let vendor_offer_id = offer.split('@').next().unwrap_or(offer).to_owned();
        Ok(JobState::Live { vendor_offer_id })
    }

    fn failure(&self) -> String {
        let details = self.change_set.iter().flat_map(|change| &change.error_detail_list);
        let details = details.map(|detail| format!("{}: {}", detail.error_code, detail.error_message));
        let said: Vec<String> = self.failure_description.iter().cloned().chain(details).collect();
        let code = || self.failure_code.clone().unwrap_or_else(|| self.status.clone());
        bounded(&if said.is_empty() { code() } else { said.join("; ") })
    }
}

fn changes<'a>(draft: &'a Draft, change: Change<'a>, now: Timestamp) -> Result<Vec<WireChange<'a>>> {
    let last_day = match change {
        Change::Withdraw { .. } => now.plus(-TimeDelta::days(1)).as_datetime().date_naive(),
        Change::Publish | Change::ChangeExpiry { .. } => draft.last_day(now),
    };
    let availability = Availability { availability_end_date: last_day.to_string() };
    Ok(match change {
        Change::ChangeExpiry { vendor_offer_id } | Change::Withdraw { vendor_offer_id } => {
            vec![edit("UpdateAvailability", vendor_offer_id, &availability)]
        }
        Change::Publish => {
            check(draft)?;
            let targeting = Targeting { positive_targeting: Buyers { buyer_accounts: [&draft.buyer] } };
            vec![
                create(draft),
                edit("UpdateTargeting", MADE_BY_FIRST, &targeting),
                edit("UpdatePricingTerms", MADE_BY_FIRST, &pricing(draft)?),
                edit("UpdateLegalTerms", MADE_BY_FIRST, &Nothing {}),
                edit("UpdateAvailability", MADE_BY_FIRST, &availability),
                edit("ReleaseOffer", MADE_BY_FIRST, &Nothing {}),
            ]
        }
    })
}

/// What is agreed with a partner would be another deal without one.
fn check(draft: &Draft) -> Result<()> {
    match draft.deal {
        OfferType::Direct => Ok(()),
        OfferType::MultiParty | OfferType::Csp => {
            Err(MarketplaceError::impossible("cloud_a has no offers of this type, only direct ones"))
        }
    }
}

fn create(draft: &Draft) -> WireChange<'_> {
    let replaces = draft.replaces.as_deref();
    let details = NewOffer { agreement_id: replaces, product_id: &draft.listing, name: &draft.title };
    WireChange {
        change_type: if replaces.is_some() { "CreateReplacementOffer" } else { "CreateOffer" },
        change_name: Some(FIRST),
        entity: Entity { r#type: OFFER, identifier: None },
        details_document: document(&details),
    }
}

fn edit<'a>(change_type: &'static str, offer: &'a str, details: &impl Serialize) -> WireChange<'a> {
    let entity = Entity { r#type: OFFER, identifier: Some(offer) };
    WireChange { change_type, change_name: None, entity, details_document: document(details) }
}

fn pricing(draft: &Draft) -> Result<PricingTerms<'_>> {
    let Discount::Percentage(percentage) = draft.discount else {
        return Err(MarketplaceError::impossible("cloud_a has no discounts by amount"));
    };
    Ok(PricingTerms {
        discount_percentage: Number(percentage),
        duration_months: draft.months,
        currency_code: &draft.currency,
        annual_value: draft.annual_value.map(Number),
    })
}

fn document(details: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(details).expect("details are plain data")
}

/// The same for the same attempt at the same terms, until the offer is withdrawn.
fn token(draft: &Draft, attempt: u32, changes: &[WireChange<'_>]) -> String {
    let place = format!("{} {} {attempt} ", draft.name, draft.edition);
    let digest = Sha256::new().chain_update(place).chain_update(write(&changes)).finalize();
    let mut token = BASE64_URL_SAFE_NO_PAD.encode(digest);
    token.truncate(TOKEN_LENGTH);
    token
}
