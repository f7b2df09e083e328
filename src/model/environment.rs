//! Environments: production, staging, demo. Each has a database and credentials of its own, and credentials say whose they
//! are, so that one that went astray is told where it belongs.

super::wire_enum! {
    Environment {
        Production = "production",
        /// Where integrators rehearse: the simulator in the place of the marketplaces, `test: true` on every event.
        Staging = "staging",
        Demo = "demo",
    }
}

impl Environment {
    /// What stands in its credentials after their kind: `mct_…`, `mct_test_…`, `mct_demo_…`.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Production => "",
            Self::Staging => "test_",
            Self::Demo => "demo_",
        }
    }

    /// Whether its events are tests.
    pub const fn is_test(self) -> bool {
        matches!(self, Self::Staging)
    }

    /// Whether the simulator may stand in for the marketplaces.
    pub const fn rehearses(self) -> bool {
        !matches!(self, Self::Production)
    }
}

/// Credentials of one environment, presented in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Astray {
    pub of: Environment,
    pub here: Environment,
}

impl std::fmt::Display for Astray {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "of {}; this is {}", self.of, self.here)
    }
}
