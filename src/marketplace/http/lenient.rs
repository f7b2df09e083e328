//! Numbers and moments as marketplaces write them: read kindly, written plainly.

use chrono::{DateTime, NaiveDateTime};
use rust_decimal::Decimal as Exact;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::model::decimal::Decimal;
use crate::model::time::Timestamp;

/// A number by its digits: it never passes through a float, and is written without an exponent. Bodies with one are
/// written and read as text, never by way of a [`Value`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(pub Decimal);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits = RawValue::from_string(self.0.to_string()).map_err(serde::ser::Error::custom)?;
        digits.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = Box::<RawValue>::deserialize(deserializer)?;
        // Some are written as texts.
        let text = digits.get().trim_matches('"');
        let plain = text.parse().ok();
        let number = plain.or_else(|| Exact::from_scientific(text).ok().map(Decimal::from));
        number.map(Self).ok_or_else(|| serde::de::Error::custom("not a number that can be carried exactly"))
    }
}

/// For `#[serde(default, deserialize_with)]`: a moment if there is one that can be read. Vendors leave the zone away,
/// write more digits than milliseconds, or count seconds since 1970.
pub fn moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => read_moment(&text),
        Value::Number(seconds) => seconds.to_string().parse::<Exact>().ok().and_then(|seconds| {
            let millis = seconds.checked_mul(Exact::ONE_THOUSAND)?.trunc();
            DateTime::from_timestamp_millis(millis.try_into().ok()?).map(Timestamp::from_datetime)
        }),
        _ => None,
    })
}

/// For `#[serde(default, deserialize_with)]`: a text if there is one; a number by its digits.
pub fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => Some(text).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

fn read_moment(text: &str) -> Option<Timestamp> {
    let zoned = || DateTime::parse_from_rfc3339(text).ok().map(|moment| moment.to_utc());
    let local = || text.parse::<NaiveDateTime>().ok().map(|moment| moment.and_utc());
    let moment = zoned().or_else(local)?;
    Some(Timestamp::from_millis(moment.timestamp_millis()))
}
