//! The tokens of `cloud_b`'s notifications: only the marketplace's own, for us, now.

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use chrono::TimeDelta;
use hmac::{Hmac, KeyInit, Mac};
use mercato::clock::Clock;
use mercato::marketplace::cloud_b::CloudB;
use mercato::marketplace::jwt::{Expected, Keys, TokenError, verify};
use serde_json::{Value, json};
use sha2::Sha256;

use super::stub::{Stub, account_b, client, says, says_text};

/// A key of the marketplace, or of somebody else.
struct Signer {
    kid: &'static str,
    pair: KeyPair,
}

impl Signer {
    fn new(kid: &'static str) -> Self {
        Self { kid, pair: KeyPair::generate(KeySize::Rsa2048).expect("a key") }
    }

    /// RFC 8017's form: after nine bytes the modulus, and the exponent at the end.
    fn jwk(&self) -> Value {
        let der = self.pair.public_key().as_ref();
        let (modulus, exponent) = (&der[9..9 + 256], &der[der.len() - 3..]);
        json!({ "kty": "RSA", "use": "sig", "kid": self.kid, "n": BASE64.encode(modulus), "e": BASE64.encode(exponent) })
    }

    fn token(&self, header: Value, claims: &Value) -> String {
        let text = unsigned(header, claims);
        let algorithm = if text.starts_with(&BASE64.encode(r#"{"alg":"RS384"#)[..16]) {
            &RSA_PKCS1_SHA384
        } else {
            &RSA_PKCS1_SHA256
        };
        let mut signature = vec![0; self.pair.public_modulus_len()];
        self.pair.sign(algorithm, &SystemRandom::new(), text.as_bytes(), &mut signature).expect("a signature");
        format!("{text}.{}", BASE64.encode(signature))
    }

    fn sign(&self, claims: &Value) -> String {
        self.token(json!({ "alg": "RS256", "kid": self.kid, "typ": "JWT" }), claims)
    }
}

fn unsigned(header: Value, claims: &Value) -> String {
    format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()))
}

const MARKETPLACE: &str = "20e940b3-4c77-4b0b-9a53-9e16a1b010a7";

/// Claims that nothing is wrong with, and one of them changed; null takes it away.
fn claims(clock: &Clock, changed: Value) -> Value {
    let now = clock.now().as_seconds();
    let mut claims = json!({ "iss": "https://anybody.example/", "aud": "client-1", "tid": "tenant-1",
                             "appid": MARKETPLACE, "iat": now, "exp": now + 3600 });
    for (name, value) in changed.as_object().expect("an object") {
        claims[name] = value.clone();
    }
    let fields = claims.as_object_mut().expect("an object");
    fields.retain(|_, value| !value.is_null());
    claims
}

/// A marketplace that publishes what `set` says of the request's number.
async fn keys(clock: &Clock, set: impl Fn(usize) -> Vec<Value> + Send + Sync + 'static) -> (Stub, Keys, Expected) {
    let stub = Stub::start(move |before, _| match set(before) {
        none if none.is_empty() => says_text(503, "down"),
        keys => says(200, json!({ "keys": keys })),
    })
    .await;
    let account = account_b(&stub.url);
    let keys = Keys::new(client(clock), account.keys_url.clone());
    (stub, keys, CloudB::expected(&account))
}

#[tokio::test]
async fn only_the_marketplaces_tokens_for_us_are_accepted() {
    let (clock, signer, other) = (Clock::manual(), Signer::new("k1"), Signer::new("k1"));
    let published = vec![json!({ "kty": "EC", "kid": "ec" }), json!("nonsense"), signer.jwk()];
    let (stub, keys, expected) = keys(&clock, move |_| published.clone()).await;
    let token = |changed: Value| signer.sign(&claims(&clock, changed));
    let now = clock.now().as_seconds();
    let good = claims(&clock, json!({}));

    for accepted in [
        token(json!({})),
        token(json!({ "appid": null, "azp": MARKETPLACE })),
        token(json!({ "aud": ["someone", "client-1"] })),
        token(json!({ "exp": now - 59 })),
        token(json!({ "exp": i64::MAX })),
        token(json!({ "nbf": now + 60 })),
    ] {
        assert_eq!(verify(&keys, &accepted, &expected).await, Ok(()));
    }
    let hmac = {
        let text = unsigned(json!({ "alg": "HS256", "kid": "k1" }), &good);
        let public = signer.pair.public_key().as_der().expect("the public key");
        let mut mac = Hmac::<Sha256>::new_from_slice(public.as_ref()).expect("a key");
        mac.update(text.as_bytes());
        format!("{text}.{}", BASE64.encode(mac.finalize().into_bytes()))
    };
    let good_token = token(json!({}));
    let (head, signature) = good_token.rsplit_once('.').expect("three parts");
    let swapped = format!("{}.{signature}", unsigned(json!({ "alg": "RS256", "kid": "k1" }), &good));
    for (refused, because) in [
        (token(json!({ "exp": now - 60 })), TokenError::Expired),
        (token(json!({ "exp": null })), TokenError::Malformed),
        (token(json!({ "nbf": now + 61 })), TokenError::Early),
        (token(json!({ "nbf": i64::MAX })), TokenError::Early),
        (token(json!({ "aud": [] })), TokenError::Audience),
        (token(json!({ "aud": ["client-2", ["client-1"]] })), TokenError::Audience),
        (token(json!({ "appid": "client-1", "azp": "client-1" })), TokenError::Caller),
        (token(json!({ "aud": "client-2" })), TokenError::Audience),
        (token(json!({ "aud": null })), TokenError::Audience),
        (token(json!({ "tid": "tenant-2" })), TokenError::Tenant),
        (token(json!({ "tid": null })), TokenError::Tenant),
        (token(json!({ "appid": "client-1" })), TokenError::Caller),
        (token(json!({ "appid": null })), TokenError::Caller),
        // What is there and wrong is not mended by the other.
        (token(json!({ "appid": "client-1", "azp": MARKETPLACE })), TokenError::Caller),
        (other.sign(&good), TokenError::Signature),
        (swapped, TokenError::Signature),
        (format!("{head}."), TokenError::Signature),
        (format!("{}.", unsigned(json!({ "alg": "none", "kid": "k1" }), &good)), TokenError::Algorithm),
        (format!("{}.", unsigned(json!({ "alg": "None" }), &good)), TokenError::Algorithm),
        (hmac, TokenError::Algorithm),
        (signer.token(json!({ "alg": "RS384", "kid": "k1" }), &good), TokenError::Algorithm),
        (signer.token(json!({ "alg": "RS256" }), &good), TokenError::UnknownKey),
        (Signer::new("k2").sign(&good), TokenError::UnknownKey),
        (String::new(), TokenError::Malformed),
        ("a.b.c".to_owned(), TokenError::Malformed),
        (format!("{good_token}{}", "x".repeat(20_000)), TokenError::Malformed),
        ("x".repeat(1024 * 1024), TokenError::Malformed),
    ] {
        assert_eq!(verify(&keys, &refused, &expected).await, Err(because.clone()), "{because}: {refused}");
    }
    assert_eq!(stub.asked().len(), 1, "unknown keys right after the set was fetched ask for nothing");
}

#[tokio::test]
async fn keys_change_without_notice() {
    let (clock, old, new) = (Clock::manual(), Signer::new("old"), Signer::new("new"));
    let (first, second) = (vec![old.jwk()], vec![new.jwk()]);
    let (stub, keys, expected) =
        keys(&clock, move |before| if before == 0 { first.clone() } else { second.clone() }).await;
    let token = |signer: &Signer| signer.sign(&claims(&clock, json!({})));
    assert_eq!(verify(&keys, &token(&old), &expected).await, Ok(()));
    assert_eq!(verify(&keys, &token(&new), &expected).await, Err(TokenError::UnknownKey));
    assert_eq!(stub.asked().len(), 1);
    clock.advance(TimeDelta::seconds(30));
    assert_eq!(verify(&keys, &token(&new), &expected).await, Ok(()));
    assert_eq!(verify(&keys, &token(&old), &expected).await, Err(TokenError::UnknownKey), "it is not one any more");
    assert_eq!(stub.asked().len(), 2);
    clock.advance(TimeDelta::minutes(59));
    assert_eq!(verify(&keys, &token(&new), &expected).await, Ok(()));
    assert_eq!(stub.asked().len(), 2);
    clock.advance(TimeDelta::minutes(1));
    assert_eq!(verify(&keys, &token(&new), &expected).await, Ok(()));
    assert_eq!(stub.asked().len(), 3, "after an hour they are asked for again");
}

#[tokio::test]
async fn keys_of_old_serve_while_there_are_no_newer_ones() {
    let (clock, signer) = (Clock::manual(), Signer::new("k1"));
    let published = vec![signer.jwk()];
    let (stub, keys, expected) = keys(&clock, move |before| if before == 0 { published.clone() } else { vec![] }).await;
    let token = |clock: &Clock| signer.sign(&claims(clock, json!({})));
    assert_eq!(verify(&keys, &token(&clock), &expected).await, Ok(()));
    clock.advance(TimeDelta::hours(2));
    assert_eq!(verify(&keys, &token(&clock), &expected).await, Ok(()));
    assert_eq!(stub.asked().len(), 2, "one try: whoever has keys does not wait for long");
    assert_eq!(verify(&keys, &token(&clock), &expected).await, Ok(()));
    assert_eq!(stub.asked().len(), 2, "and the next one in 30 seconds");
    let unknown = Signer::new("k2").sign(&claims(&clock, json!({})));
    let error = verify(&keys, &unknown, &expected).await.expect_err("nobody knows it");
    assert!(matches!(error, TokenError::NoKeys(_)), "it may be a new one: {error}");
}

#[tokio::test]
async fn without_keys_nothing_is_said_of_a_token() {
    let (clock, signer) = (Clock::manual(), Signer::new("k1"));
    let published = vec![signer.jwk()];
    let (stub, keys, expected) = keys(&clock, move |before| if before < 4 { vec![] } else { published.clone() }).await;
    let token = signer.sign(&claims(&clock, json!({})));
    let both = tokio::join!(verify(&keys, &token, &expected), verify(&keys, &token, &expected));
    assert!(matches!(both, (Err(TokenError::NoKeys(_)), Err(TokenError::NoKeys(_)))), "{both:?}");
    assert_eq!(stub.asked().len(), 4, "both waited for one call");
    clock.advance(TimeDelta::seconds(30));
    assert_eq!(verify(&keys, &token, &expected).await, Ok(()));
}
