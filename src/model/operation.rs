//! The catalogue: every operation of the service, once. The REST router, the OpenAPI document, the guard's tests and
//! `snapshots/operations.txt` are made from it; a route or a field that is not in it does not compile or fails a test.

use super::event::EventKind;
use super::scope::Scope;

/// What a caller must be to use an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anyone; client credentials come with the request where they are needed.
    Public,
    /// Any authenticated caller, within its organization.
    Caller,
    /// An administrator. Applications cannot.
    Administrator,
    /// An administrator, or the application that it is about.
    Itself,
    /// A caller that holds this scope.
    Scope(Scope),
}

impl From<Scope> for Access {
    fn from(scope: Scope) -> Self {
        Self::Scope(scope)
    }
}

impl std::fmt::Display for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Public => f.write_str("public"),
            Self::Caller => f.write_str("any caller"),
            Self::Administrator => f.write_str("administrator"),
            Self::Itself => f.write_str("itself"),
            Self::Scope(scope) => scope.fmt(f),
        }
    }
}

/// HTTP methods, as far as we use them. (The model does not know HTTP libraries.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Put,
    Delete,
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// One row of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// `resource.verb`.
    pub name: &'static str,
    /// One line for the docs.
    pub summary: &'static str,
    pub access: Access,
    pub method: Method,
    /// With `{id}` for path parameters.
    pub path: &'static str,
    /// The status of success.
    pub status: u16,
    /// `Query.customers`, where GraphQL has it.
    pub graphql: Option<&'static str>,
    /// What it emits.
    pub events: &'static [EventKind],
}

impl Spec {
    /// The `resource` of its name.
    pub fn resource(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(resource, _)| resource)
    }

    /// Whether it answers pages.
    pub fn is_list(&self) -> bool {
        self.name.split_once('.').is_some_and(|(_, verb)| verb == "list")
    }

    /// Whether it takes an idempotency key: every POST, PUT and DELETE under /api/v1 (`contract.md` §6).
    pub fn takes_key(&self) -> bool {
        self.path.starts_with("/api/v1/") && self.method != Method::Get
    }
}

macro_rules! operations {
    ($($operation:ident: $name:literal, $summary:literal, $access:expr, $method:ident $path:literal $status:literal,
        $graphql:expr, [$($event:ident),*];)*) => {
        /// Every operation. The variant is its name in code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Operation { $($operation),* }

        impl Operation {
            pub const ALL: &'static [Self] = &[$(Self::$operation),*];

            pub const fn spec(self) -> Spec {
                match self {
                    $(Self::$operation => Spec {
                        name: $name,
                        summary: $summary,
                        access: $access,
                        method: Method::$method,
                        path: $path,
                        status: $status,
                        graphql: $graphql,
                        events: &[$(EventKind::$event),*],
                    },)*
                }
            }

            pub const fn access(self) -> Access {
                self.spec().access
            }
        }
    };
}

operations! {
    TokenIssue: "token.issue", "Exchange client credentials for an access token",
        Access::Public, Post "/oauth/token" 200, None, [];
    TokenRevoke: "token.revoke", "Revoke an access token (RFC 7009)",
        Access::Public, Post "/oauth/revoke" 200, None, [];
    TokenIntrospect: "token.introspect", "Ask whether an access token is active (RFC 7662)",
        Access::Public, Post "/oauth/introspect" 200, None, [];
    ApplicationsList: "applications.list", "List the organization's OAuth applications",
        Access::Caller, Get "/oauth/applications" 200, None, [];
    ApplicationsCreate: "applications.create", "Create an OAuth application; its secret is shown once",
        Access::Administrator, Post "/oauth/applications" 201, None, [];
    ApplicationsGet: "applications.get", "Read one OAuth application",
        Access::Caller, Get "/oauth/applications/{id}" 200, None, [];
    ApplicationsUpdate: "applications.update", "Update an OAuth application; an application can only update itself",
        Access::Itself, Put "/oauth/applications/{id}" 200, None, [];
    ApplicationsRegenerateSecret: "applications.regenerate_secret",
        "Replace the secret and revoke all tokens of an OAuth application; an application can only do this to itself",
        Access::Itself, Post "/oauth/applications/{id}/regenerate-secret" 200, None, [];
    ApplicationsDelete: "applications.delete",
        "Delete an OAuth application and revoke its tokens; an application can only delete itself",
        Access::Itself, Delete "/oauth/applications/{id}" 200, None, [];
    CustomersList: "customers.list", "List customers, newest first",
        Access::Scope(Scope::ReadCustomers), Get "/api/v1/customers" 200, Some("Query.customers"), [];
    CustomersCreate: "customers.create", "Create a customer",
        Access::Scope(Scope::WriteCustomers), Post "/api/v1/customers" 201, Some("Mutation.createCustomer"),
        [CustomerCreated];
    CustomersGet: "customers.get", "Read one customer with its entitlements",
        Access::Scope(Scope::ReadCustomers), Get "/api/v1/customers/{id}" 200, Some("Query.customer"), [];
    CustomersUpdate: "customers.update", "Update a customer; absent fields stay as they are",
        Access::Scope(Scope::WriteCustomers), Put "/api/v1/customers/{id}" 200, Some("Mutation.updateCustomer"),
        [CustomerUpdated];
    CustomersDelete: "customers.delete", "Delete a customer without live entitlements or open offers",
        Access::Scope(Scope::WriteCustomers), Delete "/api/v1/customers/{id}" 200, Some("Mutation.deleteCustomer"),
        [CustomerDeleted];
}
