//! The life of an entitlement: one table of states and triggers (`contract.md` §9), pure, and what each step does to the
//! record.

use chrono::TimeDelta;

use super::entitlement::EntitlementStatus::{Active, Cancelled, Expired, Pending, Suspended};
use super::entitlement::{Dimension, Entitlement, EntitlementStatus, HistoryAction};
use super::event::EventKind;
use super::id::PrivateOfferId;
use super::time::Timestamp;
use crate::error::{Error, Result};

/// After this long a suspended entitlement is cancelled.
pub const SUSPENSION_LIMIT: TimeDelta = TimeDelta::days(30);
/// How long after its end a contract that may renew itself is left to its marketplace's word: for a day it tries to tell, and
/// for a day we try to apply. Whether such an end passes, or moves, the marketplace alone knows; what has expired is final.
pub const RENEWAL_GRACE: TimeDelta = TimeDelta::days(2);

super::wire_enum! {
    /// What can happen to an entitlement.
    Trigger {
        Activate = "activate",
        Amend = "amend",
        Suspend = "suspend",
        Reinstate = "reinstate",
        Renew = "renew",
        Expire = "expire",
        Cancel = "cancel",
    }
}

/// Where a trigger leads, and how it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    pub to: EntitlementStatus,
    pub event: EventKind,
    pub action: HistoryAction,
}

/// The table. A pair that is not in it changes nothing.
pub fn transition(from: EntitlementStatus, trigger: Trigger) -> Option<Transition> {
    let (to, event, action) = match (from, trigger) {
        (Pending, Trigger::Activate) | (Active, Trigger::Amend) | (Suspended, Trigger::Reinstate) => {
            (Active, EventKind::EntitlementUpdated, HistoryAction::Updated)
        }
        (Active, Trigger::Suspend) => (Suspended, EventKind::EntitlementUpdated, HistoryAction::Updated),
        (Active, Trigger::Renew) => (Active, EventKind::EntitlementRenewed, HistoryAction::Renewed),
        (Active | Suspended, Trigger::Expire) => (Expired, EventKind::EntitlementExpired, HistoryAction::Expired),
        (Pending | Active | Suspended, Trigger::Cancel) => {
            (Cancelled, EventKind::EntitlementCancelled, HistoryAction::Cancelled)
        }
        _ => return None,
    };
    Some(Transition { to, event, action })
}

/// A trigger with what it brings along.
#[derive(Clone, Debug)]
pub enum Step {
    /// With the plan and the quantities that were activated, if they were told.
    Activate(Amendment),
    Amend(Amendment),
    Suspend,
    Reinstate,
    Renew(Term),
    Expire,
    Cancel,
    /// Whatever it is, with what a marketplace told along.
    With(Trigger, Amendment),
}

/// A new term. Without a start, the running one is extended.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    pub start: Option<Timestamp>,
    pub end: Option<Timestamp>,
}

/// What an amendment sets; what is absent stays.
#[derive(Clone, Debug, Default)]
pub struct Amendment {
    pub plan_id: Option<String>,
    /// Replaces those with the same key and adds the others.
    pub dimensions: Vec<Dimension>,
    pub start_date: Option<Timestamp>,
    pub end_date: Option<Timestamp>,
    pub agreement_id: Option<String>,
    pub private_offer_id: Option<PrivateOfferId>,
    pub vendor_subscription_id: Option<String>,
    pub auto_renew: Option<bool>,
}

impl Step {
    pub fn trigger(&self) -> Trigger {
        match self {
            Self::Activate(_) => Trigger::Activate,
            Self::Amend(_) => Trigger::Amend,
            Self::Suspend => Trigger::Suspend,
            Self::Reinstate => Trigger::Reinstate,
            Self::Renew(_) => Trigger::Renew,
            Self::Expire => Trigger::Expire,
            Self::Cancel => Trigger::Cancel,
            Self::With(trigger, _) => *trigger,
        }
    }

    /// The entitlement after the step. A conflict says which state forbids it; broken rules are listed.
    pub fn apply(&self, current: &Entitlement) -> Result<(Entitlement, Transition)> {
        let (from, trigger) = (current.status, self.trigger());
        let Some(transition) = transition(from, trigger) else {
            return Err(Error::conflict(format!("The entitlement is {from}; {trigger} does not apply to it")));
        };
        let mut next = current.clone();
        next.status = transition.to;
        match self {
            Self::Activate(amendment) | Self::Amend(amendment) | Self::With(_, amendment) => amendment.apply(&mut next),
            Self::Renew(term) => {
                next.start_date = term.start.unwrap_or(current.start_date);
                next.end_date = term.end;
            }
            Self::Suspend | Self::Reinstate | Self::Expire | Self::Cancel => {}
        }
        next.check()?;
        Ok((next, transition))
    }
}

impl Amendment {
    fn apply(&self, next: &mut Entitlement) {
        for dimension in &self.dimensions {
            match next.dimensions.iter_mut().find(|known| known.key == dimension.key) {
                Some(known) => {
                    known.value = dimension.value;
                    known.description = dimension.description.clone().or(known.description.take());
                }
                None => next.dimensions.push(dimension.clone()),
            }
        }
        next.start_date = self.start_date.unwrap_or(next.start_date);
        next.end_date = self.end_date.or(next.end_date);
        next.plan_id = self.plan_id.clone().or(next.plan_id.take());
        next.agreement_id = self.agreement_id.clone().or(next.agreement_id.take());
        next.private_offer_id = self.private_offer_id.or(next.private_offer_id);
        next.vendor_subscription_id = self.vendor_subscription_id.clone().or(next.vendor_subscription_id.take());
        next.auto_renew = self.auto_renew.or(next.auto_renew);
    }
}

/// What the service remembers of an entitlement that nobody is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memo {
    /// Pending until it is activated; its start date alone does not.
    pub for_activation: bool,
    pub suspended_at: Option<Timestamp>,
    /// When it became final.
    pub ended_at: Option<Timestamp>,
}

impl Memo {
    /// What is remembered after a step that led to `next`.
    #[must_use]
    pub fn after(self, next: &Entitlement, now: Timestamp) -> Self {
        Self {
            for_activation: self.for_activation && next.status == Pending,
            suspended_at: (next.status == Suspended).then(|| self.suspended_at.unwrap_or(now)),
            ended_at: match next.status {
                Expired => Some(self.ended_at.unwrap_or_else(|| next.end_date.map_or(now, |end| end.min(now)))),
                Cancelled => Some(self.ended_at.unwrap_or(now)),
                Pending | Active | Suspended => None,
            },
        }
    }
}

/// When the clock itself moves an entitlement next, and how.
pub fn due(entitlement: &Entitlement, memo: Memo) -> Option<(Timestamp, Step)> {
    let grace = if may_renew(entitlement) { RENEWAL_GRACE } else { TimeDelta::zero() };
    let ends = entitlement.end_date.map(|end| (end.plus(grace), Step::Expire));
    match entitlement.status {
        Pending if memo.for_activation => None,
        Pending => Some((entitlement.start_date, Step::Activate(Amendment::default()))),
        Active => ends,
        Suspended => {
            let cancelled = memo.suspended_at.map(|since| (since.plus(SUSPENSION_LIMIT), Step::Cancel));
            ends.into_iter().chain(cancelled).min_by_key(|(at, _)| *at)
        }
        Expired | Cancelled => None,
    }
}

/// Whether a marketplace may be renewing it. Not all of them tell; those of which it is not known may.
fn may_renew(entitlement: &Entitlement) -> bool {
    let at_marketplace = entitlement.agreement_id.is_some() || entitlement.vendor_subscription_id.is_some();
    at_marketplace && entitlement.auto_renew != Some(false)
}
