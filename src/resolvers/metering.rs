//! Metering (spec "Metering submission", `contract.md` §11). Callers report usage; the marketplace's side tells what became
//! of it through [`submit_to_vendor`] and [`settle`].

use std::collections::HashMap;
use std::sync::Arc;

use crate::call::Call;
use crate::error::{Error, Result};
use crate::model::changes::Changes;
use crate::model::event::{EventKind, NewEvent};
use crate::model::filter::ListQuery;
use crate::model::id::{CustomerId, EventId, MeteringId};
use crate::model::metering::{MeteringStatus, MeteringSubmission, NewMetering, Slot, Verdict};
use crate::model::operation::Operation;
use crate::model::page::{ListName, Page};
use crate::store::Tenant;
use crate::store::outbox::Errand;
use crate::store::write::Plan;

pub async fn list(call: &Call, query: impl Into<ListQuery>) -> Result<Page<MeteringSubmission>> {
    let tenant = call.grant(Operation::MeteringList.access())?;
    let ListQuery { page, filter, order } = query.into();
    let window = page.check(&filter, &call.cursor_scope(ListName::Metering, order))?;
    tenant.list_metering(&filter, order, window).await
}

pub async fn get(call: &Call, id: &str) -> Result<MeteringSubmission> {
    let tenant = call.grant(Operation::MeteringGet.access())?;
    tenant.get_metering(MeteringId::named(id)?).await
}

/// The newest reports of each of these customers, in one query.
pub async fn of_each(
    call: &Call,
    customers: &[CustomerId],
    limit: usize,
) -> Result<HashMap<CustomerId, Page<Arc<MeteringSubmission>>>> {
    let tenant = call.grant(Operation::MeteringList.access())?;
    tenant.metering_of_each(customers, limit).await
}

/// Takes a report in. 409 when a slot is taken, with the report that holds it; 422 with every broken rule. Emits nothing:
/// the world is told once the marketplace has it.
pub async fn submit(call: &Call, new: NewMetering) -> Result<MeteringSubmission> {
    let tenant = call.grant(Operation::MeteringSubmit.access())?;
    tenant
        .write(|| async {
            let found = match new.customer_id.as_deref().and_then(CustomerId::parse) {
                Some(id) => tenant.find_customer_state(id).await?,
                None => None,
            };
            let customer = found.as_ref().map(|(_, state)| &state.customer);
            let mut report = new.clone().check(MeteringId(tenant.clock().mint()), customer)?;
            let known = tenant.see_metering(&report).await?;
            if let Some((slot, holder)) = known.taken.first() {
                return Err(taken(slot, *holder));
            }
            let mut remainders = known.remainders.clone();
            report.carry(&mut remainders);
            let carried = tenant.carry(&known.remainders, &remainders);
            let (due, urgent_by) = (report.reportable_at(), report.urgent_by());
            let errand = tenant.send_errand(Errand::Usage(report.id), report.vendor, due, urgent_by);
            Ok(Plan::quiet(report.clone(), tenant.take_metering(&report, carried)?.and(errand)))
        })
        .await
}

fn taken(slot: &Slot, holder: MeteringId) -> Error {
    let hour = crate::model::time::Timestamp::from_millis(slot.hour * 3_600_000);
    Error::conflict(format!(
        "Usage of {} in the hour of {hour} was already reported by {holder}; a slot takes one report",
        slot.dimension
    ))
}

/// A report is on its way to the marketplace.
pub async fn submit_to_vendor(tenant: &Tenant, id: MeteringId) -> Result<MeteringSubmission> {
    tenant
        .write(|| async {
            let report = tenant.get_metering(id).await?;
            if report.status != MeteringStatus::Accepted {
                return Ok(Plan::unchanged(report));
            }
            let mut next = report.clone();
            next.become_status(MeteringStatus::Submitted);
            next.updated_at = tenant.clock().now();
            let event = announce(EventKind::MeteringSubmitted, tenant, &report, &next)?;
            let block = tenant.move_metering(&report, &next)?;
            Ok(Plan { answer: next, block, events: vec![event], seen: None })
        })
        .await
}

/// The marketplace's verdicts, one for each row. Told once, when the last row is settled; until then a row with a
/// `VENDOR_ERROR` waits to be tried again. A failed report gives back the slots and remainders of refused rows, so that
/// the usage can be reported anew.
pub async fn settle(
    tenant: &Tenant,
    id: MeteringId,
    verdicts: &[(Verdict, Option<String>)],
) -> Result<MeteringSubmission> {
    tenant
        .write(|| async {
            let (report, known) = tenant.see_settlement(id).await?;
            if report.status != MeteringStatus::Submitted {
                return Ok(Plan::unchanged(report));
            }
            let mut next = report.clone();
            next.settle(verdicts, tenant.clock().now())?;
            if next == report {
                return Ok(Plan::unchanged(report));
            }
            next.updated_at = tenant.clock().now();
            let mut block = tenant.move_metering(&report, &next)?;
            let refused = next.refused_rows();
            if !refused.is_empty() {
                let mut remainders = known.clone();
                if !next.meters().is_empty() {
                    next.uncarry(&refused, &mut remainders);
                }
                let slots = refused.iter().map(|index| next.slot(&next.details.usage[*index]));
                block = block.and(tenant.free_slots(slots)).and(tenant.carry(&known, &remainders));
            }
            let kind = match next.status {
                MeteringStatus::Confirmed => Some(EventKind::MeteringConfirmed),
                MeteringStatus::Failed => Some(EventKind::MeteringFailed),
                MeteringStatus::Accepted | MeteringStatus::Submitted => None,
            };
            let event = kind.map(|kind| announce(kind, tenant, &report, &next)).transpose()?;
            Ok(Plan { answer: next, block, events: event.into_iter().collect(), seen: None })
        })
        .await
}

fn announce(kind: EventKind, tenant: &Tenant, from: &MeteringSubmission, to: &MeteringSubmission) -> Result<NewEvent> {
    let json = |report: &MeteringSubmission| serde_json::to_value(report).map_err(Error::internal);
    let changes = Changes::between(&json(from)?, &json(to)?);
    let id = EventId(tenant.clock().mint());
    NewEvent::about(kind, id, (to.organization_id, to.vendor), to, Some(changes))
}
