//! Keeping an eye on the token behind a stream: it was valid when the stream began, and the stream ends when it is not.

use std::time::Duration;

use quick_cache::sync::Cache;
use tokio::time::Instant;

use super::{caller_behind, token_hash};
use crate::call::Caller;
use crate::error::{Error, Result};
use crate::store::Store;

/// How long an answer of a shared database is good for. (An embedded one remembers tokens itself, and exactly.)
const GOOD_FOR: Duration = Duration::from_millis(250);
/// Tokens whose answers are remembered.
const TOKENS: usize = 10_000;

/// What shared databases said of tokens lately, for all streams of this process.
pub struct Vigilance(Cache<[u8; 32], (Instant, Result<Caller>)>);

impl Default for Vigilance {
    fn default() -> Self {
        Self(Cache::new(TOKENS))
    }
}

/// The token of one stream.
#[derive(Clone)]
pub struct Vigil([u8; 32]);

impl Vigil {
    /// Begins with the rules of [`super::authenticate`].
    pub async fn begin(store: &Store, authorization: Option<&str>) -> Result<(Self, Caller)> {
        let hash = token_hash(store, authorization)?;
        let caller = caller_behind(store, &hash).await?;
        Ok((Self(hash), caller))
    }

    /// The caller as the token is now.
    pub async fn caller(&self, store: &Store, vigilance: &Vigilance) -> Result<Caller> {
        if store.is_embedded() {
            return caller_behind(store, &self.0).await;
        }
        if let Some((at, answer)) = vigilance.0.get(&self.0)
            && at.elapsed() < GOOD_FOR
        {
            return answer;
        }
        let answer = caller_behind(store, &self.0).await;
        vigilance.0.insert(self.0, (Instant::now(), answer.clone()));
        answer
    }

    /// Whether the stream must end. A database that does not answer has not revoked anything, and sends no events either.
    pub async fn check(&self, store: &Store, vigilance: &Vigilance) -> Result<()> {
        match self.caller(store, vigilance).await {
            Err(error @ Error::Unauthenticated(_)) => Err(error),
            Err(error) => {
                tracing::warn!(
                    cause = error.cause(),
                    "the token of a stream could not be looked at; it is tried again"
                );
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}
