//! Settings of the marketplaces' side, and its commands.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ipnet::IpNet;

use super::{DatabaseOptions, LogForm};
use crate::model::notification::NotificationVerdict;
use crate::model::vendor::Vendor;

/// How marketplaces are called.
#[derive(Debug, Clone, Args)]
pub struct MarketplaceOptions {
    /// Call marketplaces in this subnet although it is not public, such as a simulator at 127.0.0.0/8
    #[arg(long, env = "MERCATO_MARKETPLACE_ALLOW_SUBNET", value_delimiter = ',')]
    pub marketplace_allow_subnet: Vec<IpNet>,
}

#[derive(Debug, Clone, Args)]
pub struct SimulatorOptions {
    /// Where to serve; port 0 takes a free one
    #[arg(long, env = "MERCATO_SIMULATOR_LISTEN", default_value = "127.0.0.1:8090")]
    pub listen: SocketAddr,
    /// Seconds, by its clock, that publishing an offer takes
    #[arg(long, env = "MERCATO_SIMULATOR_PUBLISH_SECONDS", default_value_t = 60)]
    pub publish_seconds: u32,
    /// How the log looks
    #[arg(long, env = "MERCATO_LOG", default_value = "text")]
    pub log: LogForm,
}

#[derive(Debug, Clone, Args)]
pub struct NotificationsOptions {
    /// The organization's id
    #[arg(long)]
    pub organization: String,
    /// Only those of cloud_a or cloud_b
    #[arg(long, value_parser = vendor)]
    pub vendor: Option<Vendor>,
    /// Only those with one of these verdicts, separated by commas: applied, ignored, failed
    #[arg(long, value_delimiter = ',', value_parser = verdict)]
    pub verdict: Vec<NotificationVerdict>,
    /// Only those that wait for a verdict
    #[arg(long, conflicts_with = "verdict")]
    pub waiting: bool,
    /// Only those about this subscription, agreement or change set
    #[arg(long)]
    pub subject: Option<String>,
    /// How many, 100 at most
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i32).range(1..=100))]
    pub limit: i32,
    /// Print JSON, with the notifications as they came
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub database: DatabaseOptions,
}

fn vendor(word: &str) -> Result<Vendor, String> {
    Vendor::parse(word).ok_or_else(|| "use cloud_a or cloud_b".to_owned())
}

fn verdict(word: &str) -> Result<NotificationVerdict, String> {
    NotificationVerdict::parse(word).ok_or_else(|| "use applied, ignored or failed".to_owned())
}

#[derive(Debug, Clone, Subcommand)]
pub enum MarketplaceCommand {
    /// Keep an account, also in the place of another; it is sealed and never read back
    Connect {
        /// The organization's id
        #[arg(long)]
        organization: String,
        /// A JSON file: {"vendor": "cloud_a" or "cloud_b", ...} with the fields of docs/marketplaces.md; `-` reads it from
        /// standard input
        #[arg(long)]
        account: PathBuf,
        /// Admit addresses of this machine, also by plain http: the simulator
        #[arg(long)]
        loopback: bool,
        #[command(flatten)]
        database: DatabaseOptions,
    },
    /// Have an account compared now, and not only within the hour
    Compare {
        /// The organization's id
        #[arg(long)]
        organization: String,
        /// cloud_a or cloud_b
        #[arg(long)]
        vendor: String,
        #[command(flatten)]
        database: DatabaseOptions,
    },
    /// What the last comparisons found: what the marketplaces have otherwise than we
    Differences {
        /// The organization's id
        #[arg(long)]
        organization: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: DatabaseOptions,
    },
    /// Have what the marketplace has become ours; emits what was missed
    Adopt {
        /// The organization's id
        #[arg(long)]
        organization: String,
        /// cloud_a or cloud_b
        #[arg(long)]
        vendor: String,
        /// CONTRACT, OPERATION or USAGE, as `differences` prints it
        #[arg(long)]
        kind: String,
        /// As `differences` prints it
        #[arg(long)]
        subject: String,
        #[command(flatten)]
        database: DatabaseOptions,
    },
    /// What a marketplace told us and what became of it, newest first
    Notifications(NotificationsOptions),
    /// Have a notification applied again, as though it had just come; a running service does it
    Rerun {
        /// The organization's id
        #[arg(long)]
        organization: String,
        /// The notification's id
        notification: String,
        #[command(flatten)]
        database: DatabaseOptions,
    },
    /// Forget an account; what waits for it goes on waiting
    Disconnect {
        /// The organization's id
        #[arg(long)]
        organization: String,
        /// cloud_a or cloud_b
        #[arg(long)]
        vendor: String,
        #[command(flatten)]
        database: DatabaseOptions,
    },
}
