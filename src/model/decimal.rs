//! Exact decimal numbers: quantities, prices, percentages. Never a float: sums of them come out as people expect.
//!
//! Input is held to 15 significant digits, of which at most 6 are decimals. Every number of that size passes every JSON
//! implementation unchanged (RFC 8259 §6: a double keeps 15), so what is exact here stays exact at the other end.

use std::str::FromStr;

use rust_decimal::Decimal as Exact;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::input::{Problems, is_inexact};

/// Decimals of an input.
pub const MAX_SCALE: u32 = 6;
/// Significant digits of an input.
pub const MAX_DIGITS: u32 = 15;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decimal(Exact);

impl Decimal {
    pub const ZERO: Self = Self(Exact::ZERO);

    /// The largest whole number that is not larger.
    pub fn floor(self) -> Self {
        Self(self.0.floor().normalize())
    }

    pub fn exact(self) -> Exact {
        self.0
    }

    pub fn is_integer(self) -> bool {
        self.0.is_integer()
    }

    /// A double by the shortest text that it is read from; for 15 digits that is the text it came from.
    fn from_number(number: &serde_json::Number) -> Option<Self> {
        match (number.as_i128(), number.as_f64()) {
            (Some(whole), _) => whole.to_string().parse().ok(),
            (None, Some(double)) => double.to_string().parse().ok(),
            (None, None) => None,
        }
    }

    fn is_input(self) -> bool {
        let digits = self.0.mantissa().unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
        self.0.scale() <= MAX_SCALE && digits <= MAX_DIGITS
    }

    fn as_number(self) -> serde_json::Number {
        let whole = i64::try_from(self.0).ok().filter(|_| self.is_integer());
        let text = || self.to_string().parse().ok().and_then(serde_json::Number::from_f64);
        whole.map(Into::into).or_else(text).unwrap_or_else(|| 0.into())
    }
}

/// A number of a JSON body.
pub fn read_decimal(problems: &mut Problems, field: &str, value: &Value) -> Option<Decimal> {
    let decimal = value.as_number().and_then(Decimal::from_number);
    match value {
        Value::Number(_) if decimal.is_none() => problems.invalid(field, BOUNDS),
        Value::Number(_) => {}
        value if is_inexact(value) => problems.invalid(field, BOUNDS),
        _ => problems.malformed(field, "must be a number"),
    }
    decimal
}

/// The bounds of an input, and the least it may be.
pub fn check_decimal(problems: &mut Problems, field: &str, value: Decimal, least: Decimal) {
    if !value.is_input() {
        problems.invalid(field, BOUNDS);
    } else if value < least {
        problems.invalid(field, format!("must be at least {least}"));
    }
}

const BOUNDS: &str = "must have at most 15 digits, 6 of them decimals";

impl From<i64> for Decimal {
    fn from(whole: i64) -> Self {
        Self(whole.into())
    }
}

impl From<Exact> for Decimal {
    fn from(exact: Exact) -> Self {
        Self(exact.normalize())
    }
}

impl std::ops::Add for Decimal {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        (self.0 + other.0).into()
    }
}

impl std::ops::Sub for Decimal {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        (self.0 - other.0).into()
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Decimal {
    type Err = rust_decimal::Error;

    /// Digits, perhaps with a point between them and a minus before them.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if !digits(whole) || !digits(fraction) {
            return Err(rust_decimal::Error::ErrorString("not a decimal number".to_owned()));
        }
        Exact::from_str_exact(text).map(Self::from)
    }
}

impl Serialize for Decimal {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_number().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        Self::from_number(&number).ok_or_else(|| serde::de::Error::custom("not a decimal number"))
    }
}

/// An exact decimal number, at most 15 digits, 6 of them decimals: `12.5`. Accepted as a number or as a string.
#[async_graphql::Scalar]
impl async_graphql::ScalarType for Decimal {
    fn parse(value: async_graphql::Value) -> async_graphql::InputValueResult<Self> {
        let decimal = match &value {
            async_graphql::Value::Number(number) => Self::from_number(number),
            async_graphql::Value::String(text) => text.parse().ok(),
            _ => return Err(async_graphql::InputValueError::expected_type(value)),
        };
        decimal.ok_or_else(|| async_graphql::InputValueError::custom("must be a decimal number"))
    }

    /// So that the library refuses the request before anything of it runs.
    fn is_valid(value: &async_graphql::Value) -> bool {
        Self::parse(value.clone()).is_ok()
    }

    fn to_value(&self) -> async_graphql::Value {
        async_graphql::Value::Number(self.as_number())
    }
}
