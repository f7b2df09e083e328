//! What happens because time passes: offers expire; entitlements begin, expire, and are cancelled after thirty days of
//! suspension (`contract.md` §9, §10). One worker calls [`run`]; several processes may, because each step is planned from
//! what is there and fails when somebody was faster.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::Result;
use crate::model::id::OrganizationId;
use crate::model::time::Timestamp;
use crate::store::Store;
use crate::store::due::Due;

/// How much is looked at in one go.
const PORTION: i64 = 200;

/// Does all that is due, in the order in which it became due, also after a long pause. Answers how much there was.
pub async fn run(store: &Store) -> Result<usize> {
    let mut done = 0;
    loop {
        let portion = store.due(PORTION).await?;
        let moved = run_portion(store, portion).await?;
        done += moved;
        // Nothing moved although something was due: somebody else is at it.
        if moved == 0 {
            return Ok(done);
        }
    }
}

async fn run_portion(store: &Store, due: Vec<(Timestamp, OrganizationId, Due)>) -> Result<usize> {
    // After the last of what was read there may be more that comes before what an activation makes due.
    let Some(horizon) = due.last().map(|(at, ..)| *at) else { return Ok(0) };
    let mut queue: BinaryHeap<_> = due.into_iter().map(Reverse).collect();
    let mut done = 0;
    while let Some(Reverse((_, organization, record))) = queue.pop() {
        let tenant = store.tenant(organization, None);
        let ticked = match record {
            Due::Entitlement(id) => super::entitlements::tick(&tenant, id).await,
            Due::PrivateOffer(id) => super::offers::tick(&tenant, id).await.map(|moved| (moved, None)),
        };
        let (moved, next) = match ticked {
            Ok(ticked) => ticked,
            // One record that cannot move must not stop the others.
            Err(error) => {
                tracing::error!(cause = error.cause(), %organization, ?record, "{error}: a due step failed; it is tried again");
                continue;
            }
        };
        done += usize::from(moved);
        if let Some(next) = next.filter(|next| *next <= horizon) {
            queue.push(Reverse((next, organization, record)));
        }
    }
    Ok(done)
}
