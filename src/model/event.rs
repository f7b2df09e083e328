//! Events: the sixteen kinds, the scope each needs, and the envelope that webhooks, subscriptions and the event list
//! share byte for byte (spec "Events", `contract.md` §13).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::changes::Changes;
use super::environment::Environment;
use super::id::{EventId, OrganizationId};
use super::scope::{Scope, Scopes};
use super::time::Timestamp;
use super::vendor::Vendor;
use crate::error::{Error, Result};

super::wire_enum! {
    EventKind {
        EntitlementCreated = "entitlement.created",
        EntitlementExpired = "entitlement.expired",
        EntitlementRenewed = "entitlement.renewed",
        EntitlementCancelled = "entitlement.cancelled",
        EntitlementUpdated = "entitlement.updated",
        PrivateOfferCreated = "private_offer.created",
        PrivateOfferAccepted = "private_offer.accepted",
        PrivateOfferExpired = "private_offer.expired",
        PrivateOfferUpdated = "private_offer.updated",
        PrivateOfferCancelled = "private_offer.cancelled",
        CustomerCreated = "customer.created",
        CustomerUpdated = "customer.updated",
        CustomerDeleted = "customer.deleted",
        MeteringSubmitted = "metering.submitted",
        MeteringConfirmed = "metering.confirmed",
        MeteringFailed = "metering.failed",
    }
}

impl EventKind {
    /// Who may see it: the scope that reads its resource (`contract.md` §5).
    pub fn scope(self) -> Scope {
        match self.as_str().split_once('.').map(|(resource, _)| resource) {
            Some("entitlement") => Scope::ReadEntitlements,
            Some("private_offer") => Scope::ReadPrivateOffers,
            Some("customer") => Scope::ReadCustomers,
            _ => Scope::WriteMetering,
        }
    }
}

/// A set of kinds. The order is that of the spec's table, whatever order they came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kinds(u32);

impl Kinds {
    pub fn all() -> Self {
        EventKind::ALL.iter().copied().collect()
    }

    /// Those that the scopes open (`contract.md` §5).
    pub fn visible(scopes: Scopes) -> Self {
        EventKind::ALL.iter().copied().filter(|kind| scopes.has(kind.scope())).collect()
    }

    pub fn has(self, kind: EventKind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = EventKind> {
        EventKind::ALL.iter().copied().filter(move |kind| self.has(*kind))
    }

    /// Space-separated: how the store keeps them.
    pub fn join(self) -> String {
        self.iter().map(EventKind::as_str).collect::<Vec<_>>().join(" ")
    }

    /// The way back from [`Kinds::join`]; `Err` names the first word that is no kind.
    pub fn split(text: &str) -> Result<Self, &str> {
        text.split_ascii_whitespace().map(|word| EventKind::parse(word).ok_or(word)).collect()
    }
}

impl FromIterator<EventKind> for Kinds {
    fn from_iter<I: IntoIterator<Item = EventKind>>(kinds: I) -> Self {
        Self(kinds.into_iter().fold(0, |bits, kind| bits | (1 << kind as u32)))
    }
}

impl Serialize for Kinds {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> serde::Deserialize<'de> for Kinds {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<EventKind>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// The place of an event in its organization's log: 1, 2, 3 … without a gap, in the order of the commits. Up to 2^53, so
/// that a double can hold it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Sequence(pub i64);

impl Sequence {
    pub const MAX: i64 = 1 << 53;

    /// Digits only; zero is the place before the first event.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| digits && *number <= Self::MAX).map(Self)
    }
}

impl std::fmt::Display for Sequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The place of an event in its organization's log: an integer from 0 (before the first) to 2^53.
#[async_graphql::Scalar]
impl async_graphql::ScalarType for Sequence {
    fn parse(value: async_graphql::Value) -> async_graphql::InputValueResult<Self> {
        let number = match &value {
            async_graphql::Value::Number(number) => number.as_i64(),
            async_graphql::Value::String(text) => Self::parse(text).map(|sequence| sequence.0),
            _ => return Err(async_graphql::InputValueError::expected_type(value)),
        };
        let within = number.filter(|number| (0..=Self::MAX).contains(number));
        within.map(Self).ok_or_else(|| async_graphql::InputValueError::custom("must be an integer from 0 to 2^53"))
    }

    /// So that the library refuses the request before anything of it runs.
    fn is_valid(value: &async_graphql::Value) -> bool {
        <Self as async_graphql::ScalarType>::parse(value.clone()).is_ok()
    }

    fn to_value(&self) -> async_graphql::Value {
        async_graphql::Value::Number(self.0.into())
    }
}

/// An event of the log: its envelope, and what of it is looked at before it is sent on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: EventId,
    pub organization_id: OrganizationId,
    pub sequence: Sequence,
    pub kind: EventKind,
    pub vendor: Vendor,
    pub timestamp: Timestamp,
    /// The JSON that every delivery, subscription and pull sends, byte for byte.
    pub envelope: Arc<str>,
}

impl Event {
    pub fn read(envelope: String) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Head {
            id: EventId,
            organization_id: OrganizationId,
            sequence: i64,
            r#type: EventKind,
            vendor: Vendor,
            timestamp: Timestamp,
        }
        let Head { id, organization_id, sequence, r#type, vendor, timestamp } =
            serde_json::from_str(&envelope).map_err(Error::internal)?;
        let (sequence, kind, envelope) = (Sequence(sequence), r#type, envelope.into());
        Ok(Self { id, organization_id, sequence, kind, vendor, timestamp, envelope })
    }
}

/// Which events somebody wants: of these kinds, and of this vendor if one is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventFilter {
    pub kinds: Kinds,
    pub vendor: Option<Vendor>,
}

impl EventFilter {
    pub fn admits(&self, event: &Event) -> bool {
        self.kinds.has(event.kind) && self.vendor.is_none_or(|vendor| vendor == event.vendor)
    }
}

/// What a caller asks of the log, as it came. Without kinds it means all that the caller may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventsAsked {
    pub kinds: Option<Vec<EventKind>>,
    pub vendor: Option<Vendor>,
    /// The last event that the caller knows.
    pub after: Option<Sequence>,
}

/// What stands in an envelope before its sequence number, and after it.
pub type Halves = (String, String);

/// An event before it has its place in the organization's sequence.
#[derive(Clone, Debug)]
pub struct NewEvent {
    pub id: EventId,
    pub kind: EventKind,
    pub organization_id: OrganizationId,
    pub vendor: Vendor,
    /// The resource in its single-object form, without history.
    pub data: Box<RawValue>,
    /// On updates and status moves.
    pub changes: Option<Changes>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    id: EventId,
    r#type: EventKind,
    timestamp: Timestamp,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tail<'a> {
    organization_id: OrganizationId,
    vendor: Vendor,
    test: bool,
    data: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<&'a Changes>,
}

impl NewEvent {
    /// The event of a change: `data` is the resource in its single-object form.
    pub fn about(
        kind: EventKind,
        id: EventId,
        (organization_id, vendor): (OrganizationId, Vendor),
        data: &impl Serialize,
        changes: Option<Changes>,
    ) -> Result<Self> {
        let data = serde_json::value::to_raw_value(data).map_err(Error::internal)?;
        Ok(Self { id, kind, organization_id, vendor, data, changes })
    }

    /// The envelope of an event that stands in no log: a sample that a receiver is tested with.
    pub fn test_envelope(&self) -> String {
        let (head, tail) = self.split(true);
        format!("{head}0{tail}")
    }

    /// The envelope, serialized once, in the two halves that stand before and after the sequence number. The number is
    /// only known inside the transaction, which joins them; from then on these bytes are never made again.
    pub fn halves(&self, environment: Environment) -> Halves {
        self.split(environment.is_test())
    }

    /// The event at its place in the log.
    pub fn placed(&self, sequence: Sequence, (head, tail): &Halves) -> Event {
        Event {
            id: self.id,
            organization_id: self.organization_id,
            sequence,
            kind: self.kind,
            vendor: self.vendor,
            timestamp: self.id.created_at(),
            envelope: format!("{head}{sequence}{tail}").into(),
        }
    }

    fn split(&self, test: bool) -> Halves {
        let head = Head { id: self.id, r#type: self.kind, timestamp: self.id.created_at() };
        let tail = Tail {
            organization_id: self.organization_id,
            vendor: self.vendor,
            test,
            data: &self.data,
            changes: self.changes.as_ref(),
        };
        let head = serde_json::to_string(&head).expect("an envelope is plain data");
        let tail = serde_json::to_string(&tail).expect("an envelope is plain data");
        (format!("{},\"sequence\":", &head[..head.len() - 1]), format!(",{}", &tail[1..]))
    }
}
