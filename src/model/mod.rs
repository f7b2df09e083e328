//! The vocabulary that both facades, the store and the workers share. No I/O and nothing async; one file per concept.

pub mod analytics;
pub mod application;
pub mod changes;
pub mod customer;
pub mod decimal;
pub mod delivery;
pub mod difference;
pub mod entitlement;
pub mod environment;
pub mod event;
pub mod event_sample;
pub mod filter;
pub mod id;
pub mod input;
pub mod lifecycle;
pub mod metering;
pub mod notification;
pub mod offer;
pub mod offer_input;
pub mod offer_terms;
pub mod operation;
pub mod page;
pub mod scope;
pub mod simulation;
pub mod tally;
pub mod time;
pub mod vendor;
pub mod webhook;

/// An enum with its documented wire form: lower case on REST and in events, upper case in GraphQL (`contract.md` §15).
macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $wire:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, async_graphql::Enum)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $wire),+ }
            }

            pub fn parse(text: &str) -> Option<Self> {
                match text { $($wire => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Self::parse(&text).ok_or_else(|| serde::de::Error::custom(concat!("unknown ", stringify!($name))))
            }
        }

        impl crate::model::input::Choice for $name {
            fn choices() -> Vec<&'static str> {
                Self::ALL.iter().map(|choice| choice.as_str()).collect()
            }
            fn choose(text: &str) -> Option<Self> {
                Self::parse(text)
            }
        }
    };
}
pub(crate) use wire_enum;
