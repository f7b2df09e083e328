//! What was read lately, kept while it is certain to be current. A query costs the engine some hundred microseconds of
//! planning; the reads that nearly every request makes (its token, one customer, a page of them and what they have) are
//! worth remembering.
//!
//! Exactness comes from counting writes, not from time. A [`Word`] counts the writes of an organization (or of all
//! credentials) that are running and that have ended. A reader notes the word *before* it reads and keeps the value under
//! it; the value counts only while the word is still the same. A writer changes the word before its transaction and again
//! after it, so from the moment a write is under way until for ever, nothing that was read before it counts.
//!
//! Only a process that owns its engine can count all writes. On a shared server nothing is kept.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::Cache;

use super::tokens::StoredToken;
use crate::model::customer::{Customer, CustomerDetail};
use crate::model::id::{CustomerId, OrganizationId};
use crate::model::page::Page;

/// Organizations share words; that costs a read now and then, never a stale one.
const WORDS: usize = 1024;
const TOKENS: usize = 10_000;
const CUSTOMERS: usize = 20_000;
/// Pages of customers; each holds at most a hundred.
const PAGES: usize = 500;
/// First pages of what customers have; each holds some kilobytes.
const CHILDREN: usize = 5_000;

/// The lower 16 bits count the writes that are running, the upper 48 those that have ended.
#[derive(Default)]
pub(super) struct Word(AtomicU64);

const RUNNING: u64 = 0xffff;
const ENDED: u64 = 0x1_0000;

impl Word {
    /// What a value that is read from now on can be kept under; none while a write is running.
    pub(super) fn quiet(&self) -> Option<u64> {
        let word = self.0.load(Ordering::SeqCst);
        (word & RUNNING == 0).then_some(word)
    }

    fn begin(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn end(&self) {
        self.0.fetch_add(ENDED - 1, Ordering::SeqCst);
    }
}

type Kept<T> = (u64, Arc<T>);

/// A first page of what a customer has: organization, table, customer, limit.
pub(super) type ChildrenKey = (OrganizationId, &'static str, CustomerId, usize);

pub(super) struct ReadCache {
    owned: bool,
    records: Vec<Word>,
    credentials: Word,
    pub(super) tokens: Cache<[u8; 32], Kept<StoredToken>>,
    pub(super) customers: Cache<(OrganizationId, CustomerId), Kept<CustomerDetail>>,
    /// Newest first and not filtered: by where a page begins, and its limit.
    pub(super) pages: Cache<(OrganizationId, Option<String>, usize), Kept<Page<Customer>>>,
    /// Pages of whatever the table holds.
    pub(super) children: Cache<ChildrenKey, Kept<dyn Any + Send + Sync>>,
}

impl ReadCache {
    pub(super) fn new(owned: bool) -> Self {
        Self {
            owned,
            records: (0..WORDS).map(|_| Word::default()).collect(),
            credentials: Word::default(),
            tokens: Cache::new(TOKENS),
            customers: Cache::new(CUSTOMERS),
            pages: Cache::new(PAGES),
            children: Cache::new(CHILDREN),
        }
    }

    fn word(&self, organization: OrganizationId) -> &Word {
        let chance = usize::try_from(organization.0.0 % (WORDS as u128)).unwrap_or_default();
        &self.records[chance]
    }

    /// What a record of this organization can be kept under.
    pub(super) fn records_quiet(&self, organization: OrganizationId) -> Option<u64> {
        self.word(organization).quiet().filter(|_| self.owned)
    }

    /// What a token can be kept under.
    pub(super) fn credentials_quiet(&self) -> Option<u64> {
        self.credentials.quiet().filter(|_| self.owned)
    }

    /// Marks a write of an organization as running, until the mark is dropped. It must live as long as the transaction.
    pub(super) fn write(self: &Arc<Self>, organization: OrganizationId, credentials: bool) -> Writing {
        self.word(organization).begin();
        if credentials {
            self.credentials.begin();
        }
        Writing { cache: Arc::clone(self), organization, credentials }
    }

    /// Forgets everything: somebody is at work beneath the store.
    pub(super) fn clear(&self) {
        self.tokens.clear();
        self.customers.clear();
        self.pages.clear();
        self.children.clear();
    }
}

/// A write that is running.
pub(super) struct Writing {
    cache: Arc<ReadCache>,
    organization: OrganizationId,
    credentials: bool,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.cache.word(self.organization).end();
        if self.credentials {
            self.cache.credentials.end();
        }
    }
}

/// The value kept under `key`, if it was read under this very word.
pub(super) fn current<K: std::hash::Hash + Eq, T: ?Sized>(
    cache: &Cache<K, Kept<T>>,
    key: &K,
    quiet: Option<u64>,
) -> Option<Arc<T>> {
    let (read_under, value) = cache.get(key)?;
    (Some(read_under) == quiet).then_some(value)
}
