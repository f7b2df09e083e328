//! The REST facade: shims. The catalogue (`model::operation`) says which routes there are; `dispatch` says which
//! resolver answers each; everything around it is the same for all.

mod answer;
mod applications;
mod customers;
mod endpoint;
mod oauth;
pub mod openapi;
mod system;

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
        Operation::TokenIssue | Operation::TokenRevoke | Operation::TokenIntrospect => {
            unreachable!("public operations are routed to `public`")
        }
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
    for operation in Operation::ALL.iter().filter(|operation| side.serves(operation.spec().path)) {
        paths.entry(operation.spec().path).or_default().push(*operation);
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
        let filter = method_filter(operation.spec().method);
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
