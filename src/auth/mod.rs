//! A header in, a [`Caller`] out: bearer tokens, the client-credentials grant, and the rate limiter.

pub mod credentials;
pub mod limiter;
pub mod meter;
pub mod oauth;
pub mod oauth_error;
pub mod sharing;
pub mod vigil;

use crate::call::{Bearer, Caller};
use crate::error::{Error, Result, TokenProblem};
use crate::model::application::{Secret, hash_secret};
use crate::model::environment::Astray;
use crate::store::Store;

/// The caller behind an `Authorization` header. The store is asked every time, so a revocation counts at once.
pub async fn authenticate(store: &Store, authorization: Option<&str>) -> Result<Caller> {
    caller_behind(store, &token_hash(store, authorization)?).await
}

/// What a token of an `Authorization` header is known by.
fn token_hash(store: &Store, authorization: Option<&str>) -> Result<[u8; 32]> {
    let (token, here) = (credentials::bearer(authorization)?, store.environment());
    match Secret::environment(Secret::TOKEN, token) {
        Some(of) if of == here => Ok(hash_secret(token)),
        Some(of) => Err(Error::Unauthenticated(TokenProblem::Astray(Astray { of, here }))),
        None => Err(Error::Unauthenticated(TokenProblem::Invalid)),
    }
}

async fn caller_behind(store: &Store, hash: &[u8; 32]) -> Result<Caller> {
    let stored = store.find_token(hash).await?.ok_or(Error::Unauthenticated(TokenProblem::Invalid))?;
    if stored.expires_at <= store.clock().now() {
        return Err(Error::Unauthenticated(TokenProblem::Expired));
    }
    Ok(Caller::Application(Bearer {
        organization: stored.organization,
        application: stored.application,
        scopes: stored.scopes,
        limits: stored.limits,
        expires_at: stored.expires_at,
    }))
}
