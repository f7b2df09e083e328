//! Reports of usage to `cloud_a`: whole numbers, one product in a call.

use http::Method;
use serde::{Deserialize, Serialize};

use super::{Call, CloudA, JSON_1_1, write};
use crate::marketplace::batch::{Sent, Wire, report};
use crate::marketplace::http::lenient::Number;
use crate::marketplace::http::{MarketplaceError, Result, place};
use crate::marketplace::terms::RowVerdict;
use crate::model::decimal::Decimal;
use crate::model::metering::Verdict;
use crate::model::time::Timestamp;

const METER: &str = "AWSMPMeteringService.BatchMeterUsage";

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRecord {
    /// The buyer's account.
    pub account: String,
    pub licence: Option<String>,
    pub dimension: String,
    /// A whole number.
    pub quantity: Decimal,
    pub at: Timestamp,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Request<'a> {
    product_code: &'a str,
    usage_records: Vec<WireRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WireRecord {
    /// Seconds since 1970.
    timestamp: Number,
    #[serde(rename = "CustomerAWSAccountId")]
    account: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    license_arn: Option<String>,
    dimension: String,
    quantity: Number,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    #[serde(default)]
    results: Vec<RecordResult>,
    #[serde(default)]
    unprocessed_records: Vec<WireRecord>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RecordResult {
    usage_record: WireRecord,
    status: String,
}

impl WireRecord {
    fn of(row: &UsageRecord) -> Self {
        Self {
            timestamp: Number(row.at.as_seconds().into()),
            account: row.account.clone(),
            license_arn: row.licence.clone(),
            dimension: row.dimension.clone(),
            quantity: Number(row.quantity),
        }
    }

    /// Whether this is what the marketplace says of `other`: it need not repeat what it did not need.
    fn is_about(&self, other: &Self) -> bool {
        let licence_fits = self.license_arn.is_none() || self.license_arn == other.license_arn;
        licence_fits
            && (self.timestamp, &self.account, &self.dimension, self.quantity)
                == (other.timestamp, &other.account, &other.dimension, other.quantity)
    }
}

struct Report<'a> {
    cloud: &'a CloudA,
    product_code: &'a str,
    rows: &'a [UsageRecord],
}

impl CloudA {
    /// Reports usage of one product. Each row gets its own verdict, in the order of the rows; a row that was reported
    /// before with the same quantity is confirmed again. Rows of which nothing is known yet are `VENDOR_ERROR`s.
    pub async fn report_usage(&self, product_code: &str, rows: &[UsageRecord]) -> Vec<RowVerdict> {
        report(&self.client, &Report { cloud: self, product_code, rows }, rows.len()).await
    }

    async fn meter(&self, product_code: &str, records: Vec<WireRecord>) -> Result<Answer> {
        let url = place(&self.account.metering_url, &[])?;
        let body = write(&Request { product_code, usage_records: records });
        self.call(Call { method: Method::POST, url, target: Some(METER), content_type: JSON_1_1, body }).await
    }
}

impl Wire for Report<'_> {
    async fn send(&self, rows: &[usize]) -> Sent {
        let records: Vec<WireRecord> = rows.iter().map(|row| WireRecord::of(&self.rows[*row])).collect();
        // It would refuse the whole batch in a word of its own for the body's shape.
        if records.iter().any(|record| !record.quantity.0.is_integer()) {
            let message = "cloud_a takes whole numbers only".to_owned();
            return Sent::Poisoned((Verdict::InvalidQuantity, Some(message)));
        }
        match self.cloud.meter(self.product_code, records.clone()).await {
            Ok(answer) => Sent::Answered(match_up(&records, answer)),
            Err(error) => fault(error),
        }
    }
}

/// Results need not come in the order of the request. Of what is in neither list, nothing is known.
fn match_up(records: &[WireRecord], answer: Answer) -> Vec<Option<RowVerdict>> {
    let mut results = answer.results;
    let mut unprocessed = answer.unprocessed_records;
    let unsaid = || (Verdict::VendorError, Some("The marketplace did not answer for this row".to_owned()));
    records
        .iter()
        .map(|record| {
            if let Some(index) = results.iter().position(|result| result.usage_record.is_about(record)) {
                return Some(verdict(&results.swap_remove(index).status));
            }
            let index = unprocessed.iter().position(|other| other.is_about(record));
            match index {
                Some(index) => {
                    unprocessed.swap_remove(index);
                    None
                }
                None => Some(unsaid()),
            }
        })
        .collect()
}

fn verdict(status: &str) -> RowVerdict {
    match status {
        "Success" => (Verdict::Confirmed, None),
        "CustomerNotSubscribed" => (Verdict::NotSubscribed, Some(status.to_owned())),
        // The same row with the same quantity would be a success.
        "DuplicateRecord" => (Verdict::Duplicate, Some(status.to_owned())),
        other => (Verdict::VendorError, Some(format!("The marketplace answered {other}"))),
    }
}

/// What a refusal of the whole batch says: of one of its rows, of all of them, or of nothing.
fn fault(error: MarketplaceError) -> Sent {
    let MarketplaceError::Refused { code, message, .. } = &error else { return Sent::Failed(error) };
    let said = |verdict| (verdict, Some(if message.is_empty() { code.clone() } else { message.clone() }));
    match code.as_str() {
        "TimestampOutOfBoundsException" => Sent::Poisoned(said(Verdict::Expired)),
        "InvalidUsageDimensionException" => Sent::Poisoned(said(Verdict::InvalidDimension)),
        "InvalidCustomerIdentifierException" => Sent::Poisoned(said(Verdict::NotSubscribed)),
        "ValidationException" => Sent::Poisoned(said(Verdict::BadArgument)),
        "InvalidProductCodeException" => Sent::Refused(said(Verdict::BadArgument)),
        _ if error.is_transient() => Sent::Failed(error),
        // A word that is not known yet: other batches may fare better.
        _ => Sent::Refused((Verdict::VendorError, Some(error.to_string()))),
    }
}
