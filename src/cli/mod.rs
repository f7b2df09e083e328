//! The command line: one file per command. Every failure is one sentence and a non-zero exit.

mod database;
mod demo;
mod events;
mod healthcheck;
mod history;
mod marketplace;
mod notifications;
mod records;
mod sample;
mod schema;
mod secret_key;
mod serve;

use crate::call::{Call, Caller};
use crate::clock::Clock;
use crate::config::{self, Command, DatabaseOptions, EventsCommand};
use crate::model::id::OrganizationId;
use crate::store::connect::Target;
use crate::store::{OpenError, Store};

pub use sample::fill;
pub use schema::operations_table;

/// Runs the command that was asked for.
pub async fn run() -> Result<(), String> {
    match config::read()?.command {
        Command::Demo(options) => demo::run(options).await,
        Command::Serve(options) => serve::run(options).await,
        Command::Migrate(options) => database::migrate(&options).await,
        Command::Backup(options) => database::backup(&options).await,
        Command::Restore(options) => database::restore(&options).await,
        Command::Doctor(options) => database::doctor(&options).await,
        Command::Organization(command) => records::organization(command).await,
        Command::Application(command) => records::application(command).await,
        Command::Events(EventsCommand::Tail(options)) => events::tail(options).await,
        Command::Marketplace(command) => marketplace::run(command).await,
        Command::Simulator(options) => marketplace::simulator(options).await,
        Command::Schema(options) => {
            schema::print(&options);
            Ok(())
        }
        Command::Healthcheck(options) => healthcheck::run(&options).await,
    }
}

fn target(options: &DatabaseOptions) -> Target {
    Target {
        url: options.database.clone(),
        environment: options.environment,
        login: options.database_user.clone().zip(options.database_password.clone()),
        secret_key: None,
    }
}

async fn open(options: &DatabaseOptions) -> Result<Store, String> {
    let target = Target { secret_key: secret_key::read(options)?, ..target(options) };
    Store::open(&target, Clock::system(), crate::store::migrate::Resume::Refuse).await.map_err(sentence)
}

/// The person at the command line, in an organization that exists.
async fn operator(store: &Store, organization: &str) -> Result<Call, String> {
    let unknown =
        || format!("There is no organization {organization} in this database and environment (see --environment).");
    let organization = OrganizationId::parse(organization).ok_or_else(unknown)?;
    if !store.organization_exists(organization).await.map_err(plainly)? {
        return Err(unknown());
    }
    Ok(Call::new(store.clone(), Caller::Operator { organization }, None))
}

fn sentence(error: OpenError) -> String {
    error.0
}

/// A domain error, where a person reads it.
fn plainly(error: crate::error::Error) -> String {
    let mut text = error.to_string();
    for problem in error.fields() {
        text += &format!("; {} {}", problem.field, problem.message);
    }
    if let Some(cause) = error.cause() {
        text += &format!(": {cause}");
    }
    text
}
