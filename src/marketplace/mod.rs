//! The two marketplaces (`docs/marketplaces.md`).
//!
//! - [`cloud_a`], [`cloud_b`]: clients of the documented protocols.
//! - [`simulator`]: the other end of the same protocols, for rehearsals.

pub mod cloud_a;
pub mod cloud_b;
pub mod http;
pub mod simulator;
