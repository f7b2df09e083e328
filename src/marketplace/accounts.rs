//! An organization's account at a marketplace: what callers may write, what is sealed, and what they may read back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::{Host, Url};

use crate::courier::target::Allowed;
use crate::error::{Error, Result};
use crate::model::input::{Fields, Problems};
use crate::model::vendor::Vendor;

/// The longest id, in characters, and the longest secret.
const ID_MAX: usize = 128;
const SECRET_MAX: usize = 1024;

/// A secret. It is serialized as it is, to be sealed, and never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "vendor")]
pub enum Account {
    #[serde(rename = "cloud_a")]
    CloudA(CloudAAccount),
    #[serde(rename = "cloud_b")]
    CloudB(CloudBAccount),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloudAAccount {
    pub access_key_id: String,
    pub secret_access_key: Secret,
    pub region: String,
    pub metering_url: String,
    pub catalog_url: String,
    pub agreements_url: String,
    /// What its notifications carry.
    pub notification_secret: Secret,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloudBAccount {
    pub tenant_id: String,
    pub client_id: String,
    pub client_secret: Secret,
    pub token_url: String,
    /// Of subscriptions and metering.
    pub base_url: String,
    /// Of private offers.
    pub ingestion_url: String,
    pub keys_url: String,
    /// Our application id: whom notifications are for.
    pub audience: String,
    pub publisher_id: String,
}

/// An account as callers may read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RedactedAccount {
    pub vendor: Vendor,
    /// Names of fields and what they hold: ids, the region.
    pub ids: BTreeMap<String, String>,
    pub urls: BTreeMap<String, String>,
    pub region: Option<String>,
    pub has_secret: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Id,
    Region,
    Secret,
    /// A URL that is called as it stands.
    Url,
    /// A URL that paths are put after.
    Base,
}

const CLOUD_A: [(&str, Kind); 7] = [
    ("accessKeyId", Kind::Id),
    ("secretAccessKey", Kind::Secret),
    ("region", Kind::Region),
    ("meteringUrl", Kind::Base),
    ("catalogUrl", Kind::Base),
    ("agreementsUrl", Kind::Base),
    ("notificationSecret", Kind::Secret),
];

const CLOUD_B: [(&str, Kind); 9] = [
    ("tenantId", Kind::Id),
    ("clientId", Kind::Id),
    ("clientSecret", Kind::Secret),
    ("tokenUrl", Kind::Url),
    ("baseUrl", Kind::Base),
    ("ingestionUrl", Kind::Base),
    ("keysUrl", Kind::Url),
    ("audience", Kind::Id),
    ("publisherId", Kind::Id),
];

fn fields_of(vendor: Vendor) -> &'static [(&'static str, Kind)] {
    match vendor {
        Vendor::CloudA => &CLOUD_A,
        Vendor::CloudB => &CLOUD_B,
    }
}

impl Account {
    pub fn vendor(&self) -> Vendor {
        match self {
            Self::CloudA(_) => Vendor::CloudA,
            Self::CloudB(_) => Vendor::CloudB,
        }
    }

    /// What callers may read back.
    pub fn redacted(&self) -> RedactedAccount {
        let mut redacted = RedactedAccount {
            vendor: self.vendor(),
            ids: BTreeMap::new(),
            urls: BTreeMap::new(),
            region: None,
            has_secret: true,
        };
        let written = serde_json::to_value(self).expect("an account is plain data");
        for (field, kind) in fields_of(self.vendor()) {
            let text = written[*field].as_str().unwrap_or_default().to_owned();
            match kind {
                Kind::Id => drop(redacted.ids.insert((*field).to_owned(), text)),
                Kind::Url | Kind::Base => drop(redacted.urls.insert((*field).to_owned(), text)),
                Kind::Region => redacted.region = Some(text),
                Kind::Secret => redacted.has_secret &= !text.is_empty(),
            }
        }
        redacted
    }
}

/// What a caller asks to keep, as it came: nothing is checked before [`NewAccount::check`].
#[derive(Clone, Default)]
pub struct NewAccount {
    pub vendor: Option<Vendor>,
    /// By the names of the account's fields.
    pub fields: BTreeMap<&'static str, String>,
    pub problems: Problems,
}

impl std::fmt::Debug for NewAccount {
    /// Without the values: secrets are among them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.fields.keys().collect();
        f.debug_struct("NewAccount").field("vendor", &self.vendor).field("fields", &names).finish_non_exhaustive()
    }
}

impl NewAccount {
    pub fn from_json(body: Result<Value, String>) -> Self {
        let mut input = Fields::read(body);
        let vendor = input.choice("vendor");
        input.require("vendor", vendor.as_ref());
        let mut fields = BTreeMap::new();
        // Without a vendor any field may belong to it.
        let expected: Vec<Vendor> = vendor.map_or_else(|| Vendor::ALL.to_vec(), |vendor| vec![vendor]);
        for (name, _) in expected.into_iter().flat_map(fields_of) {
            let text = input.string(name);
            if vendor.is_some() {
                input.require(name, text.as_ref());
            }
            fields.extend(text.map(|text| (*name, text)));
        }
        Self { vendor, fields, problems: input.finish() }
    }

    /// The account, or everything that is wrong with it. `loopback` admits plain http to this machine: the simulator.
    pub fn check(self, loopback: bool) -> Result<Account> {
        let Self { vendor, mut fields, mut problems } = self;
        for (name, kind) in vendor.map(fields_of).unwrap_or_default() {
            match fields.get(name) {
                Some(text) => check_field(&mut problems, name, *kind, text, loopback),
                None => problems.require(*name, false),
            }
        }
        problems.require("vendor", vendor.is_some());
        problems.raise()?;
        let vendor = vendor.ok_or_else(|| Error::internal("an account without problems lacks its vendor"))?;
        let tag = ("vendor".to_owned(), Value::from(vendor.as_str()));
        fields.retain(|name, _| fields_of(vendor).iter().any(|(own, _)| own == name));
        let own = fields.into_iter().map(|(name, text)| (name.to_owned(), Value::from(text)));
        let object: Map<String, Value> = own.chain([tag]).collect();
        serde_json::from_value(Value::Object(object)).map_err(Error::internal)
    }
}

fn check_field(problems: &mut Problems, name: &str, kind: Kind, text: &str, loopback: bool) {
    let wrong = match kind {
        Kind::Id => check_id(text),
        Kind::Region => check_region(text),
        Kind::Secret => check_secret(text),
        Kind::Url => check_url(text, loopback),
        Kind::Base => check_url(text, loopback).or_else(|| check_base(text)),
    };
    if let Some(wrong) = wrong {
        problems.invalid(name, wrong);
    }
}

/// What vendors make ids of; all of it may stand in a header.
fn check_id(text: &str) -> Option<String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte);
    let fits = (1..=ID_MAX).contains(&text.len()) && text.bytes().all(allowed);
    (!fits).then(|| format!("must be 1 to {ID_MAX} of the characters A-Z a-z 0-9 . _ : / -"))
}

fn check_region(text: &str) -> Option<String> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fits = (1..=ID_MAX).contains(&text.len()) && text.bytes().all(allowed);
    (!fits).then(|| format!("must be 1 to {ID_MAX} of the characters a-z 0-9 -"))
}

fn check_secret(text: &str) -> Option<String> {
    let fits = (1..=SECRET_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    (!fits).then(|| format!("must be 1 to {SECRET_MAX} visible ASCII characters"))
}

/// The house's rules for targets; with `loopback`, this machine is one, and by plain http too.
fn check_url(text: &str, loopback: bool) -> Option<String> {
    let own: &[&str] = if loopback { &["127.0.0.0/8", "::1/128"] } else { &[] };
    let allowed = Allowed(own.iter().map(|net| net.parse().expect("a subnet is written there")).collect());
    let secure = text.strip_prefix("http://").filter(|_| loopback && is_loopback(text));
    let secure = secure.map_or_else(|| text.to_owned(), |rest| format!("https://{rest}"));
    allowed.check(&secure).err().map(str::to_owned)
}

fn is_loopback(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

fn check_base(text: &str) -> Option<String> {
    let has_query = Url::parse(text).is_ok_and(|url| url.query().is_some());
    has_query.then(|| "must not have a query".to_owned())
}
