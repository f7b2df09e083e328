//! Lists: how many, from where, and the opaque cursor that says so (`contract.md` §2).
//!
//! A cursor is the position of the last item seen, with a MAC that binds it to the organization, the list and its order.
//! It holds no count and no time, so it never expires, and a walk meets every record that existed at its start exactly once.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::filter::{Filter, Order};
use super::id::OrganizationId;
use super::input::Problems;
use crate::error::{Error, Result};

pub const DEFAULT_LIMIT: usize = 20;
pub const MAX_LIMIT: usize = 100;
/// Records of one step of a walk over a whole list.
const WALK: usize = 500;
const MAC_BYTES: usize = 16;

/// The key that cursors are authenticated with: one per database, so every process and every restart agrees.
#[derive(Clone)]
pub struct CursorKey(pub [u8; 32]);

/// Which list a cursor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListName {
    Customers,
    Applications,
    Entitlements,
    PrivateOffers,
    Metering,
    Events,
    Webhooks,
    Deliveries,
    Notifications,
}

/// A place in a list of one organization.
pub struct CursorScope<'a> {
    pub key: &'a CursorKey,
    pub organization: OrganizationId,
    pub list: ListName,
    pub order: Order,
}

impl CursorScope<'_> {
    fn mac(&self, position: &[u8]) -> [u8; MAC_BYTES] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key.0).expect("HMAC takes keys of any length");
        mac.update(&self.organization.0.to_bytes());
        mac.update(&[self.list as u8, self.order as u8]);
        mac.update(position);
        let full = mac.finalize().into_bytes();
        std::array::from_fn(|index| full[index])
    }

    /// The cursor that continues after a position: the text that the list is ordered by.
    pub fn encode(&self, position: &str) -> String {
        let position = position.as_bytes();
        BASE64_URL_SAFE_NO_PAD.encode([&self.mac(position)[..], position].concat())
    }

    pub fn decode(&self, cursor: &str) -> Option<String> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (mac, position) = bytes.split_first_chunk::<MAC_BYTES>()?;
        let authentic: bool = subtle::ConstantTimeEq::ct_eq(&mac[..], &self.mac(position)[..]).into();
        String::from_utf8(position.to_vec()).ok().filter(|_| authentic)
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
#[derive(Clone, Debug)]
pub struct Window {
    pub limit: usize,
    /// A position of the list's order.
    pub after: Option<String>,
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

    /// A part of a walk over the whole list, which nobody limits.
    pub fn whole(cursor: Option<String>) -> Self {
        Self { limit: WALK, cursor, names: ("limit", "cursor"), problems: Problems::default() }
    }

    fn set_limit(&mut self, limit: Option<i64>) {
        match limit {
            Some(limit) if limit >= 1 => self.limit = usize::try_from(limit).unwrap_or(MAX_LIMIT).min(MAX_LIMIT),
            _ => self.problems.malformed(self.names.0, "must be an integer of at least 1"),
        }
    }

    pub fn check(self, filter: &Filter, scope: &CursorScope<'_>) -> Result<Window> {
        let mut problems = self.problems;
        filter.check(&mut problems);
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
    /// Where each item stands in the list's order.
    pub positions: Vec<String>,
    pub has_more: bool,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { items: Vec::new(), positions: Vec::new(), has_more: false }
    }
}

impl<T> Page<T> {
    /// `rows` were asked for one more than `limit`: that one only tells that more follows.
    pub fn from_rows(mut rows: Vec<(String, T)>, limit: usize) -> Self {
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let (positions, items) = rows.into_iter().unzip();
        Self { items, positions, has_more }
    }

    /// The first of it.
    pub fn cut(mut self, limit: usize) -> Self {
        self.has_more |= self.items.len() > limit;
        self.items.truncate(limit);
        self.positions.truncate(limit);
        self
    }

    /// The position that the next page continues after.
    pub fn next(&self) -> Option<&str> {
        self.positions.last().filter(|_| self.has_more).map(String::as_str)
    }

    pub fn map<U>(self, convert: impl FnMut(T) -> U) -> Page<U> {
        let items = self.items.into_iter().map(convert).collect();
        Page { items, positions: self.positions, has_more: self.has_more }
    }

    pub fn try_map<U>(self, convert: impl FnMut(T) -> Result<U, Error>) -> Result<Page<U>, Error> {
        let items = self.items.into_iter().map(convert).collect::<Result<_, _>>()?;
        Ok(Page { items, positions: self.positions, has_more: self.has_more })
    }
}
