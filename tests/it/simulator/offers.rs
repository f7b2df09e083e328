//! Private offers of both: published, refused, accepted, replaced.

use chrono::TimeDelta;
use reqwest::Method;
use serde_json::{Value, json};

use super::{ACCOUNT, Stage, change, create_offer};

#[tokio::test(flavor = "multi_thread")]
async fn offers_of_every_type_have_what_belongs_to_them() {
    let stage = Stage::new().await;
    let url = format!("{}/cloud_b/rp/product-ingestion/configure", stage.simulator.url());
    let submit = |changed: Value| {
        let mut offer = json!({
            "name": "our-1", "state": "live", "privateOfferType": "customerPromotion",
            "offerPricingType": "editExistingOfferPricingOnly", "variableStartDate": true, "end": "2026-02-01",
            "acceptBy": "2026-02-01", "beneficiaries": [{"id": "buyer"}],
            "pricing": [{"product": "suite", "discountType": "percentage", "discountPercentage": 10, "durationMonths": 12}],
        });
        for (field, value) in changed.as_object().expect("an object") {
            offer[field] = value.clone();
        }
        let request = stage.http.post(format!("{url}?$version=2022-07-01")).bearer_auth(&stage.bearer);
        stage.send(request.json(&json!({"resources": [offer]})))
    };
    let (csp, multi) = ("cspPromotion", "multipartyPromotionOriginator");
    let margin = json!({"privateOfferType": csp, "acceptBy": null, "variableStartDate": false, "start": "2026-01-05"});
    let with = |changed: &Value, field: &str, value: Value| {
        let mut changed = changed.clone();
        changed[field] = value;
        changed
    };
    let amount = json!([{"product": "suite", "discountType": "absolute", "absoluteAmount": 10, "durationMonths": 12}]);
    let mut jobs = Vec::new();
    for (changed, said) in [
        (json!({}), ""),
        (json!({"privateOfferType": null}), "privateOfferType"),
        (json!({"acceptBy": null}), "acceptBy is missing"),
        (json!({"acceptBy": "2026-02-01T00:00:00.000Z"}), "acceptBy must be a date"),
        (json!({"end": null}), "end is missing"),
        (json!({"end": "2026-01-04", "acceptBy": "2026-01-04"}), "expired already"),
        (json!({"start": "2026-01-05"}), "there must be a start"),
        (margin.clone(), ""),
        (with(&margin, "acceptBy", json!("2026-02-01")), "not accepted"),
        (with(&margin, "pricing", amount), "a percentage"),
        (json!({"privateOfferType": multi}), "selling partner"),
        (json!({"privateOfferType": multi, "partners": [{"id": "12345678"}]}), ""),
    ] {
        let job = submit(changed.clone()).await.ok()["jobId"].as_str().expect("an id").to_owned();
        jobs.push((job, changed, said));
    }
    stage.advance(TimeDelta::seconds(60)).await;
    for (job, changed, said) in jobs {
        let asked = stage.http.get(format!("{url}/{job}/status?$version=2022-07-01")).bearer_auth(&stage.bearer);
        let done = stage.send(asked).await.ok();
        let failed = done["errors"][0]["message"].as_str().unwrap_or_default();
        assert_eq!(failed.is_empty(), said.is_empty(), "{changed}: {done}");
        assert!(failed.contains(said), "{changed}: {done}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_offer_of_cloud_b_is_published_accepted_and_replaced() {
    let stage = Stage::new().await;
    let configure = |name: &str, more: Value| {
        let mut offer = json!({
            "$schema": "private-offer/2023-07-15", "name": name, "state": "live",
            "privateOfferType": "customerPromotion", "offerPricingType": "editExistingOfferPricingOnly",
            "variableStartDate": true, "end": "2026-02-01", "acceptBy": "2026-02-01",
            "beneficiaries": [{"id": "buyer"}],
            "pricing": [{"product": "suite", "discountType": "percentage", "discountPercentage": 10, "durationMonths": 12}],
        });
        for (field, value) in more.as_object().expect("an object") {
            offer[field] = value.clone();
        }
        let url = format!("{}/cloud_b/rp/product-ingestion/configure?$version=2022-07-01", stage.simulator.url());
        stage.send(stage.http.post(url).bearer_auth(&stage.bearer).json(&json!({"resources": [offer]})))
    };
    let get = |path: String| {
        let url = format!("{}/cloud_b/rp/product-ingestion/{path}$version=2022-07-01", stage.simulator.url());
        stage.send(stage.http.get(url).bearer_auth(&stage.bearer))
    };
    let status = |started: &Value| get(format!("configure/{}/status?", started["jobId"].as_str().expect("an id")));
    let started = configure("our-1", json!({})).await;
    assert_eq!(started.status, 202);
    assert_eq!(status(&started.body).await.ok()["jobStatus"], json!("notStarted"));
    stage.advance(TimeDelta::seconds(40)).await;
    assert_eq!(status(&started.body).await.ok()["jobStatus"], json!("running"));
    stage.advance(TimeDelta::seconds(20)).await;
    let done = status(&started.body).await.ok();
    assert_eq!((&done["jobStatus"], &done["jobResult"]), (&json!("completed"), &json!("succeeded")));
    let uri = done["resourceUri"].as_str().expect("a resource");
    let named = get("private-offer?name=our-1&".to_owned()).await.ok();
    assert_eq!((&named["value"][0]["id"], &named["value"][0]["state"]), (&json!(uri), &json!("live")));
    assert_eq!(get("private-offer?name=our-2&".to_owned()).await.ok()["value"], json!([]));

    let made = stage.post(&format!("offers/{uri}/accept"), json!({"planId": "gold"})).await;
    let old = made["subscription"]["id"].as_str().expect("an id");
    assert_eq!(
        json!(uri),
        json!(format!("private-offer/{}", made["subscription"]["privateOfferId"].as_str().expect("an offer")))
    );
    assert_eq!(stage.kinds().await, ["Subscribe"]);
    let twice = stage.control(Method::POST, &format!("offers/{uri}/accept"), json!({})).await;
    assert_eq!(twice.status, 409);
    let changed = configure("our-1", json!({"id": uri, "state": "withdrawn"})).await.ok();
    let second = configure("our-2", json!({"replaces": old})).await.ok();
    stage.advance(TimeDelta::seconds(60)).await;
    let refused = status(&changed).await.ok();
    assert_eq!(refused["jobResult"], json!("failed"), "an accepted offer changes only by a replacement");
    assert!(refused["errors"][0]["message"].is_string());
    let uri = status(&second).await.ok()["resourceUri"].as_str().expect("a resource").to_owned();
    stage.post(&format!("offers/{uri}/accept"), json!({})).await;
    assert_eq!(stage.kinds().await, ["Subscribe", "Unsubscribe"]);
    assert_eq!(stage.subscription(old).await["saasSubscriptionStatus"], json!("Unsubscribed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_set_releases_an_offer() {
    let stage = Stage::new().await;
    let id = stage.submitted(create_offer(), "token-1").await;
    assert_eq!(stage.submitted(create_offer(), "token-1").await, id, "the same token is the same change set");
    assert_ne!(stage.submitted(create_offer(), "token-2").await, id);
    assert_eq!(stage.described(&id).await["Status"], json!("PREPARING"));
    stage.advance(TimeDelta::seconds(30)).await;
    assert_eq!(stage.described(&id).await["Status"], json!("APPLYING"));
    stage.advance(TimeDelta::seconds(30)).await;
    let done = stage.described(&id).await;
    assert_eq!((&done["Status"], &done["ChangeSetName"]), (&json!("SUCCEEDED"), &json!("our-1")));
    let offer = done["ChangeSet"][0]["Entity"]["Identifier"].as_str().expect("an offer");
    assert!(offer.starts_with("offer-"), "{offer}");
    let told = stage.told().await;
    assert_eq!(told.len(), 4);
    assert_eq!(
        (&told[0]["detail-type"], &told[0]["source"]),
        (&json!("Change Set Succeeded"), &json!("aws.marketplacecatalog"))
    );
    assert_eq!(
        told[0]["detail"],
        json!({"changeSet": {"id": id, "name": "our-1", "status": "SUCCEEDED"}, "offer": {"id": offer}})
    );
    assert_eq!(told[1]["detail-type"], json!("Offer Released"));

    let named = |kind: &str, details: Value| json!({"ChangeType": kind, "Entity": {"Type": "Offer@1.0", "Identifier": offer}, "DetailsDocument": details});
    let mut expected = Vec::new();
    for (kind, details, status) in [
        ("UpdatePricingTerms", json!({"DurationMonths": 1}), "FAILED"),
        ("UpdateAvailability", json!({"AvailabilityEndDate": "2026-03-01T00:00:00Z"}), "FAILED"),
        ("UpdateAvailability", json!({"AvailabilityEndDate": "2026-3-1"}), "FAILED"),
        ("CancelOffer", json!({}), "FAILED"),
        ("UpdateAvailability", json!({"AvailabilityEndDate": "2025-12-31"}), "SUCCEEDED"),
        ("UpdateAvailability", json!({"AvailabilityEndDate": "2026-03-01"}), "SUCCEEDED"),
    ] {
        let started = stage.change_set(&format!("again-{}", expected.len()), vec![named(kind, details)]).await.ok();
        expected.push((started["ChangeSetId"].as_str().expect("an id").to_owned(), status));
    }
    stage.advance(TimeDelta::seconds(60)).await;
    for (id, status) in expected {
        let set = stage.described(&id).await;
        assert_eq!(set["Status"], json!(status), "{set}");
        assert_eq!(set["ChangeSet"][0]["ErrorDetailList"].as_array().map(Vec::is_empty), Some(status == "SUCCEEDED"));
    }
    stage.post(&format!("offers/{offer}/expire"), json!({})).await;
    // It was over by a date in the past, and open again by a later one.
    assert_eq!(stage.control(Method::POST, &format!("offers/{offer}/accept"), json!({})).await.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_set_fails_as_a_whole() {
    let stage = Stage::new().await;
    let incomplete = stage.change_set("t", vec![create_offer(), change("ReleaseOffer", json!({}))]).await.ok();
    stage.advance(TimeDelta::seconds(60)).await;
    let set = stage.described(incomplete["ChangeSetId"].as_str().expect("an id")).await;
    assert_eq!((&set["Status"], &set["FailureCode"]), (&json!("FAILED"), &json!("CLIENT_ERROR")));
    assert_eq!(set["ChangeSet"][1]["ErrorDetailList"][0]["ErrorCode"], json!("INCOMPLETE_OFFER"));
    assert_eq!(stage.state().await["offers"], json!([]), "nothing is left of one that failed");

    stage.faults(json!({"failPublications": 1})).await;
    let unlucky = stage.submitted(create_offer(), "v").await;
    stage.told().await;
    stage.advance(TimeDelta::seconds(60)).await;
    let set = stage.described(&unlucky).await;
    assert_eq!((&set["Status"], &set["FailureCode"]), (&json!("FAILED"), &json!("SERVER_FAULT")));
    let told = stage.told().await;
    assert_eq!(told[0]["detail-type"], json!("Change Set Failed"));
    assert!(told[0]["detail"]["error"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_offer_and_its_replacement_make_agreements() {
    let stage = Stage::new().await;
    let set = stage.submitted(create_offer(), "t").await;
    stage.advance(TimeDelta::seconds(60)).await;
    let offer = stage.described(&set).await["ChangeSet"][0]["Entity"]["Identifier"].clone();
    stage.told().await;
    let accept = |offer: Value| {
        let path = format!("offers/{}/accept", offer.as_str().expect("an offer"));
        async {
            stage.control(Method::POST, &{ path }, json!({"dimensions": [{"key": "seats", "value": 5}]})).await.ok()
        }
    };
    let old = accept(offer.clone()).await;
    assert_eq!((&old["intent"], &old["offerId"], &old["accountId"]), (&json!("NEW"), &offer, &json!(ACCOUNT)));
    assert_eq!(stage.kinds().await, ["Purchase Agreement Created", "License Updated"]);

    let details = json!({"AgreementId": old["id"], "ProductId": "prod-1", "Name": "Better"});
    let set = stage.submitted(change("CreateReplacementOffer", details), "r").await;
    stage.advance(TimeDelta::seconds(60)).await;
    stage.told().await;
    let new = accept(stage.described(&set).await["ChangeSet"][0]["Entity"]["Identifier"].clone()).await;
    assert_eq!(new["intent"], json!("REPLACE"));
    let told = stage.told().await;
    assert_eq!(told[0]["detail-type"], json!("Purchase Agreement Ended"));
    assert_eq!(
        (&told[0]["detail"]["agreement"]["id"], &told[0]["detail"]["agreement"]["status"]),
        (&old["id"], &json!("REPLACED"))
    );
    assert_eq!(told[1]["detail"]["agreement"]["id"], new["id"]);
}
