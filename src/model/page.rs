//! Lists: how many, from where, and the opaque cursor that says so (`contract.md` §2).
//!
//! A cursor is the key of the last item seen, with a MAC that binds it to the organization and the list. It holds no
//! count and no time, so it never expires, and a walk meets every record that existed at its start exactly once.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use ulid::Ulid;

use super::id::OrganizationId;
use super::input::Problems;
use crate::error::{Error, Result};

pub const DEFAULT_LIMIT: usize = 20;
pub const MAX_LIMIT: usize = 100;
const MAC_BYTES: usize = 16;

/// The key that cursors are authenticated with: one per database, so every process and every restart agrees.
#[derive(Clone)]
pub struct CursorKey(pub [u8; 32]);

/// Which list a cursor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListName {
    Customers,
    Applications,
}

/// A place in a list of one organization.
pub struct CursorScope<'a> {
    pub key: &'a CursorKey,
    pub organization: OrganizationId,
    pub list: ListName,
}

impl CursorScope<'_> {
    fn mac(&self, position: &[u8; 16]) -> [u8; MAC_BYTES] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key.0).expect("HMAC takes keys of any length");
        mac.update(&self.organization.0.to_bytes());
        mac.update(&[self.list as u8]);
        mac.update(position);
        let full = mac.finalize().into_bytes();
        std::array::from_fn(|index| full[index])
    }

    /// The cursor that continues after `last`.
    pub fn encode(&self, last: Ulid) -> String {
        let position = last.to_bytes();
        BASE64_URL_SAFE_NO_PAD.encode([position, self.mac(&position)].concat())
    }

    pub fn decode(&self, cursor: &str) -> Option<Ulid> {
        let bytes: [u8; 16 + MAC_BYTES] = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?.try_into().ok()?;
        let (position, mac) = bytes.split_first_chunk::<16>()?;
        let authentic: bool = subtle::ConstantTimeEq::ct_eq(mac, &self.mac(position)[..]).into();
        authentic.then(|| Ulid::from_bytes(*position))
    }
}

/// What a caller asks of a list, as it came.
#[derive(Clone, Debug)]
pub struct PageRequest {
    pub limit: usize,
    pub cursor: Option<String>,
    /// What the caller calls the two: `limit` and `cursor`, or `first` and `after`.
    pub names: (&'static str, &'static str),
    pub problems: Problems,
}

/// A checked request: `limit` items after `after`.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub limit: usize,
    pub after: Option<Ulid>,
}

impl PageRequest {
    /// The REST form. Above 100 means 100; below 1 or no integer is refused; so is any other parameter.
    pub fn from_query(query: &str) -> Self {
        let mut page =
            Self { limit: DEFAULT_LIMIT, cursor: None, names: ("limit", "cursor"), problems: Problems::default() };
        let mut seen = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if seen.contains(&name) {
                page.problems.malformed(name.clone(), "must be given once");
            }
            match &*name {
                "limit" => page.set_limit(parse_limit(&value)),
                "cursor" => page.cursor = Some(value.into_owned()),
                other => page.problems.malformed(other, "is not a known query parameter; lists take limit and cursor"),
            }
            seen.push(name);
        }
        page
    }

    /// The GraphQL form.
    pub fn from_arguments(first: Option<i32>, after: Option<String>) -> Self {
        let mut page =
            Self { limit: DEFAULT_LIMIT, cursor: after, names: ("first", "after"), problems: Problems::default() };
        if let Some(first) = first {
            page.set_limit(Some(i64::from(first)));
        }
        page
    }

    fn set_limit(&mut self, limit: Option<i64>) {
        match limit {
            Some(limit) if limit >= 1 => self.limit = usize::try_from(limit).unwrap_or(MAX_LIMIT).min(MAX_LIMIT),
            _ => self.problems.malformed(self.names.0, "must be an integer of at least 1"),
        }
    }

    pub fn check(self, scope: &CursorScope<'_>) -> Result<Window> {
        let mut problems = self.problems;
        let after = self.cursor.and_then(|cursor| {
            let position = scope.decode(&cursor);
            if position.is_none() {
                problems.malformed(self.names.1, "is not a cursor of this list");
            }
            position
        });
        problems.raise()?;
        Ok(Window { limit: self.limit, after })
    }
}

/// Digits only; more than fit are simply "above 100".
fn parse_limit(text: &str) -> Option<i64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(i64::MAX))
}

/// Some of a list, and whether more follows.
#[derive(Clone, Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub has_more: bool,
}

impl<T> Page<T> {
    /// `rows` were asked for one more than `limit`: that one only tells that more follows.
    pub fn from_rows(mut rows: Vec<T>, limit: usize) -> Self {
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        Self { items: rows, has_more }
    }

    pub fn map<U>(self, convert: impl FnMut(T) -> U) -> Page<U> {
        Page { items: self.items.into_iter().map(convert).collect(), has_more: self.has_more }
    }

    pub fn try_map<U>(self, convert: impl FnMut(T) -> Result<U, Error>) -> Result<Page<U>, Error> {
        Ok(Page { items: self.items.into_iter().map(convert).collect::<Result<_, _>>()?, has_more: self.has_more })
    }
}
