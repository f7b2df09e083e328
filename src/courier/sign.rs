//! The Standard Webhooks signature: HMAC-SHA256 of `id.timestamp.body`, in base64, one for each secret that counts.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::model::webhook::SigningSecret;

/// The value of `webhook-signature`.
pub fn signatures(secrets: &[SigningSecret], id: &str, timestamp: i64, body: &[u8]) -> String {
    let signed = secrets.iter().map(|secret| {
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret.key()).expect("HMAC takes keys of any length");
        mac.update(id.as_bytes());
        mac.update(format!(".{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    });
    signed.collect::<Vec<_>>().join(" ")
}
