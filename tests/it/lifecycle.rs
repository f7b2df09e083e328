//! The states of an entitlement: every pair of state and trigger (`contract.md` §9).

use mercato::model::entitlement::EntitlementStatus;
use mercato::model::lifecycle::{Trigger, transition};

use crate::harness::golden;

/// A line for each pair: where it leads, what is told, what the history says.
#[test]
fn every_pair_leads_where_the_contract_says() {
    let mut table = String::new();
    for from in EntitlementStatus::ALL {
        for trigger in Trigger::ALL {
            let outcome = match transition(*from, *trigger) {
                Some(to) => format!("{} · {} · {}", to.to, to.event, to.action),
                None => "unchanged".to_owned(),
            };
            table += &format!("{:9} + {:9} = {outcome}\n", from.as_str(), trigger.as_str());
        }
    }
    golden("snapshots/lifecycle.txt", &table);
}
