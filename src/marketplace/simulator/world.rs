//! What the simulator holds: its time, the agenda of what becomes due, the publishers and everything of theirs.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{Months, TimeDelta};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Notify;

use super::SimulatorSettings;
use super::agreements::Agreement;
use super::answer::Wrong;
use super::change_sets::ChangeSet;
use super::faults::Faults;
use super::ingestion::Job;
use super::keys::SigningKey;
use super::notify::Queue;
use super::offers::Offer;
use super::subscriptions::Subscription;
use crate::clock::Clock;
use crate::model::time::Timestamp;

/// What each list holds at most, unless somebody says otherwise.
pub const MOST: usize = 100_000;
/// The longest term, in months.
const LONGEST_TERM: u32 = 120;
/// How long a bearer token is good, in seconds.
pub const BEARER_SECONDS: i64 = 3600;
/// Days after which accepted usage is forgotten: far outside every window.
const USAGE_DAYS: i64 = 92;

/// Whose rules something goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    CloudA,
    CloudB,
}

/// A seller with accounts at either side.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Publisher {
    pub cloud_b: Option<CloudB>,
    pub cloud_a: Option<CloudA>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CloudB {
    pub tenant_id: String,
    pub client_id: String,
    #[serde(skip_serializing)]
    pub client_secret: String,
    pub publisher_id: String,
    pub notification_url: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CloudA {
    pub access_key_id: String,
    #[serde(skip_serializing)]
    pub secret_access_key: String,
    pub region: String,
    pub notification_url: String,
    #[serde(skip_serializing)]
    pub secret: String,
}

impl Publisher {
    fn side(&self, side: Side) -> bool {
        match side {
            Side::CloudA => self.cloud_a.is_some(),
            Side::CloudB => self.cloud_b.is_some(),
        }
    }
}

/// What happens by itself at its time. What is on the agenda may have been overtaken: whoever does it looks first.
#[derive(Debug)]
pub enum Due {
    OperationSucceeds { subscription: String, operation: String },
    SuspensionEnds { subscription: String, since: Timestamp },
    TermEnds { subscription: String, end: Timestamp },
    JobEnds(String),
    ChangeSetEnds(String),
    AgreementEnds { agreement: String, end: Timestamp },
    OfferExpires { offer: String, end: Timestamp },
}

/// One accepted record of usage.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub id: String,
    pub side: Side,
    pub publisher: String,
    /// The subscription, or the account.
    pub resource: String,
    /// The plan, or the product code.
    pub product: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license_arn: Option<String>,
    pub dimension: String,
    pub quantity: Value,
    pub at: Timestamp,
    pub accepted_at: Timestamp,
}

/// Resource (and licence), product, dimension and UTC hour: there is one record of each.
pub type Slot = (Side, String, String, String, i64);

pub struct Bearer {
    pub publisher: String,
    /// Of the machine's clock, as the other side counts it.
    pub expires: Timestamp,
}

pub struct World {
    pub clock: Clock,
    pub publish: TimeDelta,
    /// Of each list.
    most: usize,
    pub offset: TimeDelta,
    /// The moment that the world has come to, of its own clock.
    pub now: Timestamp,
    pub agenda: BTreeMap<(Timestamp, u64), Due>,
    scheduled: u64,
    pub key: SigningKey,
    pub faults: Faults,
    pub publishers: BTreeMap<String, Publisher>,
    pub bearers: BTreeMap<String, Bearer>,
    /// Purchase tokens: of which subscription, and since when.
    pub tokens: BTreeMap<String, (String, Timestamp)>,
    pub subscriptions: BTreeMap<String, Subscription>,
    pub jobs: BTreeMap<String, Job>,
    pub offers: BTreeMap<String, Offer>,
    pub change_sets: BTreeMap<String, ChangeSet>,
    pub agreements: BTreeMap<String, Agreement>,
    pub usage: BTreeMap<Slot, Usage>,
    /// Known dimensions by offer or product code. All are known of one that is not here.
    pub dimensions: BTreeMap<String, Vec<String>>,
    pub queue: Queue,
}

impl World {
    pub fn new(settings: SimulatorSettings, key: SigningKey, wake: Arc<Notify>) -> Self {
        let SimulatorSettings { clock, publish, most, .. } = settings;
        Self {
            now: clock.now(),
            clock,
            publish,
            most,
            offset: TimeDelta::zero(),
            agenda: BTreeMap::new(),
            scheduled: 0,
            key,
            faults: Faults::default(),
            publishers: BTreeMap::new(),
            bearers: BTreeMap::new(),
            tokens: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            jobs: BTreeMap::new(),
            offers: BTreeMap::new(),
            change_sets: BTreeMap::new(),
            agreements: BTreeMap::new(),
            usage: BTreeMap::new(),
            dimensions: BTreeMap::new(),
            queue: Queue::new(wake, most),
        }
    }

    /// Whether a list that holds so many takes one more.
    pub fn room(&self, held: usize, what: &str) -> Result<(), Wrong> {
        if held < self.most {
            return Ok(());
        }
        let most = self.most;
        Err(Wrong::Full(format!("the simulator is full: it holds {most} {what} and takes no more; start it anew")))
    }

    pub fn schedule(&mut self, when: Timestamp, due: Due) {
        self.scheduled += 1;
        self.agenda.insert((when, self.scheduled), due);
    }

    /// Does what became due, each at its moment and in order of time.
    pub fn catch_up(&mut self) {
        let until = self.clock.now().plus(self.offset).max(self.now);
        while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= until) {
            let ((when, _), due) = entry.remove_entry();
            self.now = self.now.max(when);
            self.happen(due);
        }
        self.now = until;
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::OperationSucceeds { subscription, operation } => self.operation_succeeds(&subscription, &operation),
            Due::SuspensionEnds { subscription, since } => self.suspension_ends(&subscription, since),
            Due::TermEnds { subscription, end } => self.term_ends(&subscription, end),
            Due::JobEnds(job) => self.job_ends(&job),
            Due::ChangeSetEnds(change_set) => self.change_set_ends(&change_set),
            Due::AgreementEnds { agreement, end } => self.agreement_ends(&agreement, end),
            Due::OfferExpires { offer, end } => self.offer_expires(&offer, end),
        }
    }

    /// The machine's time: what credentials go by.
    pub fn machine_now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Which publisher has this bearer token, if it is still good.
    pub fn bearer(&self, token: &str) -> Option<String> {
        let bearer = self.bearers.get(token).filter(|bearer| bearer.expires > self.machine_now())?;
        Some(bearer.publisher.clone())
    }

    pub fn issue_bearer(&mut self, publisher: &str) -> Result<String, Wrong> {
        let now = self.machine_now();
        self.bearers.retain(|_, bearer| bearer.expires > now);
        self.room(self.bearers.len(), "bearer tokens")?;
        let token = format!("{}{}", self.guid(), self.guid()).replace('-', "");
        let expires = now.plus(TimeDelta::seconds(BEARER_SECONDS));
        self.bearers.insert(token.clone(), Bearer { publisher: publisher.to_owned(), expires });
        Ok(token)
    }

    /// A publisher that has an account at this side.
    pub fn publisher_at(&self, name: &str, side: Side) -> Result<&Publisher, Wrong> {
        let publisher = self.publishers.get(name);
        let publisher = publisher.ok_or_else(|| Wrong::unknown(format!("there is no publisher {name:?}")))?;
        if publisher.side(side) {
            Ok(publisher)
        } else {
            Err(Wrong::bad(format!("publisher {name:?} has no account at this marketplace")))
        }
    }

    /// Whether an offer or product has this dimension, as far as was said.
    pub fn knows_dimension(&self, product: &str, dimension: &str) -> bool {
        self.dimensions.get(product).is_none_or(|known| known.iter().any(|name| name == dimension))
    }

    /// Whether usage can be accepted. What is far outside every window makes room for it.
    pub fn room_for_usage(&mut self) -> Result<(), Wrong> {
        let oldest = self.now.plus(TimeDelta::days(-USAGE_DAYS));
        if self.usage.len() >= self.most || self.usage.len() % 1024 > 1000 {
            self.usage.retain(|_, usage| usage.at >= oldest);
        }
        self.room(self.usage.len(), "records of usage")
    }

    pub fn guid(&self) -> String {
        let mut bytes = self.clock.random::<16>();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let hex = format!("{:032x}", u128::from_be_bytes(bytes));
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// An id that sorts by the time at which it was made.
    pub fn mint(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.clock.mint().to_string().to_lowercase())
    }
}

/// A term's length, within what the calendar of the simulator can count.
pub fn check_months(months: u32) -> Result<u32, Wrong> {
    if (1..=LONGEST_TERM).contains(&months) {
        Ok(months)
    } else {
        Err(Wrong::bad(format!("months must be from 1 to {LONGEST_TERM}")))
    }
}

pub fn months_after(start: Timestamp, months: u32) -> Timestamp {
    let end = start.as_datetime().checked_add_months(Months::new(months));
    end.map_or(start, Timestamp::from_datetime)
}
