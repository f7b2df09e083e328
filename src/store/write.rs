//! The spine: every change is one SurrealQL block, hence one transaction (record, idempotency row, the organization's
//! next `sequence`, the event).
//!
//! A writer gives a *planner*: read what is needed, decide, say what to write. The helper runs it in the organization's
//! lane and runs it again when somebody else was faster, so a plan may trust what it read.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use surrealdb::types::{Object, RecordId, SurrealValue, Value};

use super::errors::{self, WriteFailure};
use super::idempotency::{Memory, Once, Outcome, RETENTION};
use super::{Tenant, vars};
use crate::error::{Error, Refusal, Result};
use crate::model::event::{Halves, NewEvent, Sequence};
use tracing::Instrument;

/// Attempts before a contended write is given back as 503.
const MAX_ATTEMPTS: u32 = 12;
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Statements of one transaction, and their values.
#[derive(Clone, Default)]
pub struct Block {
    statements: String,
    vars: Object,
    credentials: bool,
}

impl Block {
    /// Adds statements, each ended by `;`. Their parameter names must be new to the block.
    #[must_use]
    pub fn then(self, statements: &'static str, vars: Object) -> Self {
        self.and(Self { statements: statements.to_owned(), vars, credentials: false })
    }

    /// Says that the block may void tokens: no token that was read before it counts any more.
    #[must_use]
    pub fn voiding_credentials(self) -> Self {
        Self { credentials: true, ..self }
    }

    /// Both, in this order, in one transaction.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.statements.push_str(&other.statements);
        self.vars.extend(other.vars);
        self.credentials |= other.credentials;
        self
    }

    fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// The transaction, and its values.
    pub(super) fn into_query(self) -> (String, Object) {
        (format!("{{ {} }}", self.statements), self.vars)
    }
}

/// What a planner decided: the answer, what has to be written for it, and what the world is told.
pub struct Plan<T> {
    pub answer: T,
    pub block: Block,
    /// In the order they are told.
    pub events: Vec<NewEvent>,
    /// What the plan was made from; the transaction fails, and is planned again, when that is no longer so.
    pub seen: Option<Seen>,
}

/// The number of the organization's last event when a planner began to read. Whatever is told of in events cannot have
/// changed while it is still the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(pub(super) i64);

impl<T> Plan<T> {
    /// An answer that changes nothing.
    pub fn unchanged(answer: T) -> Self {
        Self::quiet(answer, Block::default())
    }

    /// The same change with another answer.
    pub fn answering<U>(self, answer: U) -> Plan<U> {
        Plan { answer, block: self.block, events: self.events, seen: self.seen }
    }

    /// A change that nobody is told of.
    pub fn quiet(answer: T, block: Block) -> Self {
        Self { answer, block, events: Vec::new(), seen: None }
    }
}

/// The idempotency key of one write, and the row that remembers what it led to.
#[derive(Clone, Copy)]
struct Key<'a> {
    once: &'a Once,
    row: &'a RecordId,
    /// The row is there but past its time: it goes in the same transaction.
    stale: bool,
}

/// The last statements of a block: they answer the number of the last event.
const EVENTS: &str = "
    LET $last = (UPDATE ONLY $organization SET sequence += array::len($events) RETURN AFTER).sequence;
    FOR $news IN $events {
        LET $sequence = $last - $news.later;
        CREATE ONLY type::record('event', [$event_org, $sequence]) CONTENT {
            kind: $news.kind, vendor: $news.vendor, at: $news.at,
            envelope: string::concat($news.head, <string> $sequence, $news.tail)
        } RETURN NONE;
    };
    RETURN $last;";

impl Tenant {
    /// Runs a change to its end: at most once under an idempotency key, in the lane, with bounded retries.
    pub async fn write<T, P, F>(&self, plan: P) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
        P: Fn() -> F,
        F: Future<Output = Result<Plan<T>>>,
    {
        match &self.once {
            None => self.attempt(None, &plan).await,
            Some(once) => self.write_once(once, &plan).await,
        }
    }

    async fn write_once<T, P, F>(&self, once: &Once, plan: &P) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
        P: Fn() -> F,
        F: Future<Output = Result<Plan<T>>>,
    {
        let row = once.next_row();
        let _running = self.store.0.running.begin(row.clone())?;
        let stale = match self.store.recall(&row, once).await? {
            Memory::Known(Outcome::Done(answer)) => return Ok(answer),
            Memory::Known(Outcome::Refused(refusal)) => return Err(Error::Refused(refusal)),
            Memory::Stale => true,
            Memory::Nothing => false,
        };
        let key = Key { once, row: &row, stale };
        match self.attempt(Some(key), plan).await {
            Err(Error::Refused(refusal)) => self.remember_refusal(key, refusal).await,
            result => result,
        }
    }

    /// Keeps a refusal under its key, unless another process has an outcome there already: then that one counts, and it
    /// may well be the very change that made us refuse.
    async fn remember_refusal<T: Serialize + DeserializeOwned>(&self, key: Key<'_>, refusal: Refusal) -> Result<T> {
        let remember = self.remembering(key, &Outcome::<T>::Refused(refusal.clone()))?;
        match self.commit(remember).await {
            Ok(_) => Err(Error::Refused(refusal)),
            Err(WriteFailure::Final(error)) => Err(error),
            Err(WriteFailure::AlreadyDone | WriteFailure::Conflict) => self.answer_of_other(Some(key)).await,
        }
    }

    /// The statements that keep an outcome. They fail where one is kept already that is not past its time.
    fn remembering<T: Serialize>(&self, key: Key<'_>, outcome: &Outcome<T>) -> Result<Block> {
        let mut block = Block::default();
        if key.stale {
            let limit = vars! { "stale" => self.clock().now().plus(-RETENTION) };
            block = block.then("IF $once.at <= $stale { DELETE $once };", limit);
        }
        let vars = vars! { "once" => key.row.clone(), "memory" => self.store.memory(key.once, outcome)? };
        Ok(block.then("CREATE ONLY $once CONTENT $memory RETURN NONE;", vars))
    }

    async fn attempt<T, P, F>(&self, key: Option<Key<'_>>, plan: &P) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
        P: Fn() -> F,
        F: Future<Output = Result<Plan<T>>>,
    {
        let _lane = self.store.0.lanes.enter(self.organization).await?;
        let mut pause = FIRST_PAUSE;
        for _ in 0..MAX_ATTEMPTS {
            let planned = plan().await?;
            let halves: Vec<_> = planned.events.iter().map(|event| event.halves(self.store.environment())).collect();
            let block = self.complete(&planned, &halves, key)?;
            if block.is_empty() {
                return Ok(planned.answer);
            }
            match self.commit(block).await {
                Ok(last) => {
                    self.tell(&planned.events, &halves, last)?;
                    return Ok(planned.answer);
                }
                Err(WriteFailure::Final(error)) => return Err(error),
                Err(WriteFailure::AlreadyDone) => return self.answer_of_other(key).await,
                Err(WriteFailure::Conflict) => {
                    tokio::time::sleep(pause.mul_f64(0.5 + self.clock().fraction())).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
        Err(Error::Unavailable(format!("{MAX_ATTEMPTS} attempts to write for {} collided", self.organization)))
    }

    /// Another process finished the same request first: its outcome is ours.
    async fn answer_of_other<T: DeserializeOwned>(&self, key: Option<Key<'_>>) -> Result<T> {
        let Some(key) = key else {
            return Err(Error::internal("an idempotency row collided in a request without a key"));
        };
        match self.store.recall(key.row, key.once).await? {
            Memory::Known(Outcome::Done(answer)) => Ok(answer),
            Memory::Known(Outcome::Refused(refusal)) => Err(Error::Refused(refusal)),
            Memory::Stale | Memory::Nothing => Err(Error::KeyInFlight),
        }
    }

    /// The plan's block with the events and the idempotency row that belong to it.
    fn complete<T: Serialize>(&self, plan: &Plan<T>, halves: &[Halves], key: Option<Key<'_>>) -> Result<Block> {
        // First of all, so that a twin in another process fails here and not on what the first one changed.
        let mut block = match key {
            Some(key) => self.remembering(key, &Outcome::Done(&plan.answer))?,
            None => Block::default(),
        };
        if let Some(Seen(seen)) = plan.seen {
            block = block.then(UNSEEN, vars! { "organization" => self.organization_record(), "seen" => seen });
        }
        block = block.and(plan.block.clone());
        if !plan.events.is_empty() {
            let later = (0..plan.events.len()).rev();
            let rows =
                plan.events.iter().zip(halves).zip(later).map(|((event, halves), later)| row_of(event, halves, later));
            let vars = vars! {
                "organization" => self.organization_record(),
                "event_org" => self.organization.to_string(),
                "events" => rows.collect::<Vec<Object>>(),
            };
            block = block.then(EVENTS, vars);
        }
        Ok(block)
    }

    /// What was committed is known here without being read again.
    fn tell(&self, events: &[NewEvent], halves: &[Halves], last: Option<i64>) -> Result<()> {
        let Some(last) = last.filter(|_| !events.is_empty()) else { return Ok(()) };
        let first = last + 1 - i64::try_from(events.len()).map_err(Error::internal)?;
        let placed = events.iter().zip(halves).zip(first..);
        let placed = placed.map(|((event, halves), sequence)| Arc::new(event.placed(Sequence(sequence), halves)));
        self.store.0.log.committed(self.organization, placed.collect());
        Ok(())
    }

    /// Runs the transaction to its end on a task of its own: a caller who goes away must not leave it half counted. Answers
    /// what the last statement does, if that is a number.
    async fn commit(&self, block: Block) -> Result<Option<i64>, WriteFailure> {
        let writing = self.store.0.cache.write(self.organization, block.credentials);
        let (store, (text, vars)) = (self.store.clone(), block.into_query());
        let transaction = async move {
            let mut response = store.db().query(text).bind(vars).await.map_err(errors::write)?;
            let answer = response.take::<Value>(0).map_err(errors::write);
            let result = answer.map(|answer| i64::from_value(answer).ok());
            drop(writing);
            result
        };
        tokio::spawn(transaction.in_current_span())
            .await
            .unwrap_or_else(|error| Err(WriteFailure::Final(Error::internal(error))))
    }
}

fn row_of(event: &NewEvent, (head, tail): &Halves, later: usize) -> Object {
    vars! {
        "kind" => event.kind.as_str(), "vendor" => event.vendor, "at" => event.id.created_at(),
        "head" => head.as_str(), "tail" => tail.as_str(), "later" => i64::try_from(later).unwrap_or(i64::MAX),
    }
}

/// Fails when anything was told since the plan was made.
const UNSEEN: &str = "IF $organization.sequence != $seen { THROW 'moved' };";

/// Fails when a record that tells of itself in no event was changed since the plan read it.
pub(super) const UNMOVED: &str = "IF $record.revision != $revision { THROW 'moved' };";
