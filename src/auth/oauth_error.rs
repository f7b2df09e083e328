//! What can go wrong at an OAuth endpoint, in the words of RFC 6749.

use crate::error::Error;
use crate::model::environment::Astray;

/// An error of RFC 6749 §5.2. The descriptions never say which half of the credentials was wrong.
#[derive(Debug)]
pub enum OAuthError {
    InvalidRequest(String),
    InvalidClient,
    /// They are credentials of another environment.
    ClientAstray(Astray),
    UnsupportedGrantType,
    InvalidScope(String),
    /// The token belongs to another client.
    UnauthorizedClient,
    /// Too many requests, or trouble of our own.
    Other(Error),
}

impl From<Error> for OAuthError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl OAuthError {
    /// `error`, and the text of `message` and `error_description`.
    pub fn describe(&self) -> (&'static str, String) {
        match self {
            Self::InvalidRequest(text) => ("invalid_request", text.clone()),
            Self::InvalidClient => ("invalid_client", "Invalid client credentials".to_owned()),
            Self::ClientAstray(astray) => ("invalid_client", format!("They are client credentials {astray}")),
            Self::UnsupportedGrantType => {
                ("unsupported_grant_type", "grant_type must be client_credentials".to_owned())
            }
            Self::InvalidScope(text) => ("invalid_scope", text.clone()),
            Self::UnauthorizedClient => ("unauthorized_client", "The token belongs to another client".to_owned()),
            Self::Other(error) => ("temporarily_unavailable", error.to_string()),
        }
    }
}
