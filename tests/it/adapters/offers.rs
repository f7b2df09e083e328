//! Private offers and contracts: what the marketplaces are sent, what is found again after a crash, what is read.

use mercato::marketplace::adapter::Adapter;
use mercato::marketplace::http::MarketplaceError;
use mercato::marketplace::terms::{ContractStatus, Draft, Job, JobState};
use mercato::model::customer::Customer;
use mercato::model::entitlement::EntitlementStatus;
use mercato::model::offer::PrivateOffer;
use mercato::model::time::Timestamp;
use serde_json::{Value, json};

use super::stub::{Asked, Says, Stub, cloud_a, cloud_b, says, says_text};

/// A private offer of a vendor, and some of it changed.
pub fn offer(vendor: &str, changed: &Value) -> PrivateOffer {
    let mut offer = json!({
        "id": "off_01KE6RPVG000000000000000Z1", "organizationId": "org_01KE6RPVG000000000000000Z2",
        "listingId": "lst_1", "customerId": "cus_01KE6RPVG000000000000000Z3", "vendor": vendor, "status": "created",
        "vendorOfferId": null, "expiresAt": "2026-02-05T10:00:00.000Z", "entitlementId": null,
        "details": {
            "summary": { "offerName": "Winter", "companyName": "Acme",
                         "buyerNotifications": [{ "name": "Ann", "email": "ann@buyer.example" }] },
            "pricing": { "discountPercentage": 12.5, "discountAmount": null, "duration": 12, "annualValue": 1000.1,
                         "currency": "EUR" },
            "cloud": { "offerType": "direct", "agreementId": null, "isReplacement": false,
                       "publication": { "state": "pending", "message": null } },
        },
        "createdAt": "2026-01-05T10:00:00.000Z", "updatedAt": "2026-01-05T10:00:00.000Z",
    });
    merge(&mut offer, changed);
    serde_json::from_value(offer).expect("an offer")
}

fn merge(value: &mut Value, changed: &Value) {
    match changed {
        Value::Object(fields) => fields.iter().for_each(|(name, field)| merge(&mut value[name], field)),
        other => *value = other.clone(),
    }
}

pub fn customer(vendor: &str, account: &str) -> Customer {
    let (a, b) = if vendor == "cloud_a" { (Some(account), None) } else { (None, Some(account)) };
    serde_json::from_value(json!({
        "id": "cus_01KE6RPVG000000000000000Z3", "organizationId": "org_01KE6RPVG000000000000000Z2", "vendor": vendor,
        "cloudAccountId": a, "tenantId": b, "email": null, "companyName": "Buyer", "status": "active",
        "createdAt": "2026-01-05T10:00:00.000Z", "updatedAt": "2026-01-05T10:00:00.000Z",
    }))
    .expect("a customer")
}

fn published() -> Value {
    json!({ "vendorOfferId": "guid-1" })
}

fn submitted(id: &str, offer: Option<&str>) -> Job {
    Job::Submitted { id: id.to_owned(), vendor_offer_id: offer.map(str::to_owned) }
}

/// Ingestion in which offers of this name are there, and jobs are `job-1`.
async fn ingestion(found: Value) -> Stub {
    Stub::cloud_b(move |_, asked| match asked.method.as_str() {
        "GET" => says(200, json!({ "value": found })),
        _ => says(202, json!({ "jobId": "job-1", "jobStatus": "notStarted", "errors": [] })),
    })
    .await
}

#[tokio::test]
async fn cloud_b_is_sent_a_resource() {
    let stub = ingestion(json!([])).await;
    let cloud = Adapter::CloudB(cloud_b(&stub));
    let (offer, buyer) = (offer("cloud_b", &json!({})), customer("cloud_b", "buyer-1"));
    assert_eq!(cloud.publish(&Draft::of(&offer, &buyer)).await, Ok(submitted("job-1", None)));
    let asked = stub.asked();
    let name = "off_01KE6RPVG000000000000000Z1";
    assert_eq!(asked[0].path, format!("/b/rp/product-ingestion/private-offer?%24version=2022-07-01&name={name}"));
    assert_eq!(asked[1].path, "/b/rp/product-ingestion/configure?%24version=2022-07-01");
    let expected = json!({ "resources": [{
        "$schema": "https://schema.mp.microsoft.com/schema/private-offer/2023-07-15", "name": name, "state": "live",
        "privateOfferType": "customerPromotion", "offerPricingType": "editExistingOfferPricingOnly",
        "variableStartDate": true, "end": "2026-02-04", "acceptBy": "2026-02-04",
        "preparedBy": "publisher-1", "notificationContacts": ["ann@buyer.example"],
        "beneficiaries": [{ "id": "buyer-1" }],
        "pricing": [{ "product": "lst_1", "discountType": "percentage", "discountPercentage": 12.5,
                      "currency": "EUR", "durationMonths": 12 }],
    }]});
    assert_eq!(asked[1].json(), expected);
}

#[tokio::test]
async fn cloud_b_is_sent_amounts_replacements_and_changes() {
    let stub = ingestion(json!([])).await;
    let cloud = Adapter::CloudB(cloud_b(&stub));
    let buyer = customer("cloud_b", "buyer-1");
    let amount = json!({ "details": {
        "pricing": { "discountPercentage": null, "discountAmount": 0.01 },
        "cloud": { "isReplacement": true, "agreementId": "sub-7" },
    }});
    cloud.publish(&Draft::of(&offer("cloud_b", &amount), &buyer)).await.expect("a job");
    let body = stub.asked()[1].json();
    let expected = json!({ "product": "lst_1", "discountType": "absolute", "absoluteAmount": 0.01, "currency": "EUR",
                           "durationMonths": 12 });
    assert_eq!(body["resources"][0]["pricing"][0], expected);
    assert_eq!(body["resources"][0]["replaces"], "sub-7");

    let known = offer("cloud_b", &published());
    assert_eq!(cloud.change_expiry(&Draft::of(&known, &buyer)).await, Ok(submitted("job-1", Some("guid-1"))));
    assert_eq!(cloud.withdraw(&Draft::of(&known, &buyer)).await, Ok(submitted("job-1", Some("guid-1"))));
    let bodies: Vec<Value> = stub.asked()[2..].iter().map(|asked| asked.json()["resources"][0].clone()).collect();
    assert_eq!((&bodies[0]["id"], &bodies[0]["state"]), (&json!("private-offer/guid-1"), &json!("live")));
    assert_eq!((&bodies[1]["id"], &bodies[1]["state"]), (&json!("private-offer/guid-1"), &json!("withdrawn")));
    let refused =
        cloud.withdraw(&Draft::of(&offer("cloud_b", &json!({})), &buyer)).await.expect_err("it is not published");
    assert!(matches!(refused, MarketplaceError::Refused { status: 409, .. }), "{refused}");
}

/// Between submitting and writing it down, the process died.
#[tokio::test]
async fn what_cloud_b_has_made_already_is_found_by_its_name() {
    let name = "off_01KE6RPVG000000000000000Z1";
    let found = json!([{ "id": "private-offer/other", "name": "another", "state": "live" },
                       { "id": "private-offer/old", "name": name, "state": "withdrawn" },
                       { "id": "private-offer/guid-1", "name": name, "state": "live" }]);
    let stub = ingestion(found).await;
    let cloud = Adapter::CloudB(cloud_b(&stub));
    let job =
        cloud.publish(&Draft::of(&offer("cloud_b", &json!({})), &customer("cloud_b", "b"))).await.expect("it is there");
    assert_eq!(job, Job::Done { vendor_offer_id: "guid-1".to_owned() });
    assert_eq!(stub.asked().len(), 1, "nothing was submitted");
    assert_eq!(cloud.job(&job).await, Ok(JobState::Live { vendor_offer_id: "guid-1".to_owned() }));
    for job in [job, submitted("job-1", Some("guid-1"))] {
        let kept = serde_json::to_string(&job).expect("JSON");
        assert_eq!(serde_json::from_str::<Job>(&kept).expect("a job"), job);
    }
}

/// A second job would be a second offer.
#[tokio::test]
async fn a_submission_that_may_have_happened_is_not_repeated() {
    let configure = |before: usize, asked: &Asked, first: Says| match (asked.method.as_str(), before) {
        ("GET", _) => says(200, json!({ "value": [] })),
        (_, 1) => first,
        _ => says(202, json!({ "jobId": "job-1" })),
    };
    let (offer, buyer) = (offer("cloud_b", &published()), customer("cloud_b", "b"));
    let stub = Stub::cloud_b(move |before, asked| configure(before, asked, says_text(500, ""))).await;
    let cloud = Adapter::CloudB(cloud_b(&stub));
    assert!(cloud.publish(&Draft::of(&offer, &buyer)).await.expect_err("it is open").is_transient());
    assert_eq!(stub.asked().len(), 2);
    // What is there already may be changed twice.
    let stub =
        Stub::cloud_b(|before, _| if before == 0 { says_text(500, "") } else { says(202, json!({ "jobId": "j" })) });
    let stub = stub.await;
    Adapter::CloudB(cloud_b(&stub)).withdraw(&Draft::of(&offer, &buyer)).await.expect("a job");
    assert_eq!(stub.asked().len(), 2);

    let stub = Stub::cloud_b(move |before, asked| configure(before, asked, says_text(429, ""))).await;
    Adapter::CloudB(cloud_b(&stub)).publish(&Draft::of(&offer, &buyer)).await.expect("nothing had been done");
    assert_eq!(stub.asked().len(), 3);
}

#[tokio::test]
async fn jobs_of_cloud_b_are_followed() {
    let errors = json!([{ "code": "invalidResource", "message": "no" }, { "code": "x", "message": "y" }]);
    let live = |id: &str| Ok(JobState::Live { vendor_offer_id: id.to_owned() });
    let failed = |message: &str| Ok(JobState::Failed { message: message.to_owned() });
    for (status, expected) in [
        (json!({ "jobStatus": "notStarted", "jobResult": "pending" }), Ok(JobState::Pending)),
        (json!({ "jobStatus": "running" }), Ok(JobState::Pending)),
        (json!({ "jobStatus": "odd" }), Ok(JobState::Pending)),
        (json!({ "jobStatus": "completed", "jobResult": "succeeded", "resourceUri": "private-offer/g2" }), live("g2")),
        (json!({ "jobStatus": "completed", "jobResult": "succeeded" }), live("guid-1")),
        (
            json!({ "jobStatus": "completed", "jobResult": "failed", "errors": errors }),
            failed("invalidResource: no; x: y"),
        ),
    ] {
        let mut body = status.clone();
        body["jobId"] = json!("job-1");
        let stub = Stub::cloud_b(move |_, _| says(200, body.clone())).await;
        assert_eq!(
            Adapter::CloudB(cloud_b(&stub)).job(&submitted("job-1", Some("guid-1"))).await,
            expected,
            "{status}"
        );
        let path = "/b/rp/product-ingestion/configure/job-1/status?%24version=2022-07-01";
        assert_eq!(stub.asked()[0].path, path);
    }
}

/// A catalog in which each token begins one change set, which has `status`.
async fn catalog(status: &'static str) -> Stub {
    Stub::start(move |_, asked| match asked.method.as_str() {
        "GET" => {
            let change = json!({ "ChangeType": "CreateOffer", "Entity": { "Type": "Offer@1.0", "Identifier": "offer-1@2" },
                                 "ErrorDetailList": [{ "ErrorCode": "BAD", "ErrorMessage": "wrong" }] });
            says(200, json!({ "Status": status, "FailureDescription": "failed", "ChangeSet": [change] }))
        }
        _ => says(200, json!({ "ChangeSetId": asked.json()["ClientRequestToken"], "ChangeSetArn": "arn" })),
    })
    .await
}

fn tokens(stub: &Stub) -> Vec<String> {
    let posts = stub.asked().into_iter().filter(|asked| asked.method == "POST");
    posts.map(|asked| asked.json()["ClientRequestToken"].as_str().expect("a token").to_owned()).collect()
}

#[tokio::test]
async fn cloud_a_is_sent_a_change_set() {
    let stub = catalog("PREPARING").await;
    let cloud = Adapter::CloudA(cloud_a(&stub));
    let (offer, buyer) = (offer("cloud_a", &json!({})), customer("cloud_a", "123456789012"));
    let Ok(Job::Submitted { id, .. }) = cloud.publish(&Draft::of(&offer, &buyer)).await else { panic!("no job") };
    assert_eq!(cloud.job(&submitted(&id, None)).await, Ok(JobState::Pending));
    let asked = stub.asked();
    assert_eq!((asked[0].method.as_str(), asked[0].path.as_str()), ("POST", "/a/StartChangeSet"));
    assert_eq!(asked[0].header("content-type"), "application/json");
    assert_eq!(asked[1].path, format!("/a/DescribeChangeSet?catalog=AWSMarketplace&changeSetId={id}"));
    let made = json!({ "Type": "Offer@1.0", "Identifier": "$Offer.Entity.Identifier" });
    let change = |kind: &str, details: Value| json!({ "ChangeType": kind, "Entity": made, "DetailsDocument": details });
    let create = json!({ "ChangeType": "CreateOffer", "ChangeName": "Offer", "Entity": { "Type": "Offer@1.0" },
                         "DetailsDocument": { "ProductId": "lst_1", "Name": "Winter" } });
    let pricing =
        json!({ "DiscountPercentage": 12.5, "DurationMonths": 12, "CurrencyCode": "EUR", "AnnualValue": 1000.1 });
    let expected = json!({
        "Catalog": "AWSMarketplace", "ChangeSetName": offer.id, "ClientRequestToken": id,
        "ChangeSet": [
            create, change("UpdateTargeting", json!({ "PositiveTargeting": { "BuyerAccounts": ["123456789012"] } })),
            change("UpdatePricingTerms", pricing), change("UpdateLegalTerms", json!({})),
            change("UpdateAvailability", json!({ "AvailabilityEndDate": "2026-02-04" })),
            change("ReleaseOffer", json!({})),
        ],
    });
    assert_eq!(asked[0].json(), expected);
    assert!((1..=36).contains(&id.len()), "{id}");
}

/// The same offer again is the same change set, also after a crash; unless the marketplace gave it up.
#[tokio::test]
async fn publishing_twice_at_cloud_a_is_publishing_once() {
    let stub = catalog("APPLYING").await;
    let cloud = Adapter::CloudA(cloud_a(&stub));
    let buyer = customer("cloud_a", "123456789012");
    let first = cloud.publish(&Draft::of(&offer("cloud_a", &json!({})), &buyer)).await.expect("a job");
    let touched = offer("cloud_a", &json!({ "updatedAt": "2026-01-05T11:00:00.000Z" }));
    assert_eq!(cloud.publish(&Draft::of(&touched, &buyer)).await.expect("a job"), first);
    let other = offer("cloud_a", &json!({ "details": { "pricing": { "duration": 24 } } }));
    assert_ne!(cloud.publish(&Draft::of(&other, &buyer)).await.expect("a job"), first);

    let stub = catalog("FAILED").await;
    let cloud = Adapter::CloudA(cloud_a(&stub));
    let job = cloud.publish(&Draft::of(&offer("cloud_a", &json!({})), &buyer)).await.expect("a job");
    let tried = tokens(&stub);
    assert_eq!((tried.len(), tried.iter().collect::<std::collections::BTreeSet<_>>().len()), (10, 10));
    assert_eq!(submitted(&tried[0], None), first, "the first is what it was");
    assert_eq!(submitted(&tried[9], None), job);
    assert_eq!(cloud.job(&job).await, Ok(JobState::Failed { message: "failed; BAD: wrong".to_owned() }));
}

#[tokio::test]
async fn cloud_a_is_sent_replacements_and_changes() {
    let stub = catalog("SUCCEEDED").await;
    let cloud = Adapter::CloudA(cloud_a(&stub));
    let buyer = customer("cloud_a", "123456789012");
    let replacement = json!({ "details": { "cloud": { "isReplacement": true, "agreementId": "agmt-1" } } });
    let job = cloud.publish(&Draft::of(&offer("cloud_a", &replacement), &buyer)).await.expect("a job");
    assert_eq!(cloud.job(&job).await, Ok(JobState::Live { vendor_offer_id: "offer-1".to_owned() }));
    let create = &stub.asked()[0].json()["ChangeSet"][0];
    assert_eq!(create["ChangeType"], "CreateReplacementOffer");
    let details = json!({ "AgreementId": "agmt-1", "ProductId": "lst_1", "Name": "Winter" });
    assert_eq!(create["DetailsDocument"], details);

    let known = offer("cloud_a", &json!({ "vendorOfferId": "offer-1" }));
    cloud.change_expiry(&Draft::of(&known, &buyer)).await.expect("a job");
    cloud.change_expiry(&Draft::of(&known, &buyer)).await.expect("a job");
    cloud.withdraw(&Draft::of(&known, &buyer)).await.expect("a job");
    let asked: Vec<Asked> = stub.asked().into_iter().filter(|asked| asked.method == "POST").skip(1).collect();
    let entity = json!({ "Type": "Offer@1.0", "Identifier": "offer-1" });
    let expiry = json!([{ "ChangeType": "UpdateAvailability", "Entity": entity,
                          "DetailsDocument": { "AvailabilityEndDate": "2026-02-04" } }]);
    assert_eq!(asked[0].json()["ChangeSet"], expiry);
    let over = json!([{ "ChangeType": "UpdateAvailability", "Entity": entity,
                        "DetailsDocument": { "AvailabilityEndDate": "2026-01-04" } }]);
    assert_eq!(asked[2].json()["ChangeSet"], over, "the manual clock stands at 2026-01-05");
    let tokens = tokens(&stub);
    assert_ne!(tokens[1], tokens[2], "an expiry may be moved there, away and back");

    let amount = json!({ "details": { "pricing": { "discountPercentage": null, "discountAmount": 5 } } });
    let refused =
        cloud.publish(&Draft::of(&offer("cloud_a", &amount), &buyer)).await.expect_err("there are no amounts");
    assert!(matches!(refused, MarketplaceError::Impossible { .. }), "{refused}");
}

/// Never open longer there than here, unless today is the last day.
#[tokio::test]
async fn expiries_are_days_there() {
    for (expires, day) in [
        ("2026-01-05T12:00:00Z", "2026-01-05"),
        ("2026-01-06T00:00:00Z", "2026-01-05"),
        ("2026-01-06T23:59:59Z", "2026-01-05"),
        ("2026-01-07T00:00:00Z", "2026-01-06"),
        ("2026-03-01T10:00:00Z", "2026-02-28"),
    ] {
        let stub = ingestion(json!([])).await;
        let draft = Draft::of(&offer("cloud_b", &json!({ "expiresAt": expires })), &customer("cloud_b", "buyer-1"));
        Adapter::CloudB(cloud_b(&stub)).publish(&draft).await.expect("a job");
        let sent = stub.asked()[1].json()["resources"][0].clone();
        assert_eq!((&sent["end"], &sent["acceptBy"]), (&json!(day), &json!(day)), "{expires}");
    }
}

#[tokio::test]
async fn what_is_agreed_with_partners_is_said_or_refused() {
    let deal = |kind: &str, more: Value| {
        let mut changed = json!({ "details": { "cloud": { "offerType": kind } } });
        merge(&mut changed, &more);
        changed
    };
    let stub = ingestion(json!([])).await;
    let (cloud, buyer) = (Adapter::CloudB(cloud_b(&stub)), customer("cloud_b", "partner-1"));
    cloud.publish(&Draft::of(&offer("cloud_b", &deal("csp", json!({}))), &buyer)).await.expect("a job");
    let sent = stub.asked()[1].json()["resources"][0].clone();
    assert_eq!((&sent["privateOfferType"], &sent["start"]), (&json!("cspPromotion"), &json!("2026-01-05")));
    assert_eq!((&sent["variableStartDate"], &sent["end"]), (&json!(false), &json!("2026-02-04")));
    assert_eq!((&sent["beneficiaries"][0]["id"], sent.get("acceptBy")), (&json!("partner-1"), None));

    let stub = ingestion(json!([])).await;
    let cloud = Adapter::CloudB(cloud_b(&stub));
    let amount = json!({ "details": { "pricing": { "discountPercentage": null, "discountAmount": 5 } } });
    let replaces = json!({ "details": { "cloud": { "isReplacement": true, "agreementId": "sub-7" } } });
    for (changed, said) in [
        (deal("multi_party", json!({})), "names its selling partner"),
        (deal("csp", amount), "discountAmount cannot be said"),
        (deal("csp", replaces), "replaces no agreement"),
    ] {
        let refused = cloud.publish(&Draft::of(&offer("cloud_b", &changed), &buyer)).await.expect_err("another deal");
        assert!(matches!(&refused, MarketplaceError::Impossible { reason } if reason.contains(said)), "{refused}");
        assert!(!refused.is_transient() && !refused.is_unclear());
    }
    let of_a = offer("cloud_a", &deal("csp", json!({})));
    let refused = Adapter::CloudA(cloud_a(&stub)).publish(&Draft::of(&of_a, &buyer)).await.expect_err("none there");
    assert!(matches!(refused, MarketplaceError::Impossible { .. }), "{refused}");
    assert_eq!(stub.asked().len(), 0, "nothing else was published instead");

    // Drafts of before say no type.
    let mut written = serde_json::to_value(Draft::of(&offer("cloud_b", &json!({})), &buyer)).expect("JSON");
    let draft: Draft = serde_json::from_value(written.clone()).expect("a draft");
    written.as_object_mut().expect("an object").remove("deal");
    assert_eq!(serde_json::from_value::<Draft>(written).expect("a draft"), draft);
}

#[tokio::test]
async fn agreements_are_read_page_by_page() {
    let agreement = |status: &str, start: Value, licence: Value| {
        json!({ "agreementId": format!("agmt-{status}"), "startTime": start, "endTime": 1_800_000_000, "status": status,
                "acceptor": { "accountId": "123456789012" }, "license": licence, "intent": "NEW",
                "proposalSummary": { "offerId": "offer-1", "resources": [{ "id": "prod-1", "type": "SaaSProduct" }] } })
    };
    let past = json!("2026-01-01T00:00:00Z");
    let (ahead, licence) = (json!("2026-03-01T00:00:00Z"), json!({ "arn": "arn:1" }));
    let first = vec![
        agreement("ACTIVE", past.clone(), licence.clone()),
        agreement("ACTIVE", ahead, licence.clone()),
        agreement("ACTIVE", past.clone(), Value::Null),
    ];
    let words = ["CANCELLED", "TERMINATED", "EXPIRED", "ARCHIVED", "RENEWED", "REPLACED", "ODD"];
    let second: Vec<Value> = words.iter().map(|word| agreement(word, past.clone(), licence.clone())).collect();
    let stub = Stub::start(move |_, asked| match asked.json()["nextToken"].as_str() {
        None => says(200, json!({ "agreementViewSummaries": first, "nextToken": "n1" })),
        Some("n1") => says(200, json!({ "agreementViewSummaries": second })),
        Some(other) => panic!("nobody gave the token {other}"),
    })
    .await;
    let contracts = Adapter::CloudA(cloud_a(&stub)).contracts().await.expect("a list");
    let statuses: Vec<ContractStatus> = contracts.iter().map(|contract| contract.status.clone()).collect();
    let known = ContractStatus::Known;
    let expected = [
        known(EntitlementStatus::Active),
        known(EntitlementStatus::Pending),
        known(EntitlementStatus::Pending),
        known(EntitlementStatus::Cancelled),
        known(EntitlementStatus::Cancelled),
        known(EntitlementStatus::Expired),
        known(EntitlementStatus::Expired),
        ContractStatus::Superseded,
        ContractStatus::Superseded,
        ContractStatus::Other("ODD".to_owned()),
    ];
    assert_eq!(statuses, expected);
    assert_eq!((contracts[0].listing.as_str(), contracts[0].licence.as_deref()), ("prod-1", Some("arn:1")));
    assert_eq!(contracts[0].end.map(Timestamp::as_seconds), Some(1_800_000_000));
    assert_eq!(stub.asked()[0].header("x-amz-target"), "AWSMPCommerceService_v20200301.SearchAgreements");
    assert_eq!(stub.asked()[0].header("content-type"), "application/x-amz-json-1.0");
}

#[tokio::test]
async fn subscriptions_are_contracts() {
    let subscription = |status: &str| {
        json!({ "id": "sub-1", "offerId": "lst_1", "planId": "gold", "quantity": 5, "saasSubscriptionStatus": status,
                "beneficiary": { "tenantId": "buyer-1", "emailId": "a@b.example" }, "autoRenew": true,
                "term": { "startDate": "2026-01-01T00:00:00", "endDate": null, "termUnit": "P1M" },
                "privateOfferId": "private-offer/guid-1" })
    };
    let words = ["PendingFulfillmentStart", "Subscribed", "Suspended", "Unsubscribed", "Odd"];
    let list: Vec<Value> = words.into_iter().map(subscription).collect();
    let stub = Stub::cloud_b(move |_, _| says(200, json!({ "subscriptions": list }))).await;
    let contracts = Adapter::CloudB(cloud_b(&stub)).contracts().await.expect("a list");
    let statuses: Vec<ContractStatus> = contracts.iter().map(|contract| contract.status.clone()).collect();
    let known = ContractStatus::Known;
    let expected = [
        known(EntitlementStatus::Pending),
        known(EntitlementStatus::Active),
        known(EntitlementStatus::Suspended),
        known(EntitlementStatus::Cancelled),
        ContractStatus::Other("Odd".to_owned()),
    ];
    assert_eq!(statuses, expected);
    let contract = &contracts[0];
    assert_eq!((contract.customer.as_str(), contract.vendor_offer_id.as_deref()), ("buyer-1", Some("guid-1")));
    assert_eq!((contract.dimensions[0].key.as_str(), contract.dimensions[0].value), ("seats", 5.into()));
    assert_eq!(contract.start.map(|start| start.to_string()).as_deref(), Some("2026-01-01T00:00:00.000Z"));
    assert_eq!(contract.end, None);
}
