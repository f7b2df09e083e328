//! The integration tests: one binary, through the front door. [`harness`] first.

mod harness;

mod adapters;
mod analytics;
mod applications;
mod cli;
mod clockwork;
mod contracts;
mod customers;
mod deliveries;
mod entitlements;
mod events;
mod export;
mod graph;
mod graphql;
mod guard;
mod idempotency;
mod kinds;
mod lifecycle;
mod lists;
mod metering;
mod numbers;
mod oauth;
mod offers;
mod properties;
mod rates;
mod server;
mod simulator;
mod socket;
mod staging;
mod store;
mod subscriptions;
mod targets;
mod tenancy;
mod tidy;
mod webhooks;
