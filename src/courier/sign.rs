//! The Standard Webhooks signature: HMAC-SHA256 of `id.timestamp.body`, in base64, one for each secret that counts.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::model::webhook::SigningSecret;

/// The keys of a webhook's secrets, made ready once.
pub struct Signer(Vec<Hmac<Sha256>>);

impl Signer {
    pub fn new(secrets: &[SigningSecret]) -> Self {
        let ready = |secret: &SigningSecret| {
            Hmac::<Sha256>::new_from_slice(&secret.key()).expect("HMAC takes keys of any length")
        };
        Self(secrets.iter().map(ready).collect())
    }

    /// The value of `webhook-signature`.
    pub fn signatures(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let head = format!("{id}.{timestamp}.");
        let signed = self.0.iter().map(|ready| {
            let mac = ready.clone().chain_update(&head).chain_update(body);
            format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
        });
        signed.collect::<Vec<_>>().join(" ")
    }
}
