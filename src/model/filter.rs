//! What GraphQL's lists can be narrowed to and ordered by, the same for every resource. REST's lists take neither
//! (`contract.md` §2).

use ulid::Ulid;

use super::id::{CustomerId, invert};
use super::input::Problems;
use super::page::PageRequest;
use super::time::Timestamp;
use super::vendor::Vendor;

/// Words of one search; more would only cost.
pub const SEARCH_WORDS_MAX: usize = 5;
/// Characters of one search.
pub const SEARCH_MAX: usize = 200;

/// The order of a list. The last two go by what the resource has besides its creation: a name, an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Newest,
    Oldest,
    Ascending,
    Descending,
}

/// From the first moment, up to but without the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}

/// What a record must be to be listed. What a resource does not have is not asked of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub vendor: Option<Vendor>,
    /// The wire form of one of the resource's states.
    pub status: Option<&'static str>,
    pub listing_id: Option<String>,
    pub customer: Option<CustomerId>,
    pub created: Range,
    /// Of the resource's own date: an entitlement's end, an offer's expiry.
    pub dated: Range,
    pub search: Option<String>,
}

/// A list as it is asked for.
#[derive(Clone, Debug)]
pub struct ListQuery {
    pub page: PageRequest,
    pub filter: Filter,
    pub order: Order,
}

impl From<PageRequest> for ListQuery {
    fn from(page: PageRequest) -> Self {
        Self { page, filter: Filter::default(), order: Order::Newest }
    }
}

impl Filter {
    /// Whom a caller names. An id that cannot be one is that of a customer who has nothing.
    pub fn customer_named(id: &str) -> CustomerId {
        CustomerId::parse(id).unwrap_or(CustomerId(Ulid::nil()))
    }

    pub fn check(&self, problems: &mut Problems) {
        let Some(search) = &self.search else { return };
        let count = words(search).len();
        if search.chars().count() > SEARCH_MAX {
            problems.invalid("filter.search", format!("must not be longer than {SEARCH_MAX} characters"));
        } else if count == 0 {
            problems.invalid("filter.search", "must contain a letter or a digit");
        } else if count > SEARCH_WORDS_MAX {
            problems.invalid("filter.search", format!("must not have more than {SEARCH_WORDS_MAX} words"));
        }
    }
}

/// The words of a text, as they are found: lower case, letters and digits, each once.
pub fn words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let mut words: Vec<String> =
        lower.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()).map(cut).collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// A word in the index is at most 40 characters long.
fn cut(word: &str) -> String {
    word.chars().take(40).collect()
}

/// The places of a record in the orders that a list can have: texts that sort as the records should stand.
#[derive(Clone, Debug)]
pub struct OrderKeys {
    pub oldest: String,
    pub ascending: String,
    pub descending: String,
}

/// What a resource is ordered by besides its creation.
#[derive(Clone, Debug)]
pub enum OrderBy<'a> {
    Text(&'a str),
    /// Without an end: after all that have one.
    Moment(Option<Timestamp>),
}

/// After every key.
const LAST: char = '~';
/// Bytes of a text that count for the order.
const TEXT_BYTES: usize = 24;

impl OrderKeys {
    pub fn of(id: Ulid, by: &OrderBy<'_>) -> Self {
        let (bytes, key) = (by.bytes(), invert(id));
        Self { oldest: id.to_string(), ascending: hex(&bytes, 0) + &key, descending: hex(&bytes, u8::MAX) + &key }
    }
}

impl OrderBy<'_> {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => {
                let mut bytes = text.to_lowercase().into_bytes();
                bytes.resize(TEXT_BYTES, 0);
                bytes
            }
            Self::Moment(moment) => {
                moment.map_or(u64::MAX, |at| at.as_millis().max(0).unsigned_abs()).to_be_bytes().into()
            }
        }
    }
}

fn hex(bytes: &[u8], flip: u8) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{:02x}", byte ^ flip))
}

/// Positions after the first and up to the second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    pub after: Option<String>,
    pub until: Option<String>,
}

impl Range {
    /// As positions in the order of creation.
    pub fn created_bounds(self, order: Order) -> Bounds {
        let first = |at: Timestamp| Ulid::from_parts(at.as_millis().max(0).unsigned_abs(), 0);
        let before = |at| Ulid(first(at).0.saturating_sub(1)).to_string();
        match order {
            Order::Newest => {
                Bounds { after: self.to.map(|to| invert(first(to))), until: self.from.map(|from| invert(first(from))) }
            }
            _ => Bounds { after: self.from.map(before), until: self.to.map(before) },
        }
    }

    /// As positions in the order of the resource's own date.
    pub fn dated_bounds(self, order: Order) -> Bounds {
        let text = |at: Option<Timestamp>, flip| hex(&OrderBy::Moment(at).bytes(), flip);
        // What has no end is in no range of ends.
        let to = self.to.map(Some).or(self.from.map(|_| None));
        match order {
            Order::Descending => {
                let end = |at| text(at, u8::MAX) + &LAST.to_string();
                Bounds { after: to.map(end), until: self.from.map(|from| end(Some(from))) }
            }
            _ => Bounds { after: self.from.map(|from| text(Some(from), 0)), until: to.map(|to| text(to, 0)) },
        }
    }
}
