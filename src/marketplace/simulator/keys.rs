//! The key that cloud_b's notifications are signed with, and the tokens themselves.

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use super::world::CloudB;
use crate::model::time::Timestamp;

/// How long a token of a notification is good, in seconds.
const VALID: i64 = 3600;
/// What stands before the key itself in the envelope of a 2048 bit key (PKCS #8, RFC 5208 §5).
const ENVELOPE: usize = 26;

pub struct SigningKey {
    kid: String,
    key: EncodingKey,
    public: Value,
}

impl SigningKey {
    /// Takes a moment: not for a thread that answers requests.
    pub fn generate() -> Self {
        let pair = KeyPair::generate(KeySize::Rsa2048).expect("the library makes keys of this size");
        let envelope = pair.as_der().expect("a key that was just made can be written");
        let key = EncodingKey::from_rsa_der(&envelope.as_ref()[ENVELOPE..]);
        let mut public =
            Jwk::from_encoding_key(&key, Algorithm::RS256).expect("the envelope of a 2048 bit key is fixed");
        let kid = public.thumbprint(jsonwebtoken::jwk::ThumbprintHash::SHA256);
        public.common.key_id = Some(kid.clone());
        public.common.public_key_use = Some(PublicKeyUse::Signature);
        let public = serde_json::to_value(public).expect("a public key is plain data");
        Self { kid, key, public }
    }

    pub fn kid(&self) -> &str {
        &self.kid
    }

    pub fn set(&self) -> Value {
        json!({"keys": [self.public]})
    }

    /// A token for a notification to this publisher.
    pub fn token(&self, publisher: &CloudB, now: Timestamp) -> String {
        let header = Header { kid: Some(self.kid.clone()), ..Header::new(Algorithm::RS256) };
        let claims = json!({
            "iss": format!("https://sts.windows.net/{}/", publisher.tenant_id),
            "aud": publisher.client_id,
            "tid": publisher.tenant_id,
            "appid": "20e940b3-4c77-4b0b-9a53-9e16a1b010a7",
            "iat": now.as_seconds(),
            "nbf": now.as_seconds(),
            "exp": now.as_seconds() + VALID,
        });
        jsonwebtoken::encode(&header, &claims, &self.key).expect("an RSA key signs plain claims")
    }
}
