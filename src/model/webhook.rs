//! Webhooks: the record, its signing secret, and what may be written (spec "Webhook", `contract.md` §14).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::event::{EventKind, Kinds, Sequence};
use super::id::{OrganizationId, WebhookId};
use super::input::{Fields, Problems, check_echo, check_text};
use super::time::Timestamp;
use crate::error::{Error, Result};

pub const NAME_MAX: usize = 100;
/// Webhooks of one organization.
pub const WEBHOOKS_MAX: usize = 100;
/// Characters of a secret that is no `whsec_…`.
pub const SECRET_MAX: usize = 256;
/// Consecutive failures after which a webhook is disabled (spec, Delivery rules 5).
pub const FAILURES_MAX: u32 = 10;
/// Hours for which the secret before a rotation still signs.
pub const ROTATION_HOURS: i64 = 24;

super::wire_enum! {
    /// A disabled webhook is sent nothing: its events are held and can be replayed.
    WebhookStatus {
        Active = "active",
        Disabled = "disabled",
    }
}

/// Where events are sent, and which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    pub id: WebhookId,
    pub organization_id: OrganizationId,
    pub name: String,
    pub url: String,
    pub events: Kinds,
    pub status: WebhookStatus,
    /// Consecutive failures; a success resets it.
    pub failure_count: u32,
    /// When the last attempt began.
    pub last_triggered_at: Option<Timestamp>,
    pub disabled_at: Option<Timestamp>,
    pub has_secret: bool,
    /// Every event up to here was attempted or held, or is of another kind.
    pub last_sequence: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A webhook with its secret: the answer to creation and to rotation, and never again.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookWithSecret {
    #[serde(flatten)]
    pub webhook: Webhook,
    pub secret: SigningSecret,
}

impl std::fmt::Debug for WebhookWithSecret {
    /// Without the secret: what is printed for debugging ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.webhook.fmt(f)
    }
}

/// What deliveries are signed with, as the receiver knows it.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct SigningSecret(String);

impl SigningSecret {
    const PREFIX: &'static str = "whsec_";

    pub fn generate(chance: [u8; 32]) -> Self {
        Self(format!("{}{}", Self::PREFIX, BASE64_STANDARD.encode(chance)))
    }

    /// A secret out of the store.
    pub fn known(text: String) -> Self {
        Self(text)
    }

    /// One that a caller brings: `whsec_` with base64 of 24 to 64 bytes, or any other text.
    fn supplied(text: String, problems: &mut Problems) -> Option<Self> {
        let encoded = text.strip_prefix(Self::PREFIX);
        let bytes = encoded.map(|encoded| BASE64_STANDARD.decode(encoded).map_or(0, |bytes| bytes.len()));
        if bytes.is_some_and(|count| !(24..=64).contains(&count)) {
            problems.malformed("secret", "must be whsec_ followed by the base64 of 24 to 64 bytes");
            return None;
        }
        if bytes.is_none() && !(1..=SECRET_MAX).contains(&text.chars().count()) {
            problems.invalid("secret", format!("must be between 1 and {SECRET_MAX} characters"));
            return None;
        }
        Some(Self(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bytes that sign.
    pub fn key(&self) -> Vec<u8> {
        let encoded = self.0.strip_prefix(Self::PREFIX);
        let decoded = encoded.and_then(|encoded| BASE64_STANDARD.decode(encoded).ok());
        decoded.unwrap_or_else(|| self.0.as_bytes().to_vec())
    }
}

super::wire_enum! {
    /// Why an attempt failed. Coarse on purpose: what stands behind an address is not for a caller to explore.
    AttemptError {
        /// The name could not be resolved.
        Dns = "dns",
        Connect = "connect",
        /// The certificate is not valid for the host, or TLS failed otherwise.
        Tls = "tls",
        Timeout = "timeout",
        /// The address is not public.
        Blocked = "blocked",
        /// The receiver answered with another status than 2xx.
        Http = "http",
    }
}

/// What a caller asks to create or to change, as it came. For a creation `name`, `url` and `events` are required.
#[derive(Clone, Debug, Default)]
pub struct WebhookInput {
    pub name: Option<String>,
    pub url: Option<String>,
    pub events: Option<Vec<EventKind>>,
    pub status: Option<WebhookStatus>,
    pub secret: Option<String>,
    /// Read-only fields that came along, because clients write back what they read.
    pub echo: Map<String, Value>,
    pub problems: Problems,
}

pub const READ_ONLY: [&str; 4] = ["id", "organizationId", "hasSecret", "createdAt"];
/// What deliveries move meanwhile: accepted with whatever value it was read.
pub const MOVING: [&str; 5] = ["failureCount", "lastTriggeredAt", "disabledAt", "lastSequence", "updatedAt"];

/// The checked values of a creation.
pub struct NewWebhook {
    pub name: String,
    pub url: String,
    pub events: Kinds,
    pub secret: Option<SigningSecret>,
}

impl WebhookInput {
    pub fn for_create(body: Result<Value, String>) -> Self {
        let mut fields = Fields::read(body);
        let (name, url, events) = (fields.string("name"), fields.string("url"), fields.choices("events"));
        fields.require("name", name.as_ref());
        fields.require("url", url.as_ref());
        fields.require("events", events.as_ref());
        let secret = fields.optional_string("secret");
        Self { name, url, events, secret, problems: fields.finish(), ..Self::default() }
    }

    pub fn for_update(body: Result<Value, String>) -> Self {
        let mut fields = Fields::read(body);
        if fields.take("secret").is_some() {
            fields.problems.malformed("secret", "is changed by rotate-secret");
        }
        fields.take_echo(&MOVING);
        Self {
            name: fields.string("name"),
            url: fields.string("url"),
            events: fields.choices("events"),
            status: fields.choice("status"),
            secret: None,
            echo: fields.take_echo(&READ_ONLY),
            problems: fields.finish(),
        }
    }

    /// The kinds it names: what the caller's scopes must open.
    pub fn kinds(&self) -> Kinds {
        self.events.iter().flatten().copied().collect()
    }

    /// Raises what needs no record to be seen. `check_url` says what is wrong with a target.
    fn check(&mut self, check_url: impl Fn(&str) -> Result<(), &'static str>) -> Problems {
        let mut problems = std::mem::take(&mut self.problems);
        if let Some(name) = &self.name {
            check_text(&mut problems, "name", name, NAME_MAX);
        }
        if let Some(Err(reason)) = self.url.as_deref().map(check_url) {
            problems.invalid("url", reason);
        }
        if self.events.as_ref().is_some_and(Vec::is_empty) {
            problems.invalid("events", "must name at least one kind");
        }
        problems
    }

    /// The new values of a creation.
    pub fn into_new(mut self, check_url: impl Fn(&str) -> Result<(), &'static str>) -> Result<NewWebhook> {
        let mut problems = self.check(check_url);
        let events = self.kinds();
        let secret = self.secret.and_then(|text| SigningSecret::supplied(text, &mut problems));
        problems.raise()?;
        let (Some(name), Some(url)) = (self.name, self.url) else {
            return Err(Error::internal("a webhook without problems lacks a required field"));
        };
        Ok(NewWebhook { name, url, events, secret })
    }

    /// Raises what is wrong with an update before its record is read.
    pub fn check_update(&mut self, check_url: impl Fn(&str) -> Result<(), &'static str>) -> Result<()> {
        self.check(check_url).raise()
    }

    /// The webhook as it would be. Whoever makes it active again starts its count anew.
    pub fn apply(&self, current: &Webhook, now: Timestamp) -> Result<Webhook> {
        let mut problems = Problems::default();
        let before = serde_json::to_value(current).map_err(Error::internal)?;
        check_echo(&mut problems, &self.echo, &before);
        problems.raise()?;
        let status = self.status.unwrap_or(current.status);
        let mut next = Webhook {
            name: self.name.clone().unwrap_or_else(|| current.name.clone()),
            url: self.url.clone().unwrap_or_else(|| current.url.clone()),
            events: self.events.as_ref().map_or(current.events, |_| self.kinds()),
            status,
            ..current.clone()
        };
        if status != current.status {
            let disabled = status == WebhookStatus::Disabled;
            next.disabled_at = disabled.then_some(now);
            next.failure_count = if disabled { current.failure_count } else { 0 };
        }
        Ok(next)
    }
}

/// What a rotation brings along, if anything: a secret of the caller's own.
#[derive(Clone, Debug, Default)]
pub struct RotationInput {
    pub secret: Option<String>,
    pub problems: Problems,
}

impl RotationInput {
    /// `None` is a request without a body.
    pub fn from_json(body: Option<Result<Value, String>>) -> Self {
        let Some(body) = body else { return Self::default() };
        let mut fields = Fields::read(body);
        Self { secret: fields.optional_string("secret"), problems: fields.finish() }
    }

    pub fn into_secret(self) -> Result<Option<SigningSecret>> {
        let mut problems = self.problems;
        let secret = self.secret.and_then(|text| SigningSecret::supplied(text, &mut problems));
        problems.raise().map(|()| secret)
    }
}

/// Which part of the log is sent again.
#[derive(Clone, Debug, Default)]
pub struct ReplayInput {
    pub from_sequence: Option<Sequence>,
    /// The last event unless told.
    pub to_sequence: Option<Sequence>,
    /// Leave out what was delivered.
    pub only_undelivered: bool,
    pub problems: Problems,
}

impl ReplayInput {
    pub fn from_json(body: Result<Value, String>) -> Self {
        let mut fields = Fields::read(body);
        let from_sequence = sequence(&mut fields, "fromSequence");
        let named = fields.path("fromSequence");
        fields.problems.require(named, from_sequence.is_some());
        let to_sequence = sequence(&mut fields, "toSequence");
        let only_undelivered = fields.boolean("onlyUndelivered").unwrap_or_default();
        Self { from_sequence, to_sequence, only_undelivered, problems: fields.finish() }
    }

    /// The checked range, from and to included.
    pub fn into_range(self, last: Sequence) -> Result<(Sequence, Sequence)> {
        let mut problems = self.problems;
        let Some(from) = self.from_sequence else {
            return problems.raise().and(Err(Error::internal("a replay without problems lacks its beginning")));
        };
        let to = self.to_sequence.unwrap_or(last);
        if from.0 < 1 {
            problems.invalid("fromSequence", "must be at least 1");
        } else if from > last {
            problems.invalid("fromSequence", format!("is ahead of the last event, which is {last}"));
        } else if to < from {
            problems.invalid("toSequence", "must not be before fromSequence");
        }
        problems.raise().map(|()| (from, to.min(last)))
    }
}

fn sequence(fields: &mut Fields, name: &str) -> Option<Sequence> {
    let number = fields.integer(name)?;
    if (0..=Sequence::MAX).contains(&number) {
        return Some(Sequence(number));
    }
    fields.problems.malformed(name, "must be an integer from 0 to 2^53");
    None
}

/// A replay that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    pub webhook_id: WebhookId,
    pub from_sequence: i64,
    pub to_sequence: i64,
    pub only_undelivered: bool,
}
