//! Settings of rehearsals: which environment this is, and where the simulator is that stands in for the marketplaces.

use std::net::{Ipv4Addr, SocketAddr};

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use crate::model::environment::Environment;

impl ValueEnum for Environment {
    fn value_variants<'a>() -> &'a [Self] {
        Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.as_str()))
    }
}

/// What stands in for the marketplaces, in staging and in the demo. In production nothing does.
#[derive(Debug, Clone, Default, Args)]
pub struct SimulationOptions {
    /// Use the simulator that runs at this address instead of one of our own, such as <http://127.0.0.1:8090>; needed on
    /// a database that processes share
    #[arg(long, env = "MERCATO_SIMULATOR_URL", conflicts_with = "simulator_listen")]
    pub simulator_url: Option<String>,
    /// Where our own simulator serves; 127.0.0.1:8090 in staging and a free port in the demo unless told
    #[arg(long, env = "MERCATO_SIMULATOR_LISTEN")]
    pub simulator_listen: Option<SocketAddr>,
    /// No simulator: organizations are connected by `mercato marketplace connect`
    #[arg(long, env = "MERCATO_NO_SIMULATOR", conflicts_with_all = ["simulator_url", "simulator_listen"])]
    pub no_simulator: bool,
}

/// Which simulator there is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Simulation {
    None,
    /// In this process.
    Own(SocketAddr),
    At(String),
}

impl SimulationOptions {
    /// What that means in an environment, on a database that other processes may share or on one of this process alone.
    pub fn in_environment(&self, environment: Environment, is_shared: bool) -> Result<Simulation, String> {
        if !environment.rehearses() {
            return match (&self.simulator_url, self.simulator_listen) {
                (None, None) => Ok(Simulation::None),
                _ => {
                    Err("In production nothing stands in for the marketplaces; --simulator-url and --simulator-listen \
                    are for staging."
                        .to_owned())
                }
            };
        }
        if is_shared && self.simulator_url.is_none() && !self.no_simulator {
            // Each would hold another world, and the accounts in the database would be those of whoever started last.
            return Err(
                "Processes that share a database need the same simulator: start one with `mercato simulator` and \
                name it with --simulator-url, or have none with --no-simulator."
                    .to_owned(),
            );
        }
        let port = if environment == Environment::Staging { 8090 } else { 0 };
        Ok(match &self.simulator_url {
            _ if self.no_simulator => Simulation::None,
            Some(url) => Simulation::At(url.trim_end_matches('/').to_owned()),
            None => Simulation::Own(self.simulator_listen.unwrap_or((Ipv4Addr::LOCALHOST, port).into())),
        })
    }
}
