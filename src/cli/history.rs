//! The sample organization's year. A [`Schedule`] says what happened when, by plain arithmetic on the numbers of
//! customers, contracts and deals; a [`Walk`] makes it happen through the resolvers, on a clock that it moves by hand.
//! What the records look like is in [`super::sample`].

use std::collections::HashMap;
use std::hash::Hash;

use chrono::{Months, TimeDelta};

use super::sample::{self, Contract, Deal, Report};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::model::customer::{CustomerPatch, CustomerStatus};
use crate::model::id::{CustomerId, EntitlementId, MeteringId, PrivateOfferId};
use crate::model::lifecycle::{Amendment, Step, Term};
use crate::model::operation::Operation;
use crate::model::time::Timestamp;
use crate::resolvers::{clockwork, customers, entitlements, metering, offers};
use crate::store::{Store, Tenant};

/// Days of [`LENGTH`].
const YEAR: usize = 365;
/// Customers came evenly up to this day.
const LAST_JOINED: usize = 362;

/// How long before now the history begins.
pub(super) const LENGTH: TimeDelta = TimeDelta::days(365);

enum Action {
    Join(usize),
    Leave(usize),
    Open(Contract),
    Step(usize, Step),
    Deal(Deal, Turn),
    Usage(Report, Leg),
    /// Something has become due.
    Wake,
}

enum Turn {
    Create,
    Publish { live: bool },
    Accept { start: Option<Timestamp> },
    Withdraw,
}

enum Leg {
    Submit,
    Send,
    Settle,
}

/// Days that the story of a contract takes, by the number of the story.
const STORIES: [usize; 24] = [15, 30, 35, 33, 33, 65, 55, 95, 45, 35, 10, 5, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8];
/// What is told of a contract that began too late for its story: nothing.
const NO_STORY: (usize, usize) = (STORIES.len(), 1);

struct Schedule {
    start: Timestamp,
    today: Timestamp,
    entries: Vec<(Timestamp, Action)>,
    contracts: usize,
    deals: usize,
    /// Pay-as-you-go contracts, whose usage is reported.
    metered: Vec<Contract>,
}

fn days(count: usize) -> TimeDelta {
    TimeDelta::days(count.cast_signed() as i64)
}

fn minutes(count: usize) -> TimeDelta {
    TimeDelta::minutes(count.cast_signed() as i64)
}

impl Schedule {
    fn of(start: Timestamp, customers: usize) -> Self {
        let today = start.plus(LENGTH);
        let mut schedule = Self { start, today, entries: Vec::new(), contracts: 0, deals: 0, metered: Vec::new() };
        for customer in 0..customers {
            schedule.customer(customer, customer * LAST_JOINED / customers);
        }
        schedule.usage(customers / 5);
        schedule.add(today, Action::Wake);
        schedule.entries.sort_by_key(|(at, _)| *at);
        schedule
    }

    /// Notes what happens, unless it is still ahead.
    fn add(&mut self, at: Timestamp, action: Action) {
        if at <= self.today {
            self.entries.push((at, action));
        }
    }

    /// A moment of a day; which one depends on the number.
    fn moment(&self, day: usize, number: usize) -> Timestamp {
        self.start.plus(days(day) + minutes(number * 37 % 1440))
    }

    /// Up to a day longer ago than so many days.
    fn ago(&self, count: usize, number: usize) -> Timestamp {
        self.moment(YEAR - 1 - count, number)
    }

    /// A customer, and what it bought: one or two contracts, one or two offers. Every seventeenth has left.
    fn customer(&mut self, number: usize, joined: usize) {
        self.add(self.moment(joined, number), Action::Join(number));
        if number % 17 == 16 && joined + 70 < YEAR {
            let contract = self.next_contract(number);
            let opened = self.moment(joined + 1, contract.number);
            self.add(opened, Action::Open(contract));
            self.add(opened.plus(days(60)), Action::Step(contract.number, Step::Cancel));
            self.add(opened.plus(days(63)), Action::Leave(number));
            return;
        }
        for nth in 0..=usize::from(number % 5 < 3) {
            self.contract(number, joined, joined + 1 + nth * 45);
        }
        for nth in 0..=usize::from(number.is_multiple_of(4)) {
            self.deal(number, joined, nth * 9);
        }
    }

    fn next_contract(&mut self, customer: usize) -> Contract {
        self.contracts += 1;
        let number = self.contracts - 1;
        Contract { number, customer, start: None, end: None, awaits_activation: false, renews: false }
    }

    /// A contract that begins on a day or soon after, and one of the stories, if the customer came early enough for it.
    fn contract(&mut self, customer: usize, joined: usize, day: usize) {
        let mut contract = self.next_contract(customer);
        let number = contract.number;
        let story = number % STORIES.len();
        let fits = joined + STORIES[story] + 3 < YEAR;
        let (story, takes) = if fits { (story, STORIES[story]) } else { NO_STORY };
        let opened = self.moment((day + number % 5).min(YEAR - takes - 1), number);
        contract.end = (number / 3).is_multiple_of(2).then(|| opened.plus(LENGTH));
        self.tell(story, contract, opened);
    }

    fn tell(&mut self, story: usize, contract: Contract, opened: Timestamp) {
        let number = contract.number;
        let after = |count| opened.plus(days(count));
        let step = |step| Action::Step(number, step);
        let grown = |times| Amendment { dimensions: vec![sample::seats(number, times)], ..Amendment::default() };
        let contract = match story {
            0 => return self.coming(contract),
            3 | 4 => return self.ending(contract, opened),
            7 => return self.renewing(contract, opened),
            10 => Contract { start: Some(after(7)), end: Some(after(7).plus(LENGTH)), ..contract },
            11 => Contract { awaits_activation: true, ..contract },
            _ => contract,
        };
        self.add(opened, Action::Open(contract));
        match story {
            1 => self.add(self.ago(number % 25, number), step(Step::Suspend)),
            2 => {
                self.add(after(20), step(Step::Suspend));
                self.add(after(30), step(Step::Reinstate));
            }
            5 => self.add(after(20 + number % 40), step(Step::Cancel)),
            6 => {
                // Suspended for too long: the clock cancels it.
                self.add(after(20), step(Step::Suspend));
                self.add(after(50), Action::Wake);
            }
            8 => {
                self.add(after(15), step(Step::Amend(grown(2))));
            }
            9 => {
                let larger = Amendment { plan_id: Some(sample::plan(number + 1)), ..grown(1) };
                self.add(after(30), step(Step::Amend(larger)));
            }
            10 => self.add(after(7), Action::Wake),
            11 => self.add(after(1), step(Step::Activate(Amendment::default()))),
            12..=23 if contract.end.is_none() => self.metered.push(contract),
            _ => {}
        }
    }

    /// Bought lately, beginning soon.
    fn coming(&mut self, contract: Contract) {
        let number = contract.number;
        let start = self.today.plus(days(3 + number % 20));
        let contract = Contract { start: Some(start), end: Some(start.plus(LENGTH)), ..contract };
        self.add(self.ago(number % 14, number), Action::Open(contract));
    }

    /// For six, three or one months, whichever have passed since.
    fn ending(&mut self, contract: Contract, opened: Timestamp) {
        let over = |term: &usize| opened.plus(days(*term)) < self.today;
        let term = [180, 90, 30].into_iter().skip(contract.number % 3).find(over).unwrap_or(30);
        let end = opened.plus(days(term));
        self.add(opened, Action::Open(Contract { end: Some(end), ..contract }));
        self.add(end, Action::Wake);
    }

    /// For three months, again and again.
    fn renewing(&mut self, contract: Contract, opened: Timestamp) {
        let mut end = opened.plus(days(90));
        self.add(opened, Action::Open(Contract { end: Some(end), renews: true, ..contract }));
        while end < self.today {
            let term = Term { start: Some(end), end: Some(end.plus(days(90))) };
            self.add(end.plus(-TimeDelta::hours(2)), Action::Step(contract.number, Step::Renew(term)));
            end = end.plus(days(90));
        }
    }

    /// An offer: of twenty, nine are accepted, four expire, three are cancelled and four are open, if the customer came
    /// early enough.
    fn deal(&mut self, customer: usize, joined: usize, later: usize) {
        self.deals += 1;
        let deal = Deal { number: self.deals - 1, round: 0, customer, expires_at: None };
        let (number, room) = (deal.number, YEAR - joined);
        let day_leaving = |rest: usize| joined + 1 + (number * 11 + later) % room.saturating_sub(rest).max(1);
        match number % 20 {
            0..=8 if room > 20 => self.accepted(deal, day_leaving(15)),
            story @ 9..=12 if room > 45 => {
                let created = self.moment(day_leaving(40), number);
                let end = created.plus(days(14 + story % 3 * 8));
                self.offered(Deal { expires_at: Some(end), ..deal }, created, (story > 11).then_some(true));
                self.add(end, Action::Wake);
            }
            story @ 13..=15 if room > 20 => {
                let created = self.moment(day_leaving(15), number);
                self.offered(deal, created, (story == 15).then_some(true));
                self.add(created.plus(days(3 + number % 7)), Action::Deal(deal, Turn::Withdraw));
            }
            story => {
                let expires_at = Some(self.today.plus(days(5 + number % 25)));
                // One of them is so new that the marketplace has not published it yet.
                let created = self.ago(if story == 18 { 0 } else { (number % 14).min(room - 2) }, number);
                self.offered(Deal { expires_at, ..deal }, created, (story != 18).then_some(story != 19));
            }
        }
    }

    /// An offer that is made and, a little later, published: live or in vain.
    fn offered(&mut self, deal: Deal, created: Timestamp, live: Option<bool>) {
        self.add(created, Action::Deal(deal, Turn::Create));
        if let Some(live) = live {
            self.add(created.plus(minutes(25)), Action::Deal(deal, Turn::Publish { live }));
        }
    }

    /// An offer that is accepted after some days, what the clock then does to the contract, and perhaps a replacement.
    fn accepted(&mut self, deal: Deal, day: usize) {
        let (number, created) = (deal.number, self.moment(day, deal.number));
        self.offered(deal, created, Some(true));
        let accepted = created.plus(days(2 + number % 9));
        let start = (number % 20 == 6).then(|| accepted.plus(days(10)));
        self.add(accepted, Action::Deal(deal, Turn::Accept { start }));
        let begun = start.unwrap_or(accepted);
        let end = begun.as_datetime().checked_add_months(Months::new(sample::months(&deal)));
        for due in [start, end.map(Timestamp::from_datetime)].into_iter().flatten() {
            self.add(due, Action::Wake);
        }
        let next = Deal { round: deal.round + 1, ..deal };
        match number % 20 {
            0 if deal.round < 2 => self.accepted(next, day + 75),
            4 if day + 40 < YEAR => self.offered(next, self.ago(number % 10, number), Some(true)),
            _ => {}
        }
    }

    /// Usage of the last five days. The marketplace has yet to answer for the last quarter of it.
    fn usage(&mut self, count: usize) {
        let metered = self.metered.clone();
        for (number, contract) in metered.iter().cycle().take(count).enumerate() {
            let report = Report { number, customer: contract.customer, contract: contract.number };
            let left = count - number;
            let ago = if left * 4 > count { left * 7200 / count } else { left * 200 / count };
            let at = self.today.plus(-minutes(ago));
            self.add(at, Action::Usage(report, Leg::Submit));
            if left * 8 > count {
                self.add(at.plus(minutes(5)), Action::Usage(report, Leg::Send));
            }
            if left * 4 > count {
                self.add(at.plus(minutes(30)), Action::Usage(report, Leg::Settle));
            }
        }
    }
}

/// What was made so far, by its number in the schedule.
struct Walk<'a> {
    store: &'a Store,
    call: &'a Call,
    tenant: Tenant,
    customers: HashMap<usize, CustomerId>,
    contracts: HashMap<usize, EntitlementId>,
    offers: HashMap<(usize, usize), PrivateOfferId>,
    reports: HashMap<usize, MeteringId>,
}

/// Makes a year happen, from where the store's clock stands, with so many customers at its end.
pub(super) async fn play(store: &Store, call: &Call, customers: usize, progress: impl Fn(&str)) -> Result<()> {
    let entries = Schedule::of(store.clock().now(), customers).entries;
    let mut walk = Walk {
        store,
        call,
        // The marketplaces' side of the resolvers takes the store itself.
        tenant: call.grant(Operation::EntitlementsGet.access())?,
        customers: HashMap::new(),
        contracts: HashMap::new(),
        offers: HashMap::new(),
        reports: HashMap::new(),
    };
    let total = entries.len();
    for (done, (at, action)) in entries.into_iter().enumerate() {
        let ahead = at.as_datetime() - store.clock().now().as_datetime();
        store.clock().advance(ahead);
        Box::pin(walk.act(action)).await?;
        if (done + 1) * 10 / total > done * 10 / total {
            progress(&format!("  {} of {total}: {}", done + 1, at.as_datetime().date_naive()));
        }
    }
    Ok(())
}

fn known<K: Eq + Hash, V: Copy>(made: &HashMap<K, V>, number: &K) -> Result<V> {
    made.get(number).copied().ok_or_else(|| Error::internal("the sample uses a record before it makes it"))
}

impl Walk<'_> {
    async fn act(&mut self, action: Action) -> Result<()> {
        match action {
            Action::Join(number) => {
                let made = customers::create(self.call, sample::customer(number)).await?;
                self.customers.insert(number, made.customer.id);
            }
            Action::Leave(number) => {
                let id = known(&self.customers, &number)?.to_string();
                let patch = CustomerPatch { status: Some(CustomerStatus::Inactive), ..CustomerPatch::default() };
                customers::update(self.call, &id, patch).await?;
            }
            Action::Open(contract) => {
                let new = sample::entitlement(&contract, known(&self.customers, &contract.customer)?);
                self.contracts.insert(contract.number, entitlements::open(&self.tenant, new).await?.id);
            }
            Action::Step(number, step) => {
                entitlements::advance(&self.tenant, known(&self.contracts, &number)?, step).await?;
            }
            Action::Deal(deal, turn) => self.deal(deal, turn).await?,
            Action::Usage(report, leg) => self.usage(report, leg).await?,
            Action::Wake => {
                clockwork::run(self.store).await?;
            }
        }
        Ok(())
    }

    async fn deal(&mut self, deal: Deal, turn: Turn) -> Result<()> {
        let key = (deal.number, deal.round);
        if matches!(turn, Turn::Create) {
            let new = sample::offer(&deal, known(&self.customers, &deal.customer)?);
            self.offers.insert(key, offers::create(self.call, new).await?.id);
            return Ok(());
        }
        let id = known(&self.offers, &key)?;
        match turn {
            Turn::Create => {}
            Turn::Publish { live } => {
                offers::publish(&self.tenant, id, sample::published(&deal, live)).await?;
            }
            Turn::Accept { start } => {
                offers::accept(&self.tenant, id, sample::acceptance(&deal, start)).await?;
            }
            Turn::Withdraw => {
                offers::delete(self.call, &id.to_string()).await?;
            }
        }
        Ok(())
    }

    async fn usage(&mut self, report: Report, leg: Leg) -> Result<()> {
        match leg {
            Leg::Submit => {
                let customer = known(&self.customers, &report.customer)?;
                let new = sample::usage(&report, customer, self.call.clock().now());
                self.reports.insert(report.number, metering::submit(self.call, new).await?.id);
            }
            Leg::Send => {
                metering::submit_to_vendor(&self.tenant, known(&self.reports, &report.number)?).await?;
            }
            Leg::Settle => {
                let id = known(&self.reports, &report.number)?;
                metering::settle(&self.tenant, id, &sample::verdicts(&report)).await?;
            }
        }
        Ok(())
    }
}
