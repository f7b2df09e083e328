//! cloud_a's metering: whole numbers of one product. What is wrong with one record may refuse the whole batch.

use axum::Json;
use chrono::{Datelike, TimeDelta, Timelike};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::agreements::{Agreement, is_account};
use super::answer::{Answer, Refusal, Wrong, invalid_a, refuse_a};
use super::cloud_a::parse;
use super::faults::{Throttled, throttling};
use super::world::{Side, Slot, Usage, World};
use crate::model::time::Timestamp;

pub const TARGET: &str = "AWSMPMeteringService.BatchMeterUsage";
const MOST: usize = 25;
const WINDOW: TimeDelta = TimeDelta::hours(24);
/// How far the caller's clock may be ahead.
const AHEAD: TimeDelta = TimeDelta::minutes(5);
/// The hour of a month's first day until which the month before is open.
const CLOSING_HOUR: u32 = 6;
const LARGEST: i64 = 2_147_483_647;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Batch {
    product_code: String,
    usage_records: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Record {
    timestamp: serde_json::Number,
    #[serde(rename = "CustomerAWSAccountId")]
    account: Option<String>,
    license_arn: Option<String>,
    dimension: String,
    quantity: Value,
}

/// A record that no rule for the whole batch stands against.
struct Sound {
    at: Timestamp,
    account: String,
    license: Option<String>,
    dimension: String,
    quantity: Value,
}

impl World {
    pub fn meter_batch(&mut self, publisher: &str, body: &[u8]) -> Answer {
        let batch: Batch = parse(body)?;
        let throttled = self.faults.throttles_batch();
        if throttled == Some(Throttled::Refused) {
            return Err(throttling());
        }
        if batch.usage_records.is_empty() || batch.usage_records.len() > MOST {
            return Err(invalid_a("UsageRecords must have from 1 to 25 records"));
        }
        self.room_for_usage().map_err(Wrong::for_cloud_a)?;
        let product = &batch.product_code;
        let known = self.dimensions.contains_key(product)
            || self.agreements.values().any(|it| it.publisher == publisher && it.product_code == *product);
        if !known {
            return Err(exception("InvalidProductCodeException", "there is no such product"));
        }
        let records: Result<Vec<Sound>, Refusal> =
            batch.usage_records.iter().map(|record| self.examine_record(product, record)).collect();
        let taken = if throttled.is_some() { batch.usage_records.len() / 2 } else { MOST };
        let mut results = Vec::new();
        for (record, raw) in records?.into_iter().zip(&batch.usage_records).take(taken) {
            let (status, id) = self.meter_record(publisher, product, record);
            results.push(super::answer::lean(json!({"UsageRecord": raw, "MeteringRecordId": id, "Status": status})));
        }
        let unprocessed: Vec<&Value> = batch.usage_records.iter().skip(taken).collect();
        Ok(Json(json!({"Results": results, "UnprocessedRecords": unprocessed})))
    }

    /// The rules that refuse a whole batch.
    fn examine_record(&self, product: &str, record: &Value) -> Result<Sound, Refusal> {
        let record: Record = serde_json::from_value(record.clone())
            .map_err(|error| invalid_a(&format!("a record cannot be read: {error}")))?;
        if !record.quantity.as_i64().is_some_and(|quantity| (0..=LARGEST).contains(&quantity)) {
            return Err(invalid_a("Quantity must be a whole number from 0"));
        }
        let account = record.account.filter(|account| is_account(account));
        let account =
            account.ok_or_else(|| exception("InvalidCustomerIdentifierException", "there is no such account"))?;
        if self.faults.is_poison(&record.dimension) || !self.knows_dimension(product, &record.dimension) {
            return Err(exception("InvalidUsageDimensionException", "the product has no such dimension"));
        }
        let at = seconds(&record.timestamp).ok_or_else(|| invalid_a("Timestamp must be seconds"))?;
        if self.is_out_of_bounds(at) {
            return Err(exception("TimestampOutOfBoundsException", "the timestamp is outside the window"));
        }
        Ok(Sound { at, account, license: record.license_arn, dimension: record.dimension, quantity: record.quantity })
    }

    fn is_out_of_bounds(&self, at: Timestamp) -> bool {
        let (now, then) = (self.now.as_datetime(), at.as_datetime());
        let same_month = (now.year(), now.month()) == (then.year(), then.month());
        let still_open = now.day() == 1 && now.hour() < CLOSING_HOUR;
        let ahead = at > self.now.plus(AHEAD);
        ahead || at < self.now.plus(-WINDOW) || !(same_month || still_open || at > self.now)
    }

    fn meter_record(&mut self, publisher: &str, product: &str, record: Sound) -> (&'static str, Option<String>) {
        let subscribed = |it: &Agreement| {
            it.publisher == publisher
                && it.account_id == record.account
                && it.product_code == product
                && it.is_active(self.now)
                && (record.license.is_none() || record.license == it.licence)
        };
        if !self.agreements.values().any(subscribed) {
            return ("CustomerNotSubscribed", None);
        }
        let resource = format!("{}{}", record.account, record.license.as_deref().unwrap_or_default());
        let slot: Slot = (Side::CloudA, resource, product.to_owned(), record.dimension.clone(), record.at.hour());
        match self.usage.get(&slot) {
            Some(before) if before.quantity == record.quantity => return ("Success", Some(before.id.clone())),
            Some(_) => return ("DuplicateRecord", None),
            None => {}
        }
        let id = self.guid();
        let usage = Usage {
            id: id.clone(),
            side: Side::CloudA,
            publisher: publisher.to_owned(),
            resource: record.account,
            product: product.to_owned(),
            license_arn: record.license,
            dimension: record.dimension,
            quantity: record.quantity,
            at: record.at,
            accepted_at: self.now,
        };
        self.usage.insert(slot, usage);
        ("Success", Some(id))
    }
}

/// Seconds since 1970, whole or with a fraction that does not count.
fn seconds(number: &serde_json::Number) -> Option<Timestamp> {
    let text = number.to_string();
    let whole: i64 = text.split('.').next()?.parse().ok()?;
    Some(Timestamp::from_millis(whole.checked_mul(1000)?))
}

fn exception(kind: &str, message: &str) -> Refusal {
    refuse_a(StatusCode::BAD_REQUEST, kind, message)
}
