//! How the model's words look in the database: enums as their wire form, moments as datetimes.

use chrono::{DateTime, Utc};
use surrealdb::types::{Error, Kind, SurrealValue, Value};

use crate::model::customer::CustomerStatus;
use crate::model::decimal::Decimal;
use crate::model::entitlement::EntitlementStatus;
use crate::model::event::{EventKind, Kinds};
use crate::model::notification::NotificationVerdict;
use crate::model::scope::Scopes;
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::model::webhook::WebhookStatus;

fn unreadable(what: &str, text: &str) -> Error {
    Error::internal(format!("the database holds {text:?} where a {what} belongs"))
}

macro_rules! text_values {
    ($($name:ident),*) => {$(
        impl SurrealValue for $name {
            fn kind_of() -> Kind {
                String::kind_of()
            }
            fn into_value(self) -> Value {
                self.as_str().into_value()
            }
            fn from_value(value: Value) -> Result<Self, Error> {
                let text = String::from_value(value)?;
                Self::parse(&text).ok_or_else(|| unreadable(stringify!($name), &text))
            }
        }
    )*};
}

text_values!(Vendor, CustomerStatus, EntitlementStatus, EventKind, NotificationVerdict, WebhookStatus);

impl SurrealValue for Decimal {
    fn kind_of() -> Kind {
        rust_decimal::Decimal::kind_of()
    }
    fn into_value(self) -> Value {
        self.exact().into_value()
    }
    fn from_value(value: Value) -> Result<Self, Error> {
        rust_decimal::Decimal::from_value(value).map(Self::from)
    }
}

macro_rules! joined_values {
    ($($name:ident of $what:literal),*) => {$(
        impl SurrealValue for $name {
            fn kind_of() -> Kind {
                String::kind_of()
            }
            fn into_value(self) -> Value {
                self.join().into_value()
            }
            fn from_value(value: Value) -> Result<Self, Error> {
                let text = String::from_value(value)?;
                Self::split(&text).map_err(|word| unreadable($what, word))
            }
        }
    )*};
}

joined_values!(Kinds of "kind of event", Scopes of "scope");

impl SurrealValue for Timestamp {
    fn kind_of() -> Kind {
        DateTime::<Utc>::kind_of()
    }
    fn into_value(self) -> Value {
        self.as_datetime().into_value()
    }
    fn from_value(value: Value) -> Result<Self, Error> {
        DateTime::<Utc>::from_value(value).map(Self::from_datetime)
    }
}
