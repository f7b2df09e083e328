//! JSON as it is read from requests: strictly. A field that is given twice is refused, because whichever of the two we took,
//! the other would be silently ignored. So is a number that a double cannot hold: it would be silently rounded.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The body as JSON, or why it is none. The words name a place, never our parser.
pub fn parse(body: &[u8]) -> Result<Value, String> {
    if let Some(number) = inexact_number(body) {
        return Err(format!("has a number that cannot be read exactly, of more than {EXACT_DIGITS} digits: {number}"));
    }
    serde_json::from_slice::<Strict>(body).map(|strict| strict.0).map_err(|error| {
        if error.is_eof() {
            "is not complete JSON".to_owned()
        } else if error.is_data() {
            format!("has a field twice at line {} column {}", error.line(), error.column())
        } else {
            format!("is not valid JSON at line {} column {}", error.line(), error.column())
        }
    })
}

/// Significant digits that every double keeps (`DBL_DIG`).
const EXACT_DIGITS: usize = f64::DIGITS as usize;

/// The first number outside strings that reading it as a double may change. Whole numbers of 64 bits are read exactly.
fn inexact_number(body: &[u8]) -> Option<&str> {
    let (mut rest, mut in_string) = (body, false);
    while let Some((&byte, tail)) = rest.split_first() {
        let length = match byte {
            b'\\' if in_string => 2,
            b'0'..=b'9' if !in_string => rest.iter().take_while(|byte| is_of_number(**byte)).count(),
            _ => 1,
        };
        in_string ^= byte == b'"';
        let number = std::str::from_utf8(&rest[..length.min(rest.len())]).unwrap_or_default();
        if length > 1 && !is_exact(number) {
            return Some(&number[..number.len().min(40)]);
        }
        rest = tail.get(length - 1..).unwrap_or_default();
    }
    None
}

/// Whether a double keeps the digits, and does not take a small number for nothing.
fn is_exact(number: &str) -> bool {
    let digits = significant_digits(number);
    let vanishes = digits > 0 && number.parse() == Ok(0.0);
    (digits <= EXACT_DIGITS && !vanishes) || number.parse::<u64>().is_ok()
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || b".eE+-".contains(&byte)
}

/// Digits of the mantissa, without the zeros around it.
fn significant_digits(number: &str) -> usize {
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').len()
}

/// A [`Value`] whose objects name each field once.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, Strict(value))) = fields.next_entry::<String, Strict>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("twice"));
            }
        }
        Ok(Value::Object(object))
    }
}
