//! cloud_a's change sets: what they ask of an offer happens all at once, or not at all, when their time is over.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::agreements::{ACTIVE, is_account};
use super::answer::{end_of, lean};
use super::offers::{Offer, OfferState};
use super::world::{Due, Side, World, check_months};
use crate::model::time::Timestamp;

const SOURCE: &str = "aws.marketplacecatalog";
const MOST: usize = 20;
/// What an offer needs before it can be released.
const PARTS: [&str; 4] = ["UpdateTargeting", "UpdatePricingTerms", "UpdateLegalTerms", "UpdateAvailability"];

/// One change of a set.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Change {
    #[serde(rename = "ChangeType")]
    kind: String,
    entity: Entity,
    /// JSON, or JSON as a text.
    #[serde(default, rename = "DetailsDocument", alias = "Details")]
    details: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entity {
    #[serde(rename = "Type")]
    kind: String,
    identifier: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NewChangeSet {
    catalog: String,
    change_set_name: Option<String>,
    client_request_token: Option<String>,
    change_set: Vec<Change>,
}

#[derive(Clone, Debug)]
struct Failure {
    /// Which change it was, if it was one of them.
    change: Option<usize>,
    code: &'static str,
    message: String,
}

#[derive(Clone, Debug)]
enum Outcome {
    Running,
    Succeeded { offer: String },
    Failed(Failure),
}

#[derive(Clone, Debug)]
pub struct ChangeSet {
    id: String,
    pub publisher: String,
    name: Option<String>,
    token: Option<String>,
    changes: Vec<Change>,
    started: Timestamp,
    outcome: Outcome,
}

impl ChangeSet {
    fn status(&self, world: &World) -> &'static str {
        match self.outcome {
            Outcome::Succeeded { .. } => "SUCCEEDED",
            Outcome::Failed(_) => "FAILED",
            Outcome::Running if world.now < self.started.plus(world.publish / 2) => "PREPARING",
            Outcome::Running => "APPLYING",
        }
    }

    pub fn json(&self, world: &World) -> Value {
        let failure = match &self.outcome {
            Outcome::Failed(failure) => Some(failure),
            _ => None,
        };
        let changes = self.changes.iter().enumerate().map(|(index, change)| {
            let made = match &self.outcome {
                Outcome::Succeeded { offer } => Some(offer),
                _ => change.entity.identifier.as_ref(),
            };
            let errors = failure.filter(|failure| failure.change == Some(index));
            let errors = errors.map(|it| json!({"ErrorCode": it.code, "ErrorMessage": it.message}));
            json!({
                "ChangeType": change.kind,
                "Entity": {"Type": change.entity.kind, "Identifier": made},
                "ErrorDetailList": Vec::from_iter(errors),
            })
        });
        lean(json!({
            "ChangeSetId": self.id,
            "ChangeSetArn": arn(&self.id),
            "ChangeSetName": self.name,
            "StartTime": self.started,
            "Status": self.status(world),
            "FailureCode": failure.map(|it| if it.change.is_some() { "CLIENT_ERROR" } else { "SERVER_FAULT" }),
            "FailureDescription": failure.map(|it| &it.message),
            "ChangeSet": changes.collect::<Vec<_>>(),
        }))
    }
}

pub fn arn(id: &str) -> String {
    format!("arn:aws:aws-marketplace:us-east-1:000000000000:AWSMarketplace/ChangeSet/{id}")
}

impl World {
    /// Takes a change set; answers with its id. The same token of the same publisher is the same change set.
    pub fn start_change_set(&mut self, publisher: &str, new: NewChangeSet) -> Result<String, &'static str> {
        if new.catalog != "AWSMarketplace" {
            return Err("Catalog must be AWSMarketplace");
        }
        if new.change_set.is_empty() || new.change_set.len() > MOST {
            return Err("ChangeSet must have from 1 to 20 changes");
        }
        let mut known = self.change_sets.values();
        let token = new.client_request_token;
        let same = |it: &&ChangeSet| token.is_some() && it.token == token && it.publisher == publisher;
        if let Some(earlier) = known.find(same) {
            return Ok(earlier.id.clone());
        }
        let id = self.mint("");
        let change_set = ChangeSet {
            id: id.clone(),
            publisher: publisher.to_owned(),
            name: new.change_set_name,
            token,
            changes: new.change_set,
            started: self.now,
            outcome: Outcome::Running,
        };
        self.change_sets.insert(id.clone(), change_set);
        self.schedule(self.now.plus(self.publish), Due::ChangeSetEnds(id.clone()));
        Ok(id)
    }

    pub fn change_set_ends(&mut self, id: &str) {
        let Some(set) = self.change_sets.get(id).cloned() else { return };
        let done = if self.faults.fails_publication() {
            Err(Failure { change: None, code: "INTERNAL", message: "a failure on demand".to_owned() })
        } else {
            self.carry_out(&set)
        };
        let outcome = match done {
            Ok(offer) => {
                let offer_id = offer.id.clone();
                self.put_offer(offer);
                Outcome::Succeeded { offer: offer_id }
            }
            Err(failure) => Outcome::Failed(failure),
        };
        if let Some(set) = self.change_sets.get_mut(id) {
            set.outcome = outcome;
        }
        self.tell_of_change_set(id);
    }

    fn tell_of_change_set(&mut self, id: &str) {
        let Some(set) = self.change_sets.get(id).cloned() else { return };
        let mut detail = json!({"changeSet": {"id": set.id, "name": set.name, "status": set.status(self)}});
        let kind = match &set.outcome {
            Outcome::Succeeded { offer } => {
                detail["offer"] = json!({"id": offer});
                "Change Set Succeeded"
            }
            Outcome::Failed(failure) => {
                detail["error"] = json!(failure.message);
                "Change Set Failed"
            }
            Outcome::Running => return,
        };
        self.tell_cloud_a(&set.publisher, kind, SOURCE, lean(detail.clone()));
        if let Outcome::Succeeded { offer } = &set.outcome
            && set.changes.iter().any(|change| change.kind == "ReleaseOffer")
            && let Some(offer) = self.offers.get(offer)
        {
            detail["product"] = json!({"id": offer.product});
            self.tell_cloud_a(&set.publisher, "Offer Released", SOURCE, lean(detail));
        }
    }

    /// The offer as the change set leaves it.
    fn carry_out(&self, set: &ChangeSet) -> Result<Offer, Failure> {
        let mut draft = None;
        for (index, change) in set.changes.iter().enumerate() {
            let step = self.step(&set.publisher, draft, change);
            draft = Some(step.map_err(|(code, message)| Failure { change: Some(index), code, message })?);
        }
        draft.ok_or_else(|| Failure { change: None, code: "INTERNAL", message: "there is no change".to_owned() })
    }

    fn step(&self, publisher: &str, draft: Option<Offer>, change: &Change) -> Step {
        let details = unfolded(&change.details);
        if matches!(change.kind.as_str(), "CreateOffer" | "CreateReplacementOffer") {
            return self.made(publisher, draft.as_ref(), &change.kind, &details);
        }
        let named = change.entity.identifier.as_ref().filter(|id| !id.starts_with('$'));
        let stored =
            || self.offers.get(named?).filter(|it| it.side == Side::CloudA && it.publisher == publisher).cloned();
        let mut offer = draft.or_else(stored).ok_or_else(|| wrong("RESOURCE_NOT_FOUND", "there is no such offer"))?;
        if named.is_some_and(|id| *id != offer.id) {
            return Err(wrong("INVALID_INPUT", "a change set changes one offer"));
        }
        update(&mut offer, &change.kind, details, self.now)?;
        Ok(offer)
    }

    fn made(&self, publisher: &str, draft: Option<&Offer>, kind: &str, details: &Value) -> Step {
        if draft.is_some() {
            return Err(wrong("INVALID_INPUT", "a change set changes one offer"));
        }
        let text = |name: &str| details[name].as_str().unwrap_or_default().to_owned();
        let (product, mut replaces) = (text("ProductId"), None);
        if product.is_empty() {
            return Err(wrong("INVALID_INPUT", "ProductId is missing"));
        }
        if kind == "CreateReplacementOffer" {
            let old = self.agreements.get(&text("AgreementId"));
            let old = old.filter(|old| old.publisher == publisher && old.status == ACTIVE);
            let old = old.ok_or_else(|| wrong("RESOURCE_NOT_FOUND", "there is no such agreement in force"))?;
            replaces = Some(old.id.clone());
        }
        Ok(Offer {
            id: self.mint("offer-"),
            side: Side::CloudA,
            publisher: publisher.to_owned(),
            name: text("Name"),
            state: OfferState::Draft,
            buyer: String::new(),
            product,
            months: 0,
            expires: None,
            replaces,
            details: Value::Object(Map::new()),
            outcome: None,
        })
    }
}

type Step = Result<Offer, (&'static str, String)>;

fn wrong(code: &'static str, message: &str) -> (&'static str, String) {
    (code, message.to_owned())
}

fn unfolded(details: &Value) -> Value {
    let text = details.as_str().and_then(|text| serde_json::from_str(text).ok());
    text.unwrap_or_else(|| details.clone())
}

fn update(offer: &mut Offer, kind: &str, details: Value, now: Timestamp) -> Result<(), (&'static str, String)> {
    let is_draft = offer.state == OfferState::Draft;
    match kind {
        "UpdateAvailability" => return reschedule(offer, &details, now),
        _ if !is_draft => return Err(wrong("INVALID_STATE", "after its release only the expiry of an offer changes")),
        "UpdateTargeting" => {
            let buyer = details["PositiveTargeting"]["BuyerAccounts"][0].as_str().filter(|account| is_account(account));
            buyer
                .ok_or_else(|| wrong("INVALID_INPUT", "BuyerAccounts must name an account"))?
                .clone_into(&mut offer.buyer);
        }
        "UpdatePricingTerms" => {
            let months = details["DurationMonths"].as_u64().and_then(|months| u32::try_from(months).ok());
            let months = months.and_then(|months| check_months(months).ok());
            offer.months = months.ok_or_else(|| wrong("INVALID_INPUT", "DurationMonths is not a term"))?;
        }
        "UpdateLegalTerms" | "UpdateInformation" => {}
        "ReleaseOffer" => {
            if let Some(missing) = PARTS.into_iter().find(|part| offer.details.get(*part).is_none()) {
                return Err(wrong("INCOMPLETE_OFFER", &format!("the offer lacks {missing}")));
            }
            offer.state = OfferState::Live;
            return Ok(());
        }
        _ => return Err(wrong("INVALID_INPUT", &format!("there is no change {kind:?}"))),
    }
    offer.details[kind] = details;
    Ok(())
}

/// Moves the expiry: an expired offer is open again, and one that was released ends at once by a date that is over.
fn reschedule(offer: &mut Offer, details: &Value, now: Timestamp) -> Result<(), (&'static str, String)> {
    let end = details["AvailabilityEndDate"].as_str().and_then(end_of);
    let end = end.ok_or_else(|| wrong("INVALID_INPUT", "AvailabilityEndDate is no date"))?;
    let is_over = end <= now;
    match offer.state {
        OfferState::Draft if is_over => return Err(wrong("INVALID_INPUT", "AvailabilityEndDate lies in the past")),
        OfferState::Draft => {}
        OfferState::Live | OfferState::Expired if is_over => offer.state = OfferState::Expired,
        OfferState::Live | OfferState::Expired => offer.state = OfferState::Live,
        _ => return Err(wrong("INVALID_STATE", "the offer is over")),
    }
    offer.expires = Some(end);
    offer.details["UpdateAvailability"] = details.clone();
    Ok(())
}
