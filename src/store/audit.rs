//! The audit trail: who did what to which credential, written in the transaction that did it.

use super::write::Block;
use super::{Tenant, vars};
use crate::model::id::AuditId;

impl Tenant {
    pub(super) fn audited(&self, block: Block, actor: &str, action: &str, target: String) -> Block {
        const AUDIT: &str = "CREATE ONLY $audit CONTENT $audit_entry RETURN NONE;";
        let now = self.clock().now();
        let entry = vars! { "actor" => actor, "action" => action, "target" => target, "at" => now };
        let id = AuditId(self.clock().mint());
        block.then(AUDIT, vars! { "audit" => self.record("audit", id.key()), "audit_entry" => entry })
    }
}
