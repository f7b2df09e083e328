//! Events: the sixteen kinds, the scope each needs, and the envelope that webhooks, subscriptions and the event list
//! share byte for byte (spec "Events", `contract.md` §13).

use serde::Serialize;
use serde_json::value::RawValue;

use super::changes::Changes;
use super::id::{EventId, OrganizationId};
use super::scope::Scope;
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

    /// The envelope, serialized once, in the two halves that stand before and after the sequence number. The number is
    /// only known inside the transaction, which joins them; from then on these bytes are never made again.
    pub fn halves(&self) -> (String, String) {
        let head = Head { id: self.id, r#type: self.kind, timestamp: self.id.created_at() };
        let tail = Tail {
            organization_id: self.organization_id,
            vendor: self.vendor,
            test: false,
            data: &self.data,
            changes: self.changes.as_ref(),
        };
        let head = serde_json::to_string(&head).expect("an envelope is plain data");
        let tail = serde_json::to_string(&tail).expect("an envelope is plain data");
        (format!("{},\"sequence\":", &head[..head.len() - 1]), format!(",{}", &tail[1..]))
    }
}
