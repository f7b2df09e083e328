//! Client of `cloud_a`.
