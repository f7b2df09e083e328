//! Reports of usage to `cloud_b`, and what it has accepted.

use http::Method;
use serde::{Deserialize, Serialize};

use super::{Call, CloudB};
use crate::marketplace::batch::{Sent, Wire, report};
use crate::marketplace::http::error::bounded;
use crate::marketplace::http::lenient::{self, Number};
use crate::marketplace::http::{MarketplaceError, Result};
use crate::marketplace::terms::{AcceptedUsage, RowVerdict};
use crate::model::decimal::Decimal;
use crate::model::metering::Verdict;
use crate::model::time::Timestamp;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageEvent {
    pub subscription: String,
    pub plan: String,
    pub dimension: String,
    pub quantity: Decimal,
    pub at: Timestamp,
}

#[derive(Serialize)]
struct Request<'a> {
    request: Vec<WireEvent<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireEvent<'a> {
    resource_id: &'a str,
    quantity: Number,
    dimension: &'a str,
    effective_start_time: Timestamp,
    plan_id: &'a str,
}

#[derive(Deserialize)]
struct Answer {
    result: Vec<RowResult>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RowResult {
    status: String,
    #[serde(default)]
    resource_id: Option<String>,
    #[serde(default)]
    dimension: Option<String>,
    #[serde(default)]
    error: Option<RowError>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RowError {
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    additional_info: Option<AdditionalInfo>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdditionalInfo {
    #[serde(default)]
    accepted_message: Option<AcceptedMessage>,
}

#[derive(Deserialize)]
struct AcceptedMessage {
    #[serde(default)]
    quantity: Option<Number>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DayOfUsage {
    #[serde(default, deserialize_with = "lenient::moment")]
    usage_date: Option<Timestamp>,
    usage_resource_id: String,
    dimension: String,
    #[serde(default)]
    plan_id: Option<String>,
    processed_quantity: Number,
}

struct Report<'a> {
    cloud: &'a CloudB,
    rows: &'a [UsageEvent],
}

impl CloudB {
    /// Reports usage. Each row gets its own verdict, in the order of the rows; one that the marketplace holds already is
    /// confirmed if it holds our quantity. Rows of which nothing is known yet are `VENDOR_ERROR`s.
    pub async fn report_usage(&self, rows: &[UsageEvent]) -> Vec<RowVerdict> {
        report(&self.client, &Report { cloud: self, rows }, rows.len()).await
    }

    /// What was accepted since, by day.
    pub async fn accepted_usage(&self, since: Timestamp) -> Result<Vec<AcceptedUsage>> {
        let mut url = self.api_url(&["usageEvents"])?;
        url.query_pairs_mut().append_pair("usageStartDate", &since.to_string());
        let days: Vec<DayOfUsage> = self.fulfill(Call::get(url)).await?.json()?;
        Ok(days.into_iter().map(DayOfUsage::into_accepted).collect())
    }

    async fn meter(&self, request: Vec<WireEvent<'_>>) -> Result<Answer> {
        let url = self.api_url(&["batchUsageEvent"])?;
        self.fulfill(Call::with(Method::POST, url, &Request { request })).await?.json()
    }
}

impl Wire for Report<'_> {
    async fn send(&self, rows: &[usize]) -> Sent {
        let events: Vec<&UsageEvent> = rows.iter().map(|row| &self.rows[*row]).collect();
        match self.cloud.meter(events.iter().map(|event| event.to_wire()).collect()).await {
            // In the order of the request, by the protocol; with another number nothing can be told apart.
            Ok(answer) if answer.result.len() == events.len() => {
                let pairs = answer.result.into_iter().zip(events);
                Sent::Answered(pairs.map(|(result, event)| Some(result.verdict(event))).collect())
            }
            Ok(answer) => {
                let said = format!("{} verdicts for {} rows", answer.result.len(), events.len());
                Sent::Failed(MarketplaceError::garbled(said))
            }
            Err(MarketplaceError::Refused { status: 400, code, message }) => {
                Sent::Poisoned((Verdict::BadArgument, Some(if message.is_empty() { code } else { message })))
            }
            Err(error @ MarketplaceError::Refused { .. }) if !error.is_transient() => {
                Sent::Refused((Verdict::VendorError, Some(error.to_string())))
            }
            Err(error) => Sent::Failed(error),
        }
    }
}

impl UsageEvent {
    fn to_wire(&self) -> WireEvent<'_> {
        WireEvent {
            resource_id: &self.subscription,
            quantity: Number(self.quantity),
            dimension: &self.dimension,
            effective_start_time: self.at,
            plan_id: &self.plan,
        }
    }
}

impl RowResult {
    fn verdict(self, event: &UsageEvent) -> RowVerdict {
        if !self.is_about(event) {
            return (Verdict::VendorError, Some("The marketplace answered for another row".to_owned()));
        }
        let verdict = match self.status.as_str() {
            "Accepted" => return (Verdict::Confirmed, None),
            "Duplicate" if self.accepted_quantity() == Some(event.quantity) => return (Verdict::Confirmed, None),
            "Duplicate" => Verdict::Duplicate,
            "Expired" => Verdict::Expired,
            "ResourceNotFound" | "ResourceNotActive" => Verdict::NotSubscribed,
            "ResourceNotAuthorized" => Verdict::NotAuthorized,
            "InvalidDimension" => Verdict::InvalidDimension,
            "InvalidQuantity" => Verdict::InvalidQuantity,
            "BadArgument" => Verdict::BadArgument,
            // `Error`, and whatever comes to be.
            _ => Verdict::VendorError,
        };
        (verdict, Some(self.words()))
    }

    /// What it repeats of the row must be the row's; ids come back in either case of letters.
    fn is_about(&self, event: &UsageEvent) -> bool {
        self.resource_id.as_ref().is_none_or(|id| id.eq_ignore_ascii_case(&event.subscription))
            && self.dimension.as_ref().is_none_or(|dimension| *dimension == event.dimension)
    }

    fn accepted_quantity(&self) -> Option<Decimal> {
        let accepted = self.error.as_ref()?.additional_info.as_ref()?.accepted_message.as_ref()?;
        accepted.quantity.map(|number| number.0)
    }

    fn words(&self) -> String {
        let error = self.error.as_ref();
        let words = error.and_then(|error| error.message.as_ref().or(error.code.as_ref()));
        bounded(words.unwrap_or(&self.status))
    }
}

impl DayOfUsage {
    fn into_accepted(self) -> AcceptedUsage {
        AcceptedUsage {
            day: self.usage_date,
            subscription: self.usage_resource_id,
            dimension: self.dimension,
            plan: self.plan_id,
            quantity: self.processed_quantity.0,
        }
    }
}
