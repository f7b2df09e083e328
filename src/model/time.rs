//! Moments: RFC 3339 UTC with milliseconds and `Z` on the way out, `Z` or `+00:00` only on the way in (`contract.md` §1).

use std::time::SystemTime;

use chrono::{DateTime, Datelike, Months, NaiveTime, SecondsFormat, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

/// What is said of a moment with another offset.
pub const UTC_ONLY: &str = "must be UTC";

/// The last millisecond of the year 9999.
const LAST: i64 = 253_402_300_799_999;

/// A moment in UTC, exact to the millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(DateTime<Utc>);

impl Timestamp {
    pub fn from_millis(millis: i64) -> Self {
        Self(DateTime::from_timestamp_millis(millis).unwrap_or(DateTime::<Utc>::MAX_UTC))
    }

    pub fn from_system(time: SystemTime) -> Self {
        Self::from_millis(DateTime::<Utc>::from(time).timestamp_millis())
    }

    pub fn from_datetime(time: DateTime<Utc>) -> Self {
        Self(time)
    }

    pub fn as_datetime(self) -> DateTime<Utc> {
        self.0
    }

    /// Milliseconds since 1970.
    pub fn as_millis(self) -> i64 {
        self.0.timestamp_millis()
    }

    /// Whole seconds since 1970, rounded down.
    pub fn as_seconds(self) -> i64 {
        self.0.timestamp()
    }

    /// Whole hours since 1970, rounded down.
    pub fn hour(self) -> i64 {
        self.as_millis().div_euclid(3_600_000)
    }

    /// The first moment of the month after it, UTC.
    pub fn next_month(self) -> Self {
        let first = self.0.date_naive().with_day(1).and_then(|first| first.checked_add_months(Months::new(1)));
        first.map_or(self, |first| Self(first.and_time(NaiveTime::MIN).and_utc()))
    }

    pub fn plus(self, delta: TimeDelta) -> Self {
        Self(self.0 + delta)
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl std::str::FromStr for Timestamp {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let time = DateTime::parse_from_rfc3339(text).ok().filter(|_| text.as_bytes().get(10) == Some(&b'T'));
        let time = time.ok_or("must be an RFC 3339 timestamp")?;
        if !text.ends_with('Z') && !text.ends_with("+00:00") {
            return Err(UTC_ONLY);
        }
        // A leap second at the end of the last year would be a moment that nobody can write.
        let millis = time.timestamp_millis();
        if millis <= LAST { Ok(Self::from_millis(millis)) } else { Err("must be before the year 10000") }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// RFC 3339, UTC, milliseconds: `2026-01-05T10:00:00.000Z`.
#[async_graphql::Scalar(name = "DateTime", specified_by_url = "https://scalars.graphql.org/andimarek/date-time")]
impl async_graphql::ScalarType for Timestamp {
    fn parse(value: async_graphql::Value) -> async_graphql::InputValueResult<Self> {
        match value {
            async_graphql::Value::String(text) => text.parse().map_err(async_graphql::InputValueError::custom),
            other => Err(async_graphql::InputValueError::expected_type(other)),
        }
    }

    /// So that the library refuses the request before anything of it runs.
    fn is_valid(value: &async_graphql::Value) -> bool {
        Self::parse(value.clone()).is_ok()
    }

    fn to_value(&self) -> async_graphql::Value {
        async_graphql::Value::String(self.to_string())
    }
}
