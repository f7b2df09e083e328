//! Private offers of `cloud_b`: one resource, configured by jobs that take minutes.

use http::Method;
use serde::{Deserialize, Serialize};

use super::{Call, CloudB};
use crate::marketplace::http::error::bounded;
use crate::marketplace::http::lenient::Number;
use crate::marketplace::http::{MarketplaceError, Repeat, Result, place};
use crate::marketplace::terms::{Discount, Draft, Job, JobState};
use crate::model::offer::OfferType;
use crate::model::time::Timestamp;

const VERSION: (&str, &str) = ("$version", "2022-07-01");
const SCHEMA: &str = "https://schema.mp.microsoft.com/schema/private-offer/2023-07-15";
/// What stands before the id of an offer where any resource may stand.
const KIND: &str = "private-offer/";

/// The id of an offer without its kind.
pub(super) fn bare(id: &str) -> &str {
    id.strip_prefix(KIND).unwrap_or(id)
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
enum State {
    Live,
    Withdrawn,
}

#[derive(Serialize)]
struct Configuration<'a> {
    resources: [PrivateOffer<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PrivateOffer<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: &'a str,
    state: State,
    #[serde(rename = "privateOfferType")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    offer_pricing_type: Option<&'static str>,
    /// Whether it begins when it is accepted.
    variable_start_date: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<String>,
    end: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    accept_by: Option<String>,
    prepared_by: &'a str,
    notification_contacts: &'a [String],
    beneficiaries: [Beneficiary<'a>; 1],
    pricing: [Pricing<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<&'a str>,
}

#[derive(Serialize)]
struct Beneficiary<'a> {
    id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Pricing<'a> {
    product: &'a str,
    discount_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    discount_percentage: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    absolute_amount: Option<Number>,
    currency: &'a str,
    duration_months: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobAnswer {
    job_id: String,
    #[serde(default)]
    job_status: String,
    #[serde(default)]
    job_result: String,
    #[serde(default)]
    errors: Vec<JobError>,
    #[serde(default)]
    resource_uri: Option<String>,
}

#[derive(Deserialize)]
struct JobError {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct FoundOffers {
    value: Vec<FoundOffer>,
}

#[derive(Deserialize)]
struct FoundOffer {
    #[serde(default)]
    id: Option<String>,
    name: String,
    state: String,
}

impl CloudB {
    /// Makes the offer, unless one of its name is live: an earlier call, of which nothing was written down, made it.
    ///
    /// The marketplace lists what was made, not what is being made: after a failure that leaves open whether the call was
    /// carried out, it is to be repeated only when a job would be over.
    pub async fn publish(&self, draft: &Draft) -> Result<Job> {
        check(draft)?;
        if let Some(vendor_offer_id) = self.find_offer(&draft.name).await? {
            return Ok(Job::Done { vendor_offer_id });
        }
        self.configure(draft, None, State::Live).await
    }

    /// Moves the draft's expiry to an offer that was published.
    pub async fn change_expiry(&self, draft: &Draft, vendor_offer_id: &str) -> Result<Job> {
        self.configure(draft, Some(vendor_offer_id), State::Live).await
    }

    /// Takes an offer back that was not accepted.
    pub async fn withdraw(&self, draft: &Draft, vendor_offer_id: &str) -> Result<Job> {
        self.configure(draft, Some(vendor_offer_id), State::Withdrawn).await
    }

    /// How far a job is. `vendor_offer_id` is what it was about, if it was about an offer that was there before.
    pub async fn job(&self, id: &str, vendor_offer_id: Option<&str>) -> Result<JobState> {
        let url = self.ingestion_url(&["configure", id, "status"])?;
        let job: JobAnswer = self.ingest(Call::get(url)).await?.json()?;
        match (job.job_status.as_str(), job.job_result.as_str()) {
            ("completed", "succeeded") => {
                let made = job.resource_uri.as_deref().map(bare).or(vendor_offer_id);
                let made = made.ok_or_else(|| MarketplaceError::garbled("a job that succeeded without an offer"))?;
                Ok(JobState::Live { vendor_offer_id: made.to_owned() })
            }
            ("completed", "failed") => Ok(JobState::Failed { message: job.failure() }),
            _ => Ok(JobState::Pending),
        }
    }

    /// The live offer of this name.
    pub async fn find_offer(&self, name: &str) -> Result<Option<String>> {
        let mut url = self.ingestion_url(&["private-offer"])?;
        url.query_pairs_mut().append_pair("name", name);
        let found: FoundOffers = self.ingest(Call::get(url)).await?.json()?;
        let live = found.value.into_iter().find(|offer| offer.name == name && offer.state == "live");
        Ok(live.and_then(|offer| offer.id).map(|id| bare(&id).to_owned()))
    }

    async fn configure(&self, draft: &Draft, vendor_offer_id: Option<&str>, state: State) -> Result<Job> {
        let now = self.client.clock().now();
        let resource = resource(draft, &self.account.publisher_id, vendor_offer_id, state, now);
        let url = self.ingestion_url(&["configure"])?;
        let call = Call::with(Method::POST, url, &Configuration { resources: [resource] });
        // A second job would make a second offer.
        let repeat = if vendor_offer_id.is_some() { Repeat::Freely } else { Repeat::IfNotDone };
        let job: JobAnswer = self.ingest(Call { repeat, ..call }).await?.json()?;
        Ok(Job::Submitted { id: job.job_id, vendor_offer_id: vendor_offer_id.map(str::to_owned) })
    }

    fn ingestion_url(&self, rest: &[&str]) -> Result<url::Url> {
        let mut url = place(&self.account.ingestion_url, &[&["rp", "product-ingestion"], rest].concat())?;
        url.query_pairs_mut().append_pair(VERSION.0, VERSION.1);
        Ok(url)
    }
}

impl JobAnswer {
    fn failure(&self) -> String {
        let said: Vec<String> = self.errors.iter().map(|error| format!("{}: {}", error.code, error.message)).collect();
        bounded(if said.is_empty() { "failed without a reason".to_owned() } else { said.join("; ") }.as_str())
    }
}

/// What is agreed and cannot be said would be another deal.
fn check(draft: &Draft) -> Result<()> {
    let reason = match (draft.deal, draft.discount, &draft.replaces) {
        (OfferType::MultiParty, ..) => {
            "a multi_party offer names its selling partner at cloud_b, and this one names none: make it there, or make it \
             direct or csp"
        }
        (OfferType::Csp, Discount::Amount(_), _) => {
            "a csp offer is a margin in percent at cloud_b: discountAmount cannot be said"
        }
        (OfferType::Csp, _, Some(_)) => "a csp offer replaces no agreement at cloud_b",
        (OfferType::Direct | OfferType::Csp, ..) => return Ok(()),
    };
    Err(MarketplaceError::impossible(reason))
}

fn resource<'a>(
    draft: &'a Draft,
    publisher: &'a str,
    vendor_offer_id: Option<&str>,
    state: State,
    now: Timestamp,
) -> PrivateOffer<'a> {
    let (discount_type, percentage, amount) = match draft.discount {
        Discount::Percentage(percentage) => ("percentage", Some(Number(percentage)), None),
        Discount::Amount(amount) => ("absolute", None, Some(Number(amount))),
    };
    let pricing = Pricing {
        product: &draft.listing,
        discount_type,
        discount_percentage: percentage,
        absolute_amount: amount,
        currency: &draft.currency,
        duration_months: draft.months,
    };
    let kind = match draft.deal {
        OfferType::Direct => "customerPromotion",
        OfferType::Csp => "cspPromotion",
        OfferType::MultiParty => "multipartyPromotionOriginator",
    };
    // A partner's margin is not accepted: it begins at once, and is over at the end.
    let accepted = draft.deal != OfferType::Csp;
    let end = draft.last_day(now).to_string();
    PrivateOffer {
        schema: SCHEMA,
        id: vendor_offer_id.map(|id| format!("{KIND}{}", bare(id))),
        name: &draft.name,
        state,
        kind,
        offer_pricing_type: accepted.then_some("editExistingOfferPricingOnly"),
        variable_start_date: accepted,
        start: (!accepted).then(|| now.as_datetime().date_naive().to_string()),
        accept_by: accepted.then(|| end.clone()),
        end,
        prepared_by: publisher,
        notification_contacts: &draft.contacts,
        beneficiaries: [Beneficiary { id: &draft.buyer }],
        pricing: [pricing],
        replaces: draft.replaces.as_deref(),
    }
}
