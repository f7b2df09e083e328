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
    /// A caller that holds the scope of every kind of event that it is about (`contract.md` §5).
    Events,
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
            Self::Events => f.write_str("of its events"),
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

/// Where REST answers an operation.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub method: Method,
    /// With `{id}` for path parameters.
    pub path: &'static str,
    /// The status of success.
    pub status: u16,
}

impl Route {
    /// Whether it takes an idempotency key: every POST, PUT and DELETE under /api/v1 (`contract.md` §6).
    pub fn takes_key(self) -> bool {
        self.path.starts_with("/api/v1/") && self.method != Method::Get
    }

    /// Whether the path names one record.
    pub fn takes_id(self) -> bool {
        self.path.contains("{id}")
    }
}

const fn rest(method: Method, path: &'static str, status: u16) -> Route {
    Route { method, path, status }
}

/// One row of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// `resource.verb`.
    pub name: &'static str,
    /// One line for the docs.
    pub summary: &'static str,
    pub access: Access,
    /// Where REST has it.
    pub route: Option<Route>,
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
        self.verb() == "list"
    }

    /// Whether it answers CSV.
    pub fn is_export(&self) -> bool {
        self.verb() == "export"
    }

    fn verb(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(_, verb)| verb)
    }
}

macro_rules! operations {
    ($($operation:ident: $name:literal, $summary:literal, $access:expr, $route:expr,
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
                        route: $route,
                        graphql: $graphql,
                        events: &[$(EventKind::$event),*],
                    },)*
                }
            }

            pub const fn access(self) -> Access {
                self.spec().access
            }

            /// Where REST answers it; only asked of operations that are routed.
            pub fn route(self) -> Route {
                self.spec().route.unwrap_or_else(|| unreachable!("{} has no route", self.spec().name))
            }
        }
    };
}

use Method::{Delete, Get, Post, Put};

operations! {
    TokenIssue: "token.issue", "Exchange client credentials for an access token",
        Access::Public, Some(rest(Post, "/oauth/token", 200)), None, [];
    TokenRevoke: "token.revoke", "Revoke an access token (RFC 7009)",
        Access::Public, Some(rest(Post, "/oauth/revoke", 200)), None, [];
    TokenIntrospect: "token.introspect", "Ask whether an access token is active (RFC 7662)",
        Access::Public, Some(rest(Post, "/oauth/introspect", 200)), None, [];
    ApplicationsList: "applications.list", "List the organization's OAuth applications",
        Access::Caller, Some(rest(Get, "/oauth/applications", 200)), Some("Query.applications"), [];
    ApplicationsCreate: "applications.create", "Create an OAuth application; its secret is shown once",
        Access::Administrator, Some(rest(Post, "/oauth/applications", 201)), Some("Mutation.createApplication"), [];
    ApplicationsGet: "applications.get", "Read one OAuth application",
        Access::Caller, Some(rest(Get, "/oauth/applications/{id}", 200)), Some("Query.application"), [];
    ApplicationsUpdate: "applications.update", "Update an OAuth application; an application can only update itself",
        Access::Itself, Some(rest(Put, "/oauth/applications/{id}", 200)), Some("Mutation.updateApplication"), [];
    ApplicationsRegenerateSecret: "applications.regenerate_secret",
        "Replace the secret and revoke all tokens of an OAuth application; an application can only do this to itself",
        Access::Itself, Some(rest(Post, "/oauth/applications/{id}/regenerate-secret", 200)), Some("Mutation.regenerateApplicationSecret"), [];
    ApplicationsDelete: "applications.delete",
        "Delete an OAuth application and revoke its tokens; an application can only delete itself",
        Access::Itself, Some(rest(Delete, "/oauth/applications/{id}", 200)), Some("Mutation.deleteApplication"), [];
    CustomersList: "customers.list", "List customers, newest first",
        Access::Scope(Scope::ReadCustomers), Some(rest(Get, "/api/v1/customers", 200)), Some("Query.customers"), [];
    CustomersCreate: "customers.create", "Create a customer",
        Access::Scope(Scope::WriteCustomers), Some(rest(Post, "/api/v1/customers", 201)), Some("Mutation.createCustomer"),
        [CustomerCreated];
    CustomersGet: "customers.get", "Read one customer with its entitlements",
        Access::Scope(Scope::ReadCustomers), Some(rest(Get, "/api/v1/customers/{id}", 200)), Some("Query.customer"), [];
    CustomersUpdate: "customers.update", "Update a customer; absent fields stay as they are",
        Access::Scope(Scope::WriteCustomers), Some(rest(Put, "/api/v1/customers/{id}", 200)), Some("Mutation.updateCustomer"),
        [CustomerUpdated];
    CustomersDelete: "customers.delete", "Delete a customer without live entitlements or open offers",
        Access::Scope(Scope::WriteCustomers), Some(rest(Delete, "/api/v1/customers/{id}", 200)), Some("Mutation.deleteCustomer"),
        [CustomerDeleted];
    CustomersExport: "customers.export", "All customers as CSV, newest first",
        Access::Scope(Scope::ReadCustomers), Some(rest(Get, "/api/v1/customers/export.csv", 200)), None, [];
    EntitlementsList: "entitlements.list", "List entitlements, newest first",
        Access::Scope(Scope::ReadEntitlements), Some(rest(Get, "/api/v1/entitlements", 200)), Some("Query.entitlements"), [];
    EntitlementsGet: "entitlements.get", "Read one entitlement with its history",
        Access::Scope(Scope::ReadEntitlements), Some(rest(Get, "/api/v1/entitlements/{id}", 200)), Some("Query.entitlement"), [];
    EntitlementsExport: "entitlements.export", "All entitlements as CSV, newest first",
        Access::Scope(Scope::ReadEntitlements), Some(rest(Get, "/api/v1/entitlements/export.csv", 200)), None, [];
    EntitlementsSuspend: "entitlements.suspend", "Suspend an active entitlement",
        Access::Administrator, None, Some("Mutation.suspendEntitlement"), [EntitlementUpdated];
    EntitlementsReinstate: "entitlements.reinstate", "Make a suspended entitlement active again",
        Access::Administrator, None, Some("Mutation.reinstateEntitlement"), [EntitlementUpdated];
    EntitlementsRenew: "entitlements.renew", "Give an active entitlement a new term",
        Access::Administrator, None, Some("Mutation.renewEntitlement"), [EntitlementRenewed];
    EntitlementsCancel: "entitlements.cancel", "End a live entitlement for good",
        Access::Administrator, None, Some("Mutation.cancelEntitlement"), [EntitlementCancelled];
    PrivateOffersList: "private_offers.list", "List private offers, newest first",
        Access::Scope(Scope::ReadPrivateOffers), Some(rest(Get, "/api/v1/private-offers", 200)),
        Some("Query.privateOffers"), [];
    PrivateOffersCreate: "private_offers.create", "Create a private offer for a customer",
        Access::Scope(Scope::WritePrivateOffers), Some(rest(Post, "/api/v1/private-offers", 201)),
        Some("Mutation.createPrivateOffer"), [PrivateOfferCreated];
    PrivateOffersGet: "private_offers.get", "Read one private offer in full",
        Access::Scope(Scope::ReadPrivateOffers), Some(rest(Get, "/api/v1/private-offers/{id}", 200)),
        Some("Query.privateOffer"), [];
    PrivateOffersUpdate: "private_offers.update",
        "Update an open private offer, or reopen an expired one with a new expiresAt; absent fields stay as they are",
        Access::Scope(Scope::WritePrivateOffers), Some(rest(Put, "/api/v1/private-offers/{id}", 200)),
        Some("Mutation.updatePrivateOffer"), [PrivateOfferUpdated];
    PrivateOffersDelete: "private_offers.delete", "Cancel a private offer that was not accepted",
        Access::Scope(Scope::WritePrivateOffers), Some(rest(Delete, "/api/v1/private-offers/{id}", 200)),
        Some("Mutation.deletePrivateOffer"), [PrivateOfferCancelled];
    PrivateOffersPublish: "private_offers.publish", "Try again to publish an open private offer whose publication failed",
        Access::Scope(Scope::WritePrivateOffers), Some(rest(Post, "/api/v1/private-offers/{id}/publish", 200)),
        Some("Mutation.publishPrivateOffer"), [PrivateOfferUpdated];
    PrivateOffersExport: "private_offers.export", "All private offers as CSV, newest first",
        Access::Scope(Scope::ReadPrivateOffers), Some(rest(Get, "/api/v1/private-offers/export.csv", 200)), None, [];
    MeteringList: "metering.list", "List usage reports, newest first",
        Access::Scope(Scope::WriteMetering), Some(rest(Get, "/api/v1/metering", 200)), Some("Query.meteringSubmissions"), [];
    MeteringSubmit: "metering.submit", "Report usage; the marketplace's verdict follows",
        Access::Scope(Scope::WriteMetering), Some(rest(Post, "/api/v1/metering", 201)), Some("Mutation.submitMetering"), [];
    MeteringGet: "metering.get", "Read one usage report with the verdict on each row",
        Access::Scope(Scope::WriteMetering), Some(rest(Get, "/api/v1/metering/{id}", 200)), Some("Query.meteringSubmission"), [];
    MeteringExport: "metering.export", "All usage reports as CSV, newest first, one line for each row",
        Access::Scope(Scope::WriteMetering), Some(rest(Get, "/api/v1/metering/export.csv", 200)), None, [];
    EventsList: "events.list", "Pull events, oldest first, after a sequence",
        Access::Events, Some(rest(Get, "/api/v1/events", 200)), Some("Query.events"), [];
    EventsGet: "events.get", "Read one event",
        Access::Events, Some(rest(Get, "/api/v1/events/{id}", 200)), Some("Query.event"), [];
    EventsSubscribe: "events.subscribe", "Follow events: first the log after a sequence, then live",
        Access::Events, None, Some("Subscription.events"), [];
    WebhooksList: "webhooks.list", "List webhooks, newest first",
        Access::Caller, Some(rest(Get, "/api/v1/webhook", 200)), Some("Query.webhooks"), [];
    WebhooksCreate: "webhooks.create", "Create a webhook; its signing secret is shown once",
        Access::Events, Some(rest(Post, "/api/v1/webhook", 201)), Some("Mutation.createWebhook"), [];
    WebhooksGet: "webhooks.get", "Read one webhook",
        Access::Caller, Some(rest(Get, "/api/v1/webhook/{id}", 200)), Some("Query.webhook"), [];
    WebhooksUpdate: "webhooks.update", "Update, disable or enable a webhook; absent fields stay as they are",
        Access::Events, Some(rest(Put, "/api/v1/webhook/{id}", 200)), Some("Mutation.updateWebhook"), [];
    WebhooksDelete: "webhooks.delete", "Delete a webhook and its delivery log",
        Access::Events, Some(rest(Delete, "/api/v1/webhook/{id}", 200)), Some("Mutation.deleteWebhook"), [];
    WebhooksRotateSecret: "webhooks.rotate_secret",
        "Replace a webhook's signing secret; for 24 hours the one before it signs too",
        Access::Events, Some(rest(Post, "/api/v1/webhook/{id}/rotate-secret", 200)),
        Some("Mutation.rotateWebhookSecret"), [];
    WebhooksTest: "webhooks.test", "Send a webhook one sample event, marked as a test",
        Access::Events, Some(rest(Post, "/api/webhook/test", 200)), Some("Mutation.testWebhook"), [];
    WebhooksReplay: "webhooks.replay", "Send a webhook a range of the log again",
        Access::Events, Some(rest(Post, "/api/v1/webhook/{id}/replay", 200)), Some("Mutation.replayWebhook"), [];
    DeliveriesList: "deliveries.list", "List a webhook's deliveries, the newest event first",
        Access::Events, Some(rest(Get, "/api/v1/webhook/{id}/deliveries", 200)), Some("Query.deliveries"), [];
    DeliveriesGet: "deliveries.get", "Read one delivery with its attempts",
        Access::Events, Some(rest(Get, "/api/v1/deliveries/{id}", 200)), Some("Query.delivery"), [];
    DeliveriesResend: "deliveries.resend", "Begin one delivery anew, at once",
        Access::Events, Some(rest(Post, "/api/v1/deliveries/{id}/resend", 200)), Some("Mutation.resendDelivery"), [];
    NotificationsList: "notifications.list", "List what the marketplaces told us, newest first",
        Access::Scope(Scope::ReadEntitlements), None, Some("Query.notifications"), [];
    NotificationsGet: "notifications.get", "Read one notification of a marketplace with its verdict",
        Access::Scope(Scope::ReadEntitlements), None, Some("Query.notification"), [];
    NotificationsRerun: "notifications.rerun", "Have a notification of a marketplace applied again",
        Access::Administrator, None, Some("Mutation.rerunNotification"), [];
    AnalyticsContracts: "analytics.contracts", "Count contracts: all, new, expiring",
        Access::Scope(Scope::ReadAnalytics), Some(rest(Get, "/api/v1/analytics/contracts", 200)),
        Some("Query.contractStatistics"), [];
    AnalyticsSeries: "analytics.series", "New, expiring and ended contracts for each day or month",
        Access::Scope(Scope::ReadAnalytics), None, Some("Query.contractSeries"), [];
    AnalyticsRevenue: "analytics.revenue", "Reserved: answers a message and no revenue",
        Access::Scope(Scope::ReadAnalytics), Some(rest(Get, "/api/v1/analytics/revenue", 200)),
        Some("Query.revenue"), [];
    MarketplacesDifferences: "marketplaces.differences", "What the marketplaces have otherwise than we",
        Access::Scope(Scope::ReadEntitlements), None, Some("Query.marketplaceDifferences"), [];
    MarketplacesAdopt: "marketplaces.adopt", "Have what a marketplace has become ours",
        Access::Administrator, None, Some("Mutation.adoptMarketplaceDifference"), [];
    MarketplacesCompare: "marketplaces.compare", "Compare what a marketplace has with what we have now",
        Access::Administrator, None, Some("Mutation.compareMarketplace"), [];
    SimulatorAdvance: "simulator.advance", "In staging and demo: move the simulator's clock",
        Access::Scope(Scope::WritePrivateOffers), None, Some("Mutation.advanceSimulator"), [];
    SimulatorFaults: "simulator.faults", "In staging and demo: set what goes wrong at the simulator",
        Access::Scope(Scope::WritePrivateOffers), None, Some("Mutation.setSimulatorFaults"), [];
    SimulatorSubscribe: "simulator.subscribe", "In staging and demo: somebody buys at cloud_b",
        Access::Scope(Scope::WritePrivateOffers), None, Some("Mutation.simulateSubscription"), [];
    SimulatorAgree: "simulator.agree", "In staging and demo: somebody buys at cloud_a",
        Access::Scope(Scope::WritePrivateOffers), None, Some("Mutation.simulateAgreement"), [];
    SimulatorAct: "simulator.act", "In staging and demo: something happens to a subscription or an agreement",
        Access::Scope(Scope::WritePrivateOffers), None, Some("Mutation.simulateAction"), [];
    SimulatorDecide: "simulator.decide", "In staging and demo: a published offer is accepted or expires",
        Access::Scope(Scope::WritePrivateOffers), None, Some("Mutation.simulateDecision"), [];
}
