//! The GraphQL facade: shims. One file per resource for its types, queries and mutations; the bounds of a document are in
//! `document`, its cost in `admission`, the translation of errors in `errors`.
//!
//! Three transports: `transport` (HTTP), `socket` (WebSocket, an `operation` each), `sse`. A subscription is understood in
//! `plan`, runs in `stream`, and shares what it shows with its like in `rendering`.

mod admission;
mod analytics;
mod answer;
mod applications;
mod connections;
mod customers;
mod document;
mod entitlements;
mod errors;
mod events;
mod loaders;
mod marketplaces;
mod message;
mod metering;
mod negotiate;
mod node;
mod notifications;
mod offer_input;
mod offers;
mod operation;
mod parameters;
mod plan;
mod rendering;
mod simulation;
mod socket;
mod sse;
mod stream;
mod summary;
mod transport;
mod webhooks;

use std::sync::{Arc, LazyLock};

use async_graphql::{Context, MergedObject, SDLExportOptions, Schema, SchemaBuilder};
use axum::Router;
use axum::extract::Request;
use axum::routing::any;

use crate::auth::meter::Meter;
use crate::call::Call;
use crate::http::Services;

/// What can be asked.
#[derive(MergedObject, Default)]
pub struct Query(
    customers::CustomerQuery,
    entitlements::EntitlementQuery,
    offers::PrivateOfferQuery,
    metering::MeteringQuery,
    events::EventQuery,
    analytics::AnalyticsQuery,
    applications::ApplicationQuery,
    webhooks::WebhookQuery,
    marketplaces::MarketplaceQuery,
    notifications::NotificationQuery,
    node::NodeQuery,
);

/// What can be changed.
#[derive(MergedObject, Default)]
pub struct Mutation(
    customers::CustomerMutation,
    entitlements::EntitlementMutation,
    offers::PrivateOfferMutation,
    metering::MeteringMutation,
    applications::ApplicationMutation,
    webhooks::WebhookMutation,
    marketplaces::MarketplaceMutation,
    notifications::NotificationMutation,
    simulation::SimulationMutation,
);

pub(crate) type Graph = Schema<Query, Mutation, events::EventSubscription>;

/// What stands behind `/graphql`.
struct Endpoint {
    services: Arc<Services>,
    graph: Graph,
    groups: Arc<rendering::Groups>,
    seats: stream::Seats,
}

impl Endpoint {
    /// Runs a query or a mutation that was admitted, with what its fields need.
    async fn execute(
        &self,
        call: Call,
        meter: &Arc<Meter>,
        request: async_graphql::Request,
    ) -> async_graphql::Response {
        let (loaders, batches) = loaders::loaders(call.clone());
        let request = request.data(loaders).data(call).data(Arc::clone(meter));
        batches.drive(self.graph.execute(request)).await
    }
}

/// The request behind a field. The transport puts it there.
///
/// A field that can fail returns `Option<Result<T>>`, so that its error makes *it* null and the rest of the answer stands;
/// with `Result<Option<T>>` the library would null the parent.
fn call<'a>(ctx: &Context<'a>) -> &'a Call {
    ctx.data_unchecked::<Call>()
}

/// The bounds of a document. Together they keep the cost of one request near that of a REST list.
pub mod limits {
    /// Bytes of the document itself.
    pub const DOCUMENT: usize = 64 * 1024;
    /// Brackets within brackets, counted before anything parses recursively.
    pub const NESTING: usize = 64;
    /// Fields within fields. The usual introspection query needs 15.
    pub const DEPTH: usize = 16;
    /// Fields, each multiplied by the size of the page around it. 5,000 cost 50 requests of the rate limit.
    pub const COMPLEXITY: usize = 5_000;
    pub const ALIASES: usize = 30;
    pub const FRAGMENTS: usize = 100;
    /// Errors that an answer lists.
    pub const ERRORS: usize = 100;
    /// On one field.
    pub const DIRECTIVES: usize = 10;
}

fn schema() -> SchemaBuilder<Query, Mutation, events::EventSubscription> {
    Schema::build(Query::default(), Mutation::default(), events::EventSubscription)
        .limit_depth(limits::DEPTH)
        .limit_recursive_depth(limits::NESTING)
        .limit_complexity(limits::COMPLEXITY)
        .limit_directives(limits::DIRECTIVES)
        .extension(admission::AdmissionFactory)
}

/// The schema as SDL: `schema.graphql`.
pub fn sdl() -> &'static str {
    static SDL: LazyLock<String> = LazyLock::new(|| {
        schema().finish().sdl_with_options(SDLExportOptions::new().sorted_arguments().sorted_enum_items())
    });
    &SDL
}

/// `/graphql`, without the layers around it.
pub fn router(services: &Arc<Services>) -> Router {
    let (groups, seats) = (Arc::default(), stream::Seats::default());
    let graph = schema().data(services.courier.clone()).data(services.stage.clone()).finish();
    let endpoint = Arc::new(Endpoint { services: Arc::clone(services), graph, groups, seats });
    Router::new().route("/graphql", any(move |request: Request| transport::answer(Arc::clone(&endpoint), request)))
}
