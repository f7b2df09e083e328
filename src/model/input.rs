//! Reading a JSON body without stopping at the first mistake: everything that is wrong is reported together
//! (`contract.md` §3).
//!
//! A body is read in two steps so that the guard comes first: the facade *reads* (collecting [`Problems`]), the resolver
//! passes its guard and then *raises*. Problems have two ranks: not understandable (400) and breaking a rule (422).

use serde_json::{Map, Value};

use super::time::{Timestamp, UTC_ONLY};
use crate::error::{Error, FieldError, Refusal, Result};

/// How many problems of one request are listed; the rest come to light when these are mended.
const MAX_PROBLEMS: usize = 100;
/// The one field of the object that stands where a body has a number that cannot be read exactly.
pub const INEXACT: &str = "$inexact";

/// Whether such a number stood here.
pub fn is_inexact(value: &Value) -> bool {
    value.get(INEXACT).is_some()
}

/// What a problem of the whole body is about.
const BODY: &str = "body";
/// The longest field name that is repeated to a caller, in characters.
const MAX_NAME: usize = 100;

/// What is wrong with an input so far.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    malformed: Vec<FieldError>,
    invalid: Vec<FieldError>,
}

impl Problems {
    /// Not understandable: missing, of the wrong type, unknown.
    pub fn malformed(&mut self, field: impl Into<String>, message: impl Into<String>) {
        if self.has_room() {
            self.malformed.push(FieldError::new(field, message));
        }
    }

    /// Understood, but breaks a rule.
    pub fn invalid(&mut self, field: impl Into<String>, message: impl Into<String>) {
        if self.has_room() {
            self.invalid.push(FieldError::new(field, message));
        }
    }

    /// Notes that a field is missing if it is, unless it was refused already.
    pub fn require(&mut self, field: impl Into<String>, is_there: bool) {
        let field = field.into();
        if !is_there && !self.is_about(&field) && !self.is_about(BODY) {
            self.malformed(field, "is required");
        }
    }

    /// Whether the field, a part of it or what it is a part of was refused already.
    pub fn is_about(&self, field: &str) -> bool {
        let within = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let about = |problem: &FieldError| within(&problem.field, field) || within(field, &problem.field);
        self.malformed.iter().chain(&self.invalid).any(about)
    }

    /// Adds those of a part of the input. Of a body that could not be read at all, no part is missed.
    pub fn absorb(&mut self, part: Self) {
        if self.is_about(BODY) {
            return;
        }
        part.malformed.into_iter().for_each(|problem| self.malformed(problem.field, problem.message));
        part.invalid.into_iter().for_each(|problem| self.invalid(problem.field, problem.message));
    }

    /// An answer must not grow with the mistakes of its request.
    fn has_room(&self) -> bool {
        self.malformed.len() + self.invalid.len() < MAX_PROBLEMS
    }

    /// 400 if anything was not understandable, else 422 if a rule is broken; either way the whole list.
    pub fn raise(self) -> Result<()> {
        let Self { mut malformed, invalid } = self;
        if !malformed.is_empty() {
            malformed.extend(invalid);
            Err(Error::Malformed(malformed))
        } else if !invalid.is_empty() {
            Err(Error::Refused(Refusal::Invalid(invalid)))
        } else {
            Ok(())
        }
    }
}

/// A fixed set of words that a field may take.
pub trait Choice: Sized {
    fn choices() -> Vec<&'static str>;
    fn choose(text: &str) -> Option<Self>;
}

/// The fields of one JSON object. Each is taken once; what is left at the end is unknown and refused.
pub struct Fields {
    object: Map<String, Value>,
    /// Where the object is in the body: empty, or ended by a dot.
    place: String,
    pub problems: Problems,
}

impl Fields {
    /// `body` is what the facade could parse, or why it could not.
    pub fn read(body: std::result::Result<Value, String>) -> Self {
        let mut problems = Problems::default();
        let object = match body {
            Ok(Value::Object(object)) => object,
            Ok(_) => {
                problems.malformed(BODY, "must be a JSON object");
                Map::new()
            }
            Err(reason) => {
                problems.malformed(BODY, reason);
                Map::new()
            }
        };
        Self { object, place: String::new(), problems }
    }

    /// The path of a field from the top of the body.
    pub fn path(&self, field: &str) -> String {
        format!("{}{field}", self.place)
    }

    fn malformed(&mut self, field: &str, message: impl Into<String>) {
        let path = self.path(field);
        self.problems.malformed(path, message);
    }

    /// The fields of an object within this one; of an absent one, none. They come back by [`Fields::join`].
    pub fn object(&mut self, field: &str) -> Self {
        let taken = self.take(field);
        self.nested(field, taken)
    }

    fn nested(&mut self, field: &str, value: Option<Value>) -> Self {
        let object = match value {
            None => Map::new(),
            Some(Value::Object(object)) => object,
            Some(_) => {
                self.malformed(field, "must be an object");
                Map::new()
            }
        };
        Self { object, place: format!("{}.", self.path(field)), problems: Problems::default() }
    }

    /// A list of objects. A list that is too long is not read.
    pub fn objects(&mut self, field: &str, max: usize) -> Option<Vec<Self>> {
        let Value::Array(items) = self.take(field)? else {
            self.malformed(field, "must be a list");
            return None;
        };
        if items.len() > max {
            let path = self.path(field);
            self.problems.invalid(path, format!("must not have more than {max} items"));
            return None;
        }
        let nested = |(index, item)| self.nested(&format!("{field}[{index}]"), Some(item));
        Some(items.into_iter().enumerate().map(nested).collect())
    }

    /// Ends the reading of a nested object: what is wrong with it is wrong with this one.
    pub fn join(&mut self, nested: Self) {
        self.problems.absorb(nested.finish());
    }

    pub fn take(&mut self, field: &str) -> Option<Value> {
        self.object.remove(field)
    }

    /// A string; null is not one.
    pub fn string(&mut self, field: &str) -> Option<String> {
        let text = self.nullable_string(field);
        if text == Some(None) {
            self.malformed(field, "must be a string");
        }
        text.flatten()
    }

    /// A string; null is the same as absence.
    pub fn optional_string(&mut self, field: &str) -> Option<String> {
        self.nullable_string(field).flatten()
    }

    /// A string where null means something else than absence: `Some(None)`.
    pub fn nullable_string(&mut self, field: &str) -> Option<Option<String>> {
        match self.take(field)? {
            Value::Null => Some(None),
            Value::String(text) => Some(Some(text)),
            _ => {
                self.malformed(field, "must be a string");
                None
            }
        }
    }

    /// A whole number, also when it is written `12.0`.
    pub fn integer(&mut self, field: &str) -> Option<i64> {
        let value = self.take(field)?;
        let whole = value.as_f64().filter(|double| double.fract() == 0.0 && double.abs() < 9e15);
        let integer = value.as_i64().or_else(|| format!("{:.0}", whole?).parse().ok());
        if integer.is_none() {
            self.malformed(field, "must be an integer");
        }
        integer
    }

    pub fn boolean(&mut self, field: &str) -> Option<bool> {
        let value = self.take(field)?.as_bool();
        if value.is_none() {
            self.malformed(field, "must be true or false");
        }
        value
    }

    /// A moment. Another offset than UTC breaks a rule (`contract.md` §1).
    pub fn timestamp(&mut self, field: &str) -> Option<Timestamp> {
        let text = self.string(field)?;
        let path = self.path(field);
        read_timestamp(&mut self.problems, &path, &text)
    }

    pub fn choice<T: Choice>(&mut self, field: &str) -> Option<T> {
        match self.take(field)? {
            Value::String(text) if T::choose(&text).is_some() => T::choose(&text),
            _ => {
                self.malformed(field, one_of::<T>());
                None
            }
        }
    }

    /// A list of words of a fixed set.
    pub fn choices<T: Choice>(&mut self, field: &str) -> Option<Vec<T>> {
        let Value::Array(items) = self.take(field)? else {
            self.malformed(field, "must be a list");
            return None;
        };
        if items.len() > MAX_PROBLEMS {
            self.malformed(field, format!("must not have more than {MAX_PROBLEMS} items"));
            return None;
        }
        let chosen: Vec<Option<T>> = items.iter().map(|item| item.as_str().and_then(T::choose)).collect();
        for index in chosen.iter().enumerate().filter(|(_, choice)| choice.is_none()).map(|(index, _)| index) {
            self.malformed(&format!("{field}[{index}]"), one_of::<T>());
        }
        chosen.into_iter().collect()
    }

    /// Notes that `field` is missing if it is, unless the field was refused already.
    pub fn require<T>(&mut self, field: &str, value: Option<&T>) {
        let path = self.path(field);
        self.problems.require(path, value.is_some());
    }

    /// Takes the fields that a client may send back as it read them.
    pub fn take_echo(&mut self, names: &[&str]) -> Map<String, Value> {
        names.iter().filter_map(|name| self.object.remove_entry(*name)).collect()
    }

    /// Refuses whatever was not taken.
    pub fn finish(mut self) -> Problems {
        for field in self.object.keys() {
            let name: String = field.chars().take(MAX_NAME).collect();
            self.problems.malformed(format!("{}{name}", self.place), "is not a known field");
        }
        self.problems
    }
}

fn one_of<T: Choice>() -> String {
    format!("must be one of: {}", T::choices().join(", "))
}

/// Text for people: 1 to `max` characters, not blank, no control characters.
pub fn check_text(problems: &mut Problems, field: &str, text: &str, max: usize) {
    let length = text.chars().count();
    if length == 0 || length > max {
        problems.invalid(field, format!("must be between 1 and {max} characters"));
    } else if text.chars().any(char::is_control) {
        problems.invalid(field, "must not contain control characters");
    } else if text.chars().all(char::is_whitespace) {
        problems.invalid(field, "must not be blank");
    }
}

/// The longest e-mail address that SMTP can carry (RFC 5321 §4.5.3.1.3, less the angle brackets).
pub const EMAIL_MAX: usize = 254;

pub fn check_email(problems: &mut Problems, field: &str, email: &str) {
    let plain = email_address::Options::default().without_display_text().without_domain_literal();
    if email.len() > EMAIL_MAX || email_address::EmailAddress::parse_with_options(email, plain).is_err() {
        problems.invalid(field, "must be an e-mail address");
    }
}

/// A moment in a body or in a query.
pub fn read_timestamp(problems: &mut Problems, field: &str, text: &str) -> Option<Timestamp> {
    let read: Result<Timestamp, &str> = text.parse();
    match read {
        Err(UTC_ONLY) => problems.invalid(field, UTC_ONLY),
        Err(reason) => problems.malformed(field, reason),
        Ok(moment) => return Some(moment),
    }
    None
}

/// Compares what a client sent back with what it would read now: a read-only field must not change. Of an object, a part
/// may come back.
pub fn check_echo(problems: &mut Problems, echo: &Map<String, Value>, current: &Value) {
    for (field, sent) in echo {
        match (sent, current.get(field)) {
            (_, None) => problems.malformed(field, "is not a known field"),
            (Value::Object(part), Some(Value::Object(whole))) => {
                let place = |(name, value): (&String, &Value)| (format!("{field}.{name}"), value.clone());
                let whole: Map<String, Value> = whole.iter().map(place).collect();
                check_echo(problems, &part.iter().map(place).collect(), &whole.into());
            }
            (sent, Some(known)) if !is_same(sent, known) => problems.invalid(field, "cannot be changed"),
            _ => {}
        }
    }
}

/// The same value, or the same moment in other words.
fn is_same(sent: &Value, known: &Value) -> bool {
    let moment = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    sent == known || (moment(known).is_some() && moment(sent) == moment(known))
}
