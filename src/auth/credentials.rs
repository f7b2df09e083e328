//! Reading credentials off a request: the `Authorization` header (RFC 6750, RFC 7617) and the form body (RFC 6749 §2.3.1).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::oauth_error::OAuthError;
use crate::error::{Error, Result, TokenProblem};

/// The token of a `Bearer` header. The scheme's name has no case (RFC 9110 §11.1).
pub fn bearer(authorization: Option<&str>) -> Result<&str> {
    let header = authorization.ok_or(Error::Unauthenticated(TokenProblem::Missing))?;
    scheme(header, "bearer").ok_or(Error::Unauthenticated(TokenProblem::Invalid))
}

fn scheme<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let (scheme, rest) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case(name).then(|| rest.trim_matches(' '))
}

/// The fields of a form body, each at most once.
#[derive(Debug, Default)]
pub struct Form(Vec<(String, String)>);

impl Form {
    pub fn parse(body: &[u8]) -> Result<Self, OAuthError> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(body) {
            if fields.iter().any(|(seen, _)| *seen == name) {
                return Err(OAuthError::InvalidRequest(format!("{name} is given more than once")));
            }
            fields.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(fields))
    }

    /// A field; an empty one counts as absent (RFC 6749 §3.1).
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, value)| field == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }
}

/// What a client says of itself. Not printable: it holds a secret.
pub struct ClientCredentials {
    pub client_id: String,
    pub client_secret: String,
}

impl ClientCredentials {
    /// From the form or from HTTP Basic, never from both.
    pub fn read(authorization: Option<&str>, form: &Form) -> Result<Self, OAuthError> {
        let in_form = form.get("client_id").is_some() || form.get("client_secret").is_some();
        let Some(header) = authorization else { return Self::from_form(form) };
        if form.get("client_secret").is_some() {
            return Err(OAuthError::InvalidRequest(
                "Send the client credentials in the form or by HTTP Basic, not both".to_owned(),
            ));
        }
        let credentials = Self::from_basic(header).ok_or(OAuthError::InvalidClient)?;
        if in_form && form.get("client_id") != Some(&credentials.client_id) {
            return Err(OAuthError::InvalidRequest("client_id differs from the Authorization header".to_owned()));
        }
        Ok(credentials)
    }

    fn from_form(form: &Form) -> Result<Self, OAuthError> {
        match (form.get("client_id"), form.get("client_secret")) {
            (Some(client_id), Some(client_secret)) => {
                Ok(Self { client_id: client_id.to_owned(), client_secret: client_secret.to_owned() })
            }
            (None, _) => Err(OAuthError::InvalidRequest("client_id is required".to_owned())),
            (_, None) => Err(OAuthError::InvalidRequest("client_secret is required".to_owned())),
        }
    }

    /// Both halves are form-encoded inside Basic (RFC 6749 §2.3.1); ours need no encoding, so decoding is harmless.
    fn from_basic(header: &str) -> Option<Self> {
        let decoded = BASE64_STANDARD.decode(scheme(header, "basic")?).ok()?;
        let (client_id, client_secret) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
        Some(Self { client_id: form_decode(client_id), client_secret: form_decode(client_secret) })
    }
}

fn form_decode(text: &str) -> String {
    form_urlencoded::parse(format!("v={}", text.replace('&', "%26")).as_bytes())
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}
