//! The seven scopes of the spec (Authentication, "Scopes"). One model guards REST, GraphQL, webhooks and subscriptions.

super::wire_enum! {
    /// What a caller may do. There are no others; deletes take the resource's write scope (`contract.md` §5).
    Scope {
        ReadCustomers = "read:customers",
        WriteCustomers = "write:customers",
        ReadEntitlements = "read:entitlements",
        ReadAnalytics = "read:analytics",
        WriteMetering = "write:metering",
        ReadPrivateOffers = "read:private-offers",
        WritePrivateOffers = "write:private-offers",
    }
}

impl Scope {
    /// What it opens, in a line for the docs.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::ReadCustomers => "Read customers",
            Self::WriteCustomers => "Create, update and delete customers",
            Self::ReadEntitlements => "Read entitlements",
            Self::ReadAnalytics => "Read contract statistics",
            Self::WriteMetering => "Submit and read usage reports",
            Self::ReadPrivateOffers => "Read private offers",
            Self::WritePrivateOffers => "Create, update and delete private offers",
        }
    }
}

/// A set of scopes. The order is that of the spec's table, whatever order they came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scopes(u8);

impl Scopes {
    pub fn all() -> Self {
        Scope::ALL.iter().copied().collect()
    }

    pub fn has(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn intersect(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn is_within(self, other: Self) -> bool {
        self.intersect(other) == self
    }

    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.iter().copied().filter(move |scope| self.has(*scope))
    }

    /// Space-separated, as OAuth writes it.
    pub fn join(self) -> String {
        self.iter().map(Scope::as_str).collect::<Vec<_>>().join(" ")
    }

    /// The way back from [`Scopes::join`]; `Err` names the first word that is no scope.
    pub fn split(text: &str) -> Result<Self, &str> {
        text.split_ascii_whitespace().map(|word| Scope::parse(word).ok_or(word)).collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | (1 << scope as u8)))
    }
}

impl serde::Serialize for Scopes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> serde::Deserialize<'de> for Scopes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Scope>::deserialize(deserializer)?.into_iter().collect())
    }
}
