//! Contract statistics: what is asked, and how the answer is counted (spec "Contract statistics", `contract.md` §12).

use std::collections::BTreeMap;

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, TimeDelta, Utc};
use serde::Serialize;

use super::input::{Choice, Problems, read_timestamp};
use super::tally::{Columns, ContractStatus, Nodes, Place, Side, places_below};
use super::time::Timestamp;
use super::vendor::Vendor;
use crate::error::{Error, Result};

/// What "new" and "expiring" mean without a range.
const NEAR: TimeDelta = TimeDelta::days(30);
/// Points of one series.
pub const SERIES_MAX: usize = 732;

/// What a caller asks, as it came. Both ends of the range may be open.
#[derive(Clone, Debug, Default)]
pub struct ContractQuery {
    pub start: Option<Timestamp>,
    pub end: Option<Timestamp>,
    pub vendor: Option<Vendor>,
    pub status: Option<ContractStatus>,
    pub problems: Problems,
}

/// How many contracts there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, async_graphql::SimpleObject)]
#[serde(rename_all = "camelCase")]
pub struct ContractStatistics {
    /// Starting in the range; without one, in the last 30 days.
    pub new_contracts: u64,
    /// Whose term overlaps the range.
    pub total_contracts: u64,
    /// Active, ending within 30 days from now, or until the end of the range if that is later than now.
    pub expiring_contracts: u64,
}

impl ContractQuery {
    /// The REST form.
    pub fn from_query(query: &str) -> Self {
        let mut asked = Self::default();
        let mut seen = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let problems = &mut asked.problems;
            if seen.contains(&name) {
                problems.malformed(name.clone(), "must be given once");
            }
            match &*name {
                "startDate" => asked.start = read_timestamp(problems, "startDate", &value),
                "endDate" => asked.end = read_timestamp(problems, "endDate", &value),
                "vendor" => asked.vendor = read_choice(problems, "vendor", &value),
                "status" => asked.status = read_choice(problems, "status", &value),
                other => problems.malformed(other, "is not a known query parameter"),
            }
            seen.push(name);
        }
        asked
    }

    pub fn check(&mut self) -> Result<()> {
        let mut problems = std::mem::take(&mut self.problems);
        if let (Some(start), Some(end)) = (self.start, self.end)
            && start > end
        {
            problems.malformed("endDate", "must not be before startDate");
        }
        problems.raise()
    }

    fn columns(&self) -> Columns {
        Columns { vendor: self.vendor, status: self.status }
    }

    /// The moments at which counting splits, which say what has to be read.
    fn bounds(&self, now: Timestamp) -> Bounds {
        let horizon = now.plus(NEAR);
        Bounds {
            overlap: (self.start, self.end),
            new: match (self.start, self.end) {
                (None, None) => (Some(now.plus(-NEAR)), Some(now)),
                range => range,
            },
            expiring: (now, self.end.filter(|end| *end > now).unwrap_or(horizon)),
        }
    }

    /// The nodes below the roots that [`ContractQuery::count`] needs.
    pub fn places(&self, now: Timestamp) -> Vec<Place> {
        let bounds = self.bounds(now);
        let starts = [bounds.overlap.1.map(after), bounds.new.0, bounds.new.1.map(after)];
        let ends = [bounds.overlap.0, Some(after(bounds.expiring.0)), Some(after(bounds.expiring.1))];
        let starts = starts.into_iter().flatten().flat_map(|at| places_below(Side::Start, at));
        starts.chain(ends.into_iter().flatten().flat_map(|at| places_below(Side::End, at))).collect()
    }

    pub fn count(&self, now: Timestamp, nodes: &Nodes) -> ContractStatistics {
        let (columns, bounds) = (self.columns(), self.bounds(now));
        let before = |side, at: Option<Timestamp>, open| at.map_or(open, |at| nodes.before(side, at, columns));
        let all = nodes.all(Side::Start, columns);
        // Neither begun too late nor ended too early; no contract is both.
        let begun = before(Side::Start, bounds.overlap.1.map(after), all);
        let over = before(Side::End, bounds.overlap.0, 0);
        let new = before(Side::Start, bounds.new.1.map(after), all) - before(Side::Start, bounds.new.0, 0);
        ContractStatistics {
            total_contracts: begun.saturating_sub(over),
            new_contracts: new,
            expiring_contracts: self.expiring(bounds.expiring, nodes),
        }
    }

    fn expiring(&self, (from, to): (Timestamp, Timestamp), nodes: &Nodes) -> u64 {
        if self.status.is_some_and(|status| status != ContractStatus::Active) {
            return 0;
        }
        let active = Columns { vendor: self.vendor, status: Some(ContractStatus::Active) };
        nodes.before(Side::End, after(to), active) - nodes.before(Side::End, after(from), active)
    }
}

struct Bounds {
    overlap: (Option<Timestamp>, Option<Timestamp>),
    new: (Option<Timestamp>, Option<Timestamp>),
    /// After the first, up to the second.
    expiring: (Timestamp, Timestamp),
}

/// "Up to" a moment is "before" the millisecond after it.
fn after(at: Timestamp) -> Timestamp {
    at.plus(TimeDelta::milliseconds(1))
}

fn read_choice<T: Choice>(problems: &mut Problems, field: &str, text: &str) -> Option<T> {
    let choice = T::choose(text);
    if choice.is_none() {
        problems.malformed(field, format!("must be one of: {}", T::choices().join(", ")));
    }
    choice
}

super::wire_enum! {
    /// The width of a point of a series; days and months begin at midnight UTC.
    Interval {
        Day = "day",
        Month = "month",
    }
}

/// A series as it is asked for, both days included.
#[derive(Clone, Copy, Debug)]
pub struct SeriesQuery {
    pub start: Timestamp,
    pub end: Timestamp,
    pub interval: Interval,
    pub vendor: Option<Vendor>,
}

/// One day or month of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, async_graphql::SimpleObject)]
#[graphql(name = "ContractSeriesPoint")]
pub struct SeriesPoint {
    /// The midnight, UTC, that begins it.
    pub start: Timestamp,
    /// Contracts that start in it, whatever became of them.
    pub new_contracts: u64,
    /// Live contracts whose term ends in it.
    pub expiring_contracts: u64,
    /// Contracts that expired or were cancelled in it.
    pub ended_contracts: u64,
}

impl SeriesQuery {
    pub fn check(&self) -> Result<()> {
        if self.end < self.start {
            return Err(Error::malformed("endDate", "must not be before startDate"));
        }
        if self.days().take(SERIES_MAX + 1).count() > SERIES_MAX {
            return Err(Error::malformed("endDate", format!("must not be more than {SERIES_MAX} points away")));
        }
        Ok(())
    }

    /// The days that begin its points.
    fn days(&self) -> impl Iterator<Item = NaiveDate> {
        let last = self.bucket(self.end.as_datetime().date_naive());
        let first = self.bucket(self.start.as_datetime().date_naive());
        std::iter::successors(Some(first), |day| self.next(*day)).take_while(move |day| *day <= last)
    }

    pub fn count(&self, nodes: &Nodes) -> Vec<SeriesPoint> {
        let any = Columns { vendor: self.vendor, status: None };
        let active = Columns { status: Some(ContractStatus::Active), ..any };
        let new = self.grouped(&nodes.by_day(Side::Start, any));
        let expiring = self.grouped(&nodes.by_day(Side::End, active));
        let ended = self.grouped(&nodes.by_day(Side::Ended, any));
        let of = |counts: &BTreeMap<NaiveDate, u64>, day| counts.get(&day).copied().unwrap_or(0);
        let point = |day: NaiveDate| SeriesPoint {
            start: Timestamp::from_datetime(midnight(day)),
            new_contracts: of(&new, day),
            expiring_contracts: of(&expiring, day),
            ended_contracts: of(&ended, day),
        };
        self.days().map(point).collect()
    }

    fn grouped(&self, by_day: &BTreeMap<i64, u64>) -> BTreeMap<NaiveDate, u64> {
        let mut grouped = BTreeMap::new();
        for (day, count) in by_day {
            let date = Timestamp::from_millis(day * 86_400_000).as_datetime().date_naive();
            *grouped.entry(self.bucket(date)).or_default() += count;
        }
        grouped
    }

    /// The day that begins the point of a day.
    fn bucket(&self, day: NaiveDate) -> NaiveDate {
        match self.interval {
            Interval::Day => day,
            Interval::Month => day.with_day(1).unwrap_or(day),
        }
    }

    fn next(&self, day: NaiveDate) -> Option<NaiveDate> {
        match self.interval {
            Interval::Day => day.checked_add_days(Days::new(1)),
            Interval::Month => day.checked_add_months(Months::new(1)),
        }
    }
}

fn midnight(day: NaiveDate) -> DateTime<Utc> {
    day.and_time(chrono::NaiveTime::MIN).and_utc()
}
