//! `organization create`, `application create`, `application limits`: first records, offline, through the resolvers.

use serde_json::json;

use super::{open, operator, plainly};

use crate::config::{ApplicationCommand, LimitOptions, OrganizationCommand};
use crate::model::application::{ApplicationInput, RateLimits};
use crate::model::id::ApplicationId;
use crate::model::operation::Access;
use crate::model::scope::Scope;
use crate::resolvers::applications;

pub async fn organization(command: OrganizationCommand) -> Result<(), String> {
    let OrganizationCommand::Create { name, json, database } = command;
    if name.trim().is_empty() {
        return Err("The organization's name must not be blank.".to_owned());
    }
    let id = open(&database).await?.create_organization(&name).await.map_err(plainly)?;
    if json {
        println!("{}", json!({ "id": id, "name": name }));
    } else {
        println!("Created the organization {name}: {id}");
    }
    Ok(())
}

pub async fn application(command: ApplicationCommand) -> Result<(), String> {
    match command {
        ApplicationCommand::Create { organization, name, description, scopes, limits, json, database } => {
            let call = operator(&open(&database).await?, &organization).await?;
            let input = ApplicationInput {
                name: Some(name),
                description: Some(description),
                scopes: Some(read_scopes(&scopes)?),
                ..ApplicationInput::default()
            };
            let created = applications::create_with_limits(&call, input, rate(&limits)).await.map_err(plainly)?;
            if json {
                println!("{}", json!(created));
            } else {
                println!("Created the application {}", created.application.id);
                println!("client id      {}", created.application.client_id);
                println!("client secret  {}  (shown once)", created.client_secret);
            }
        }
        ApplicationCommand::Limits { organization, application, limits, database } => {
            let call = operator(&open(&database).await?, &organization).await?;
            let id =
                ApplicationId::parse(&application).ok_or_else(|| format!("{application} is not an application."))?;
            let tenant = call.grant(Access::Administrator).map_err(plainly)?;
            tenant.set_rate_limits(id, rate(&limits)).await.map_err(plainly)?;
            println!("{application}: {} requests an hour, {} a minute.", limits.per_hour, limits.per_minute);
        }
    }
    Ok(())
}

fn read_scopes(words: &[String]) -> Result<Vec<Scope>, String> {
    if words.is_empty() {
        return Ok(Scope::ALL.to_vec());
    }
    words.iter().map(|word| Scope::parse(word).ok_or_else(|| format!("{word} is not a scope."))).collect()
}

fn rate(limits: &LimitOptions) -> RateLimits {
    RateLimits { hour: limits.per_hour, minute: limits.per_minute }
}
