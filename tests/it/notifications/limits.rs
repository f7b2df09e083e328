//! What strangers cost: they are refused before anything is looked up, and fill no table; the marketplace never is.

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::doors::{CLOSED, Doors, Signer, account_b, notice};
use crate::harness::{Reply, listen_options};

/// So many requests a minute that nobody answers for.
async fn limited(address_limit: u32) -> Doors {
    let mut options = listen_options();
    options.address_limit = address_limit;
    Doors::with(options).await
}

impl Doors {
    /// A request with the wrong secret, which is tried as often as it gets in.
    async fn guess(&self) -> Reply {
        let secret = Some(("x-mercato-secret", "guessed"));
        self.tell(&self.organization.to_string(), "cloud_a", secret, "{}").await
    }

    async fn spend(&self) {
        while self.guess().await.status != 429 {}
    }

    /// The newest first.
    async fn noted(&self) -> Vec<Value> {
        self.refusals().await.into_iter().map(|mut row| row["target"].take()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_no_credit_left_is_refused_before_anything_is_looked_up() {
    let doors = limited(4).await;
    let unknown = "org_01KE6X17G0C9ZQ4T8V2N5B7XKD";
    for (organization, vendor) in [("nonsense", "cloud_a"), (unknown, "cloud_b"), (unknown, "cloud_a")] {
        assert_eq!(doors.tell(organization, vendor, None, "{}").await.status, 401);
    }
    assert_eq!(doors.guess().await.status, 401);
    let asked = doors.app.store.queries();
    for _ in 0..5 {
        let refused = doors.guess().await;
        assert_eq!(refused.refused(429, "RATE_LIMITED"), "Rate limit exceeded");
        assert_eq!(refused.header("retry-after"), "60");
    }
    assert_eq!(doors.app.store.queries(), asked);
    doors.app.advance(TimeDelta::minutes(1));
    assert_eq!(doors.guess().await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_marketplace_needs_no_credit() {
    let doors = limited(3).await;
    for number in 0..20 {
        assert_eq!(doors.tell_a(&notice(&format!("op-{number}"))).await.status, 200);
        assert_eq!(doors.tell_b(&doors.token(), &notice(&format!("op-{number}"))).await.status, 200);
    }
    // Somebody at the same cloud, so from the same address, spends what there is.
    doors.spend().await;
    assert_eq!(doors.tell_a(&notice("op-20")).await.status, 200);
    assert_eq!(doors.tell_b(&doors.token(), &notice("op-20")).await.status, 200);
    let asked = doors.app.store.queries();
    let forged = Signer::new().sign(&doors.claims(json!({})));
    let expired = doors.signer.sign(&doors.claims(json!({ "exp": 0 })));
    for token in [forged, expired, "x.y".to_owned()] {
        assert_eq!(doors.tell_b(&token, &notice("op-21")).await.status, 429);
    }
    assert_eq!(doors.app.store.queries(), asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_marketplace_whose_keys_cannot_be_had_is_not_charged_for_it() {
    let doors = limited(3).await;
    doors.connect(&account_b(CLOSED)).await;
    for _ in 0..5 {
        assert_eq!(doors.tell_b(&doors.token(), &notice("op-1")).await.status, 503);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_written_down_once_an_hour_with_their_number() {
    let doors = limited(1_000_000).await;
    let missing = async || doors.tell(&doors.organization.to_string(), "cloud_a", None, "{}").await;
    let sweep = async || doors.app.app.inbox.sweep().await.expect("the sweep runs");
    for _ in 0..4 {
        doors.guess().await;
    }
    missing().await;
    let at_once = [json!("the secret is missing"), json!("the secret is another one")];
    assert_eq!(doors.noted().await, at_once);
    doors.app.advance(TimeDelta::minutes(59));
    sweep().await;
    assert_eq!(doors.noted().await, at_once, "the hour is not over");
    doors.app.advance(TimeDelta::minutes(1));
    sweep().await;
    let more = json!("the secret is another one: 3 more since 2026-01-05T10:00:00.000Z");
    assert_eq!(doors.noted().await, [&[more], &at_once[..]].concat());
    // One in the second hour, none in the third; the next is told at once.
    doors.guess().await;
    for expected in [4, 4] {
        doors.app.advance(TimeDelta::hours(1));
        sweep().await;
        assert_eq!(doors.noted().await.len(), expected);
    }
    doors.guess().await;
    assert_eq!(doors.noted().await.len(), 5);
}

/// A credential that stands there twice may be read by a proxy as one and by us as the other.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_no_marketplace_sends_are_refused() {
    let doors = limited(1_000_000).await;
    let url = format!("{}/marketplace/cloud_b/{}", doors.app.app.base_url, doors.organization);
    let bearer = format!("Bearer {}", doors.token());
    let request = || doors.app.http.post(&url).body(notice("op-1"));
    let twice = request().header("authorization", &bearer).header("authorization", &bearer);
    assert_eq!(Reply::of(twice).await.status, 401);
    let long = request().header("authorization", format!("Bearer {}", "x".repeat(100_000)));
    assert_eq!(Reply::of(long).await.status, 401);
    assert_eq!(Reply::of(request().header("authorization", &bearer)).await.status, 200);
}
