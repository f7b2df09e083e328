//! Flags, `MERCATO_…` variables and `mercato.toml`, read once. A flag wins over a variable, a variable over the file.
//!
//! The file's keys are the flags' names (`listen = "0.0.0.0:8080"`); they become the defaults of the command line, so
//! there is one definition of every setting: the structs here.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ipnet::IpNet;

mod marketplaces;
mod simulation;
mod webhooks;

pub use marketplaces::{MarketplaceCommand, MarketplaceOptions, NotificationsOptions, SimulatorOptions};
pub use simulation::{Simulation, SimulationOptions};
pub use webhooks::WebhookOptions;

pub use crate::model::environment::Environment;

/// One platform for selling software through two cloud marketplaces.
#[derive(Debug, Parser)]
#[command(name = "mercato", version, arg_required_else_help = true)]
pub struct CommandLine {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Everything in one process: an embedded database and a sample organization, with commands to paste
    Demo(DemoOptions),
    /// The service
    Serve(ServeOptions),
    /// Bring the database's schema up to date, also after an interruption
    Migrate(DatabaseOptions),
    /// Write the database to a file
    Backup(FileOptions),
    /// Fill an empty database from a file
    Restore(FileOptions),
    /// Check the database and what the service promises of it
    Doctor(DatabaseOptions),
    /// First records, offline
    #[command(subcommand)]
    Organization(OrganizationCommand),
    /// First records, offline
    #[command(subcommand)]
    Application(ApplicationCommand),
    /// A running service's events
    #[command(subcommand)]
    Events(EventsCommand),
    /// An organization's accounts at the marketplaces, offline
    #[command(subcommand)]
    Marketplace(MarketplaceCommand),
    /// The two marketplaces, alone: what an integration is rehearsed against
    Simulator(SimulatorOptions),
    /// Print a contract
    Schema(SchemaOptions),
    /// Exit 0 if the service answers: for containers
    Healthcheck(HealthcheckOptions),
}

#[derive(Debug, Clone, Args)]
pub struct DatabaseOptions {
    /// surrealkv://FOLDER (durable, embedded), mem://, or ws://HOST:PORT (a SurrealDB server)
    #[arg(long, env = "MERCATO_DATABASE", default_value = "surrealkv://./data")]
    pub database: String,
    /// User name at the SurrealDB server
    #[arg(long, env = "MERCATO_DATABASE_USER", requires = "database_password")]
    pub database_user: Option<String>,
    /// Password at the SurrealDB server
    #[arg(long, env = "MERCATO_DATABASE_PASSWORD", hide_env_values = true)]
    pub database_password: Option<String>,
    /// What webhook secrets are sealed with: base64 of 32 bytes, the same for every process of a database
    #[arg(long, env = "MERCATO_SECRET_KEY", hide_env_values = true, conflicts_with = "secret_key_file")]
    pub secret_key: Option<String>,
    /// A file with that key, made where it is missing; for an embedded database FOLDER.key unless told
    #[arg(long, env = "MERCATO_SECRET_KEY_FILE")]
    pub secret_key_file: Option<PathBuf>,
    /// Each environment has a database of its own
    #[arg(long, env = "MERCATO_ENVIRONMENT", default_value = "production")]
    pub environment: Environment,
}

#[derive(Debug, Clone, Args)]
pub struct FileOptions {
    #[command(flatten)]
    pub database: DatabaseOptions,
    pub file: PathBuf,
}

/// What `serve` and `demo` have in common.
#[derive(Debug, Clone, Args)]
pub struct ListenOptions {
    /// Where to serve; port 0 takes a free one
    #[arg(long, env = "MERCATO_LISTEN", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Where to serve /oauth, if not at the same address
    #[arg(long, env = "MERCATO_AUTH_LISTEN")]
    pub auth_listen: Option<SocketAddr>,
    /// The address that clients use, if not the one listened at, such as `https://api.example.com`
    #[arg(long, env = "MERCATO_BASE_URL")]
    pub base_url: Option<String>,
    /// The address that clients use for /oauth, such as `https://auth.example.com`
    #[arg(long, env = "MERCATO_AUTH_URL")]
    pub auth_url: Option<String>,
    /// Once requests are answered, write the addresses (and the demo's credentials) to this JSON file
    #[arg(long, env = "MERCATO_READY_FILE")]
    pub ready_file: Option<PathBuf>,
    /// Believe X-Forwarded-For from these proxies
    #[arg(long, env = "MERCATO_TRUSTED_PROXY", value_delimiter = ',')]
    pub trusted_proxy: Vec<IpNet>,
    /// Requests a minute from one address without a valid token, token requests included
    #[arg(long, env = "MERCATO_ADDRESS_LIMIT", default_value_t = 300)]
    pub address_limit: u32,
    /// Open connections in all
    #[arg(long, env = "MERCATO_MAX_CONNECTIONS", default_value_t = 10_000)]
    pub max_connections: usize,
    /// Open connections of one address
    #[arg(long, env = "MERCATO_MAX_CONNECTIONS_PER_ADDRESS", default_value_t = 2_000)]
    pub max_connections_per_address: usize,
    /// Seconds for a request header to arrive, and for an idle connection to say something
    #[arg(long, env = "MERCATO_HEADER_TIMEOUT", default_value_t = 15)]
    pub header_timeout: u64,
    /// Seconds for a request body to arrive
    #[arg(long, env = "MERCATO_BODY_TIMEOUT", default_value_t = 15)]
    pub body_timeout: u64,
    /// Seconds for a client to take some of its answer
    #[arg(long, env = "MERCATO_WRITE_TIMEOUT", default_value_t = 15)]
    pub write_timeout: u64,
    /// Running subscriptions of one application, over WebSocket and SSE together
    #[arg(long, env = "MERCATO_MAX_SUBSCRIPTIONS_PER_APPLICATION", default_value_t = 200)]
    pub max_subscriptions_per_application: usize,
    /// Seconds for a WebSocket to send its connection_init
    #[arg(long, env = "MERCATO_SOCKET_INIT_TIMEOUT", default_value_t = 3)]
    pub socket_init_timeout: u64,
    /// Seconds between pings of a WebSocket; one that does not answer two of them is given up
    #[arg(long, env = "MERCATO_SOCKET_PING_INTERVAL", default_value_t = 30)]
    pub socket_ping_interval: u64,
    /// Seconds after which an idle event stream (SSE) sends a comment
    #[arg(long, env = "MERCATO_STREAM_KEEP_ALIVE", default_value_t = 15)]
    pub stream_keep_alive: u64,
    /// Days that events are kept
    #[arg(long, env = "MERCATO_EVENT_RETENTION_DAYS", default_value_t = 30)]
    pub event_retention_days: u32,
    #[command(flatten)]
    pub webhooks: WebhookOptions,
    #[command(flatten)]
    pub marketplaces: MarketplaceOptions,
    #[command(flatten)]
    pub simulation: SimulationOptions,
    /// How the log looks
    #[arg(long, env = "MERCATO_LOG", default_value = "text")]
    pub log: LogForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogForm {
    Text,
    Json,
}

#[derive(Debug, Clone, Args)]
pub struct ServeOptions {
    #[command(flatten)]
    pub database: DatabaseOptions,
    #[command(flatten)]
    pub listen: ListenOptions,
}

#[derive(Debug, Clone, Args)]
pub struct DemoOptions {
    /// The folder of the demo's database, filled on the first run
    #[arg(long, env = "MERCATO_DEMO_DATA", default_value = "./demo-data")]
    pub data: PathBuf,
    /// Customers to make on the first run
    #[arg(long, env = "MERCATO_DEMO_CUSTOMERS", default_value_t = 240)]
    pub customers: usize,
    #[command(flatten)]
    pub listen: ListenOptions,
}

#[derive(Debug, Clone, Subcommand)]
pub enum OrganizationCommand {
    /// Create an organization
    Create {
        #[arg(long)]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: DatabaseOptions,
    },
}

#[derive(Debug, Clone, Subcommand)]
pub enum ApplicationCommand {
    /// Create an OAuth application; its secret is printed once
    Create {
        /// The organization's id
        #[arg(long)]
        organization: String,
        #[arg(long)]
        name: String,
        #[arg(long, default_value = "")]
        description: String,
        /// Scopes, separated by commas; all unless told
        #[arg(long, value_delimiter = ',')]
        scopes: Vec<String>,
        #[command(flatten)]
        limits: LimitOptions,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: DatabaseOptions,
    },
    /// Raise or lower an application's rate limits
    Limits {
        /// The organization's id
        #[arg(long)]
        organization: String,
        /// The application's id
        #[arg(long)]
        application: String,
        #[command(flatten)]
        limits: LimitOptions,
        #[command(flatten)]
        database: DatabaseOptions,
    },
}

#[derive(Debug, Clone, Args)]
pub struct LimitOptions {
    /// Requests in any hour
    #[arg(long, default_value_t = 1000)]
    pub per_hour: u32,
    /// Requests in any minute
    #[arg(long, default_value_t = 50)]
    pub per_minute: u32,
}

#[derive(Debug, Clone, Subcommand)]
pub enum EventsCommand {
    /// Print events as they come, one JSON object a line
    Tail(TailOptions),
}

#[derive(Debug, Clone, Args)]
pub struct TailOptions {
    /// The service's address
    #[arg(long, env = "MERCATO_URL", default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// Where it serves /oauth, if not at the same address
    #[arg(long, env = "MERCATO_AUTH_URL")]
    pub auth_url: Option<String>,
    #[arg(long, env = "MERCATO_CLIENT_ID")]
    pub client_id: String,
    #[arg(long, env = "MERCATO_CLIENT_SECRET", hide_env_values = true)]
    pub client_secret: String,
    /// Begin after this sequence; from now on unless told
    #[arg(long)]
    pub after: Option<u64>,
    /// Kinds, such as customer.created, separated by commas; all that the client may see unless told
    #[arg(long, value_delimiter = ',')]
    pub kinds: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub struct SchemaOptions {
    pub contract: Contract,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Contract {
    Graphql,
    Openapi,
    /// The table of operations, scopes, routes and events
    Operations,
}

#[derive(Debug, Clone, Args)]
pub struct HealthcheckOptions {
    /// The service's address
    #[arg(long, env = "MERCATO_HEALTHCHECK_URL", default_value = "http://127.0.0.1:8080/readyz")]
    pub url: String,
}

/// The file that settings come from when neither a flag nor a variable gives them.
const FILE_VARIABLE: &str = "MERCATO_CONFIG";
const FILE: &str = "mercato.toml";

/// Reads the command line, the variables and the file.
pub fn read() -> Result<CommandLine, String> {
    let settings = read_file()?;
    let command = with_defaults(<CommandLine as clap::CommandFactory>::command(), &settings)?;
    let matches = command.get_matches();
    <CommandLine as clap::FromArgMatches>::from_arg_matches(&matches).map_err(|error| error.to_string())
}

fn read_file() -> Result<toml::Table, String> {
    let named = std::env::var_os(FILE_VARIABLE).map(PathBuf::from);
    let path = named.clone().unwrap_or_else(|| PathBuf::from(FILE));
    match std::fs::read_to_string(&path) {
        Ok(text) => text.parse().map_err(|error| format!("{} is not valid TOML: {error}", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => Ok(toml::Table::new()),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
    }
}

/// Makes the file's settings the defaults of every command that knows them; a key that none knows is refused.
fn with_defaults(mut root: clap::Command, settings: &toml::Table) -> Result<clap::Command, String> {
    for (key, value) in settings {
        let (changed, known) = with_default(root, &key.replace('-', "_"), &plain(key, value)?);
        if !known {
            return Err(format!("{FILE} has the key {key}, which is not a setting"));
        }
        root = changed;
    }
    Ok(root)
}

/// Gives a setting its default in a command and in those below it, and tells whether any of them has it.
fn with_default(mut command: clap::Command, id: &str, text: &str) -> (clap::Command, bool) {
    let mut known = command.get_arguments().any(|argument| argument.get_id() == id);
    if known {
        command = command.mut_arg(id, |argument| argument.default_value(text.to_owned()));
    }
    let names: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, |below| {
            let (changed, has) = with_default(below, id, text);
            known |= has;
            changed
        });
    }
    (command, known)
}

fn plain(key: &str, value: &toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Boolean(flag) => Ok(flag.to_string()),
        toml::Value::Array(items) => {
            Ok(items.iter().map(|item| plain(key, item)).collect::<Result<Vec<_>, _>>()?.join(","))
        }
        _ => Err(format!("{FILE}: {key} must be a string, a number, true, false or a list")),
    }
}
