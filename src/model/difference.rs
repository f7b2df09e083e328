//! Where a marketplace has something otherwise than we.

use serde::{Deserialize, Serialize};

use super::time::Timestamp;
use super::vendor::Vendor;

super::wire_enum! {
    /// What is different.
    DifferenceKind {
        /// The account itself: its marketplace could not be compared the last time.
        Account = "ACCOUNT",
        /// A subscription or an agreement.
        Contract = "CONTRACT",
        /// A change of a subscription that waits for our word.
        Operation = "OPERATION",
        /// Usage that was accepted.
        Usage = "USAGE",
    }
}

/// What a difference is about. Within a marketplace it is known by this.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Subject {
    pub kind: DifferenceKind,
    /// The marketplace; the subscription or agreement; `subscription/operation`; the usage report, or `whose/dimension/day`.
    pub id: String,
}

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    pub vendor: Vendor,
    #[serde(flatten)]
    pub subject: Subject,
    /// What is different, for a person to read.
    pub what: String,
    /// Whether adopting it can do anything.
    pub is_adoptable: bool,
    pub found_at: Timestamp,
    /// Whether somebody asked for it to be adopted, which has not happened yet.
    pub is_being_adopted: bool,
}

impl Difference {
    pub fn new(vendor: Vendor, kind: DifferenceKind, id: String, what: String, found_at: Timestamp) -> Self {
        Self { vendor, subject: Subject { kind, id }, what, is_adoptable: true, found_at, is_being_adopted: false }
    }

    /// One that somebody has to look into.
    pub fn for_a_person(self) -> Self {
        Self { is_adoptable: false, ..self }
    }
}
