//! What the service can do: one file per resource, one plain async function per operation. Both facades call these, and a
//! rule that is about more than one field of one record stands here or in the model, never in a facade.
//!
//! An operation begins with its guard, because [`crate::call::Call::grant`] is where its store comes from.

pub mod applications;
pub mod customers;
