//! Metering: usage reports, the slots that they take, and the marketplace's verdicts (spec "Metering submission",
//! `contract.md` §11).

use std::collections::{BTreeMap, HashSet};

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::customer::Customer;
use super::decimal::{Decimal, check_decimal, read_decimal};
use super::entitlement::{DIMENSION_MAX, LISTING_MAX};
use super::id::{CustomerId, MeteringId, OrganizationId};
use super::input::{Fields, Problems, check_text};
use super::time::Timestamp;
use super::vendor::Vendor;
use crate::error::{Error, Result};

/// Rows of one report.
pub const ROWS_MAX: usize = 25;
/// Usage can be reported for so long.
pub const WINDOW: TimeDelta = TimeDelta::hours(24);
/// When a month is closed at `cloud_a`, after its end.
const MONTH_CLOSES: TimeDelta = TimeDelta::hours(6);
/// How far a clock may be ahead of ours.
pub const AHEAD: TimeDelta = TimeDelta::minutes(5);

super::wire_enum! {
    /// `accepted` by us, `submitted` to the marketplace, then `confirmed` or `failed` by it.
    MeteringStatus {
        Accepted = "accepted",
        Submitted = "submitted",
        Confirmed = "confirmed",
        Failed = "failed",
    }
}

impl MeteringStatus {
    /// What `message` says.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Accepted => "The usage report was accepted and waits to be sent to the marketplace",
            Self::Submitted => "The usage report was sent to the marketplace",
            Self::Confirmed => "The marketplace confirmed every row",
            Self::Failed => "The marketplace refused at least one row; see the verdicts",
        }
    }
}

super::wire_enum! {
    /// What the marketplace said of one row. `VENDOR_ERROR` is tried again while the row can still be reported.
    Verdict {
        Confirmed = "CONFIRMED",
        Expired = "EXPIRED",
        Duplicate = "DUPLICATE",
        NotSubscribed = "NOT_SUBSCRIBED",
        NotAuthorized = "NOT_AUTHORIZED",
        InvalidDimension = "INVALID_DIMENSION",
        InvalidQuantity = "INVALID_QUANTITY",
        BadArgument = "BAD_ARGUMENT",
        VendorError = "VENDOR_ERROR",
    }
}

/// One row of usage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, async_graphql::SimpleObject)]
#[serde(rename_all = "camelCase")]
pub struct UsageRow {
    pub dimension: String,
    pub quantity: Decimal,
    pub start_time: Timestamp,
    /// What the marketplace is sent. `cloud_a` takes whole numbers: the floor of what is due.
    pub billed_quantity: Decimal,
    /// What was carried over to the dimension's next row because it could not be billed.
    pub carried_quantity: Decimal,
    pub verdict: Option<Verdict>,
    /// The marketplace's own words.
    pub message: Option<String>,
}

/// A usage report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MeteringSubmission {
    pub id: MeteringId,
    pub organization_id: OrganizationId,
    pub vendor: Vendor,
    pub status: MeteringStatus,
    pub message: String,
    pub listing_id: Option<String>,
    pub details: MeteringDetails,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MeteringDetails {
    pub customer: CustomerRef,
    pub reporting_date: Timestamp,
    pub usage: Vec<UsageRow>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomerRef {
    pub id: CustomerId,
}

/// Where a row is counted: at most one row for each (spec, Limits).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    pub customer: CustomerId,
    pub listing: String,
    pub dimension: String,
    /// Hours since 1970, UTC.
    pub hour: i64,
}

/// What remainders are kept of: a dimension of a customer's listing.
pub type Meter = (CustomerId, String, String);

/// A row as it came.
#[derive(Clone, Debug, Default)]
pub struct NewUsageRow {
    pub dimension: String,
    pub quantity: Decimal,
    pub start_time: Option<Timestamp>,
}

/// What a caller asks to report, as it came.
#[derive(Clone, Debug, Default)]
pub struct NewMetering {
    pub customer_id: Option<String>,
    pub listing_id: Option<String>,
    pub reporting_date: Option<Timestamp>,
    pub usage: Vec<NewUsageRow>,
    pub problems: Problems,
}

impl NewMetering {
    pub fn from_json(body: Result<Value, String>) -> Self {
        let mut fields = Fields::read(body);
        let mut details = fields.object("details");
        let mut customer = details.object("customer");
        let customer_id = customer.string("id");
        customer.require("id", customer_id.as_ref());
        details.join(customer);
        let new = Self {
            customer_id,
            listing_id: fields.optional_string("listingId"),
            reporting_date: details.timestamp("reportingDate"),
            usage: read_rows(&mut details),
            problems: Problems::default(),
        };
        fields.join(details);
        Self { problems: fields.finish(), ..new }
    }

    /// The report as it will be, before remainders, or everything that is wrong with it. `customer` is whom
    /// `customer_id` names.
    pub fn check(self, id: MeteringId, customer: Option<&Customer>) -> Result<MeteringSubmission> {
        let (mut problems, now) = (self.problems, id.created_at());
        if self.customer_id.is_some() && customer.is_none() {
            problems.invalid("details.customer.id", "is not a known customer");
        }
        if let Some(listing) = &self.listing_id {
            check_text(&mut problems, "listingId", listing, LISTING_MAX);
        }
        if let Some(date) = self.reporting_date {
            check_window(&mut problems, "details.reportingDate", date, now);
        }
        let reporting_date = self.reporting_date.unwrap_or(now);
        check_rows(&mut problems, &self.usage, reporting_date, now);
        problems.raise()?;
        let usage = self.usage.into_iter().map(|row| row.into_row(reporting_date)).collect();
        let customer = customer.ok_or_else(|| Error::internal("a report without problems lacks its customer"))?;
        let status = MeteringStatus::Accepted;
        Ok(MeteringSubmission {
            id,
            organization_id: customer.organization_id,
            vendor: customer.vendor,
            status,
            message: status.message().to_owned(),
            listing_id: self.listing_id,
            details: MeteringDetails { customer: CustomerRef { id: customer.id }, reporting_date, usage },
            created_at: now,
            updated_at: now,
        })
    }
}

impl NewUsageRow {
    fn into_row(self, reporting_date: Timestamp) -> UsageRow {
        UsageRow {
            dimension: self.dimension,
            quantity: self.quantity,
            start_time: self.start_time.unwrap_or(reporting_date),
            billed_quantity: self.quantity,
            carried_quantity: Decimal::ZERO,
            verdict: None,
            message: None,
        }
    }
}

fn read_rows(details: &mut Fields) -> Vec<NewUsageRow> {
    let mut rows = Vec::new();
    for mut item in details.objects("usage", ROWS_MAX).unwrap_or_default() {
        let dimension = item.string("dimension");
        item.require("dimension", dimension.as_ref());
        let path = item.path("quantity");
        let quantity = item.take("quantity").and_then(|value| read_decimal(&mut item.problems, &path, &value));
        item.require("quantity", quantity.as_ref());
        let start_time = item.timestamp("startTime");
        rows.push(NewUsageRow {
            dimension: dimension.unwrap_or_default(),
            quantity: quantity.unwrap_or_default(),
            start_time,
        });
        details.join(item);
    }
    rows
}

fn check_window(problems: &mut Problems, field: &str, moment: Timestamp, now: Timestamp) {
    if moment < now.plus(-WINDOW) {
        problems.invalid(field, "must not be more than 24 hours ago");
    } else if moment > now.plus(AHEAD) {
        problems.invalid(field, "must not be more than 5 minutes ahead");
    }
}

fn check_rows(problems: &mut Problems, rows: &[NewUsageRow], reporting_date: Timestamp, now: Timestamp) {
    if rows.len() > ROWS_MAX {
        problems.invalid("details.usage", format!("must not have more than {ROWS_MAX} items"));
        return;
    }
    let mut slots = HashSet::new();
    for (index, row) in rows.iter().enumerate() {
        let field = |name: &str| format!("details.usage[{index}].{name}");
        check_text(problems, &field("dimension"), &row.dimension, DIMENSION_MAX);
        check_decimal(problems, &field("quantity"), row.quantity, Decimal::ZERO);
        if let Some(start) = row.start_time {
            check_window(problems, &field("startTime"), start, now);
        }
        if !slots.insert((&row.dimension, row.start_time.unwrap_or(reporting_date).hour())) {
            problems.invalid(field("startTime"), "is in the same hour as another row of this dimension");
        }
    }
}

impl MeteringSubmission {
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.details.usage.iter().map(|row| self.slot(row))
    }

    pub fn slot(&self, row: &UsageRow) -> Slot {
        let (customer, listing, dimension) = self.meter(row);
        Slot { customer, listing, dimension, hour: row.start_time.hour() }
    }

    fn meter(&self, row: &UsageRow) -> Meter {
        (self.details.customer.id, self.listing_id.clone().unwrap_or_default(), row.dimension.clone())
    }

    /// The meters that this report moves a remainder of.
    pub fn meters(&self) -> Vec<Meter> {
        let whole_only = self.vendor == Vendor::CloudA;
        self.details.usage.iter().filter(|_| whole_only).map(|row| self.meter(row)).collect()
    }

    /// `cloud_a` bills whole numbers: each row is billed the floor of itself and what its meter still owes, in the order
    /// of time; the rest is carried on. `remainders` are changed to what they are after it.
    pub fn carry(&mut self, remainders: &mut BTreeMap<Meter, Decimal>) {
        if self.vendor != Vendor::CloudA {
            return;
        }
        let mut order: Vec<usize> = (0..self.details.usage.len()).collect();
        order.sort_by_key(|index| self.details.usage[*index].start_time);
        for index in order {
            let owed = remainders.entry(self.meter(&self.details.usage[index])).or_default();
            let row = &mut self.details.usage[index];
            let due = *owed + row.quantity;
            row.billed_quantity = due.floor().max(Decimal::ZERO);
            row.carried_quantity = due - row.billed_quantity;
            *owed = row.carried_quantity;
        }
    }

    /// Gives back what rows that were refused had moved, as if they had never been.
    pub fn uncarry(&self, refused: &[usize], remainders: &mut BTreeMap<Meter, Decimal>) {
        for row in refused.iter().filter_map(|index| self.details.usage.get(*index)) {
            let owed = remainders.entry(self.meter(row)).or_default();
            *owed = *owed + row.billed_quantity - row.quantity;
        }
    }

    /// Takes the marketplace's verdicts, one for each row. After a `VENDOR_ERROR` a row keeps waiting while it can still be
    /// reported, and is `EXPIRED` then. Once every row is settled the report is confirmed, if every row is, or failed.
    pub fn settle(&mut self, verdicts: &[(Verdict, Option<String>)], now: Timestamp) -> Result<()> {
        if verdicts.len() != self.details.usage.len() {
            return Err(Error::internal("a marketplace gave another number of verdicts than there are rows"));
        }
        let vendor = self.vendor;
        for (row, (verdict, message)) in self.details.usage.iter_mut().zip(verdicts) {
            if !row.is_settled() {
                row.verdict = Some(*verdict);
                row.message = message.clone().or(row.message.take());
                row.expire(vendor, now);
            }
        }
        if self.details.usage.iter().all(UsageRow::is_settled) {
            let confirmed = self.details.usage.iter().all(|row| row.verdict == Some(Verdict::Confirmed));
            self.become_status(if confirmed { MeteringStatus::Confirmed } else { MeteringStatus::Failed });
        }
        Ok(())
    }

    /// When none of its rows is ahead of the clock any more.
    pub fn reportable_at(&self) -> Timestamp {
        let latest = self.details.usage.iter().map(|row| row.start_time).max();
        latest.map_or(self.created_at, |latest| latest.max(self.created_at))
    }

    /// When the first of its rows that wait can be reported no more.
    pub fn urgent_by(&self) -> Timestamp {
        let waiting = self.details.usage.iter().filter(|row| !row.is_settled());
        let first = waiting.map(|row| row.window_end(self.vendor)).min();
        first.unwrap_or_else(|| self.created_at.plus(WINDOW))
    }

    /// The rows that are to be sent now.
    pub fn open_rows(&self, now: Timestamp) -> Vec<usize> {
        let open = |row: &UsageRow| !row.is_settled() && now < row.window_end(self.vendor);
        let rows = self.details.usage.iter().enumerate();
        rows.filter(|(_, row)| open(row)).map(|(index, _)| index).collect()
    }

    pub fn become_status(&mut self, status: MeteringStatus) {
        self.status = status;
        status.message().clone_into(&mut self.message);
    }

    /// The rows of a failed report that the marketplace holds nothing of: their slots are free again.
    pub fn refused_rows(&self) -> Vec<usize> {
        let refused = |row: &UsageRow| !matches!(row.verdict, Some(Verdict::Confirmed | Verdict::Duplicate));
        let rows = self.details.usage.iter().enumerate();
        rows.filter(|(_, row)| self.status == MeteringStatus::Failed && refused(row)).map(|(index, _)| index).collect()
    }
}

impl UsageRow {
    /// Until when the marketplace takes it: 24 hours; on `cloud_a` a month's usage only until six in the morning after it.
    pub fn window_end(&self, vendor: Vendor) -> Timestamp {
        let end = self.start_time.plus(WINDOW);
        match vendor {
            Vendor::CloudA => end.min(self.start_time.next_month().plus(MONTH_CLOSES)),
            Vendor::CloudB => end,
        }
    }

    /// Whether the verdict is the last word.
    fn is_settled(&self) -> bool {
        !matches!(self.verdict, None | Some(Verdict::VendorError))
    }

    /// What could not be reported in its time says so, and why.
    fn expire(&mut self, vendor: Vendor, now: Timestamp) {
        if self.verdict == Some(Verdict::VendorError) && self.window_end(vendor) <= now {
            self.verdict = Some(Verdict::Expired);
            let why = self.message.take().map(|last| format!("; the last attempt: {last}")).unwrap_or_default();
            self.message = Some(format!("Its time was over before it could be reported{why}"));
        }
    }
}
