//! OAuth applications over GraphQL.

use async_graphql::{Context, ID, InputObject, MaybeUndefined, Object, Result};

use super::call;
use super::connections::{Records, connect, page_size, payload, set};
use super::errors::fault;
use crate::model;
use crate::model::application::{ApplicationInput, ApplicationWithSecret};
use crate::model::filter::Order;
use crate::model::input::Problems;
use crate::model::page::{ListName, PageRequest};
use crate::model::scope::Scope;
use crate::model::time::Timestamp;
use crate::resolvers::applications;

/// An OAuth application: a caller with client credentials.
pub struct Application {
    record: model::application::Application,
    /// In the answers that make one.
    client_secret: Option<String>,
}

#[Object]
impl Application {
    pub async fn id(&self) -> ID {
        self.record.id.into()
    }
    async fn organization_id(&self) -> ID {
        self.record.organization_id.into()
    }
    async fn name(&self) -> &str {
        &self.record.name
    }
    async fn description(&self) -> &str {
        &self.record.description
    }
    async fn scopes(&self) -> Vec<Scope> {
        self.record.scopes.iter().collect()
    }
    async fn client_id(&self) -> &str {
        &self.record.client_id
    }
    /// Shown once, at creation and at regeneration; null ever after.
    async fn client_secret(&self) -> Option<&str> {
        self.client_secret.as_deref()
    }
    async fn created_at(&self) -> Timestamp {
        self.record.created_at
    }
    async fn updated_at(&self) -> Timestamp {
        self.record.updated_at
    }
    /// When it last obtained a token.
    async fn last_used_at(&self) -> Option<Timestamp> {
        self.record.last_used_at
    }
    async fn secret_rotated_at(&self) -> Timestamp {
        self.record.secret_rotated_at
    }
}

impl From<model::application::Application> for Application {
    fn from(record: model::application::Application) -> Self {
        Self { record, client_secret: None }
    }
}

impl From<ApplicationWithSecret> for Application {
    fn from(made: ApplicationWithSecret) -> Self {
        Self { record: made.application, client_secret: Some(made.client_secret) }
    }
}

#[derive(InputObject)]
pub struct CreateApplicationInput {
    name: String,
    description: Option<String>,
    scopes: Vec<Scope>,
}

/// Absent fields stay as they are.
#[derive(InputObject)]
pub struct UpdateApplicationInput {
    name: MaybeUndefined<String>,
    description: MaybeUndefined<String>,
    /// An application cannot widen its own.
    scopes: MaybeUndefined<Vec<Scope>>,
}

impl From<CreateApplicationInput> for ApplicationInput {
    fn from(input: CreateApplicationInput) -> Self {
        let (name, scopes) = (Some(input.name), Some(input.scopes));
        Self { name, description: input.description, scopes, ..Self::default() }
    }
}

impl From<UpdateApplicationInput> for ApplicationInput {
    fn from(input: UpdateApplicationInput) -> Self {
        let mut problems = Problems::default();
        Self {
            name: set(input.name, &mut problems, "name"),
            description: set(input.description, &mut problems, "description"),
            scopes: set(input.scopes, &mut problems, "scopes"),
            problems,
            ..Self::default()
        }
    }
}

payload!(ApplicationPayload, application: Application);

#[derive(Default)]
pub struct ApplicationQuery;

#[Object]
impl ApplicationQuery {
    /// One OAuth application of the organization.
    async fn application(&self, ctx: &Context<'_>, id: ID) -> Option<Result<Application>> {
        Some(one(ctx, &id).await)
    }

    /// The organization's OAuth applications, newest first.
    #[graphql(complexity = "page_size(first) * child_complexity")]
    async fn applications(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 20 unless told; above 100 means 100.")] first: Option<i32>,
        #[graphql(desc = "The cursor to continue after.")] after: Option<String>,
    ) -> Option<Result<Records<Application>>> {
        let continued = after.is_some();
        let page = applications::list(call(ctx), PageRequest::from_arguments(first, after)).await.map_err(fault);
        Some(page.map(|page| connect(call(ctx), (ListName::Applications, Order::Newest), continued, page)))
    }
}

pub async fn one(ctx: &Context<'_>, id: &str) -> Result<Application> {
    applications::get(call(ctx), id).await.map(Application::from).map_err(fault)
}

#[derive(Default)]
pub struct ApplicationMutation;

#[Object]
impl ApplicationMutation {
    /// For administrators. The secret is in this answer and never again.
    async fn create_application(
        &self,
        ctx: &Context<'_>,
        input: CreateApplicationInput,
    ) -> Option<Result<ApplicationPayload>> {
        Some(ApplicationPayload::of(applications::create(call(ctx), input.into()).await))
    }

    /// For administrators, and for the application itself.
    async fn update_application(
        &self,
        ctx: &Context<'_>,
        id: ID,
        input: UpdateApplicationInput,
    ) -> Option<Result<ApplicationPayload>> {
        Some(ApplicationPayload::of(applications::update(call(ctx), &id, input.into()).await))
    }

    /// Voids the old secret and all tokens. For administrators, and for the application itself. The secret is in this
    /// answer and never again.
    async fn regenerate_application_secret(&self, ctx: &Context<'_>, id: ID) -> Option<Result<ApplicationPayload>> {
        Some(ApplicationPayload::of(applications::regenerate_secret(call(ctx), &id).await))
    }

    /// Voids all its tokens. For administrators, and for the application itself.
    async fn delete_application(&self, ctx: &Context<'_>, id: ID) -> Option<Result<ApplicationPayload>> {
        Some(ApplicationPayload::of(applications::delete(call(ctx), &id).await))
    }
}
