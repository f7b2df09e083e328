//! Webhooks (`contract.md` §14) as records: created, read, changed, rotated, tested, removed, over both doors.
