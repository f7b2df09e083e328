//! The schemas and examples of private offers.

use std::collections::BTreeSet;

use iso_currency::Currency;
use serde_json::{Value, json};

use super::parts::{Schemas, echo, echoed, email, id, nullable, object, only, record, reference, text, timestamp, utc};
use crate::model::customer::COMPANY_NAME_MAX;
use crate::model::entitlement::LISTING_MAX;
use crate::model::offer::{ListedOffer, OfferStatus, OfferType, PrivateOffer, PublicationState};
use crate::model::offer_input::READ_ONLY;
use crate::model::offer_terms::{BUYER_NAME_MAX, BUYERS_MAX, DURATION, OFFER_NAME_MAX};
use crate::model::vendor::Vendor;

pub fn schemas() -> Schemas {
    vec![
        ("Currency", json!({ "type": "string", "enum": currencies(), "description": "ISO 4217." })),
        ("PrivateOffer", offer(false)),
        ("PrivateOfferDetail", offer(true)),
        ("OfferSummary", summary()),
        ("NewPrivateOffer", new_offer()),
        ("PrivateOfferPatch", offer_patch()),
    ]
}

/// All that have a number, which is three digits.
fn currencies() -> BTreeSet<&'static str> {
    (0..1000).filter_map(Currency::from_numeric).map(|currency| currency.code()).collect()
}

fn offer(detail: bool) -> Value {
    record(json!({
        "id": id("off"), "organizationId": id("org"), "listingId": { "type": "string" }, "customerId": id("cus"),
        "vendor": reference("Vendor"), "status": { "type": "string", "enum": OfferStatus::ALL },
        "vendorOfferId": {
            "type": ["string", "null"], "description": "The marketplace's own id, once the offer is published.",
        },
        "entitlementId": {
            "type": ["string", "null"], "description": "What its acceptance created, or for a replacement updated.",
        },
        "expiresAt": timestamp(), "details": details(detail), "createdAt": timestamp(), "updatedAt": timestamp(),
    }))
}

fn details(detail: bool) -> Value {
    let (text, number) = (json!({ "type": "string" }), json!({ "type": ["number", "null"] }));
    let mut summary = json!({ "offerName": text, "companyName": text });
    let mut pricing = json!({
        "discountPercentage": number, "discountAmount": number,
        "duration": duration(), "currency": reference("Currency"),
    });
    if detail {
        let buyer = record(json!({ "name": text, "email": text }));
        summary["buyerNotifications"] = json!({ "type": "array", "items": buyer });
        pricing["annualValue"] = number;
    }
    record(json!({ "summary": record(summary), "pricing": record(pricing), "cloud": record(cloud(detail)) }))
}

fn cloud(detail: bool) -> Value {
    let publication = record(json!({
        "state": { "type": "string", "enum": PublicationState::ALL },
        "message": { "type": ["string", "null"], "description": "Why it failed." },
    }));
    let mut fields = json!({ "offerType": { "type": "string", "enum": OfferType::ALL }, "publication": publication });
    if detail {
        fields["isReplacement"] = json!({ "type": "boolean" });
        fields["agreementId"] = json!({ "type": ["string", "null"] });
    }
    fields
}

fn duration() -> Value {
    json!({ "type": "integer", "minimum": DURATION.start(), "maximum": DURATION.end(), "description": "Months." })
}

fn summary() -> Value {
    let buyer = record(json!({ "name": text(BUYER_NAME_MAX), "email": email() }));
    object(
        &[],
        json!({
            "offerName": text(OFFER_NAME_MAX), "companyName": text(COMPANY_NAME_MAX),
            "buyerNotifications": {
                "type": "array", "maxItems": BUYERS_MAX, "items": buyer,
                "description": "Whom the marketplace tells of the offer.",
            },
        }),
    )
}

/// Prices with one kind of discount; the other is absent, or null as it is read.
fn pricing(required: &[&str], (discount, value): (&str, Value), other: &str) -> Value {
    let mut properties = json!({
        "duration": duration(), "annualValue": nullable(reference("Decimal")), "currency": reference("Currency"),
    });
    properties[discount] = value;
    properties[other] = json!({ "type": "null" });
    object(required, properties)
}

fn by_percentage(required: &[&str]) -> Value {
    let percentage = json!({ "$ref": reference("Decimal")["$ref"], "maximum": 100 });
    pricing(required, ("discountPercentage", percentage), "discountAmount")
}

fn by_amount(required: &[&str]) -> Value {
    let amount = json!({
        "$ref": reference("Decimal")["$ref"], "exclusiveMinimum": 0, "description": "In `currency`; `cloud_b` only.",
    });
    pricing(required, ("discountAmount", amount), "discountPercentage")
}

/// A replacement names the agreement that it replaces; nothing else names one.
fn new_cloud(types: &[OfferType]) -> Value {
    let form = |required: &[&str], is_replacement: bool, agreement: Value| {
        let properties = json!({
            "offerType": { "type": "string", "enum": types },
            "isReplacement": { "type": "boolean", "const": is_replacement },
            "agreementId": agreement,
        });
        object(required, properties)
    };
    let agreement = json!({ "type": "string", "minLength": 1, "description": "An active agreement of the customer." });
    json!({ "oneOf": [
        form(&[], false, json!({ "type": "null" })),
        form(&["isReplacement", "agreementId"], true, agreement),
    ] })
}

/// One form for each vendor, because discounts in money and kinds of offers are `cloud_b`'s.
fn new_offer() -> Value {
    let form = |vendor: Vendor, pricing: Value, types: &[OfferType]| {
        let details = json!({ "summary": reference("OfferSummary"), "pricing": pricing, "cloud": new_cloud(types) });
        object(
            &["vendor", "listingId", "customerId", "details"],
            json!({
                "vendor": { "type": "string", "const": vendor },
                "listingId": text(LISTING_MAX),
                "customerId": { "type": "string", "description": "A customer on this marketplace." },
                "details": object(&["pricing"], details),
                "expiresAt": utc("In the future; 30 days from now if absent."),
            }),
        )
    };
    let percentage = by_percentage(&["duration", "discountPercentage"]);
    let either = json!({ "oneOf": [percentage, by_amount(&["duration", "discountAmount"])] });
    json!({ "oneOf": [
        form(Vendor::CloudA, percentage, &[OfferType::Direct]),
        form(Vendor::CloudB, either, OfferType::ALL),
    ] })
}

fn offer_patch() -> Value {
    let mut properties = echo(&READ_ONLY);
    properties.extend(echo(&["updatedAt"]));
    let details = json!({
        "summary": reference("OfferSummary"),
        "pricing": { "oneOf": [by_percentage(&[]), by_amount(&["discountAmount"])] },
        "cloud": echoed(object(&[], cloud(true))),
    });
    properties.insert("details".to_owned(), object(&[], details));
    properties.insert("expiresAt".to_owned(), utc("In the future, when it is changed."));
    object(&[], properties.into())
}

/// A request to create the example.
pub fn new_example() -> Value {
    let offer = example(OfferStatus::Created);
    let mut new = only(&offer, &["vendor", "listingId", "customerId"]);
    new["details"] = only(&offer["details"], &["summary"]);
    new["details"]["pricing"] = only(&offer["details"]["pricing"], &["discountPercentage", "duration"]);
    new
}

pub fn patch_example() -> Value {
    json!({ "details": { "pricing": { "discountPercentage": 20 } } })
}

/// The single-offer form.
pub fn example(status: OfferStatus) -> Value {
    json!({
        "id": "off_01KE6X3C7A2D5G8K1N4Q7S0VZW", "organizationId": "org_01KE6X0MRGW3T5Y8J1R6F4HSAP",
        "listingId": "lst_analytics_pro", "customerId": "cus_01KE6X17G0C9ZQ4T8V2N5B7XKD", "vendor": "cloud_a",
        "status": status, "vendorOfferId": null, "expiresAt": "2026-02-04T10:00:00.000Z",
        "entitlementId": null,
        "details": {
            "summary": {
                "offerName": "Northwind renewal", "companyName": "Northwind Analytics",
                "buyerNotifications": [{ "name": "Ada Buyer", "email": "ada@northwind.example" }],
            },
            "pricing": {
                "discountPercentage": 15, "discountAmount": null,
                "duration": 12, "annualValue": null, "currency": "USD",
            },
            "cloud": {
                "offerType": "direct", "agreementId": null, "isReplacement": false,
                "publication": { "state": "pending", "message": null },
            },
        },
        "createdAt": "2026-01-05T10:00:00.000Z", "updatedAt": "2026-01-05T10:00:00.000Z",
    })
}

pub fn listed_example() -> Value {
    let offer: PrivateOffer = serde_json::from_value(example(OfferStatus::Created)).expect("the example is an offer");
    json!(ListedOffer::from(offer))
}

pub const CSV: &str = "id,listingId,customerId,vendor,status,vendorOfferId,offerName,companyName,discountPercentage,\
    discountAmount,durationMonths,annualValue,currency,offerType,isReplacement,agreementId,publication,expiresAt,\
    createdAt,updatedAt\r\n\
    off_01KE6X3C7A2D5G8K1N4Q7S0VZW,lst_analytics_pro,cus_01KE6X17G0C9ZQ4T8V2N5B7XKD,cloud_a,created,,\
    Northwind renewal,Northwind Analytics,15,,12,,USD,direct,false,,pending,2026-02-04T10:00:00.000Z,\
    2026-01-05T10:00:00.000Z,2026-01-05T10:00:00.000Z\r\n";
