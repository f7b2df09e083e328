//! Brings a private offer and what the marketplace holds of it together, one step at a time. How far it is stands in the
//! errand's note, so another process, or this one after a crash, goes on from there.

use std::time::Duration;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::adapter::Adapter;
use super::clerk::again;
use super::http::{MarketplaceError, Unreached};
use super::terms::{Draft, Job, JobState};
use crate::error::{Error, Result};
use crate::model::offer::{OfferStatus, PrivateOffer, PublicationState, Published};
use crate::resolvers::offers;
use crate::store::Tenant;
use crate::store::outbox::{Errand, Taken};

/// How far an offer is.
#[derive(Default, Serialize, Deserialize)]
struct Note {
    begun: bool,
    /// How often it was withdrawn.
    edition: u32,
    /// What may have been submitted: nobody knows.
    unclear: Option<Draft>,
    /// What the marketplace has been asked for and has not done yet.
    asked: Option<Asked>,
    /// What it holds.
    held: Option<Held>,
}

#[derive(Serialize, Deserialize)]
struct Asked {
    purpose: Purpose,
    draft: Draft,
    job: Job,
}

#[derive(Serialize, Deserialize)]
struct Held {
    vendor_offer_id: String,
    draft: Draft,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Purpose {
    Publish,
    Expiry,
    Withdraw,
}

/// What becomes of the errand.
enum Next {
    /// There is more to do at once.
    On,
    /// The marketplace is at it.
    Wait,
    /// Nothing, until the offer changes.
    Rest,
    End,
}

/// For one step, with all that it repeats: well within the lease.
const PATIENCE: Duration = Duration::from_secs(50);
/// After this long, what may have been submitted can be found, or was not.
const UNCLEAR: TimeDelta = TimeDelta::minutes(3);

/// Takes all steps that can be taken now. False when the marketplace could not be talked to.
pub(super) async fn advance(tenant: &Tenant, adapter: &Adapter, taken: &Taken) -> Result<bool> {
    let mut note: Note = match &taken.note {
        Some(note) => serde_json::from_str(note).map_err(Error::internal)?,
        None => Note::default(),
    };
    loop {
        let mut reached = true;
        let stepped = timeout(PATIENCE, step(tenant, adapter, taken, &mut note)).await;
        let stepped = stepped.unwrap_or(Ok(Err(MarketplaceError::Unreachable(Unreached::Timeout))))?;
        let (due, tries) = match stepped {
            Ok(Next::On) => continue,
            Ok(Next::End) => return tenant.end_errand(taken).await.map(|()| true),
            Ok(Next::Rest) => (None, 0),
            Ok(Next::Wait) => (Some(again(tenant, taken.tries.min(3))), taken.tries + 1),
            Err(error) => {
                tracing::warn!(organization = %tenant.organization(), errand = ?taken.errand, %error, "a marketplace could not be told of an offer");
                reached = false;
                let later = again(tenant, taken.tries);
                let found = tenant.clock().now().plus(UNCLEAR);
                (Some(if error.is_unclear() { later.max(found) } else { later }), taken.tries + 1)
            }
        };
        let note = serde_json::to_string(&note).map_err(Error::internal)?;
        return tenant.keep_errand(taken, due, tries, Some(note)).await.map(|()| reached);
    }
}

/// One step. The inner error is the marketplace's, and passes.
async fn step(
    tenant: &Tenant,
    adapter: &Adapter,
    taken: &Taken,
    note: &mut Note,
) -> Result<Result<Next, MarketplaceError>> {
    let Errand::Offer(id) = taken.errand else { return Ok(Ok(Next::End)) };
    let found = match tenant.see_offer(id).await {
        Err(Error::Refused(_)) => return Ok(Ok(Next::End)),
        found => found?,
    };
    if let Some(asked) = &note.asked {
        return match adapter.job(&asked.job).await {
            Ok(JobState::Pending) => Ok(Ok(Next::Wait)),
            Ok(state) => done(tenant, &found.offer, note, state).await.map(Ok),
            // The job goes on there, whatever became of our credentials.
            Err(error) if error.is_transient() || matches!(error, MarketplaceError::Unauthorized { .. }) => {
                Ok(Err(error))
            }
            Err(error) => {
                done(tenant, &found.offer, note, JobState::Failed { message: error.to_string() }).await.map(Ok)
            }
        };
    }
    let draft = match (&found.customer, &note.held, &note.unclear) {
        (Some(state), ..) => Draft { vendor_offer_id: None, ..Draft::of(&found.offer, &state.customer) },
        // The customer was deleted, which cancels nothing at the marketplace.
        (None, Some(Held { draft, .. }), _) | (None, None, Some(draft)) => draft.clone(),
        (None, None, None) => return Ok(Ok(Next::End)),
    };
    if !std::mem::replace(&mut note.begun, true)
        && found.offer.details.cloud.publication.state == PublicationState::Live
        && let Some(vendor_offer_id) = found.offer.vendor_offer_id.clone()
    {
        // It was published before this was written down.
        note.held = Some(Held { vendor_offer_id, draft: draft.clone() });
    }
    match wanted(&found.offer, &draft, note) {
        Err(next) => Ok(Ok(next)),
        Ok(purpose) => ask(tenant, adapter, &found.offer, note, (purpose, draft)).await,
    }
}

/// What the marketplace has to be asked for, or what comes next without asking.
fn wanted(offer: &PrivateOffer, draft: &Draft, note: &Note) -> Result<Purpose, Next> {
    match (offer.status, &note.held) {
        // Asking once more is how it is found, and then it can be withdrawn.
        (OfferStatus::Cancelled, None) if note.unclear.is_some() => Ok(Purpose::Publish),
        (OfferStatus::Accepted, _) | (OfferStatus::Cancelled, None) => Err(Next::End),
        (OfferStatus::Cancelled, Some(_)) => Ok(Purpose::Withdraw),
        (OfferStatus::Expired, _) => Err(Next::Rest),
        (OfferStatus::Created, None) if offer.details.cloud.publication.state == PublicationState::Failed => {
            Err(Next::Rest)
        }
        (OfferStatus::Created, None) => Ok(Purpose::Publish),
        (OfferStatus::Created, Some(held)) if held.draft == *draft => Err(Next::Rest),
        (OfferStatus::Created, Some(held)) => {
            let moved = Draft { expires_at: draft.expires_at, ..held.draft.clone() };
            // Only the expiry of a published offer can be changed; another offer takes the place of this one.
            Ok(if moved == *draft { Purpose::Expiry } else { Purpose::Withdraw })
        }
    }
}

async fn ask(
    tenant: &Tenant,
    adapter: &Adapter,
    offer: &PrivateOffer,
    note: &mut Note,
    (purpose, draft): (Purpose, Draft),
) -> Result<Result<Next, MarketplaceError>> {
    let draft = note.unclear.clone().filter(|_| purpose == Purpose::Publish).unwrap_or(draft);
    if purpose == Purpose::Publish {
        // Until there is an answer.
        note.unclear = Some(draft.clone());
    }
    let vendor_offer_id = note.held.as_ref().map(|held| held.vendor_offer_id.clone());
    let sent = Draft { vendor_offer_id, edition: note.edition, ..draft.clone() };
    let asked = match purpose {
        Purpose::Publish => adapter.publish(&sent).await,
        Purpose::Expiry => adapter.change_expiry(&sent).await,
        Purpose::Withdraw => adapter.withdraw(&sent).await,
    };
    match asked {
        Ok(job) => {
            note.unclear = None;
            note.asked = Some(Asked { purpose, draft, job });
            Ok(Ok(Next::Wait))
        }
        Err(error) => {
            if !error.is_unclear() {
                note.unclear = None;
            }
            // What is on sale there must not stay so because our credentials ran out.
            let passes = purpose != Purpose::Publish && matches!(error, MarketplaceError::Unauthorized { .. });
            if passes || error.is_transient() {
                return Ok(Err(error));
            }
            refused(tenant, offer, purpose, error.to_string()).await.map(Ok)
        }
    }
}

/// The marketplace has done what it was asked for, or says why not.
async fn done(tenant: &Tenant, offer: &PrivateOffer, note: &mut Note, state: JobState) -> Result<Next> {
    let Some(Asked { purpose, draft, .. }) = note.asked.take() else { return Ok(Next::On) };
    match (purpose, state) {
        (_, JobState::Pending) => Ok(Next::Wait),
        (_, JobState::Failed { message }) => refused(tenant, offer, purpose, message).await,
        (Purpose::Withdraw, JobState::Live { .. }) => {
            note.held = None;
            note.edition += 1;
            tell(tenant, offer, Published::Pending).await?;
            Ok(Next::On)
        }
        (Purpose::Publish | Purpose::Expiry, JobState::Live { vendor_offer_id }) => {
            note.held = Some(Held { vendor_offer_id: vendor_offer_id.clone(), draft });
            tell(tenant, offer, Published::Live { vendor_offer_id }).await?;
            Ok(Next::On)
        }
    }
}

async fn refused(tenant: &Tenant, offer: &PrivateOffer, purpose: Purpose, message: String) -> Result<Next> {
    let what = match purpose {
        Purpose::Publish => "The marketplace did not publish the offer",
        Purpose::Expiry => "The marketplace did not move the expiry",
        Purpose::Withdraw => "The marketplace did not withdraw the offer",
    };
    tracing::warn!(organization = %tenant.organization(), offer = %offer.id, %message, "{what}");
    tell(tenant, offer, Published::Failed { message: format!("{what}: {message}") }).await?;
    Ok(Next::Rest)
}

/// Writes down what the marketplace says, if the offer is still open.
async fn tell(tenant: &Tenant, offer: &PrivateOffer, published: Published) -> Result<()> {
    match offers::publish(tenant, offer.id, published).await {
        // It was cancelled or accepted, or it expired, in the meantime.
        Ok(_) | Err(Error::Refused(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
