//! OAuth applications: the record, its credentials' shape, and what may be written (spec "OAuth application",
//! `contract.md` §4).

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::environment::Environment;
use super::id::{ApplicationId, OrganizationId};
use super::input::{Fields, Problems, check_echo, check_text};
use super::scope::{Scope, Scopes};
use super::time::Timestamp;
use crate::error::{Error, Result};

pub const NAME_MAX: usize = 100;
pub const DESCRIPTION_MAX: usize = 500;
/// Seconds that an access token lives (spec, Authentication 5).
pub const TOKEN_LIFETIME: i64 = 3600;

/// An OAuth application, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Application {
    pub id: ApplicationId,
    pub organization_id: OrganizationId,
    pub name: String,
    pub description: String,
    pub scopes: Scopes,
    pub client_id: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// When it last obtained a token.
    pub last_used_at: Option<Timestamp>,
    pub secret_rotated_at: Timestamp,
}

/// An application with its secret: the answer to creation and to regeneration, and never again.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationWithSecret {
    #[serde(flatten)]
    pub application: Application,
    pub client_secret: String,
}

impl std::fmt::Debug for ApplicationWithSecret {
    /// Without the secret: what is printed for debugging ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.application.fmt(f)
    }
}

/// How many requests an application may make: units in any hour and in any minute (spec, Limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    pub hour: u32,
    pub minute: u32,
}

impl RateLimits {
    pub const DOCUMENTED: Self = Self { hour: 1000, minute: 50 };
    /// So high that no client reaches it: for load tests, given by an operator.
    pub const UNLIMITED: Self = Self { hour: 1_000_000_000, minute: 1_000_000_000 };
}

/// A secret that a machine keeps: `<kind><mark><43 characters of chance><6 characters of checksum>`. Kind, the mark of its
/// environment and checksum let secret scanners (and us) recognize one without asking the store.
pub struct Secret(pub String);

impl Secret {
    pub const TOKEN: &'static str = "mct_";
    pub const CLIENT_SECRET: &'static str = "mcs_";

    pub fn new(kind: &str, environment: Environment, chance: [u8; 32]) -> Self {
        let body = format!("{kind}{}{}", environment.mark(), BASE64_URL_SAFE_NO_PAD.encode(chance));
        let check = checksum(&body);
        Self(body + &check)
    }

    /// Whose secret it is, if the text has the form of one of this kind and its checksum fits.
    pub fn environment(kind: &str, text: &str) -> Option<Environment> {
        let of = |environment: Environment| {
            let prefix = format!("{kind}{}", environment.mark());
            let parts = text.split_at_checked(prefix.len() + 43);
            parts.is_some_and(|(body, check)| body.starts_with(&prefix) && checksum(body) == check)
        };
        Environment::ALL.iter().copied().find(|environment| of(*environment))
    }
}

const CLIENT_ID: &str = "mci_";

/// A client id: `mci_<mark><22 characters of chance>`.
pub fn new_client_id(environment: Environment, chance: [u8; 16]) -> String {
    format!("{CLIENT_ID}{}{}", environment.mark(), BASE64_URL_SAFE_NO_PAD.encode(chance))
}

/// Whose client id it is, if the text has the form of one.
pub fn environment_of_client(text: &str) -> Option<Environment> {
    let rest = text.strip_prefix(CLIENT_ID)?;
    let of = |environment: &Environment| rest.strip_prefix(environment.mark()).is_some_and(|chance| chance.len() == 22);
    Environment::ALL.iter().copied().find(of)
}

fn checksum(body: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(body.as_bytes())[..4])
}

/// What the store keeps of a secret. 256 bits of chance need no slow hash.
pub fn hash_secret(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// What a caller asks to create or to change, as it came. For a creation `name` and `scopes` are required.
#[derive(Clone, Debug, Default)]
pub struct ApplicationInput {
    pub name: Option<String>,
    pub description: Option<String>,
    pub scopes: Option<Vec<Scope>>,
    /// Read-only fields that came along, because clients write back what they read.
    pub echo: Map<String, Value>,
    pub problems: Problems,
}

pub const READ_ONLY: [&str; 7] =
    ["id", "organizationId", "clientId", "createdAt", "updatedAt", "lastUsedAt", "secretRotatedAt"];

impl ApplicationInput {
    pub fn for_create(body: Result<Value, String>) -> Self {
        let mut fields = Fields::read(body);
        let name = fields.string("name");
        let scopes = fields.choices("scopes");
        fields.require("name", name.as_ref());
        fields.require("scopes", scopes.as_ref());
        let description = fields.string("description");
        Self { name, description, scopes, echo: Map::new(), problems: fields.finish() }
    }

    pub fn for_update(body: Result<Value, String>) -> Self {
        let mut fields = Fields::read(body);
        Self {
            name: fields.string("name"),
            description: fields.string("description"),
            scopes: fields.choices("scopes"),
            echo: fields.take_echo(&READ_ONLY),
            problems: fields.finish(),
        }
    }

    /// Raises what needs no record to be seen.
    pub fn check(&mut self) -> Result<()> {
        let mut problems = std::mem::take(&mut self.problems);
        if let Some(name) = &self.name {
            check_text(&mut problems, "name", name, NAME_MAX);
        }
        if let Some(description) = self.description.as_ref().filter(|text| !text.is_empty()) {
            check_text(&mut problems, "description", description, DESCRIPTION_MAX);
        }
        if self.scopes.as_ref().is_some_and(Vec::is_empty) {
            problems.invalid("scopes", "must name at least one scope");
        }
        problems.raise()
    }

    /// The new values of a creation.
    pub fn into_new(mut self) -> Result<(String, String, Scopes)> {
        self.check()?;
        let (Some(name), Some(scopes)) = (self.name, self.scopes) else {
            return Err(Error::internal("an application without problems lacks a required field"));
        };
        Ok((name, self.description.unwrap_or_default(), scopes.into_iter().collect()))
    }

    /// The application as it would be, or why it may not become so. `may_widen` is a person's right.
    pub fn apply(&self, current: &Application, may_widen: bool) -> Result<Application> {
        let mut problems = Problems::default();
        let before = serde_json::to_value(current).map_err(Error::internal)?;
        check_echo(&mut problems, &self.echo, &before);
        problems.raise()?;
        let scopes = self.scopes.as_ref().map_or(current.scopes, |scopes| scopes.iter().copied().collect());
        if !may_widen && !scopes.is_within(current.scopes) {
            return Err(Error::Forbidden("An application cannot widen its own scopes; an administrator can"));
        }
        Ok(Application {
            name: self.name.clone().unwrap_or_else(|| current.name.clone()),
            description: self.description.clone().unwrap_or_else(|| current.description.clone()),
            scopes,
            ..current.clone()
        })
    }
}
