//! Reading a JSON body without stopping at the first mistake: everything that is wrong is reported together
//! (`contract.md` §3).
//!
//! A body is read in two steps so that the guard comes first: the facade *reads* (collecting [`Problems`]), the resolver
//! passes its guard and then *raises*. Problems have two ranks: not understandable (400) and breaking a rule (422).

use serde_json::{Map, Value};

use crate::error::{Error, FieldError, Refusal, Result};

/// How many problems of one request are listed; the rest come to light when these are mended.
const MAX_PROBLEMS: usize = 100;
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
    pub problems: Problems,
}

impl Fields {
    /// `body` is what the facade could parse, or why it could not.
    pub fn read(body: std::result::Result<Value, String>) -> Self {
        let mut problems = Problems::default();
        let object = match body {
            Ok(Value::Object(object)) => object,
            Ok(_) => {
                problems.malformed("body", "must be a JSON object");
                Map::new()
            }
            Err(reason) => {
                problems.malformed("body", reason);
                Map::new()
            }
        };
        Self { object, problems }
    }

    /// Whether the body itself was refused, so that "is required" for every field would be noise.
    pub fn is_broken(&self) -> bool {
        !self.problems.malformed.is_empty() && self.object.is_empty()
    }

    pub fn take(&mut self, field: &str) -> Option<Value> {
        self.object.remove(field)
    }

    /// A string; null is not one.
    pub fn string(&mut self, field: &str) -> Option<String> {
        let text = self.nullable_string(field);
        if text == Some(None) {
            self.problems.malformed(field, "must be a string");
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
                self.problems.malformed(field, "must be a string");
                None
            }
        }
    }

    pub fn choice<T: Choice>(&mut self, field: &str) -> Option<T> {
        match self.take(field)? {
            Value::String(text) if T::choose(&text).is_some() => T::choose(&text),
            _ => {
                self.problems.malformed(field, one_of::<T>());
                None
            }
        }
    }

    /// A list of words of a fixed set.
    pub fn choices<T: Choice>(&mut self, field: &str) -> Option<Vec<T>> {
        let Value::Array(items) = self.take(field)? else {
            self.problems.malformed(field, "must be a list");
            return None;
        };
        if items.len() > MAX_PROBLEMS {
            self.problems.malformed(field, format!("must not have more than {MAX_PROBLEMS} items"));
            return None;
        }
        let chosen: Vec<Option<T>> = items.iter().map(|item| item.as_str().and_then(T::choose)).collect();
        for index in chosen.iter().enumerate().filter(|(_, choice)| choice.is_none()).map(|(index, _)| index) {
            self.problems.malformed(format!("{field}[{index}]"), one_of::<T>());
        }
        chosen.into_iter().collect()
    }

    /// Notes that `field` is missing if it is, unless the body or the field was refused already.
    pub fn require<T>(&mut self, field: &str, value: Option<&T>) {
        let named = |problem: &FieldError| problem.field.split('[').next() == Some(field);
        let refused = self.problems.malformed.iter().any(named);
        if value.is_none() && !refused && !self.is_broken() {
            self.problems.malformed(field, "is required");
        }
    }

    /// Takes the fields that a client may send back as it read them.
    pub fn take_echo(&mut self, names: &[&str]) -> Map<String, Value> {
        names.iter().filter_map(|name| self.object.remove_entry(*name)).collect()
    }

    /// Refuses whatever was not taken.
    pub fn finish(mut self) -> Problems {
        for field in self.object.keys() {
            let name: String = field.chars().take(MAX_NAME).collect();
            self.problems.malformed(name, "is not a known field");
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

/// Compares what a client sent back with what it would read now: a read-only field must not change.
pub fn check_echo(problems: &mut Problems, echo: &Map<String, Value>, current: &Value) {
    for (field, sent) in echo {
        if sent != current.get(field).unwrap_or(&Value::Null) {
            problems.invalid(field, "cannot be changed");
        }
    }
}
