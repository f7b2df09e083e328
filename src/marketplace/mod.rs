//! The two marketplaces (`docs/marketplaces.md`). Actors, in the order one meets them:
//!
//! - [`clerk`]: works off the outbox, into which every change writes of which a marketplace has to be told.
//! - `publisher`: brings a private offer and what the marketplace holds of it together.
//! - `reporter`: reports usage and writes down the verdicts.
//! - [`reconciler`]: compares what the marketplaces have with what we know, and adopts what somebody asks for; `accepted`
//!   does so with usage.
//! - [`adapter`]: what they ask for without knowing which marketplace it is; [`adapters`], those of this process.
//! - [`cloud_a`], [`cloud_b`]: clients of the documented protocols; `batch` sends rows that may poison each other.
//! - [`inbound`]: where notifications come in: who is it, keep it, 200. [`jwt`]: whether one of `cloud_b` is one.
//! - `refusals`: how many were refused, for the audit trail.
//! - [`inbox`]: applies what was kept, in order for each contract; `converge` brings an entitlement to what a contract is.
//! - [`hands`]: how those who take up what is due do it side by side, so that one who is slow holds up nobody else.
//! - [`simulator`]: the other end of the same protocols, for rehearsals; [`stage`] connects every organization to it.

mod accepted;
pub mod accounts;
pub mod adapter;
pub mod adapters;
mod batch;
pub mod clerk;
pub mod cloud_a;
pub mod cloud_b;
mod converge;
pub mod hands;
pub mod http;
pub mod inbound;
pub mod inbox;
pub mod jwt;
mod publisher;
pub mod reconciler;
pub mod refusals;
mod reporter;
pub mod simulator;
pub mod stage;
pub mod terms;
