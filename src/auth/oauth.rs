//! The OAuth operations that need client credentials instead of a token: issue, revoke (RFC 7009), introspect (RFC 7662).
//! Only the client-credentials grant exists (spec, Authentication 1).

use serde::Serialize;
use subtle::ConstantTimeEq;

use super::credentials::{ClientCredentials, Form};
use super::limiter::{Key, Limiter};
use super::oauth_error::OAuthError;
use crate::model::application::{Secret, TOKEN_LIFETIME, environment_of_client, hash_secret};
use crate::model::environment::Astray;
use crate::model::scope::Scopes;
use crate::store::Store;
use crate::store::applications::Client;

/// The token response of the spec.
#[derive(Serialize)]
pub struct TokenResponse {
    pub access_token: String,
    pub token_type: &'static str,
    /// Seconds.
    pub expires_in: i64,
    pub scope: String,
}

/// The answer to an introspection; an inactive token says nothing more.
#[derive(Serialize)]
pub struct Introspection {
    pub active: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_type: Option<&'static str>,
    /// Unix seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exp: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iat: Option<i64>,
}

/// The client behind credentials.
async fn authenticate(store: &Store, credentials: &ClientCredentials) -> Result<Client, OAuthError> {
    let client = store.find_client(&credentials.client_id).await?;
    // An unknown client is compared as well, so that the time tells nothing.
    let expected = client.as_ref().map_or(&[0; 32][..], |client| &client.secret_hash);
    let matches: bool = hash_secret(&credentials.client_secret)[..].ct_eq(expected).into();
    client.filter(|_| matches).ok_or_else(|| refusal(store, credentials))
}

/// Credentials that are not accepted. What is said of another environment is read off their form, which the caller knows.
fn refusal(store: &Store, credentials: &ClientCredentials) -> OAuthError {
    let here = store.environment();
    let secret = Secret::environment(Secret::CLIENT_SECRET, &credentials.client_secret);
    let known = [environment_of_client(&credentials.client_id), secret];
    match known.into_iter().flatten().find(|of| *of != here) {
        Some(of) => OAuthError::ClientAstray(Astray { of, here }),
        None => OAuthError::InvalidClient,
    }
}

/// `POST /oauth/token`. `scope` narrows; without it the token has all scopes of its application.
pub async fn issue(
    store: &Store,
    limiter: &Limiter,
    authorization: Option<&str>,
    form: &Form,
) -> Result<TokenResponse, OAuthError> {
    match form.get("grant_type") {
        None => return Err(OAuthError::InvalidRequest("grant_type is required".to_owned())),
        Some("client_credentials") => {}
        Some(_) => return Err(OAuthError::UnsupportedGrantType),
    }
    let client = authenticate(store, &ClientCredentials::read(authorization, form)?).await?;
    // Counted only now: nobody can use up the limit of a client whose secret he does not know.
    limiter.take(Key::Client(client.application.id), client.limits, 1, store.clock().now())?;
    let scopes = narrow(client.application.scopes, form.get("scope"))?;
    let token = Secret::new(Secret::TOKEN, store.environment(), store.clock().random());
    store.put_token(&hash_secret(&token.0), &client, scopes).await?;
    Ok(TokenResponse { access_token: token.0, token_type: "Bearer", expires_in: TOKEN_LIFETIME, scope: scopes.join() })
}

fn narrow(granted: Scopes, asked: Option<&str>) -> Result<Scopes, OAuthError> {
    let Some(asked) = asked else { return Ok(granted) };
    let scopes = Scopes::split(asked).map_err(|word| OAuthError::InvalidScope(format!("{word} is not a scope")))?;
    if scopes.is_empty() || !scopes.is_within(granted) {
        return Err(OAuthError::InvalidScope("The application does not hold all of the requested scopes".to_owned()));
    }
    Ok(scopes)
}

/// `POST /oauth/revoke`: an unknown token is a success (RFC 7009 §2.2); another client's is refused.
pub async fn revoke(store: &Store, authorization: Option<&str>, form: &Form) -> Result<(), OAuthError> {
    let client = authenticate(store, &ClientCredentials::read(authorization, form)?).await?;
    let token = form.get("token").ok_or_else(|| OAuthError::InvalidRequest("token is required".to_owned()))?;
    let hash = hash_secret(token);
    match store.find_token(&hash).await? {
        Some(stored) if stored.application != client.application.id => Err(OAuthError::UnauthorizedClient),
        Some(stored) => Ok(store.delete_token(stored.organization, &hash).await?),
        None => Ok(()),
    }
}

/// `POST /oauth/introspect`: a client may ask about the tokens of its organization; any other token is inactive to it.
pub async fn introspect(store: &Store, authorization: Option<&str>, form: &Form) -> Result<Introspection, OAuthError> {
    let client = authenticate(store, &ClientCredentials::read(authorization, form)?).await?;
    let token = form.get("token").ok_or_else(|| OAuthError::InvalidRequest("token is required".to_owned()))?;
    let now = store.clock().now();
    let stored = store.find_token(&hash_secret(token)).await?;
    let visible = stored
        .filter(|token| token.organization == client.application.organization_id)
        .filter(|token| token.expires_at > now);
    Ok(match visible {
        None => Introspection { active: false, scope: None, client_id: None, token_type: None, exp: None, iat: None },
        Some(token) => Introspection {
            active: true,
            scope: Some(token.scopes.join()),
            client_id: Some(token.client_id.clone()),
            token_type: Some("Bearer"),
            exp: Some(token.expires_at.as_seconds()),
            iat: Some(token.expires_at.as_seconds() - TOKEN_LIFETIME),
        },
    })
}
