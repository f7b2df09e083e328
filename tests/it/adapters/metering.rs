//! Reports of usage: each row gets its own verdict, whatever happens to the batch that it is in.

use mercato::marketplace::adapter::Adapter;
use mercato::marketplace::cloud_a::metering::UsageRecord;
use mercato::marketplace::cloud_b::metering::UsageEvent;
use mercato::marketplace::terms::UsageItem;
use mercato::model::decimal::Decimal;
use mercato::model::metering::Verdict;
use mercato::model::time::Timestamp;
use serde_json::{Value, json};

use super::stub::{Asked, Says, Stub, cloud_a, cloud_b, says, says_text};

const AT: &str = "2026-01-05T09:30:00Z";

fn at() -> Timestamp {
    AT.parse().expect("a moment")
}

fn decimal(text: &str) -> Decimal {
    text.parse().expect("a number")
}

fn records(count: usize) -> Vec<UsageRecord> {
    let record = |index: usize| UsageRecord {
        account: "123456789012".to_owned(),
        licence: Some("arn:licence".to_owned()),
        dimension: format!("d{index}"),
        quantity: decimal(&index.to_string()),
        at: at(),
    };
    (0..count).map(record).collect()
}

fn events(count: usize) -> Vec<UsageEvent> {
    let event = |index: usize| UsageEvent {
        subscription: "Sub-1".to_owned(),
        plan: "gold".to_owned(),
        dimension: format!("d{index}"),
        quantity: decimal("12.5"),
        at: at(),
    };
    (0..count).map(event).collect()
}

/// The dimensions of a request, in their order.
fn dimensions(asked: &Asked) -> Vec<String> {
    let body = asked.json();
    let rows = body["UsageRecords"].as_array().or(body["request"].as_array()).expect("rows").clone();
    let name = |row: &Value| row["Dimension"].as_str().or(row["dimension"].as_str()).expect("a dimension").to_owned();
    rows.iter().map(name).collect()
}

fn exception(kind: &str) -> Says {
    says(400, json!({ "__type": format!("com.amazonaws.marketplace#{kind}"), "message": format!("about {kind}") }))
}

/// Every record a success.
fn successes(asked: &Asked) -> Says {
    let body = asked.json();
    let success = |record: &Value| json!({ "UsageRecord": record, "MeteringRecordId": "m", "Status": "Success" });
    let results: Vec<Value> = body["UsageRecords"].as_array().expect("records").iter().map(success).collect();
    says(200, json!({ "Results": results, "UnprocessedRecords": [] }))
}

fn verdicts(said: &[(Verdict, Option<String>)]) -> Vec<Verdict> {
    said.iter().map(|(verdict, _)| *verdict).collect()
}

#[tokio::test]
async fn poisoned_records_are_isolated_and_the_others_go_through() {
    let stub = Stub::start(|_, asked| match dimensions(asked).iter().find(|name| ["d3", "d20"].contains(&&***name)) {
        Some(poison) if poison == "d3" => exception("InvalidUsageDimensionException"),
        Some(_) => exception("TimestampOutOfBoundsException"),
        None => successes(asked),
    })
    .await;
    let said = cloud_a(&stub).report_usage("prod-1", &records(25)).await;
    for (index, (verdict, message)) in said.iter().enumerate() {
        let expected = match index {
            3 => (Verdict::InvalidDimension, Some("about InvalidUsageDimensionException")),
            20 => (Verdict::Expired, Some("about TimestampOutOfBoundsException")),
            _ => (Verdict::Confirmed, None),
        };
        assert_eq!((*verdict, message.as_deref()), expected, "row {index}");
    }
    // 25; 12 with d3, 6, 3, 1+2 of it and the clean 6, 3; 13 with d20 likewise; see the sizes.
    let sizes: Vec<usize> = stub.asked().iter().map(|asked| dimensions(asked).len()).collect();
    assert_eq!(sizes, [25, 12, 6, 3, 3, 1, 2, 6, 13, 6, 7, 3, 1, 2, 1, 1, 4]);
    let clean = stub.asked().into_iter().flat_map(|asked| match dimensions(&asked) {
        names if names.iter().any(|name| name == "d3" || name == "d20") => Vec::new(),
        names => names,
    });
    let mut clean: Vec<String> = clean.collect();
    clean.sort();
    let count = clean.len();
    clean.dedup();
    assert_eq!((count, clean.len()), (23, 23), "each good record went through once");
}

#[tokio::test]
async fn refusals_become_verdicts() {
    for (kind, verdict, requests) in [
        ("InvalidCustomerIdentifierException", Verdict::NotSubscribed, 3),
        ("ValidationException", Verdict::BadArgument, 3),
        ("InvalidProductCodeException", Verdict::BadArgument, 1),
        ("SomethingNewException", Verdict::VendorError, 1),
        ("ThrottlingException", Verdict::VendorError, 4),
    ] {
        let stub = Stub::start(move |_, _| exception(kind)).await;
        let said = cloud_a(&stub).report_usage("prod-1", &records(2)).await;
        assert_eq!(verdicts(&said), [verdict, verdict], "{kind}");
        assert_eq!(stub.asked().len(), requests, "{kind}");
    }
    let statuses = ["Success", "CustomerNotSubscribed", "DuplicateRecord", "Odd"];
    let stub = Stub::start(move |_, asked| {
        let body = asked.json();
        let records = body["UsageRecords"].as_array().expect("records").iter().zip(statuses);
        let results = records.map(|(record, status)| json!({ "UsageRecord": record, "Status": status }));
        // In another order, and one is missing.
        says(200, json!({ "Results": results.rev().collect::<Vec<_>>() }))
    })
    .await;
    let said = cloud_a(&stub).report_usage("prod-1", &records(5)).await;
    let expected =
        [Verdict::Confirmed, Verdict::NotSubscribed, Verdict::Duplicate, Verdict::VendorError, Verdict::VendorError];
    assert_eq!(verdicts(&said), expected);
    assert_eq!(said[3].1.as_deref(), Some("The marketplace answered Odd"));
}

#[tokio::test]
async fn records_that_were_passed_over_are_sent_again() {
    let stub = Stub::start(|before, asked| {
        let body = asked.json();
        let records = body["UsageRecords"].as_array().expect("records").clone();
        if before > 0 {
            return successes(asked);
        }
        let success = |index: usize| json!({ "UsageRecord": records[index], "Status": "Success" });
        says(200, json!({ "Results": [success(2), success(0)], "UnprocessedRecords": [records[1], records[3]] }))
    })
    .await;
    let said = cloud_a(&stub).report_usage("prod-1", &records(4)).await;
    assert_eq!(verdicts(&said), [Verdict::Confirmed; 4]);
    let asked: Vec<_> = stub.asked().iter().map(dimensions).collect();
    assert_eq!(asked, [vec!["d0", "d1", "d2", "d3"], vec!["d1", "d3"]]);

    let lazy = |_: usize, asked: &Asked| {
        says(200, json!({ "Results": [], "UnprocessedRecords": asked.json()["UsageRecords"] }))
    };
    let stub = Stub::start(lazy).await;
    let said = cloud_a(&stub).report_usage("prod-1", &records(2)).await;
    assert_eq!(verdicts(&said), [Verdict::VendorError; 2]);
    assert_eq!(stub.asked().len(), 4);
}

#[tokio::test]
async fn a_marketplace_that_is_down_is_left_alone() {
    let stub = Stub::start(|before, asked| if before == 0 { successes(asked) } else { says_text(500, "") }).await;
    let said = cloud_a(&stub).report_usage("prod-1", &records(60)).await;
    assert_eq!(verdicts(&said[..25]), [Verdict::Confirmed; 25]);
    assert_eq!(verdicts(&said[25..]), [Verdict::VendorError; 35]);
    assert_eq!(said[59].1.as_deref(), Some("The marketplace answered with status 500"));
    assert_eq!(stub.asked().len(), 1 + 4, "the third batch is not tried");
}

#[tokio::test]
async fn cloud_a_is_sent_signed_whole_numbers_and_seconds() {
    let stub = Stub::start(|_, asked| successes(asked)).await;
    let mut rows = records(2);
    rows[0].quantity = decimal("2147483648");
    rows[1].quantity = decimal("0.5");
    let said = cloud_a(&stub).report_usage("prod-1", &rows).await;
    assert_eq!(verdicts(&said), [Verdict::Confirmed, Verdict::InvalidQuantity]);
    let asked = &stub.asked()[0];
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/a/"));
    assert_eq!(asked.header("x-amz-target"), "AWSMPMeteringService.BatchMeterUsage");
    assert_eq!(asked.header("content-type"), "application/x-amz-json-1.1");
    let scope = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260105/us-east-1/aws-marketplace/aws4_request, \
                 SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=";
    assert!(asked.header("authorization").starts_with(scope), "{}", asked.header("authorization"));
    let expected = concat!(
        r#"{"ProductCode":"prod-1","UsageRecords":[{"Timestamp":1767605400,"CustomerAWSAccountId":"123456789012","#,
        r#""LicenseArn":"arn:licence","Dimension":"d0","Quantity":2147483648}]}"#
    );
    assert_eq!(asked.text, expected);

    let stub = Stub::start(|_, _| says(403, json!({ "__type": "x#InvalidSignatureException", "message": "no" }))).await;
    let said = cloud_a(&stub).report_usage("prod-1", &records(1)).await;
    let words = "The marketplace does not accept the account's credentials: no";
    assert_eq!(said, [(Verdict::VendorError, Some(words.to_owned()))]);
}

/// Timestamps come back as the vendor's libraries write them.
#[tokio::test]
async fn echoes_in_other_notations_are_recognized() {
    let stub = Stub::start(|_, _| {
        let echo =
            r#"{"Timestamp": 1.7676054E9, "CustomerAWSAccountId": "123456789012", "Dimension": "d0", "Quantity": 0.0}"#;
        says_text(200, format!(r#"{{"Results": [{{"UsageRecord": {echo}, "Status": "Success"}}]}}"#))
    })
    .await;
    let said = cloud_a(&stub).report_usage("prod-1", &records(1)).await;
    assert_eq!(said, [(Verdict::Confirmed, None)]);
}

fn accepted(asked: &Asked, status: impl Fn(usize, &Value) -> Value) -> Says {
    let body = asked.json();
    let rows = body["request"].as_array().expect("rows");
    let result: Vec<Value> = rows.iter().enumerate().map(|(index, row)| status(index, row)).collect();
    says(200, json!({ "count": result.len(), "result": result }))
}

fn duplicate(quantity: &Value) -> Value {
    let accepted = json!({ "usageEventId": "u", "status": "Duplicate", "quantity": quantity });
    let message = "This usage event already exist.";
    json!({ "status": "Duplicate", "error": { "code": "Conflict", "message": message,
            "additionalInfo": { "acceptedMessage": accepted } } })
}

#[tokio::test]
async fn a_duplicate_of_our_own_is_confirmed() {
    let stub = Stub::cloud_b(|_, asked| {
        accepted(asked, |index, _| match index {
            0 => duplicate(&json!(12.5)),
            1 => duplicate(&json!(12.4)),
            2 => json!({ "status": "Duplicate" }),
            _ => json!({ "status": "Accepted" }),
        })
    })
    .await;
    let said = cloud_b(&stub).report_usage(&events(4)).await;
    assert_eq!(verdicts(&said), [Verdict::Confirmed, Verdict::Duplicate, Verdict::Duplicate, Verdict::Confirmed]);
    assert_eq!(said[1].1.as_deref(), Some("This usage event already exist."));
}

#[tokio::test]
async fn statuses_become_verdicts_in_the_order_of_the_rows() {
    let statuses = [
        ("Accepted", Verdict::Confirmed),
        ("Expired", Verdict::Expired),
        ("Error", Verdict::VendorError),
        ("ResourceNotFound", Verdict::NotSubscribed),
        ("ResourceNotAuthorized", Verdict::NotAuthorized),
        ("ResourceNotActive", Verdict::NotSubscribed),
        ("InvalidDimension", Verdict::InvalidDimension),
        ("InvalidQuantity", Verdict::InvalidQuantity),
        ("BadArgument", Verdict::BadArgument),
        ("Odd", Verdict::VendorError),
    ];
    let stub = Stub::cloud_b(move |_, asked| {
        accepted(asked, |index, row| {
            // Ids come back in lower case.
            json!({ "status": statuses[index].0, "resourceId": "sub-1", "dimension": row["dimension"] })
        })
    })
    .await;
    let said = cloud_b(&stub).report_usage(&events(statuses.len())).await;
    assert_eq!(verdicts(&said), statuses.map(|(_, verdict)| verdict));

    let swapped = |_: usize, asked: &Asked| {
        let names = dimensions(asked);
        accepted(asked, |index, _| json!({ "status": "Accepted", "dimension": names[names.len() - 1 - index] }))
    };
    let stub = Stub::cloud_b(swapped).await;
    let said = cloud_b(&stub).report_usage(&events(3)).await;
    assert_eq!(verdicts(&said), [Verdict::VendorError, Verdict::Confirmed, Verdict::VendorError]);

    let stub = Stub::cloud_b(|_, _| says(200, json!({ "count": 1, "result": [{ "status": "Accepted" }] }))).await;
    assert_eq!(verdicts(&cloud_b(&stub).report_usage(&events(2)).await), [Verdict::VendorError; 2]);
}

#[tokio::test]
async fn numbers_are_carried_exactly() {
    let digits = ["0.000001", "123456789.012345", "999999999999999", "0.1", "3"];
    let stub = Stub::cloud_b(|_, asked| {
        let quantities = asked.text.split("\"quantity\":").skip(1);
        let quantities = quantities.map(|rest| rest.split(',').next().unwrap_or_default());
        // In the notation of another library.
        let rows = quantities.map(|digits| {
            let accepted = if digits == "0.000001" { "1.0E-6" } else { digits };
            format!(
                r#"{{"status":"Duplicate","error":{{"additionalInfo":{{"acceptedMessage":{{"quantity":{accepted}}}}}}}}}"#
            )
        });
        says_text(200, format!(r#"{{"result":[{}]}}"#, rows.collect::<Vec<_>>().join(",")))
    })
    .await;
    let mut rows = events(digits.len());
    rows.iter_mut().zip(digits).for_each(|(row, digits)| row.quantity = decimal(digits));
    assert_eq!(verdicts(&cloud_b(&stub).report_usage(&rows).await), [Verdict::Confirmed; 5]);
    let text = &stub.asked()[0].text;
    for digits in digits {
        assert!(text.contains(&format!("\"quantity\":{digits},")), "{digits} in {text}");
    }
    assert!(text.contains(r#""effectiveStartTime":"2026-01-05T09:30:00.000Z","planId":"gold""#), "{text}");
}

#[tokio::test]
async fn batches_have_25_rows_and_a_bad_one_is_isolated() {
    let stub = Stub::cloud_b(|_, asked| {
        if dimensions(asked).iter().any(|name| name == "d30") {
            return says(400, json!({ "error": { "code": "BadArgument", "message": "d30 is bad" } }));
        }
        accepted(asked, |_, _| json!({ "status": "Accepted" }))
    })
    .await;
    let said = cloud_b(&stub).report_usage(&events(51)).await;
    assert!(stub.asked().iter().all(|asked| dimensions(asked).len() <= 25));
    let refused: Vec<usize> = (0..51).filter(|row| said[*row].0 != Verdict::Confirmed).collect();
    assert_eq!(refused, [30]);
    assert_eq!(said[30], (Verdict::BadArgument, Some("d30 is bad".to_owned())));
}

#[tokio::test]
async fn the_face_sorts_rows_by_product() {
    let stub = Stub::start(|_, asked| match asked.json()["ProductCode"].as_str() {
        Some("p1") => successes(asked),
        _ => exception("InvalidProductCodeException"),
    })
    .await;
    let item = |product: &str, index: usize| UsageItem {
        product: product.to_owned(),
        customer: "123456789012".to_owned(),
        plan: None,
        dimension: format!("d{index}"),
        quantity: 1.into(),
        at: at(),
        licence: None,
    };
    let items = vec![item("p1", 0), item("p2", 1), item("p1", 2)];
    let said = Adapter::CloudA(cloud_a(&stub)).report_usage(items).await;
    assert_eq!(verdicts(&said), [Verdict::Confirmed, Verdict::BadArgument, Verdict::Confirmed]);
    assert_eq!(stub.asked().len(), 2);
}

#[tokio::test]
async fn accepted_usage_is_read_by_day() {
    let days = r#"[{"usageDate": "2026-01-05T00:00:00", "usageResourceId": "sub-1", "dimension": "calls",
                    "planId": "gold", "processedQuantity": 0.30, "submittedCount": 3}]"#;
    let stub = Stub::cloud_b(move |_, _| says_text(200, days)).await;
    let used = Adapter::CloudB(cloud_b(&stub)).accepted_usage(at()).await.expect("a list").expect("it tells");
    let midnight: Timestamp = "2026-01-05T00:00:00Z".parse().expect("a moment");
    assert_eq!((used[0].day, used[0].quantity), (Some(midnight), decimal("0.3")));
    let path = "/b/api/usageEvents?api-version=2018-08-31&usageStartDate=2026-01-05T09%3A30%3A00.000Z";
    assert_eq!(stub.asked()[0].path, path);
}
