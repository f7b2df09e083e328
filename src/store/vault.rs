//! Secrets at rest: sealed with a key from the configuration (XChaCha20-Poly1305), each bound to the record that it
//! belongs to. Without the key the database gives none of them away.

use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use surrealdb::types::SurrealValue;

use super::{OpenError, Store, Tenant, vars};
use crate::error::{Error, Result};

/// The key of the configuration.
#[derive(Clone)]
pub struct SecretKey(pub [u8; 32]);

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey")
    }
}

const NONCE: usize = 24;
/// What is sealed once per database, to know a wrong key when it comes.
const PROBE: &str = "mercato";

fn seal(key: &SecretKey, nonce: [u8; NONCE], place: &str, secret: &str) -> String {
    let payload = Payload { msg: secret.as_bytes(), aad: place.as_bytes() };
    let sealed = XChaCha20Poly1305::new((&key.0).into()).encrypt(&XNonce::from(nonce), payload);
    let sealed = sealed.expect("a short text can be encrypted");
    BASE64_STANDARD_NO_PAD.encode([&nonce[..], &sealed].concat())
}

fn open(key: &SecretKey, place: &str, sealed: &str) -> Option<String> {
    let bytes = BASE64_STANDARD_NO_PAD.decode(sealed).ok()?;
    let (nonce, sealed) = bytes.split_first_chunk::<NONCE>()?;
    let payload = Payload { msg: sealed, aad: place.as_bytes() };
    let secret = XChaCha20Poly1305::new((&key.0).into()).decrypt(&XNonce::from(*nonce), payload).ok()?;
    String::from_utf8(secret).ok()
}

#[derive(SurrealValue)]
struct Probe {
    value: surrealdb::types::Bytes,
}

impl Store {
    /// Makes sure that the key is the one that this database's secrets are sealed with.
    pub(super) async fn check_secret_key(&self) -> Result<(), OpenError> {
        const MAKE: &str = "INSERT IGNORE INTO setting { id: 'secret_probe', value: $value } RETURN NONE";
        let Some(key) = &self.0.secret_key else { return Ok(()) };
        let fresh = seal(key, self.clock().random(), PROBE, PROBE);
        self.step(MAKE, vars! { "value" => surrealdb::types::Bytes::from(fresh.into_bytes()) }).await?;
        let found: Option<Probe> = self
            .ask("SELECT * FROM ONLY setting:secret_probe", vars! {})
            .await
            .map_err(|error| self.unusable(&error))?;
        let sealed = found.and_then(|probe| String::from_utf8(probe.value.to_vec()).ok()).unwrap_or_default();
        if open(key, PROBE, &sealed).is_some() {
            return Ok(());
        }
        Err(OpenError(format!(
            "The secret key is not the one that the secrets in {} are sealed with; give the same --secret-key (or \
             --secret-key-file) to every process of a database.",
            self.url()
        )))
    }
}

impl Tenant {
    /// A secret as it is stored at `place`.
    pub(super) fn seal(&self, place: &str, secret: &str) -> Result<String> {
        Ok(seal(self.secret_key()?, self.clock().random(), place, secret))
    }

    /// The secret that was stored at `place`.
    pub(super) fn unseal(&self, place: &str, sealed: &str) -> Result<String> {
        open(self.secret_key()?, place, sealed)
            .ok_or_else(|| Error::internal(format!("the secret of {place} cannot be opened")))
    }

    fn secret_key(&self) -> Result<&SecretKey> {
        let key = self.store.0.secret_key.as_ref();
        key.ok_or_else(|| Error::Unavailable("this process was given no secret key".to_owned()))
    }
}
