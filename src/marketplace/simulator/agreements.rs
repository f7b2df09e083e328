//! The life of a cloud_a agreement: terms, intents, licences, and what is told of them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::{Wrong, lean};
use super::world::{Due, Side, World, check_months, months_after};
use crate::model::time::Timestamp;

/// Who tells of agreements.
const SOURCE: &str = "aws.agreement-marketplace";
const CREATED: &str = "Purchase Agreement Created";
const AMENDED: &str = "Purchase Agreement Amended";
const ENDED: &str = "Purchase Agreement Ended";
const LICENSED: &str = "License Updated";
const DEPROVISIONED: &str = "License Deprovisioned";
pub const ACTIVE: &str = "ACTIVE";
const RENEWED: &str = "RENEWED";
const TERM: u32 = 12;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Agreement {
    pub id: String,
    pub publisher: String,
    pub account_id: String,
    pub product_id: String,
    pub product_code: String,
    pub offer_id: String,
    pub intent: &'static str,
    pub status: &'static str,
    pub accepted: Timestamp,
    pub start: Timestamp,
    pub end: Timestamp,
    pub months: u32,
    pub auto_renew: bool,
    pub licence: Option<String>,
    pub dimensions: Option<Vec<Value>>,
}

/// When the licence is told of: before or after the agreement, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Licence {
    Before,
    After,
    Never,
}

/// The fields of a new agreement. Those that take the place of another have what it had, where nothing is said.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewAgreement {
    pub publisher: Option<String>,
    pub account_id: Option<String>,
    pub product_id: Option<String>,
    pub product_code: Option<String>,
    pub offer_id: Option<String>,
    pub months: Option<u32>,
    pub start_time: Option<Timestamp>,
    pub dimensions: Option<Vec<Value>>,
    pub licence: Option<Licence>,
    pub auto_renew: Option<bool>,
}

impl NewAgreement {
    /// What follows on `old`.
    fn after(self, old: &Agreement, start: Timestamp) -> Self {
        Self {
            publisher: Some(old.publisher.clone()),
            account_id: Some(old.account_id.clone()),
            product_id: self.product_id.or_else(|| Some(old.product_id.clone())),
            product_code: self.product_code.or_else(|| Some(old.product_code.clone())),
            offer_id: self.offer_id.or_else(|| Some(old.offer_id.clone())),
            months: self.months.or(Some(old.months)),
            start_time: self.start_time.or(Some(start)),
            dimensions: self.dimensions.or_else(|| old.dimensions.clone()),
            licence: self.licence,
            auto_renew: self.auto_renew.or(Some(old.auto_renew)),
        }
    }
}

impl Agreement {
    pub fn json(&self) -> Value {
        lean(json!(self))
    }

    fn detail(&self) -> Value {
        lean(json!({
            "agreement": {
                "id": self.id,
                "intent": self.intent,
                "status": self.status,
                "acceptanceTime": self.accepted,
                "startTime": self.start,
                "endTime": self.end,
            },
            "acceptor": {"accountId": self.account_id},
            "offer": {"id": self.offer_id},
            "license": self.licence.as_ref().map(|arn| json!({"arn": arn})),
            "product": {"id": self.product_id, "code": self.product_code},
            "dimensions": self.dimensions,
        }))
    }

    /// Whether it is in force. One that is renewed is, up to its end.
    pub fn is_active(&self, now: Timestamp) -> bool {
        matches!(self.status, ACTIVE | RENEWED) && self.start <= now && now < self.end
    }
}

/// An account number, as everywhere at cloud_a.
pub fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn check_dimensions(dimensions: Option<&Vec<Value>>) -> Result<(), Wrong> {
    let named = |dimension: &Value| dimension["key"].is_string() && !dimension["value"].is_null();
    if dimensions.is_none_or(|all| all.iter().all(named)) {
        Ok(())
    } else {
        Err(Wrong::bad("dimensions must be objects with a key and a value"))
    }
}

fn needed(field: Option<String>, name: &str) -> Result<String, Wrong> {
    field.filter(|text| !text.is_empty()).ok_or_else(|| Wrong::bad(format!("{name} is missing")))
}

impl World {
    /// A new agreement; answers with its id.
    pub fn agree(&mut self, new: NewAgreement, intent: &'static str) -> Result<String, Wrong> {
        let agreement = self.draw_up(&new, intent)?;
        let id = agreement.id.clone();
        let licence = new.licence.unwrap_or(Licence::After);
        self.schedule(agreement.end, Due::AgreementEnds { agreement: id.clone(), end: agreement.end });
        self.agreements.insert(id.clone(), agreement);
        match licence {
            Licence::Before => {
                self.license(&id);
                self.tell(&id, CREATED);
            }
            Licence::After => {
                self.tell(&id, CREATED);
                self.license(&id);
            }
            Licence::Never => self.tell(&id, CREATED),
        }
        Ok(id)
    }

    fn draw_up(&self, new: &NewAgreement, intent: &'static str) -> Result<Agreement, Wrong> {
        self.room(self.agreements.len(), "agreements")?;
        let publisher = needed(new.publisher.clone(), "publisher")?;
        self.publisher_at(&publisher, Side::CloudA)?;
        let account_id = needed(new.account_id.clone(), "accountId")?;
        if !is_account(&account_id) {
            return Err(Wrong::bad("accountId must have 12 digits"));
        }
        let product_id = needed(new.product_id.clone(), "productId")?;
        let months = check_months(new.months.unwrap_or(TERM))?;
        check_dimensions(new.dimensions.as_ref())?;
        let start = new.start_time.unwrap_or(self.now);
        let end = months_after(start, months);
        if end <= self.now {
            return Err(Wrong::bad("the term would have ended already"));
        }
        Ok(Agreement {
            id: self.mint("agmt-"),
            publisher,
            account_id,
            product_code: new.product_code.clone().unwrap_or_else(|| product_id.clone()),
            product_id,
            offer_id: new.offer_id.clone().unwrap_or_else(|| self.mint("offer-")),
            intent,
            status: ACTIVE,
            accepted: self.now,
            start,
            end,
            months,
            auto_renew: new.auto_renew.unwrap_or(false),
            licence: None,
            dimensions: new.dimensions.clone(),
        })
    }

    fn license(&mut self, id: &str) {
        let key = self.guid().replace('-', "");
        if let Some(agreement) = self.agreements.get_mut(id) {
            agreement.licence = Some(format!("arn:aws:license-manager::{}:license:l-{key}", agreement.account_id));
        }
        self.tell(id, LICENSED);
    }

    fn tell(&mut self, id: &str, kind: &str) {
        let Some(agreement) = self.agreements.get(id) else { return };
        let (publisher, detail) = (agreement.publisher.clone(), agreement.detail());
        self.tell_cloud_a(&publisher, kind, SOURCE, detail);
    }

    /// A notification of cloud_a, in its envelope.
    pub fn tell_cloud_a(&mut self, publisher: &str, kind: &str, source: &str, detail: Value) {
        let account = self.publishers.get(publisher).and_then(|publisher| publisher.cloud_a.as_ref());
        let region = account.map(|account| account.region.clone());
        let body = json!({
            "version": "0",
            "id": self.guid(),
            "detail-type": kind,
            "source": source,
            "account": "000000000000",
            "time": self.now,
            "region": region,
            "resources": [],
            "detail": detail,
        });
        self.notify(publisher, Side::CloudA, kind, body);
    }

    fn active(&self, id: &str) -> Result<&Agreement, Wrong> {
        let agreement = self.agreements.get(id);
        let agreement = agreement.ok_or_else(|| Wrong::unknown(format!("there is no agreement {id:?}")))?;
        if agreement.status == ACTIVE {
            Ok(agreement)
        } else {
            Err(Wrong::conflict(format!("the agreement has ended: it is {}", agreement.status)))
        }
    }

    /// What is done to an agreement; answers with the agreement that is in force afterwards, or with how it ended.
    pub fn act_on_agreement(&mut self, id: &str, action: &str, fields: NewAgreement) -> Result<Value, Wrong> {
        self.room(self.agenda.len(), "things to come")?;
        let id = match action {
            "amend" => self.amend(id, &fields)?,
            "renew" => self.renew_agreement(id, fields)?,
            "replace" => self.replace(id, fields)?,
            "cancel" => self.end_agreement(id, "CANCELLED")?,
            "terminate" => self.end_agreement(id, "TERMINATED")?,
            "expire" => self.end_agreement(id, "EXPIRED")?,
            "deprovision" => self.deprovision(id)?,
            _ => return Err(Wrong::unknown(format!("nothing is known of {action:?}"))),
        };
        Ok(self.agreements.get(&id).map_or(Value::Null, Agreement::json))
    }

    fn amend(&mut self, id: &str, fields: &NewAgreement) -> Result<String, Wrong> {
        let mut agreement = self.active(id)?.clone();
        check_dimensions(fields.dimensions.as_ref())?;
        agreement.months = check_months(fields.months.unwrap_or(agreement.months))?;
        let end = months_after(agreement.start, agreement.months);
        if end <= self.now {
            return Err(Wrong::bad("the term would have ended already"));
        }
        if let Some(dimensions) = &fields.dimensions {
            agreement.dimensions = Some(dimensions.clone());
        }
        agreement.auto_renew = fields.auto_renew.unwrap_or(agreement.auto_renew);
        agreement.end = end;
        agreement.intent = "AMEND";
        self.schedule(end, Due::AgreementEnds { agreement: id.to_owned(), end });
        self.agreements.insert(id.to_owned(), agreement);
        self.tell(id, AMENDED);
        Ok(id.to_owned())
    }

    fn renew_agreement(&mut self, id: &str, fields: NewAgreement) -> Result<String, Wrong> {
        let old = self.active(id)?.clone();
        self.succeed(&old, fields.after(&old, old.end), RENEWED, "RENEW")
    }

    pub fn replace(&mut self, id: &str, fields: NewAgreement) -> Result<String, Wrong> {
        let old = self.active(id)?.clone();
        self.succeed(&old, fields.after(&old, self.now), "REPLACED", "REPLACE")
    }

    /// Ends an agreement and begins the one that follows, if that one can be.
    fn succeed(
        &mut self,
        old: &Agreement,
        new: NewAgreement,
        ends_as: &'static str,
        intent: &'static str,
    ) -> Result<String, Wrong> {
        self.draw_up(&new, intent)?;
        self.end_agreement(&old.id, ends_as)?;
        self.agree(new, intent)
    }

    fn end_agreement(&mut self, id: &str, status: &'static str) -> Result<String, Wrong> {
        let mut agreement = self.active(id)?.clone();
        agreement.status = status;
        // One that is renewed ran to its end; any other ends now at the latest.
        if status != RENEWED {
            agreement.end = agreement.end.min(self.now);
        }
        self.agreements.insert(id.to_owned(), agreement);
        self.tell(id, ENDED);
        Ok(id.to_owned())
    }

    fn deprovision(&mut self, id: &str) -> Result<String, Wrong> {
        let agreement = self.agreements.get(id);
        let agreement = agreement.ok_or_else(|| Wrong::unknown(format!("there is no agreement {id:?}")))?;
        if agreement.licence.is_none() {
            return Err(Wrong::conflict("the agreement has no licence"));
        }
        // The notification names the licence that is gone.
        self.tell(id, DEPROVISIONED);
        if let Some(agreement) = self.agreements.get_mut(id) {
            agreement.licence = None;
        }
        Ok(id.to_owned())
    }

    pub fn agreement_ends(&mut self, id: &str, end: Timestamp) {
        let ends = |it: &&Agreement| it.status == ACTIVE && it.end == end;
        let Some(auto_renew) = self.agreements.get(id).filter(ends).map(|it| it.auto_renew) else { return };
        let done = if auto_renew {
            self.renew_agreement(id, NewAgreement::default())
        } else {
            self.end_agreement(id, "EXPIRED")
        };
        if let Err(error) = done {
            tracing::warn!(agreement = id, ?error, "an agreement of the simulator did not end");
        }
    }
}
