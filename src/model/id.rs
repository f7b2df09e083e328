//! Ids: `<prefix>_<ULID>`, opaque to clients (`contract.md` §1), and the inverted form that is their key in the store.

use ulid::Ulid;

/// The ULID with every bit flipped: ascending keys are then newest first, so a list is a *forward* range scan. (The
/// engine's backward scans read the whole range.)
pub fn invert(ulid: Ulid) -> String {
    Ulid(!ulid.0).to_string()
}

/// The way back from a key.
pub fn revert(key: &str) -> Option<Ulid> {
    canonical(key).map(|ulid| Ulid(!ulid.0))
}

/// Only the one canonical spelling counts: 26 upper-case characters that do not overflow. Otherwise one record would
/// answer to several ids.
fn canonical(text: &str) -> Option<Ulid> {
    let ulid = Ulid::from_string(text).ok()?;
    (ulid.to_string() == text).then_some(ulid)
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Ulid);

        impl $name {
            pub const PREFIX: &'static str = concat!($prefix, "_");

            /// `None` when the text cannot be such an id; to a caller that is the same as an unknown one.
            pub fn parse(text: &str) -> Option<Self> {
                canonical(text.strip_prefix(Self::PREFIX)?).map(Self)
            }

            /// The key in the store, newest first.
            pub fn key(self) -> String {
                invert(self.0)
            }

            pub fn from_key(key: &str) -> Option<Self> {
                revert(key).map(Self)
            }

            /// The id that a caller named. One that cannot be an id is as unknown as any other.
            pub fn named(text: &str) -> crate::error::Result<Self> {
                Self::parse(text).ok_or(crate::error::Error::NOT_FOUND)
            }

            /// The moment the id was minted, which is the record's `createdAt`.
            pub fn created_at(self) -> super::time::Timestamp {
                super::time::Timestamp::from_millis(self.0.timestamp_ms().cast_signed())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}{}", Self::PREFIX, self.0)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Self::parse(&text).ok_or_else(|| serde::de::Error::custom(concat!("not a ", $prefix, "_ id")))
            }
        }
    )*};
}

ids! {
    OrganizationId = "org";
    /// An OAuth application: the caller behind a bearer token.
    ApplicationId = "app";
    CustomerId = "cus";
    EntitlementId = "ent";
    PrivateOfferId = "off";
    /// A metering submission: one usage report.
    MeteringId = "mtr";
    EventId = "evt";
    WebhookId = "whk";
    DeliveryId = "dlv";
    /// What a marketplace told us.
    NotificationId = "ntf";
    /// An entry of the audit trail.
    AuditId = "aud";
}
