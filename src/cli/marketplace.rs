//! `marketplace …`: an organization's accounts, differences and notifications, on its database, through the resolvers; and
//! `simulator`.

use std::io::Read;
use std::path::Path;

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::serve::{start_log, told_to_stop};
use super::{notifications, open, operator, plainly};
use crate::clock::Clock;
use crate::config::{MarketplaceCommand, SimulatorOptions};
use crate::marketplace::accounts::NewAccount;
use crate::marketplace::simulator::{MOST, Simulator, SimulatorSettings};
use crate::model::difference::{Difference, DifferenceKind, Subject};
use crate::model::vendor::Vendor;
use crate::resolvers::marketplaces;

pub async fn run(command: MarketplaceCommand) -> Result<(), String> {
    match command {
        MarketplaceCommand::Connect { organization, account, loopback, database } => {
            let account = NewAccount::from_json(read(&account)?).check(loopback).map_err(plainly)?;
            let call = operator(&open(&database).await?, &organization).await?;
            let text = serde_json::to_string(&account).map_err(|error| error.to_string())?;
            marketplaces::connect(&call, account.vendor(), &text).await.map_err(plainly)?;
            println!("{organization} is connected to {}.", account.vendor());
        }
        MarketplaceCommand::Notifications(options) => notifications::list(options).await?,
        MarketplaceCommand::Rerun { organization, notification, database } => {
            notifications::rerun(&organization, &notification, &database).await?;
        }
        MarketplaceCommand::Disconnect { organization, vendor, database } => {
            let vendor = vendor_of(&vendor)?;
            let call = operator(&open(&database).await?, &organization).await?;
            marketplaces::disconnect(&call, vendor).await.map_err(plainly)?;
            println!("{organization} is not connected to {vendor} any more.");
        }
        MarketplaceCommand::Compare { organization, vendor, database } => {
            let vendor = vendor_of(&vendor)?;
            let call = operator(&open(&database).await?, &organization).await?;
            marketplaces::compare(&call, vendor).await.map_err(plainly)?;
            println!("{vendor} is compared within seconds, where the service runs.");
        }
        MarketplaceCommand::Differences { organization, json, database } => {
            let call = operator(&open(&database).await?, &organization).await?;
            let found = marketplaces::differences(&call).await.map_err(plainly)?;
            if json {
                println!("{}", json!(found));
            } else {
                found.iter().for_each(show);
                if found.is_empty() {
                    println!("There is none.");
                }
            }
        }
        MarketplaceCommand::Adopt { organization, vendor, kind, subject, database } => {
            let vendor = vendor_of(&vendor)?;
            let kind = DifferenceKind::parse(&kind)
                .ok_or_else(|| format!("{kind} is not a kind; use CONTRACT, OPERATION or USAGE."))?;
            let call = operator(&open(&database).await?, &organization).await?;
            let subject = Subject { kind, id: subject };
            let ordered = marketplaces::adopt(&call, vendor, &subject).await.map_err(plainly)?;
            println!("{} is adopted within seconds, where the service runs.", ordered.subject.id);
        }
    }
    Ok(())
}

fn vendor_of(word: &str) -> Result<Vendor, String> {
    Vendor::parse(word).ok_or_else(|| format!("{word} is not a marketplace; use cloud_a or cloud_b."))
}

fn show(difference: &Difference) {
    let Difference { vendor, subject: Subject { kind, id }, what, .. } = difference;
    let state = match (difference.is_being_adopted, difference.is_adoptable) {
        (true, _) => "is being adopted",
        (false, true) => "can be adopted",
        (false, false) => "cannot be adopted",
    };
    println!("{vendor}  {kind}  {id}  ({state})\n    {what}");
}

fn read(file: &Path) -> Result<Result<Value, String>, String> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(file).map(|found| text = found)
    };
    read.map_err(|error| format!("The account {} cannot be read: {error}.", file.display()))?;
    Ok(serde_json::from_str(&text).map_err(|error| error.to_string()))
}

/// The two marketplaces, until it is told to stop.
pub async fn simulator(options: SimulatorOptions) -> Result<(), String> {
    start_log(options.log);
    let settings = SimulatorSettings {
        listen: options.listen,
        publish: TimeDelta::seconds(i64::from(options.publish_seconds)),
        clock: Clock::system(),
        most: MOST,
    };
    let failed =
        |error| format!("The simulator cannot listen at {} ({error}); choose another with --listen.", options.listen);
    let simulator = Simulator::start(settings).await.map_err(failed)?;
    let url = simulator.url();
    println!("The marketplaces are simulated at {url}: {url}/cloud_a, {url}/cloud_b; {url}/control drives them.");
    told_to_stop().await?;
    simulator.stop().await;
    Ok(())
}
