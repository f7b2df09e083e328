//! Webhooks in the store. A secret leaves this folder only to sign, and to be shown once.

use serde::{Deserialize, Serialize};
use surrealdb::types::{RecordId, SurrealValue, Value};

use super::dispatch::ReplayState;
use super::documents::never;
use super::pages::Placed;
use super::write::{Block, Plan, UNMOVED};
use super::{Tenant, organization_of, own_key, vars};
use crate::error::{Error, Result};
use crate::model::event::{Kinds, Sequence};
use crate::model::id::WebhookId;
use crate::model::page::{Page, Window};
use crate::model::time::Timestamp;
use crate::model::webhook::{Replay, SigningSecret, Webhook, WebhookStatus, WebhookWithSecret};

pub(super) const TABLE: &str = "webhook";
pub(super) const DISPATCH: &str = "dispatch";
/// Secrets of before that sign too. Whoever rotates more often within a day gives the oldest up.
const OLD_SECRETS: usize = 4;

/// A webhook's own columns.
#[derive(SurrealValue)]
pub(super) struct Row {
    id: RecordId,
    name: String,
    url: String,
    kinds: Kinds,
    status: WebhookStatus,
    disabled_at: Option<Timestamp>,
    secret: String,
    old_secrets: Option<Vec<String>>,
    old_untils: Option<Vec<Timestamp>>,
    updated_at: Timestamp,
    revision: i64,
    position: Option<String>,
    /// Those of its dispatch.
    cursor: i64,
    failures: i64,
    last_triggered_at: Option<Timestamp>,
    epoch: i64,
    replay: Option<Vec<i64>>,
}

impl Placed for Row {
    fn position(&mut self) -> Option<String> {
        self.position.take().or_else(|| own_key(&self.id).ok().map(str::to_owned))
    }
}

/// The columns of [`Row`], of each webhook in a range or in a list of records.
macro_rules! columns {
    ($from:literal) => {
        concat!(
            "SELECT *, type::record('dispatch', record::id(id)).cursor AS cursor,
            type::record('dispatch', record::id(id)).failures AS failures,
            type::record('dispatch', record::id(id)).epoch AS epoch,
            type::record('dispatch', record::id(id)).replay AS replay,
            type::record('dispatch', record::id(id)).last_triggered_at AS last_triggered_at FROM ",
            $from
        )
    };
}

pub(super) use columns;

/// A webhook as it was read, what signs for it, and the revision that a change must still meet.
#[derive(Clone)]
pub struct StoredWebhook {
    pub webhook: Webhook,
    /// Rises when it is enabled or disabled.
    pub epoch: i64,
    /// What is being sent again.
    pub replay: Option<ReplayState>,
    pub(super) revision: i64,
    sealed: String,
    /// What it was sealed as before, and until when that signs too; the newest first.
    old: Vec<(String, Timestamp)>,
}

/// A webhook with its secret sealed: what an idempotency row may remember.
#[derive(Clone, Serialize, Deserialize)]
pub struct SealedWebhook {
    webhook: Webhook,
    secret: String,
}

impl StoredWebhook {
    /// Everything up to it is settled.
    pub fn cursor(&self) -> Sequence {
        Sequence(self.webhook.last_sequence)
    }
}

impl Row {
    pub(super) fn into_model(self) -> Result<StoredWebhook> {
        let key = own_key(&self.id)?;
        let id = WebhookId::from_key(key).ok_or_else(|| Error::internal("a webhook's key is broken"))?;
        let webhook = Webhook {
            id,
            organization_id: organization_of(&self.id)?,
            name: self.name,
            url: self.url,
            events: self.kinds,
            status: self.status,
            failure_count: u32::try_from(self.failures).unwrap_or_default(),
            last_triggered_at: self.last_triggered_at,
            disabled_at: self.disabled_at,
            has_secret: true,
            last_sequence: self.cursor,
            created_at: id.created_at(),
            updated_at: self.updated_at,
        };
        let old = self.old_secrets.into_iter().flatten().zip(self.old_untils.into_iter().flatten()).collect();
        let replay = self.replay.as_deref().and_then(ReplayState::read);
        Ok(StoredWebhook { webhook, epoch: self.epoch, replay, revision: self.revision, sealed: self.secret, old })
    }
}

impl Tenant {
    pub async fn list_webhooks(&self, window: Window) -> Result<Page<Webhook>> {
        const FIRST: &str = columns!("type::record('webhook', [$org]..[$org, ..]) LIMIT $rows");
        const NEXT: &str = columns!("type::record('webhook', [$org, $after]>..[$org, ..]) LIMIT $rows");
        let mut vars = vars! { "org" => self.organization.to_string(), "rows" => super::pages::rows_of(window.limit) };
        let query = match window.after {
            None => FIRST,
            Some(after) => {
                vars.insert("after".to_owned(), Value::String(after));
                NEXT
            }
        };
        let rows: Vec<Row> = self.store.ask(query, vars).await?;
        super::pages::page_of(rows, window.limit)?.try_map(|row| row.into_model().map(|stored| stored.webhook))
    }

    pub async fn find_webhook(&self, id: WebhookId) -> Result<Option<StoredWebhook>> {
        const FIND: &str = columns!("ONLY $record");
        let row: Option<Row> = self.store.ask(FIND, vars! { "record" => self.record(TABLE, id.key()) }).await?;
        row.map(Row::into_model).transpose()
    }

    pub async fn get_webhook(&self, id: WebhookId) -> Result<StoredWebhook> {
        self.find_webhook(id).await?.ok_or(Error::NOT_FOUND)
    }

    /// How many there are.
    pub async fn count_webhooks(&self) -> Result<usize> {
        const KEYS: &str = "SELECT VALUE record::id(id)[1] FROM type::record('webhook', [$org]..[$org, ..])";
        let keys: Vec<String> = self.store.ask(KEYS, vars! { "org" => self.organization.to_string() }).await?;
        Ok(keys.len())
    }

    /// What signs a delivery now: the secret, and those before it while they still count.
    pub fn signing_secrets(&self, stored: &StoredWebhook) -> Result<Vec<SigningSecret>> {
        let place = stored.webhook.id.to_string();
        let now = self.clock().now();
        let old = stored.old.iter().filter(|(_, until)| *until > now).map(|(sealed, _)| sealed);
        let open = |sealed: &String| self.unseal(&place, sealed).map(SigningSecret::known);
        std::iter::once(&stored.sealed).chain(old).map(open).collect()
    }

    /// The webhook with its secret in the clear: for the one answer that shows it.
    pub fn reveal_webhook(&self, sealed: SealedWebhook) -> Result<WebhookWithSecret> {
        let secret = self.unseal(&sealed.webhook.id.to_string(), &sealed.secret)?;
        Ok(WebhookWithSecret { webhook: sealed.webhook, secret: SigningSecret::known(secret) })
    }

    /// It is told of every event from now on.
    pub fn plan_webhook_created(
        &self,
        webhook: Webhook,
        secret: &SigningSecret,
        actor: &str,
    ) -> Result<Plan<SealedWebhook>> {
        const CREATE: &str = "
            CREATE ONLY $webhook CONTENT $webhook_content RETURN NONE;
            CREATE ONLY $dispatch CONTENT {
                organization: $organization, cursor: $organization.sequence, failures: 0, wake_at: $never,
                lease_until: $now
            } RETURN NONE;";
        let sealed = self.seal(&webhook.id.to_string(), secret.as_str())?;
        let content = vars! {
            "name" => webhook.name.clone(), "url" => webhook.url.clone(), "kinds" => webhook.events,
            "status" => webhook.status, "secret" => sealed.clone(), "updated_at" => webhook.updated_at, "revision" => 1,
        };
        let vars = vars! {
            "webhook" => self.record(TABLE, webhook.id.key()), "webhook_content" => content,
            "dispatch" => self.record(DISPATCH, webhook.id.key()), "organization" => self.organization_record(),
            "never" => never(), "now" => webhook.created_at,
        };
        let block = Block::default().then(CREATE, vars);
        let block = self.audited(block, actor, "webhook.created", webhook.id.to_string());
        Ok(Plan::quiet(SealedWebhook { webhook, secret: sealed }, block))
    }

    /// A change of the record. The dispatch is told when the webhook becomes active: its count begins anew, at once.
    pub fn plan_webhook_updated(&self, from: &StoredWebhook, to: Webhook, actor: &str) -> Plan<Webhook> {
        const UPDATE: &str = "UPDATE ONLY $record MERGE $content RETURN NONE;";
        const MOVED: &str = "UPDATE ONLY $dispatch SET epoch += 1, failures = $failures, paused_until = NONE, wake_at = $now RETURN NONE;";
        let content = vars! {
            "name" => to.name.clone(), "url" => to.url.clone(), "kinds" => to.events, "status" => to.status,
            "disabled_at" => to.disabled_at.map_or(Value::None, SurrealValue::into_value),
            "updated_at" => to.updated_at, "revision" => from.revision + 1,
        };
        let mut block = self.unmoved_webhook(from).then(UPDATE, vars! { "content" => content });
        if to.status != from.webhook.status {
            let dispatch = self.record(DISPATCH, to.id.key());
            let vars = vars! {
                "dispatch" => dispatch, "now" => to.updated_at, "failures" => i64::from(to.failure_count),
            };
            block = block.then(MOVED, vars);
        }
        let block = self.audited(block, actor, "webhook.updated", to.id.to_string());
        Plan::quiet(to, block)
    }

    /// A new secret; the one before it signs too until `old_until`, and older ones as long as they were to.
    pub fn plan_webhook_rotated(
        &self,
        from: &StoredWebhook,
        to: Webhook,
        secret: &SigningSecret,
        old_until: Timestamp,
        actor: &str,
    ) -> Result<Plan<SealedWebhook>> {
        const ROTATE: &str = "UPDATE ONLY $record SET old_secrets = $old, old_untils = $until, secret = $secret,
            updated_at = $now, revision += 1 RETURN NONE;";
        let sealed = self.seal(&to.id.to_string(), secret.as_str())?;
        let before = from.old.iter().filter(|(_, until)| *until > to.updated_at).cloned();
        let signing = std::iter::once((from.sealed.clone(), old_until)).chain(before).take(OLD_SECRETS);
        let (old, until): (Vec<String>, Vec<Timestamp>) = signing.unzip();
        let vars = vars! { "old" => old, "until" => until, "secret" => sealed.clone(), "now" => to.updated_at };
        let block = self.unmoved_webhook(from).then(ROTATE, vars);
        let block = self.audited(block, actor, "webhook.secret_rotated", to.id.to_string());
        Ok(Plan::quiet(SealedWebhook { webhook: to, secret: sealed }, block))
    }

    /// Its deliveries go with the next sweeps.
    pub fn plan_webhook_deleted(&self, from: &StoredWebhook, actor: &str) -> Plan<Webhook> {
        const DELETE: &str = "
            DELETE ONLY $record RETURN BEFORE;
            DELETE $dispatch;
            UPSERT ONLY $discarded RETURN NONE;
            DELETE type::record('retry', [$org, $key]..[$org, $key, ..]);
            DELETE type::record('undelivered', [$org, $key]..[$org, $key, ..]);";
        let webhook = from.webhook.clone();
        let vars = vars! {
            "org" => self.organization.to_string(), "key" => webhook.id.key(),
            "dispatch" => self.record(DISPATCH, webhook.id.key()),
            "discarded" => self.record("discarded", webhook.id.key()),
        };
        let block = self.unmoved_webhook(from).then(DELETE, vars);
        let block = self.audited(block, actor, "webhook.deleted", webhook.id.to_string());
        Plan::quiet(webhook, block)
    }

    /// A part of the log is to be sent again. One replay runs at a time. The revision rises, so that whoever is at work on
    /// the webhook sees it.
    pub fn plan_replay(&self, from: &StoredWebhook, replay: Replay, actor: &str) -> Plan<Replay> {
        const REPLAY: &str = "
            IF $dispatch.replay != NONE { THROW 'moved' };
            UPDATE ONLY $record SET revision += 1 RETURN NONE;
            UPDATE ONLY $dispatch SET replay = $replay, wake_at = $now RETURN NONE;";
        let range = vec![replay.from_sequence - 1, replay.to_sequence, i64::from(replay.only_undelivered)];
        let vars = vars! {
            "dispatch" => self.record(DISPATCH, replay.webhook_id.key()), "replay" => range, "now" => self.clock().now(),
        };
        let block = self.unmoved_webhook(from).then(REPLAY, vars);
        let block = self.audited(block, actor, "webhook.replayed", replay.webhook_id.to_string());
        Plan::quiet(replay, block)
    }

    fn unmoved_webhook(&self, from: &StoredWebhook) -> Block {
        let record = self.record(TABLE, from.webhook.id.key());
        Block::default().then(UNMOVED, vars! { "record" => record, "revision" => from.revision })
    }
}
