//! Lists as CSV (RFC 4180), newest first, for spreadsheets and dashboards. A body is made page by page while it is sent, so
//! its memory does not grow with the list; when a page cannot be read the connection is cut, so that nobody takes a part
//! for the whole.

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use http::HeaderValue;

use super::answer::Answer;
use super::endpoint::Ask;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::http::failure::Failure;
use crate::model::customer::Customer;
use crate::model::decimal::Decimal;
use crate::model::entitlement::Entitlement;
use crate::model::filter::Order;
use crate::model::metering::{MeteringSubmission, UsageRow};
use crate::model::offer::{Details, PrivateOffer};
use crate::model::page::{ListName, Page, PageRequest};
use crate::resolvers;

/// What an export has a column of, and what a record is worth: one line, or several.
trait Export: Sized + Send + Sync {
    const LIST: ListName;
    const HEADER: &'static [&'static str];
    fn lines(&self) -> Vec<Vec<String>>;
    fn page(call: &Call, request: PageRequest) -> impl Future<Output = Result<Page<Self>>> + Send;
}

pub async fn customers(ask: Ask) -> Result<Answer, Failure> {
    export::<Customer>(ask).await
}

pub async fn entitlements(ask: Ask) -> Result<Answer, Failure> {
    export::<Entitlement>(ask).await
}

pub async fn offers(ask: Ask) -> Result<Answer, Failure> {
    export::<PrivateOffer>(ask).await
}

pub async fn metering(ask: Ask) -> Result<Answer, Failure> {
    export::<MeteringSubmission>(ask).await
}

/// The first page is read before the answer begins, so that a refusal is an answer like any other.
async fn export<T: Export + 'static>(ask: Ask) -> Result<Answer, Failure> {
    let first = T::page(&ask.call, PageRequest::whole(None)).await?;
    let header = T::HEADER.iter().map(|name| (*name).to_owned()).collect();
    let begun = encode([header].into_iter().chain(first.items.iter().flat_map(T::lines)))?;
    let rest = stream::try_unfold((next_cursor(&ask.call, &first), ask.call), |(cursor, call)| async move {
        let Some(cursor) = cursor else { return Ok::<_, Error>(None) };
        let page = T::page(&call, PageRequest::whole(Some(cursor))).await?;
        let bytes = encode(page.items.iter().flat_map(T::lines))?;
        Ok(Some((bytes, (next_cursor(&call, &page), call))))
    });
    let rest = rest.inspect_err(|error| tracing::error!(cause = error.cause(), "an export broke off"));
    let body = Body::from_stream(stream::once(async { Ok(begun) }).chain(rest));
    Ok(Answer::streamed(HeaderValue::from_static("text/csv; charset=utf-8; header=present"), body))
}

fn next_cursor<T: Export>(call: &Call, page: &Page<T>) -> Option<String> {
    page.next().map(|last| call.cursor_scope(T::LIST, Order::Newest).encode(last))
}

fn encode(lines: impl IntoIterator<Item = Vec<String>>) -> Result<Bytes> {
    // Every cell but plain numbers stands in quotes: a spreadsheet that splits at other signs than commas finds none.
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .quote_style(csv::QuoteStyle::NonNumeric)
        .from_writer(Vec::new());
    for line in lines {
        writer.write_record(line.iter().map(|cell| harmless(cell))).map_err(Error::internal)?;
    }
    writer.into_inner().map(Bytes::from).map_err(|error| Error::internal(error.error()))
}

/// A cell that a spreadsheet would run as a formula gets an apostrophe before it (OWASP, "CSV Injection"). What a person
/// does not see before the sign does not hide it; a plain number is none.
fn harmless(cell: &str) -> String {
    let unseen =
        |character: char| character.is_whitespace() || "\u{feff}\u{200b}\u{200c}\u{200d}\u{2060}".contains(character);
    let formula = cell.trim_start_matches(unseen).starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠'])
        || cell.starts_with(['\t', '\r', '\n']);
    if formula && cell.parse::<Decimal>().is_err() { format!("'{cell}") } else { cell.to_owned() }
}

fn or_empty<T: ToString>(value: Option<&T>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}

impl Export for Customer {
    const LIST: ListName = ListName::Customers;
    const HEADER: &'static [&'static str] =
        &["id", "vendor", "cloudAccountId", "tenantId", "email", "companyName", "status", "createdAt", "updatedAt"];

    fn lines(&self) -> Vec<Vec<String>> {
        vec![vec![
            self.id.to_string(),
            self.vendor.to_string(),
            or_empty(self.cloud_account_id.as_ref()),
            or_empty(self.tenant_id.as_ref()),
            or_empty(self.email.as_ref()),
            self.company_name.clone(),
            self.status.to_string(),
            self.created_at.to_string(),
            self.updated_at.to_string(),
        ]]
    }

    async fn page(call: &Call, request: PageRequest) -> Result<Page<Self>> {
        resolvers::customers::list(call, request).await
    }
}

impl Export for Entitlement {
    const LIST: ListName = ListName::Entitlements;
    const HEADER: &'static [&'static str] = &[
        "id",
        "customerId",
        "listingId",
        "vendor",
        "status",
        "startDate",
        "endDate",
        "dimensions",
        "planId",
        "privateOfferId",
        "agreementId",
        "vendorSubscriptionId",
        "autoRenew",
        "createdAt",
        "updatedAt",
    ];

    fn lines(&self) -> Vec<Vec<String>> {
        let dimensions = self.dimensions.iter().map(|dimension| format!("{}: {}", dimension.key, dimension.value));
        vec![vec![
            self.id.to_string(),
            self.customer_id.to_string(),
            self.listing_id.clone(),
            self.vendor.to_string(),
            self.status.to_string(),
            self.start_date.to_string(),
            or_empty(self.end_date.as_ref()),
            dimensions.collect::<Vec<_>>().join("; "),
            or_empty(self.plan_id.as_ref()),
            or_empty(self.private_offer_id.as_ref()),
            or_empty(self.agreement_id.as_ref()),
            or_empty(self.vendor_subscription_id.as_ref()),
            or_empty(self.auto_renew.as_ref()),
            self.created_at.to_string(),
            self.updated_at.to_string(),
        ]]
    }

    async fn page(call: &Call, request: PageRequest) -> Result<Page<Self>> {
        resolvers::entitlements::list(call, request).await
    }
}

impl Export for PrivateOffer {
    const LIST: ListName = ListName::PrivateOffers;
    const HEADER: &'static [&'static str] = &[
        "id",
        "listingId",
        "customerId",
        "vendor",
        "status",
        "vendorOfferId",
        "offerName",
        "companyName",
        "discountPercentage",
        "discountAmount",
        "durationMonths",
        "annualValue",
        "currency",
        "offerType",
        "isReplacement",
        "agreementId",
        "publication",
        "expiresAt",
        "createdAt",
        "updatedAt",
    ];

    fn lines(&self) -> Vec<Vec<String>> {
        let Details { summary, pricing, cloud } = &self.details;
        vec![vec![
            self.id.to_string(),
            self.listing_id.clone(),
            self.customer_id.to_string(),
            self.vendor.to_string(),
            self.status.to_string(),
            or_empty(self.vendor_offer_id.as_ref()),
            summary.offer_name.clone(),
            summary.company_name.clone(),
            or_empty(pricing.discount_percentage.as_ref()),
            or_empty(pricing.discount_amount.as_ref()),
            pricing.duration.to_string(),
            or_empty(pricing.annual_value.as_ref()),
            pricing.currency.clone(),
            cloud.offer_type.to_string(),
            cloud.is_replacement.to_string(),
            or_empty(cloud.agreement_id.as_ref()),
            cloud.publication.state.to_string(),
            self.expires_at.to_string(),
            self.created_at.to_string(),
            self.updated_at.to_string(),
        ]]
    }

    async fn page(call: &Call, request: PageRequest) -> Result<Page<Self>> {
        resolvers::offers::list(call, request).await
    }
}

impl Export for MeteringSubmission {
    const LIST: ListName = ListName::Metering;
    const HEADER: &'static [&'static str] = &[
        "id",
        "customerId",
        "listingId",
        "vendor",
        "status",
        "reportingDate",
        "dimension",
        "quantity",
        "startTime",
        "billedQuantity",
        "carriedQuantity",
        "verdict",
        "message",
        "createdAt",
        "updatedAt",
    ];

    /// One line for each row; one without a row for a report without usage.
    fn lines(&self) -> Vec<Vec<String>> {
        let rows = self.details.usage.iter().map(Some);
        let rows: Vec<Option<&UsageRow>> = if self.details.usage.is_empty() { vec![None] } else { rows.collect() };
        rows.into_iter().map(|row| self.line(row)).collect()
    }

    async fn page(call: &Call, request: PageRequest) -> Result<Page<Self>> {
        resolvers::metering::list(call, request).await
    }
}

impl MeteringSubmission {
    fn line(&self, row: Option<&UsageRow>) -> Vec<String> {
        let of = |cell: fn(&UsageRow) -> String| row.map(cell).unwrap_or_default();
        vec![
            self.id.to_string(),
            self.details.customer.id.to_string(),
            or_empty(self.listing_id.as_ref()),
            self.vendor.to_string(),
            self.status.to_string(),
            self.details.reporting_date.to_string(),
            of(|row| row.dimension.clone()),
            of(|row| row.quantity.to_string()),
            of(|row| row.start_time.to_string()),
            of(|row| row.billed_quantity.to_string()),
            of(|row| row.carried_quantity.to_string()),
            of(|row| or_empty(row.verdict.as_ref())),
            of(|row| or_empty(row.message.as_ref())),
            self.created_at.to_string(),
            self.updated_at.to_string(),
        ]
    }
}
