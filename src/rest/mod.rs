//! The REST facade: shims. The catalogue (`model::operation`) says which routes there are; `dispatch` says which
//! resolver answers each; everything around it is the same for all.

mod analytics;
mod answer;
mod applications;
mod customers;
mod endpoint;
mod entitlements;
mod events;
mod export;
mod metering;
mod oauth;
mod offers;
pub mod openapi;
mod system;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::routing::{MethodFilter, MethodRouter, any};

use crate::http::Services;
use crate::http::failure::Failure;
use crate::model::operation::{Access, Method, Operation};

use answer::Answer;
use endpoint::{Ask, answer_failure, authenticated, public};

/// Which paths a listener serves: `{base_url}` and `{auth_url}` may be two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Api,
    Auth,
    Both,
}

impl Side {
    fn serves(self, path: &str) -> bool {
        match self {
            Self::Api => !path.starts_with("/oauth/"),
            Self::Auth => path.starts_with("/oauth/"),
            Self::Both => true,
        }
    }
}

/// Every operation that needs a caller, and the shim that answers it.
async fn dispatch(operation: Operation, ask: Ask) -> Result<Answer, Failure> {
    match operation {
        Operation::ApplicationsList => applications::list(ask).await,
        Operation::ApplicationsCreate => applications::create(ask).await,
        Operation::ApplicationsGet => applications::get(ask).await,
        Operation::ApplicationsUpdate => applications::update(ask).await,
        Operation::ApplicationsRegenerateSecret => applications::regenerate_secret(ask).await,
        Operation::ApplicationsDelete => applications::delete(ask).await,
        Operation::CustomersList => customers::list(ask).await,
        Operation::CustomersCreate => customers::create(ask).await,
        Operation::CustomersGet => customers::get(ask).await,
        Operation::CustomersUpdate => customers::update(ask).await,
        Operation::CustomersDelete => customers::delete(ask).await,
        Operation::CustomersExport => export::customers(ask).await,
        Operation::EntitlementsList => entitlements::list(ask).await,
        Operation::EntitlementsGet => entitlements::get(ask).await,
        Operation::EntitlementsExport => export::entitlements(ask).await,
        Operation::PrivateOffersList => offers::list(ask).await,
        Operation::PrivateOffersCreate => offers::create(ask).await,
        Operation::PrivateOffersGet => offers::get(ask).await,
        Operation::PrivateOffersUpdate => offers::update(ask).await,
        Operation::PrivateOffersDelete => offers::delete(ask).await,
        Operation::PrivateOffersPublish => offers::publish(ask).await,
        Operation::PrivateOffersExport => export::offers(ask).await,
        Operation::MeteringList => metering::list(ask).await,
        Operation::MeteringSubmit => metering::submit(ask).await,
        Operation::MeteringGet => metering::get(ask).await,
        Operation::MeteringExport => export::metering(ask).await,
        Operation::EventsList => events::list(ask).await,
        Operation::EventsGet => events::get(ask).await,
        Operation::WebhooksList => webhooks::list(ask).await,
        Operation::WebhooksCreate => webhooks::create(ask).await,
        Operation::WebhooksGet => webhooks::get(ask).await,
        Operation::WebhooksUpdate => webhooks::update(ask).await,
        Operation::WebhooksDelete => webhooks::delete(ask).await,
        Operation::WebhooksRotateSecret => webhooks::rotate_secret(ask).await,
        Operation::WebhooksTest => webhooks::test(ask).await,
        Operation::WebhooksReplay => webhooks::replay(ask).await,
        Operation::DeliveriesList => webhooks::list_deliveries(ask).await,
        Operation::DeliveriesGet => webhooks::get_delivery(ask).await,
        Operation::DeliveriesResend => webhooks::resend(ask).await,
        Operation::AnalyticsContracts => analytics::contracts(ask).await,
        Operation::AnalyticsRevenue => analytics::revenue(ask),
        Operation::TokenIssue | Operation::TokenRevoke | Operation::TokenIntrospect => {
            unreachable!("public operations are routed to `public`")
        }
        Operation::EntitlementsSuspend
        | Operation::EntitlementsReinstate
        | Operation::EntitlementsRenew
        | Operation::EntitlementsCancel
        | Operation::EventsSubscribe
        | Operation::MarketplacesDifferences
        | Operation::MarketplacesAdopt
        | Operation::MarketplacesCompare
        | Operation::SimulatorAdvance
        | Operation::SimulatorFaults
        | Operation::SimulatorSubscribe
        | Operation::SimulatorAgree
        | Operation::SimulatorAct
        | Operation::SimulatorDecide
        | Operation::NotificationsList
        | Operation::NotificationsGet
        | Operation::NotificationsRerun
        | Operation::AnalyticsSeries => unreachable!("operations of GraphQL alone have no route"),
    }
}

/// The routes of a side, without the layers around them.
pub fn router(services: &Arc<Services>, side: Side) -> Router {
    let mut router = system::router(services, side);
    for (path, operations) in by_path(side) {
        router = router.route(path, path_routes(services, &operations));
    }
    let services = Arc::clone(services);
    router.fallback(move |request: Request| answer_failure(Arc::clone(&services), request, None))
}

fn by_path(side: Side) -> BTreeMap<&'static str, Vec<Operation>> {
    let mut paths: BTreeMap<&'static str, Vec<Operation>> = BTreeMap::new();
    for operation in Operation::ALL {
        if let Some(route) = operation.spec().route.filter(|route| side.serves(route.path)) {
            paths.entry(route.path).or_default().push(*operation);
        }
    }
    paths
}

fn path_routes(services: &Arc<Services>, operations: &[Operation]) -> MethodRouter {
    let allowed = endpoint::allowed(operations);
    let services_here = Arc::clone(services);
    let public_path = operations.iter().all(|operation| operation.access() == Access::Public);
    let mut routes = any(async move |request: Request| {
        if public_path {
            oauth::method_not_allowed(&services_here, &request.into_parts().0, allowed)
        } else {
            answer_failure(services_here, request, Some(allowed)).await
        }
    });
    for operation in operations.iter().copied() {
        let services = Arc::clone(services);
        let filter = method_filter(operation.route().method);
        routes = if operation.access() == Access::Public {
            routes.on(filter, move |request: Request| public(services, operation, request))
        } else {
            routes.on(filter, move |request: Request| authenticated(services, operation, request))
        };
    }
    routes
}

fn method_filter(method: Method) -> MethodFilter {
    match method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Put => MethodFilter::PUT,
        Method::Delete => MethodFilter::DELETE,
    }
}
