//! Client of `cloud_b`.
