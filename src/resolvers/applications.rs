//! OAuth applications (spec "OAuth application", `contract.md` §4): people manage all of them, an application manages
//! itself.

use crate::call::Call;
use crate::error::Result;
use crate::model::application::{
    Application, ApplicationInput, ApplicationWithSecret, RateLimits, Secret, new_client_id,
};
use crate::model::filter::{Filter, Order};
use crate::model::id::ApplicationId;
use crate::model::operation::Operation;
use crate::model::page::{ListName, Page, PageRequest};
use crate::store::write::Plan;

pub async fn list(call: &Call, request: PageRequest) -> Result<Page<Application>> {
    let tenant = call.grant(Operation::ApplicationsList.access())?;
    let window = request.check(&Filter::default(), &call.cursor_scope(ListName::Applications, Order::Newest))?;
    tenant.list_applications(window).await
}

pub async fn get(call: &Call, id: &str) -> Result<Application> {
    let tenant = call.grant(Operation::ApplicationsGet.access())?;
    tenant.get_application(ApplicationId::named(id)?).await
}

/// The secret is in this answer and never again.
pub async fn create(call: &Call, input: ApplicationInput) -> Result<ApplicationWithSecret> {
    create_with_limits(call, input, RateLimits::DOCUMENTED).await
}

/// As [`create`], with limits that an operator chose.
pub async fn create_with_limits(
    call: &Call,
    input: ApplicationInput,
    limits: RateLimits,
) -> Result<ApplicationWithSecret> {
    let tenant = call.grant(Operation::ApplicationsCreate.access())?;
    let clock = tenant.clock();
    let (name, description, scopes) = input.into_new()?;
    tenant
        .write(|| async {
            let id = ApplicationId(clock.mint());
            let application = Application {
                id,
                organization_id: tenant.organization(),
                name: name.clone(),
                description: description.clone(),
                scopes,
                client_id: new_client_id(tenant.environment(), clock.random()),
                created_at: id.created_at(),
                updated_at: id.created_at(),
                last_used_at: None,
                secret_rotated_at: id.created_at(),
            };
            let client_secret = Secret::new(Secret::CLIENT_SECRET, tenant.environment(), clock.random()).0;
            let new = ApplicationWithSecret { application, client_secret };
            Ok(tenant.plan_application_created(new, limits, &call.caller().name()))
        })
        .await
}

/// Merges. Changed scopes apply to tokens that are issued from now on.
pub async fn update(call: &Call, id: &str, mut input: ApplicationInput) -> Result<Application> {
    let id = ApplicationId::named(id)?;
    let tenant = call.grant_itself(id).await?;
    input.check()?;
    tenant
        .write(|| async {
            let current = tenant.get_application_versioned(id).await?;
            let mut next = input.apply(&current.application, call.may_widen_scopes())?;
            if next == current.application {
                return Ok(Plan::unchanged(next));
            }
            next.updated_at = tenant.clock().now();
            Ok(tenant.plan_application_updated(&current, next, &call.caller().name()))
        })
        .await
}

/// The old secret and all tokens are void when this answers.
pub async fn regenerate_secret(call: &Call, id: &str) -> Result<ApplicationWithSecret> {
    let id = ApplicationId::named(id)?;
    let tenant = call.grant_itself(id).await?;
    tenant
        .write(|| async {
            let current = tenant.get_application_versioned(id).await?;
            let mut application = current.application.clone();
            application.secret_rotated_at = tenant.clock().now();
            application.updated_at = application.secret_rotated_at;
            let client_secret = Secret::new(Secret::CLIENT_SECRET, tenant.environment(), tenant.clock().random()).0;
            let rotated = ApplicationWithSecret { application, client_secret };
            Ok(tenant.plan_secret_regenerated(&current, rotated, &call.caller().name()))
        })
        .await
}

/// All its tokens are void when this answers.
pub async fn delete(call: &Call, id: &str) -> Result<Application> {
    let id = ApplicationId::named(id)?;
    let tenant = call.grant_itself(id).await?;
    tenant
        .write(|| async {
            let current = tenant.get_application_versioned(id).await?;
            Ok(tenant.plan_application_deleted(&current, &call.caller().name()))
        })
        .await
}
