//! Where a marketplace has a contract otherwise than we.

use serde::{Deserialize, Serialize};

use super::time::Timestamp;
use super::vendor::Vendor;

/// One contract that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    pub vendor: Vendor,
    /// The subscription or the agreement.
    pub contract: String,
    /// What is different, for a person to read.
    pub what: String,
    pub found_at: Timestamp,
    /// Whether somebody asked for it to be adopted, which has not happened yet.
    pub is_being_adopted: bool,
}
