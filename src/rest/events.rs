//! The event log over REST.

use serde::Serialize;
use serde_json::value::RawValue;

use super::answer::Answer;
use super::endpoint::Ask;
use crate::error::{Error, FieldError};
use crate::http::failure::Failure;
use crate::model::event::{Event, EventsAsked, Sequence};
use crate::model::filter::Order;
use crate::model::page::{ListName, PageRequest};
use crate::resolvers::events;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Items<'a> {
    items: Vec<&'a RawValue>,
    next_cursor: Option<String>,
}

/// Oldest first, after `afterSequence`; `cursor` continues a page as in every list.
pub async fn list(ask: Ask) -> Result<Answer, Failure> {
    let (after, rest) = split_query(ask.query())?;
    let asked = EventsAsked { after, ..EventsAsked::default() };
    let page = events::list(&ask.call, asked, PageRequest::from_query(&rest)).await?;
    let cursors = ask.call.cursor_scope(ListName::Events, Order::Oldest);
    let next_cursor = page.next.map(|place| cursors.encode(&place.to_string()));
    let items = page.items.iter().map(|event| raw(event)).collect::<Result<_, _>>()?;
    Answer::of(&ask, Items { items, next_cursor })
}

pub async fn get(ask: Ask) -> Result<Answer, Failure> {
    let event = events::get(&ask.call, ask.id()).await?;
    Answer::of(&ask, raw(&event)?)
}

/// The envelope as it was stored, byte for byte.
fn raw(event: &Event) -> Result<&RawValue, Error> {
    serde_json::from_str(&event.envelope).map_err(Error::internal)
}

/// `afterSequence`, and the parameters that every list has.
fn split_query(query: &str) -> Result<(Option<Sequence>, String), Error> {
    let mut rest = form_urlencoded::Serializer::new(String::new());
    let mut after = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name != "afterSequence" {
            rest.append_pair(&name, &value);
        } else if after.replace(value).is_some() {
            return Err(Error::malformed("afterSequence", "must be given once"));
        }
    }
    let number = |text: &str| Sequence::parse(text).ok_or_else(|| FieldError::new("afterSequence", NUMBER));
    let after = after.map(|text| number(&text)).transpose().map_err(|problem| Error::Malformed(vec![problem]))?;
    Ok((after, rest.finish()))
}

const NUMBER: &str = "must be an integer from 0 to 2^53";
