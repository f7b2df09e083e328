//! Counting contracts by time at constant cost, however many there are (`contract.md` §12).
//!
//! A [`Side`] of an organization (when contracts start, when they end, when they were ended) is a tree over time. A
//! [`Node`] covers a span and counts, for each of its slots, the contracts of each [`Column`] whose moment is in it; the
//! slots of the lowest level are single milliseconds. A change of a contract touches one node on each level; "how many
//! before t" sums a part of one node on each level, and all roots before it.

use std::collections::{BTreeMap, BTreeSet};

use super::entitlement::{Entitlement, EntitlementStatus};
use super::time::Timestamp;
use super::vendor::Vendor;

const DAY: i64 = 86_400_000;

/// What a node of each level covers, in milliseconds; the next entry is the width of its slots.
const SPANS: [i64; 5] = [512 * DAY, DAY, 360_000, 600, 1];

/// The levels of a tree. Those of [`Side::Ended`] end at days.
const LEVELS: usize = SPANS.len() - 1;

super::wire_enum! {
    Side {
        Start = "start",
        End = "end",
        /// When a contract expired or was cancelled; by day.
        Ended = "ended",
    }
}

super::wire_enum! {
    /// How statistics group the states of a contract: `active` covers pending, active and suspended.
    ContractStatus {
        Active = "active",
        Expired = "expired",
        Cancelled = "cancelled",
    }
}

impl ContractStatus {
    pub fn of(status: EntitlementStatus) -> Self {
        match status {
            EntitlementStatus::Pending | EntitlementStatus::Active | EntitlementStatus::Suspended => Self::Active,
            EntitlementStatus::Expired => Self::Expired,
            EntitlementStatus::Cancelled => Self::Cancelled,
        }
    }
}

/// What contracts are counted apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Column {
    pub vendor: Vendor,
    pub status: ContractStatus,
}

impl Column {
    fn code(self) -> u8 {
        self.vendor as u8 * 4 + self.status as u8
    }

    fn from_code(code: u8) -> Option<Self> {
        let vendor = Vendor::ALL.get(usize::from(code / 4)).copied()?;
        Some(Self { vendor, status: ContractStatus::ALL.get(usize::from(code % 4)).copied()? })
    }
}

/// Which columns a question is about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Columns {
    pub vendor: Option<Vendor>,
    pub status: Option<ContractStatus>,
}

impl Columns {
    fn has(self, column: Column) -> bool {
        self.vendor.is_none_or(|vendor| vendor == column.vendor)
            && self.status.is_none_or(|status| status == column.status)
    }
}

/// The place of a node: its side, its level (0 is the root) and which span of that level it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub side: Side,
    pub level: i64,
    pub index: i64,
}

/// One entry of a contract: on which side, when, in which column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    side: Side,
    at: i64,
    column: Column,
}

/// The entries of a contract. `ended_at` is when it became final.
pub fn entries(contract: &Entitlement, ended_at: Option<Timestamp>) -> BTreeSet<Entry> {
    let column = Column { vendor: contract.vendor, status: ContractStatus::of(contract.status) };
    let entry = |side, at: Timestamp| Entry { side, at: at.as_millis(), column };
    let start = entry(Side::Start, contract.start_date);
    let end = contract.end_date.map(|end| entry(Side::End, end));
    let ended = ended_at.map(|at| entry(Side::Ended, at));
    [Some(start), end, ended].into_iter().flatten().collect()
}

/// The nodes of an entry's path, and its slot in each.
fn path(side: Side, at: i64) -> impl Iterator<Item = (Place, u16)> {
    let levels = if side == Side::Ended { 1 } else { LEVELS };
    (0..levels).map(move |level| {
        let place = Place { side, level: level.cast_signed() as i64, index: at.div_euclid(SPANS[level]) };
        (place, u16::try_from(at.rem_euclid(SPANS[level]) / SPANS[level + 1]).unwrap_or(u16::MAX))
    })
}

/// Where two sets of entries differ: each node to change, with what to add where.
pub fn steps(before: &BTreeSet<Entry>, after: &BTreeSet<Entry>) -> BTreeMap<Place, Vec<(u16, Column, i64)>> {
    let mut steps: BTreeMap<Place, Vec<(u16, Column, i64)>> = BTreeMap::new();
    let gone = before.difference(after).map(|entry| (entry, -1));
    for (entry, by) in gone.chain(after.difference(before).map(|entry| (entry, 1))) {
        for (place, slot) in path(entry.side, entry.at) {
            steps.entry(place).or_default().push((slot, entry.column, by));
        }
    }
    steps
}

/// The counts of a node, in order of slot and column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node(Vec<(u16, Column, u32)>);

impl Node {
    pub fn add(&mut self, changes: &[(u16, Column, i64)]) {
        for (slot, column, by) in changes {
            let place = self.0.binary_search_by_key(&(*slot, *column), |(slot, column, _)| (*slot, *column));
            let known = place.map_or(0, |at| i64::from(self.0[at].2));
            let count = u32::try_from(known + by).unwrap_or(0);
            match place {
                Ok(at) if count == 0 => drop(self.0.remove(at)),
                Ok(at) => self.0[at].2 = count,
                Err(_) if count == 0 => {}
                Err(at) => self.0.insert(at, (*slot, *column, count)),
            }
        }
    }

    /// Seven bytes for each count: slot, column, number.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * 7);
        for (slot, column, count) in &self.0 {
            bytes.extend(slot.to_be_bytes());
            bytes.push(column.code());
            bytes.extend(count.to_be_bytes());
        }
        bytes
    }

    /// `None` for what [`Node::encode`] did not write.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let entry = |chunk: &[u8]| match *chunk {
            [s0, s1, column, c0, c1, c2, c3] => {
                Some((u16::from_be_bytes([s0, s1]), Column::from_code(column)?, u32::from_be_bytes([c0, c1, c2, c3])))
            }
            _ => None,
        };
        bytes.chunks(7).map(entry).collect::<Option<_>>().map(Self)
    }

    /// How many are in the slots before `slot`.
    fn before(&self, slot: u16, columns: Columns) -> u64 {
        let counts = self.0.iter().take_while(|(at, ..)| *at < slot);
        counts.filter(|(_, column, _)| columns.has(*column)).map(|(.., count)| u64::from(*count)).sum()
    }

    fn total(&self, columns: Columns) -> u64 {
        self.before(u16::MAX, columns)
    }
}

/// Nodes of an organization that were read for a question.
#[derive(Clone, Debug, Default)]
pub struct Nodes(pub BTreeMap<Place, Node>);

/// The nodes below the roots that [`Nodes::before`] needs for a moment.
pub fn places_below(side: Side, at: Timestamp) -> impl Iterator<Item = Place> {
    path(side, at.as_millis()).map(|(place, _)| place).filter(|place| place.level > 0)
}

impl Nodes {
    /// How many contracts of these columns have their moment before `at`.
    pub fn before(&self, side: Side, at: Timestamp, columns: Columns) -> u64 {
        let mut path = path(side, at.as_millis()).peekable();
        let root = path.peek().map_or(0, |(place, _)| place.index);
        let older: u64 = self.roots(side).filter(|(index, _)| *index < root).map(|(_, node)| node.total(columns)).sum();
        let part = |(place, slot)| self.0.get(&place).map_or(0, |node: &Node| node.before(slot, columns));
        older + path.map(part).sum::<u64>()
    }

    /// How many in all.
    pub fn all(&self, side: Side, columns: Columns) -> u64 {
        self.roots(side).map(|(_, node)| node.total(columns)).sum()
    }

    /// How many on each day, where there are any; days since 1970, UTC.
    pub fn by_day(&self, side: Side, columns: Columns) -> BTreeMap<i64, u64> {
        let mut days = BTreeMap::new();
        for (index, node) in self.roots(side) {
            for (slot, _, count) in node.0.iter().filter(|(_, column, _)| columns.has(*column)) {
                *days.entry(index * SPANS[0] / DAY + i64::from(*slot)).or_default() += u64::from(*count);
            }
        }
        days
    }

    fn roots(&self, side: Side) -> impl Iterator<Item = (i64, &Node)> {
        self.0
            .iter()
            .filter(move |(place, _)| place.side == side && place.level == 0)
            .map(|(place, node)| (place.index, node))
    }
}
