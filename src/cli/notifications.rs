//! `marketplace notifications`, `marketplace rerun`: what the marketplaces told an organization, for whoever looks after it.

use serde_json::json;

use super::{open, operator, plainly};
use crate::config::{DatabaseOptions, NotificationsOptions};
use crate::model::notification::{Notification, NotificationFilter};
use crate::model::page::PageRequest;
use crate::resolvers::notifications;

pub async fn list(options: NotificationsOptions) -> Result<(), String> {
    let filter = NotificationFilter {
        vendor: options.vendor,
        verdicts: Some(options.verdict).filter(|verdicts| !verdicts.is_empty()),
        waiting: options.waiting.then_some(true),
        subject: options.subject,
    };
    let call = operator(&open(&options.database).await?, &options.organization).await?;
    let page = PageRequest::from_arguments(Some(options.limit), None);
    let found = notifications::list(&call, filter, page).await.map_err(plainly)?;
    if options.json {
        println!("{}", json!(found.items));
        return Ok(());
    }
    found.items.iter().for_each(|notification| println!("{}", line(notification)));
    match (found.items.len(), found.has_more) {
        (0, _) => println!("There is none."),
        (_, true) => println!("There are more; see --limit, --verdict, --waiting, --subject."),
        _ => {}
    }
    Ok(())
}

fn line(of: &Notification) -> String {
    let verdict = of.verdict.map_or("waiting", |verdict| verdict.as_str());
    let (subject, reason) = (plain(&of.subject), plain(of.reason.as_deref().unwrap_or("not tried yet")));
    format!("{}  {}  {}  {verdict:7}  {}  {subject}  {reason}", of.received_at, of.id, of.vendor, plain(&of.kind))
}

/// Words from outside, which must not drive the terminal.
fn plain(words: &str) -> String {
    if words.is_empty() {
        return "-".to_owned();
    }
    words.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

pub async fn rerun(organization: &str, id: &str, database: &DatabaseOptions) -> Result<(), String> {
    let call = operator(&open(database).await?, organization).await?;
    let of = notifications::rerun(&call, id).await.map_err(plainly)?;
    println!("{} of {} is due now: it is applied as soon as the service runs.", of.id, of.vendor);
    Ok(())
}
