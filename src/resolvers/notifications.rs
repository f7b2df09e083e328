//! What marketplaces told us: which came, what became of each, and having one applied again.

use crate::call::Call;
use crate::error::Result;
use crate::model::filter::{Filter, Order};
use crate::model::id::NotificationId;
use crate::model::notification::{Notification, NotificationFilter};
use crate::model::operation::Operation;
use crate::model::page::{ListName, Page, PageRequest};

/// Newest first.
pub async fn list(call: &Call, filter: NotificationFilter, page: PageRequest) -> Result<Page<Notification>> {
    let tenant = call.grant(Operation::NotificationsList.access())?;
    let window = page.check(&Filter::default(), &call.cursor_scope(ListName::Notifications, Order::Newest))?;
    tenant.list_notifications(&filter, window).await
}

pub async fn get(call: &Call, id: &str) -> Result<Notification> {
    let tenant = call.grant(Operation::NotificationsGet.access())?;
    tenant.get_notification(NotificationId::named(id)?).await
}

/// Forgets what became of a notification and has it applied now.
pub async fn rerun(call: &Call, id: &str) -> Result<Notification> {
    let tenant = call.grant(Operation::NotificationsRerun.access())?;
    let id = NotificationId::named(id)?;
    tenant.write(|| async { Ok(tenant.plan_rerun(tenant.get_notification(id).await?, &call.caller().name())) }).await
}
