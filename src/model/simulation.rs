//! Rehearsals in the domain's words: what can be made to happen at the simulator, and what it answers.

use serde_json::Value;

use super::vendor::Vendor;

super::wire_enum! {
    /// What happens to a subscription (of CLOUD_B) or an agreement (of CLOUD_A).
    Action {
        /// Of CLOUD_B.
        ChangePlan = "change_plan",
        /// Of CLOUD_B.
        ChangeQuantity = "change_quantity",
        /// Of CLOUD_B.
        Suspend = "suspend",
        /// Of CLOUD_B.
        Reinstate = "reinstate",
        /// Of both.
        Renew = "renew",
        /// Of CLOUD_B: it ends.
        Unsubscribe = "unsubscribe",
        /// Of CLOUD_A: other dimensions.
        Amend = "amend",
        /// Of CLOUD_A: another agreement takes its place.
        Replace = "replace",
        /// Of CLOUD_A.
        Cancel = "cancel",
        /// Of CLOUD_A.
        Terminate = "terminate",
        /// Of CLOUD_A.
        Expire = "expire",
        /// Of CLOUD_A: its licence ends.
        Deprovision = "deprovision",
    }
}

impl Action {
    /// What the simulator calls it, if that vendor has it.
    pub fn word(self, vendor: Vendor) -> Option<&'static str> {
        match (vendor, self) {
            (Vendor::CloudB, Self::ChangePlan) => Some("ChangePlan"),
            (Vendor::CloudB, Self::ChangeQuantity) => Some("ChangeQuantity"),
            (Vendor::CloudB, Self::Suspend) => Some("Suspend"),
            (Vendor::CloudB, Self::Reinstate) => Some("Reinstate"),
            (Vendor::CloudB, Self::Renew) => Some("Renew"),
            (Vendor::CloudB, Self::Unsubscribe) => Some("Unsubscribe"),
            (
                Vendor::CloudA,
                Self::Amend
                | Self::Renew
                | Self::Replace
                | Self::Cancel
                | Self::Terminate
                | Self::Expire
                | Self::Deprovision,
            ) => Some(self.as_str()),
            _ => None,
        }
    }
}

super::wire_enum! {
    /// What becomes of a published offer.
    Decision {
        Accept = "accept",
        Expire = "expire",
    }
}

/// What the simulator answered.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Of the subscription or the agreement, where there is one.
    pub id: Option<String>,
    /// The purchase token that a buyer of cloud_b comes with.
    pub token: Option<String>,
    pub answer: Value,
}

impl Simulated {
    pub fn of(answer: Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let id = text(&answer["subscription"]["id"]).or_else(|| text(&answer["id"]));
        Self { id, token: text(&answer["token"]), answer }
    }
}
