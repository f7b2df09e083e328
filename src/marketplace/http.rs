//! What both clients share: attempts, backoff, errors.
