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
        let moment = timestamp.to_string();
        let mut value = String::new();
        for ready in &self.0 {
            let mac =
                [id.as_bytes(), b".", moment.as_bytes(), b".", body].into_iter().fold(ready.clone(), Mac::chain_update);
            value.push_str(if value.is_empty() { "v1," } else { " v1," });
            BASE64_STANDARD.encode_string(mac.finalize().into_bytes(), &mut value);
        }
        value
    }
}
