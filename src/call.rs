//! Who is calling, in which organization, and the one door to the store: [`Call::grant`].
//!
//! A resolver cannot reach a record without passing the guard, because the guard returns the only value that can.

use std::sync::Arc;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::model::application::RateLimits;
use crate::model::event::Kinds;
use crate::model::filter::Order;
use crate::model::id::{ApplicationId, OrganizationId};
use crate::model::operation::Access;
use crate::model::page::{CursorScope, ListName};
use crate::model::scope::Scopes;
use crate::model::time::Timestamp;
use crate::store::{Once, Store, Tenant};

/// Who is behind a request.
#[derive(Clone, Debug)]
pub enum Caller {
    /// An OAuth application, by its bearer token.
    Application(Bearer),
    /// The person who runs this process: the command line, with the database in hand. Holds every right.
    Operator { organization: OrganizationId },
}

/// What a valid bearer token says.
#[derive(Clone, Debug)]
pub struct Bearer {
    pub organization: OrganizationId,
    pub application: ApplicationId,
    pub scopes: Scopes,
    pub limits: RateLimits,
    pub expires_at: Timestamp,
}

impl Caller {
    pub fn organization(&self) -> OrganizationId {
        match self {
            Self::Application(bearer) => bearer.organization,
            Self::Operator { organization } => *organization,
        }
    }

    /// How the audit trail and the log name the caller.
    pub fn name(&self) -> String {
        match self {
            Self::Application(bearer) => bearer.application.to_string(),
            Self::Operator { .. } => "operator".to_owned(),
        }
    }

    pub fn scopes(&self) -> Scopes {
        match self {
            Self::Application(bearer) => bearer.scopes,
            Self::Operator { .. } => Scopes::all(),
        }
    }

    fn is_administrator(&self) -> bool {
        matches!(self, Self::Operator { .. })
    }

    fn is_itself(&self, application: ApplicationId) -> bool {
        matches!(self, Self::Application(bearer) if bearer.application == application)
    }
}

/// One request of one caller.
#[derive(Clone)]
pub struct Call {
    store: Store,
    caller: Caller,
    once: Option<Arc<Once>>,
}

impl Call {
    pub fn new(store: Store, caller: Caller, once: Option<Arc<Once>>) -> Self {
        Self { store, caller, once }
    }

    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    pub fn clock(&self) -> &Clock {
        self.store.clock()
    }

    /// The guard, and the only door to the store.
    pub fn grant(&self, access: impl Into<Access>) -> Result<Tenant> {
        let once = match access.into() {
            Access::Scope(scope) if self.caller.scopes().has(scope) => self.once.clone(),
            Access::Scope(scope) => return Err(Error::InsufficientScope(scope)),
            Access::Events => return Err(Error::internal("events are granted by their kinds")),
            // Credentials are managed here. Their answers hold secrets, so none of them is remembered under a key.
            Access::Public | Access::Caller => None,
            Access::Administrator | Access::Itself if self.caller.is_administrator() => None,
            Access::Administrator | Access::Itself => {
                return Err(Error::Forbidden("Only an administrator may do this"));
            }
        };
        Ok(self.store.tenant(self.caller.organization(), once))
    }

    /// The guard for what an application may do to itself only. To a caller, the applications of its own organization
    /// exist (403), those of others do not (404).
    pub async fn grant_itself(&self, application: ApplicationId) -> Result<Tenant> {
        let access = if self.caller.is_itself(application) { Access::Caller } else { Access::Itself };
        match self.grant(access) {
            Err(forbidden) => {
                self.grant(Access::Caller)?.get_application(application).await?;
                Err(forbidden)
            }
            granted => granted,
        }
    }

    /// The guard of what is about events: the caller must hold the scope of each of these kinds. Without kinds it is about
    /// all that the caller may see.
    pub fn grant_events(&self, kinds: Option<Kinds>) -> Result<(Tenant, Kinds)> {
        let visible = Kinds::visible(self.caller.scopes());
        let kinds = kinds.unwrap_or(visible);
        if let Some(hidden) = kinds.iter().find(|kind| !visible.has(*kind)) {
            return Err(Error::InsufficientScope(hidden.scope()));
        }
        if visible.is_empty() {
            return Err(Error::Forbidden("No scope of this token opens any kind of event"));
        }
        Ok((self.store.tenant(self.caller.organization(), self.once.clone()), kinds))
    }

    /// What makes the cursors of one of the caller's lists.
    pub fn cursor_scope(&self, list: ListName, order: Order) -> CursorScope<'_> {
        CursorScope { key: self.store.cursor_key(), organization: self.caller.organization(), list, order }
    }

    /// Whether an answer of this request was given before, under its idempotency key.
    pub fn was_replayed(&self) -> bool {
        self.once.as_ref().is_some_and(|once| once.was_replayed())
    }

    /// Whether the caller may give an application more scopes than it has.
    pub fn may_widen_scopes(&self) -> bool {
        self.caller.is_administrator()
    }
}
