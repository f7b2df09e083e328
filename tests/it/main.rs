//! The integration tests: one binary, through the front door. [`harness`] first.

mod harness;

mod applications;
mod cli;
mod contracts;
mod customers;
mod events;
mod graphql;
mod guard;
mod idempotency;
mod lists;
mod oauth;
mod properties;
mod rates;
mod server;
mod store;
mod tenancy;
mod tidy;
