//! JSON as it is read from requests: strictly. A field that is given twice is refused, because whichever of the two we took,
//! the other would be silently ignored. A number that a double cannot hold is set
//! aside instead of being silently rounded.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::model::input::INEXACT;

/// The body as JSON, or why it is none. The words name a place, never our parser.
pub fn parse(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice::<Strict>(&set_aside(body)).map(|strict| strict.0).map_err(|error| {
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

/// Numbers that reading them as doubles may change, as something that no field takes: the field then says so.
fn set_aside(body: &[u8]) -> Cow<'_, [u8]> {
    let numbers = inexact_numbers(body);
    if numbers.is_empty() {
        return Cow::Borrowed(body);
    }
    let (mut marked, mut from) = (Vec::new(), 0);
    for number in numbers {
        marked.extend_from_slice(&body[from..number.start]);
        marked.extend_from_slice(format!("{{\"{INEXACT}\":null}}").as_bytes());
        from = number.end;
    }
    marked.extend_from_slice(&body[from..]);
    Cow::Owned(marked)
}

/// The numbers outside strings, names and comments that reading them as doubles may change. Whole numbers of 64 bits are
/// read exactly. GraphQL documents are read by it, too.
pub fn inexact_numbers(text: &[u8]) -> Vec<Range<usize>> {
    let (mut numbers, mut at, mut in_string) = (Vec::new(), 0, false);
    while let Some(&byte) = text.get(at) {
        let run = |part: fn(u8) -> bool| text[at..].iter().take_while(|byte| part(**byte)).count();
        let length = match byte {
            b'\\' if in_string => 2,
            b'"' => 1,
            _ if in_string => 1,
            b'#' => run(|byte| byte != b'\n'),
            b'-' | b'0'..=b'9' => run(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte)),
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => run(|byte| byte.is_ascii_alphanumeric() || byte == b'_'),
            _ => 1,
        };
        if (byte == b'-' || byte.is_ascii_digit()) && !in_string && !is_exact(&text[at..at + length]) {
            numbers.push(at..at + length);
        }
        in_string ^= byte == b'"';
        at += length.max(1);
    }
    numbers
}

/// Whether a double keeps the digits, and does not take a small number for nothing.
fn is_exact(number: &[u8]) -> bool {
    let text = std::str::from_utf8(number).unwrap_or_default();
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let significant = digits.trim_matches('0').len();
    let vanishes = significant > 0 && text.parse() == Ok(0.0);
    (significant <= EXACT_DIGITS && !vanishes) || text.parse::<u64>().is_ok() || text.parse::<i64>().is_ok()
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
