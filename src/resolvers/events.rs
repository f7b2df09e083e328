//! The event log as callers read it (`contract.md` §13, §15): pulled in pages, one by one, or followed live. Each caller
//! sees the kinds that its scopes open (§5).

use std::sync::Arc;

use crate::call::Call;
use crate::error::{Error, Result};
use crate::model::event::{Event, EventFilter, EventsAsked, Kinds, Sequence};
use crate::model::filter::Order;
use crate::model::id::EventId;
use crate::model::page::{ListName, PageRequest};
use crate::store::Tenant;
use crate::store::log::Tail;

/// Events that are looked through at once for those that a caller may see.
const SPAN: i64 = 5_000;
/// How often, before a page is answered with what was found.
const SPANS: usize = 40;

/// Some of the log, oldest first.
#[derive(Clone, Debug)]
pub struct EventPage {
    pub items: Vec<Arc<Event>>,
    /// Where the next page continues, if there is more.
    pub next: Option<Sequence>,
}

/// Those after a point that the caller may see; without one, from the oldest that is kept. 410 where the log does not
/// reach back so far any more.
pub async fn list(call: &Call, asked: EventsAsked, page: PageRequest) -> Result<EventPage> {
    let (tenant, filter) = granted(call, &asked)?;
    let scope = call.cursor_scope(ListName::Events, Order::Oldest);
    let window = page.check(&crate::model::filter::Filter::default(), &scope)?;
    let continued = match &window.after {
        Some(_) if asked.after.is_some() => {
            return Err(Error::malformed("cursor", "cannot be combined with afterSequence"));
        }
        Some(position) => Some(Sequence::parse(position).ok_or_else(|| Error::internal("a cursor has no place"))?),
        None => asked.after,
    };
    let last = tenant.last_sequence().await?;
    let mut after = match continued {
        Some(after) => existing(&tenant, after, last).await?,
        None => oldest(&tenant).await?,
    };
    let mut items = Vec::new();
    for _ in 0..SPANS {
        let until = Sequence(after.0.saturating_add(SPAN)).min(last);
        let wanted = window.limit - items.len();
        let found = tenant.events_between((after, until), &filter, wanted).await?;
        let full = found.len() == wanted;
        after = if full { found.last().map_or(until, |event| event.sequence) } else { until };
        items.extend(found);
        if full || after >= last {
            break;
        }
    }
    Ok(EventPage { items, next: (after < last).then_some(after) })
}

pub async fn get(call: &Call, id: &str) -> Result<Arc<Event>> {
    let (tenant, _) = call.grant_events(None)?;
    let event = tenant.get_event(EventId::named(id)?).await?;
    call.grant_events(Some(Kinds::from_iter([event.kind])))?;
    Ok(event)
}

/// What a caller follows: first the log after a point, then live, without a gap and without a duplicate.
pub struct Following {
    pub tail: Tail,
    pub filter: EventFilter,
}

/// Begins to follow; without a point, from now on.
pub async fn follow(call: &Call, asked: EventsAsked) -> Result<Following> {
    let (tenant, filter) = granted(call, &asked)?;
    if let Some(after) = asked.after {
        existing(&tenant, after, tenant.last_sequence().await?).await?;
    }
    Ok(Following { tail: tenant.tail(asked.after).await?, filter })
}

impl Following {
    /// The next events that the caller wants, in order; waits for them. Between them others may have passed by, so the
    /// list can be empty.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>> {
        let events = self.tail.next().await?;
        Ok(events.into_iter().filter(|event| self.filter.admits(event)).collect())
    }
}

fn granted(call: &Call, asked: &EventsAsked) -> Result<(Tenant, EventFilter)> {
    if asked.kinds.as_ref().is_some_and(Vec::is_empty) {
        return Err(Error::malformed("kinds", "must name at least one kind"));
    }
    let kinds = asked.kinds.as_ref().map(|kinds| kinds.iter().copied().collect());
    let (tenant, kinds) = call.grant_events(kinds)?;
    Ok((tenant, EventFilter { kinds, vendor: asked.vendor }))
}

/// A point that the log has, so that whatever comes after it can still be read.
pub(super) async fn existing(tenant: &Tenant, after: Sequence, last: Sequence) -> Result<Sequence> {
    if after > last {
        return Err(Error::invalid("afterSequence", format!("is ahead of the last event, which is {last}")));
    }
    let next = tenant.events_after(after, 1).await?;
    match next.first() {
        Some(next) if next.sequence.0 > after.0 + 1 => Err(Error::EventsExpired { oldest: next.sequence.0 }),
        None if after < last => Err(Error::EventsExpired { oldest: last.0 + 1 }),
        _ => Ok(after),
    }
}

/// The place before the oldest event that is kept.
async fn oldest(tenant: &Tenant) -> Result<Sequence> {
    let first = tenant.events_after(Sequence(0), 1).await?;
    match first.first() {
        Some(event) => Ok(Sequence(event.sequence.0 - 1)),
        None => tenant.last_sequence().await,
    }
}
