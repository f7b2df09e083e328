//! The two marketplaces (`docs/marketplaces.md`).
//!
//! - [`adapter`]: the face that workers see, whichever marketplace it is; [`terms`] are the words of it.
//! - [`cloud_a`], [`cloud_b`]: clients of the documented protocols; [`http`] and [`batch`] are what they share.
//! - [`accounts`]: the credentials of an organization at a marketplace.
//! - [`jwt`]: whether a notification is from `cloud_b`.
//! - [`simulator`]: the other end of the same protocols, for rehearsals.

pub mod accounts;
pub mod adapter;
pub mod batch;
pub mod cloud_a;
pub mod cloud_b;
pub mod http;
pub mod jwt;
pub mod simulator;
pub mod terms;
