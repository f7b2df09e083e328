//! What the service can do: one file per resource, one plain async function per operation. Both facades, the command line
//! and the workers call these; whatever has a caller passes its guard first. No rule of the contract lives anywhere else.

pub mod analytics;
pub mod applications;
pub mod clockwork;
pub mod customers;
pub mod deliveries;
pub mod entitlements;
pub mod events;
pub mod marketplaces;
pub mod metering;
pub mod notifications;
pub mod offers;
pub mod simulation;
pub mod webhooks;
