//! What is known of an agreement of `cloud_a`: what all pictures of it together show, by their own time, or what the
//! marketplace lists.

use serde::Deserialize;

use super::agreements::{Listed, RENEWED, status};
use crate::marketplace::converge::{Outcome, Told};
use crate::marketplace::http::lenient;
use crate::marketplace::terms::{Contract, ContractStatus};
use crate::model::entitlement::{Dimension, EntitlementStatus};
use crate::model::notification::Notification;
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::store::bought::Bought;

pub(super) const ENDED: &str = "Purchase Agreement Ended";
const DEPROVISIONED: &str = "License Deprovisioned";
/// What is told of agreements. Of the same moment the later word counts.
pub(super) const KINDS: [&str; 5] =
    ["Purchase Agreement Created", "Purchase Agreement Amended", "License Updated", ENDED, DEPROVISIONED];

/// A picture of an agreement.
#[derive(Deserialize)]
struct Picture {
    detail: Detail,
}

#[derive(Deserialize)]
struct Detail {
    agreement: Agreement,
    #[serde(default)]
    acceptor: Acceptor,
    #[serde(default)]
    offer: Named,
    #[serde(default)]
    license: Option<Licence>,
    #[serde(default)]
    product: Product,
    #[serde(default)]
    dimensions: Option<Vec<Measure>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agreement {
    id: String,
    #[serde(default)]
    intent: String,
    #[serde(default)]
    status: String,
    #[serde(default, deserialize_with = "lenient::moment")]
    acceptance_time: Option<Timestamp>,
    #[serde(default, deserialize_with = "lenient::moment")]
    start_time: Option<Timestamp>,
    #[serde(default, deserialize_with = "lenient::moment")]
    end_time: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Acceptor {
    #[serde(default, deserialize_with = "lenient::text")]
    account_id: Option<String>,
}

#[derive(Default, Deserialize)]
struct Named {
    #[serde(default)]
    id: Option<String>,
}

#[derive(Default, Deserialize)]
struct Product {
    #[serde(default)]
    id: Option<String>,
    #[serde(default, deserialize_with = "lenient::text")]
    code: Option<String>,
}

#[derive(Deserialize)]
struct Licence {
    #[serde(default)]
    arn: Option<String>,
}

#[derive(Deserialize)]
struct Measure {
    key: String,
    value: lenient::Number,
}

/// Whether an agreement takes the place of another; what says more is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Following {
    No,
    /// The marketplace does not say.
    Perhaps,
    Replaces,
    Renews,
}

impl Following {
    fn of(intent: &str) -> Option<Self> {
        match intent {
            "NEW" => Some(Self::No),
            "REPLACE" => Some(Self::Replaces),
            "RENEW" => Some(Self::Renews),
            _ => None,
        }
    }

    pub fn is_certain(self) -> bool {
        matches!(self, Self::Replaces | Self::Renews)
    }
}

/// What was said last of an agreement's licence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Licensing {
    Untold,
    Held,
    Gone,
}

/// What is known of an agreement.
pub(super) struct Known {
    pub contract: Contract,
    pub product_code: Option<String>,
    pub licensing: Licensing,
    pub accepted: Option<Timestamp>,
    /// Whether something else than its end was told.
    pub has_begun: bool,
    pub follows: Following,
    /// Whether it ended because it was renewed.
    pub is_renewed: bool,
}

impl Known {
    /// None when nothing that can be read was told.
    pub fn of(told: &[Notification], now: Timestamp) -> Option<Self> {
        let place = |told: &Notification| KINDS.iter().position(|kind| *kind == told.kind);
        let mut pictures: Vec<_> = told
            .iter()
            .filter_map(|told| {
                let picture = serde_json::from_str::<Picture>(&told.body).ok()?;
                Some(((told.occurred_at, place(told)?, told.external_id.clone()), told.kind.as_str(), picture.detail))
            })
            .collect();
        pictures.sort_by(|left, right| left.0.cmp(&right.0));
        let (_, _, first) = pictures.first()?;
        let mut known = Self::unknown(first);
        let mut word = String::new();
        for (_, kind, detail) in &pictures {
            known.learn(kind, detail);
            // What has ended has ended, whatever was told later of the time before.
            if word.is_empty() || word == "ACTIVE" || *kind == ENDED {
                word.clone_from(&detail.agreement.status);
            }
        }
        let started = known.contract.start.is_none_or(|start| start <= now) && known.contract.licence.is_some();
        known.contract.status = status(&word, started);
        known.is_renewed = word == RENEWED;
        known.date(&pictures.iter().map(|(_, kind, detail)| (*kind, detail)).collect::<Vec<_>>());
        Some(known)
    }

    /// What the marketplace lists. It need not say whether an agreement follows another one.
    pub fn listed(listed: &Listed) -> Self {
        let intent = listed.intent.as_deref().unwrap_or_default();
        Self {
            contract: listed.contract.clone(),
            product_code: None,
            licensing: Licensing::Untold,
            accepted: listed.accepted,
            has_begun: true,
            follows: Following::of(intent).unwrap_or(Following::Perhaps),
            is_renewed: listed.is_renewed,
        }
    }

    fn unknown(detail: &Detail) -> Self {
        let contract = Contract {
            id: detail.agreement.id.clone(),
            customer: String::new(),
            email: None,
            listing: String::new(),
            plan: None,
            dimensions: Vec::new(),
            vendor_offer_id: None,
            start: None,
            end: None,
            status: ContractStatus::Superseded,
            auto_renew: None,
            licence: None,
        };
        Self {
            contract,
            product_code: None,
            licensing: Licensing::Untold,
            accepted: None,
            has_begun: false,
            follows: Following::No,
            is_renewed: false,
        }
    }

    fn learn(&mut self, kind: &str, detail: &Detail) {
        let contract = &mut self.contract;
        let set = |known: &mut String, told: &Option<String>| known.clone_from(told.as_ref().unwrap_or(&known.clone()));
        set(&mut contract.customer, &detail.acceptor.account_id);
        set(&mut contract.listing, &detail.product.id);
        contract.vendor_offer_id = detail.offer.id.clone().or(contract.vendor_offer_id.take());
        contract.start = detail.agreement.start_time.or(contract.start);
        if let Some(measures) = &detail.dimensions {
            let dimension =
                |measure: &Measure| Dimension { key: measure.key.clone(), value: measure.value.0, description: None };
            contract.dimensions = measures.iter().map(dimension).collect();
        }
        let licence = detail.license.as_ref().and_then(|licence| licence.arn.clone());
        self.licensing = match &licence {
            _ if kind == DEPROVISIONED => Licensing::Gone,
            Some(_) => Licensing::Held,
            None => self.licensing,
        };
        contract.licence = if kind == DEPROVISIONED { None } else { licence.or(contract.licence.take()) };
        self.product_code = detail.product.code.clone().or(self.product_code.take());
        self.accepted = detail.agreement.acceptance_time.or(self.accepted);
        self.has_begun |= kind != ENDED;
        self.follows = self.follows.max(Following::of(&detail.agreement.intent).unwrap_or(Following::No));
    }

    /// Its end. That of an agreement which another one carries on is told as the moment of that, and is not one.
    fn date(&mut self, pictures: &[(&str, &Detail)]) {
        let goes_on = self.contract.status == ContractStatus::Superseded;
        let ends = pictures.iter().filter(|(kind, _)| *kind != ENDED || !goes_on);
        self.contract.end = ends.filter_map(|(_, detail)| detail.agreement.end_time).next_back();
    }

    /// What usage is sent with.
    pub fn bought(&self) -> Bought {
        let Contract { licence, start, .. } = &self.contract;
        Bought { product_code: self.product_code.clone(), licence: licence.clone(), since: *start }
    }

    pub fn is_superseded(&self) -> bool {
        self.contract.status == ContractStatus::Superseded
    }

    pub fn told(&self, now: Timestamp) -> Result<Told, Outcome> {
        let started = self.contract.start.is_none_or(|start| start <= now) && self.contract.licence.is_some();
        let status = match &self.contract.status {
            ContractStatus::Known(status) => *status,
            ContractStatus::Superseded if started => EntitlementStatus::Active,
            ContractStatus::Superseded => EntitlementStatus::Pending,
            ContractStatus::Other(word) => {
                return Err(Outcome::Ignored(format!("the agreement is {word}, which is not known")));
            }
        };
        Ok(Told {
            vendor: Vendor::CloudA,
            contract: self.contract.clone(),
            status,
            renews: self.follows == Following::Renews,
        })
    }

    /// Whether the other one may be what carries it on.
    pub fn precedes(&self, other: &Self) -> bool {
        other.follows != Following::No && other.contract.id != self.contract.id && self.accepted <= other.accepted
    }
}
