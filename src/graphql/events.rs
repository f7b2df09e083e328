//! Events over GraphQL: the log in pages, one event, and the subscription.

use std::sync::{Arc, Mutex, PoisonError};

use async_graphql::{Context, ID, Json, Object, Result, Subscription, Union};
use futures_util::stream::{self, Stream};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::call;
use super::connections::{Records, connect, page_size};
use super::customers::Customer;
use super::entitlements::Entitlement;
use super::errors::fault;
use super::metering::MeteringSubmission;
use super::offers::PrivateOffer;
use crate::call::Call;
use crate::error::Error;
use crate::model;
use crate::model::changes::Changes;
use crate::model::customer::CustomerDetail;
use crate::model::event::{EventKind, EventsAsked, Sequence};
use crate::model::filter::Order;
use crate::model::id::{EventId, OrganizationId};
use crate::model::page::{ListName, Page, PageRequest};
use crate::model::scope::Scope;
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::events::{self, EventPage};

/// What the envelope holds besides the columns of the log.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    id: EventId,
    organization_id: OrganizationId,
    test: bool,
    data: Box<RawValue>,
    changes: Option<Changes>,
}

/// Something that happened to a resource.
pub struct Event {
    event: Arc<model::event::Event>,
    envelope: Envelope,
}

impl Event {
    pub fn read(event: Arc<model::event::Event>) -> Result<Self, Error> {
        let envelope = serde_json::from_str(&event.envelope).map_err(Error::internal)?;
        Ok(Self { event, envelope })
    }

    fn snapshot<'a, T: Deserialize<'a>>(&'a self) -> Result<T> {
        serde_json::from_str(self.envelope.data.get()).map_err(|error| fault(Error::internal(error)))
    }
}

#[Object]
impl Event {
    pub async fn id(&self) -> ID {
        self.envelope.id.into()
    }
    async fn r#type(&self) -> EventKind {
        self.event.kind
    }
    async fn timestamp(&self) -> Timestamp {
        self.event.timestamp
    }
    /// Its place in the organization's log: 1, 2, 3 … without a gap, so a reader sees when it missed one.
    async fn sequence(&self) -> Sequence {
        self.event.sequence
    }
    async fn organization_id(&self) -> ID {
        self.envelope.organization_id.into()
    }
    async fn vendor(&self) -> Vendor {
        self.event.vendor
    }
    /// Whether it was made to test a webhook.
    async fn test(&self) -> bool {
        self.envelope.test
    }
    /// The resource as the event left it. What is nested in it is read now, each part with its own scope.
    #[expect(clippy::unused_async, reason = "the form of a field")]
    async fn data(&self) -> Result<EventData> {
        Ok(match self.event.kind.scope() {
            Scope::ReadCustomers => EventData::Customer(self.snapshot::<CustomerDetail>()?.into()),
            Scope::ReadEntitlements => {
                EventData::Entitlement(self.snapshot::<model::entitlement::Entitlement>()?.into())
            }
            Scope::ReadPrivateOffers => EventData::PrivateOffer(self.snapshot::<model::offer::PrivateOffer>()?.into()),
            _ => EventData::MeteringSubmission(self.snapshot::<model::metering::MeteringSubmission>()?.into()),
        })
    }
    /// By dotted field path, each with `from` and `to`; on updates and moves of the status.
    async fn changes(&self) -> Option<Json<&Changes>> {
        self.envelope.changes.as_ref().map(Json)
    }
    /// The JSON of the event, byte for byte what the body of a webhook is: a string that holds JSON.
    async fn payload(&self) -> &str {
        &self.event.envelope
    }
}

/// The resource of an event.
#[derive(Union)]
pub enum EventData {
    Customer(Customer),
    Entitlement(Entitlement),
    PrivateOffer(PrivateOffer),
    MeteringSubmission(MeteringSubmission),
}

const OLDEST: (ListName, Order) = (ListName::Events, Order::Oldest);

#[derive(Default)]
pub struct EventQuery;

#[Object]
impl EventQuery {
    /// One event. Needs the scope that reads its resource.
    async fn event(&self, ctx: &Context<'_>, id: ID) -> Option<Result<Event>> {
        Some(one(ctx, &id).await)
    }

    /// The log, oldest first, as far as the token's scopes open it; naming a kind needs the scope of its resource.
    #[graphql(complexity = "page_size(first) * child_complexity")]
    async fn events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 20 unless told; above 100 means 100.")] first: Option<i32>,
        #[graphql(desc = "The cursor to continue after.")] after: Option<String>,
        #[graphql(desc = "Begin after this event; from the oldest one that is kept unless told.")]
        after_sequence: Option<Sequence>,
        #[graphql(desc = "All that the token may see unless told.")] kinds: Option<Vec<EventKind>>,
        vendor: Option<Vendor>,
    ) -> Option<Result<Records<Event>>> {
        let asked = EventsAsked { kinds, vendor, after: after_sequence };
        let continued = after.is_some();
        let page = list(call(ctx), asked, first, after).await.map_err(fault);
        Some(page.map(|page| connect(call(ctx), OLDEST, continued, page)))
    }
}

pub async fn one(ctx: &Context<'_>, id: &str) -> Result<Event> {
    events::get(call(ctx), id).await.and_then(Event::read).map_err(fault)
}

/// A page of the log. A connection can only be continued after an item, so where a part of the log has none that the
/// caller wants, the next part is read.
async fn list(
    call: &Call,
    mut asked: EventsAsked,
    first: Option<i32>,
    mut cursor: Option<String>,
) -> Result<Page<Event>, Error> {
    loop {
        let EventPage { items, next } =
            events::list(call, asked.clone(), PageRequest::from_arguments(first, cursor)).await?;
        if let (true, Some(next)) = (items.is_empty(), next) {
            asked.after = None;
            cursor = Some(call.cursor_scope(OLDEST.0, OLDEST.1).encode(&next.to_string()));
            continue;
        }
        let positions = items.iter().map(|event| event.sequence.to_string()).collect();
        return Page { items, positions, has_more: next.is_some() }.try_map(Event::read);
    }
}

/// What a run of a subscription is for. The transports follow the log themselves, because its subscribers share what is
/// executed; the library runs a document once to plan it, and once for each event.
pub enum Run {
    /// Put down what is asked for.
    Plan(Arc<Mutex<Option<EventsAsked>>>),
    /// Show this event.
    Render(Arc<model::event::Event>),
}

#[derive(Default)]
pub struct EventSubscription;

#[Subscription(name = "Subscription")]
impl EventSubscription {
    /// The log after a point, then live: every event once, in order, without a gap. Naming a kind needs the scope of its
    /// resource; without kinds these are all that the token may see.
    #[expect(clippy::unused_async, reason = "the form of a field")]
    async fn events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "All that the token may see unless told.")] kinds: Option<Vec<EventKind>>,
        vendor: Option<Vendor>,
        #[graphql(desc = "The last event that the client knows; from now on unless told.")] after_sequence: Option<
            Sequence,
        >,
    ) -> Result<impl Stream<Item = Result<Event>>> {
        let shown = match ctx.data::<Run>()? {
            Run::Plan(asked) => {
                let here = EventsAsked { kinds, vendor, after: after_sequence };
                *asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(here);
                None
            }
            Run::Render(event) => Some(Event::read(Arc::clone(event)).map_err(fault)),
        };
        Ok(stream::iter(shown))
    }
}
