//! Where notifications come in. The request only says who it is from and is kept; nothing of it is applied before the
//! answer, and no marketplace is called but for its keys.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http_body_util::{BodyExt, Limited};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::adapter::Adapter;
use super::converge::Trouble;
use super::http::MarketplaceError;
use super::http::error::bounded;
use super::inbox::{Envelope, Inbox};
use super::jwt::TokenError;
use super::refusals::Kind;
use super::{cloud_a, cloud_b};
use crate::error::{Error, TokenProblem};
use crate::http::Services;
use crate::http::failure::Failure;
use crate::http::request::{authorization, charge_address, peek_address};
use crate::model::id::OrganizationId;
use crate::model::notification::NewNotification;
use crate::model::vendor::Vendor;
use crate::store::Tenant;

/// The largest notification, in bytes.
const BODY_MAX: usize = 256 * 1024;
/// The longest id, kind and subject that are kept as they came, in bytes.
const NAME_MAX: usize = 200;
const SECRET: &str = "x-mercato-secret";

/// What stands behind the routes.
struct Inbound {
    services: Arc<Services>,
    inbox: Arc<Inbox>,
}

/// The routes, without the layers around them.
pub fn router(services: &Arc<Services>, inbox: &Arc<Inbox>) -> Router {
    let inbound = Inbound { services: Arc::clone(services), inbox: Arc::clone(inbox) };
    let only = |allowed| move || async move { Failure::MethodNotAllowed(allowed).into_response() };
    Router::new()
        .route("/marketplace/cloud_a/{organization}", post(receive_a).fallback(only("POST")))
        .route("/marketplace/cloud_b/{organization}", post(receive_b).fallback(only("POST")))
        .route("/marketplace/cloud_b/{organization}/landing", get(land).post(land).fallback(only("GET, POST")))
        .with_state(Arc::new(inbound))
}

async fn receive_a(
    State(inbound): State<Arc<Inbound>>,
    Path(organization): Path<String>,
    request: Request,
) -> Response {
    answer(inbound.receive(Vendor::CloudA, &organization, request).await)
}

async fn receive_b(
    State(inbound): State<Arc<Inbound>>,
    Path(organization): Path<String>,
    request: Request,
) -> Response {
    answer(inbound.receive(Vendor::CloudB, &organization, request).await)
}

fn answer(received: Result<(), Response>) -> Response {
    received.map_or_else(|refused| refused, |()| Json(json!({})).into_response())
}

fn failed(error: Error) -> Response {
    Failure::from(error).into_response()
}

/// Why a request is not believed.
enum Doubt {
    Refused(&'static str),
    /// It may be good; ask again later.
    Unknown(MarketplaceError),
}

impl Inbound {
    async fn receive(&self, vendor: Vendor, organization: &str, request: Request) -> Result<(), Response> {
        let (parts, body) = request.into_parts();
        if let Err(limited) = peek_address(&self.services, &parts)
            && !self.recognizes(vendor, organization, &parts.headers)
        {
            return Err(failed(limited));
        }
        let tenant = self.inbox.store().find_tenant(organization).await.map_err(failed)?;
        let adapter = match &tenant {
            Some(tenant) => self.inbox.adapters().of(tenant, vendor).await.map_err(failed)?,
            None => None,
        };
        match (tenant, believe(adapter.as_ref(), &parts.headers).await) {
            (Some(tenant), Ok(())) => {
                let new = self.read(vendor, body).await?;
                tenant.keep_notification(&new).await.map_err(failed)?;
                self.inbox.nudge();
                Ok(())
            }
            // It may well be the marketplace that asks, whose credit must not go with its own keys.
            (_, Err(Doubt::Unknown(error))) => {
                Err(failed(Error::Unavailable(format!("the keys of {organization}'s marketplace: {error}"))))
            }
            (tenant, doubt) => {
                charge_address(&self.services, &parts).map_err(failed)?;
                if let (Some(tenant), Err(Doubt::Refused(why))) = (tenant, doubt) {
                    self.note(&tenant, vendor, why).await;
                }
                // The same words whatever is wrong.
                Err(failed(Error::Unauthenticated(TokenProblem::Invalid)))
            }
        }
    }

    /// The notification, if it is JSON.
    async fn read(&self, vendor: Vendor, body: axum::body::Body) -> Result<NewNotification, Response> {
        let collected = Limited::new(body, BODY_MAX).collect();
        let bytes = match tokio::time::timeout(self.services.settings.body_timeout, collected).await {
            Err(_) => return Err(Failure::BodyTimeout.into_response()),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                let message = format!("A notification must not be larger than {BODY_MAX} bytes");
                let close = [(header::CONNECTION, HeaderValue::from_static("close"))];
                let body = Json(json!({ "code": 413, "message": message }));
                return Err((StatusCode::PAYLOAD_TOO_LARGE, close, body).into_response());
            }
            Ok(Err(_)) => return Err(failed(Error::malformed("body", "could not be read"))),
            Ok(Ok(body)) => body.to_bytes(),
        };
        let text = String::from_utf8(bytes.into()).ok();
        let object = text.filter(|text| serde_json::from_str::<Value>(text).is_ok_and(|body| body.is_object()));
        let text = object.ok_or_else(|| failed(Error::malformed("body", "must be a JSON object")))?;
        Ok(addressed(vendor, text))
    }

    /// Whether what is at hand shows that it is the marketplace, without a look at anything else. It shares addresses with
    /// whoever else is at that cloud: who spends their credit must not stop it.
    fn recognizes(&self, vendor: Vendor, organization: &str, headers: &HeaderMap) -> bool {
        let organization = OrganizationId::parse(organization);
        let adapter = organization.and_then(|organization| self.inbox.adapters().remembered(organization, vendor));
        match adapter {
            None => false,
            Some(Adapter::CloudA(cloud)) => secret(headers).is_some_and(|secret| cloud.authenticate(secret)),
            Some(Adapter::CloudB(cloud)) => bearer(headers).is_some_and(|token| cloud.recognizes(token)),
        }
    }

    async fn note(&self, tenant: &Tenant, vendor: Vendor, why: &'static str) {
        let kind = Kind { organization: tenant.organization(), vendor, why };
        if !self.inbox.refusals().count(kind, tenant.clock().now()) {
            return;
        }
        if let Err(error) = tenant.note_refusal(vendor, why).await {
            tracing::warn!(cause = error.cause(), "a refused notification was not written down");
        }
    }
}

/// Whether a request is the marketplace's.
async fn believe(adapter: Option<&Adapter>, headers: &HeaderMap) -> Result<(), Doubt> {
    match adapter {
        None => Err(Doubt::Refused("no account is connected")),
        Some(Adapter::CloudA(cloud)) => match secret(headers) {
            None => Err(Doubt::Refused("the secret is missing")),
            Some(secret) if cloud.authenticate(secret) => Ok(()),
            Some(_) => Err(Doubt::Refused("the secret is another one")),
        },
        Some(Adapter::CloudB(cloud)) => {
            let Some(token) = bearer(headers) else { return Err(Doubt::Refused("the token is missing")) };
            cloud.authenticate(token).await.map_err(doubt)
        }
    }
}

fn secret(headers: &HeaderMap) -> Option<&str> {
    headers.get(SECRET)?.to_str().ok()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = authorization(headers)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn doubt(error: TokenError) -> Doubt {
    Doubt::Refused(match error {
        TokenError::NoKeys(error) => return Doubt::Unknown(error),
        TokenError::Malformed => "the token is not a JWT with an expiry",
        TokenError::Algorithm => "the token is not signed with RS256",
        TokenError::UnknownKey => "the token's key is not one of the marketplace's",
        TokenError::Signature => "the token's signature does not fit",
        TokenError::Expired => "the token has expired",
        TokenError::Early => "the token is not valid yet",
        TokenError::Audience => "the token is for another application",
        TokenError::Tenant => "the token is of another tenant",
        TokenError::Caller => "the token is not from the marketplace",
    })
}

/// A body with what stands on it. One without an id is known by what it says.
fn addressed(vendor: Vendor, body: String) -> NewNotification {
    let read = match vendor {
        Vendor::CloudA => cloud_a::notices::read(&body),
        Vendor::CloudB => cloud_b::notices::read(&body),
    };
    let envelope = read.unwrap_or(Envelope { id: None, kind: None, subject: None, at: None });
    let plain = |text: &String| text.len() <= NAME_MAX && !text.chars().any(char::is_control);
    let hash =
        || Sha256::digest(body.as_bytes()).iter().fold("sha256:".to_owned(), |hex, byte| format!("{hex}{byte:02x}"));
    NewNotification {
        vendor,
        external_id: envelope.id.filter(plain).unwrap_or_else(hash),
        kind: bounded(&envelope.kind.unwrap_or_default()),
        subject: envelope.subject.filter(plain).unwrap_or_default(),
        occurred_at: envelope.at,
        body,
    }
}

/// Where the marketplace sends a buyer who has subscribed: with the purchase token, to us.
async fn land(State(inbound): State<Arc<Inbound>>, Path(organization): Path<String>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if let Err(error) = charge_address(&inbound.services, &parts) {
        return failed(error);
    }
    let query = parts.uri.query().unwrap_or_default();
    let token = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "token");
    let token = token.map(|(_, token)| token.into_owned()).filter(|token| !token.is_empty());
    let Some(token) = token else {
        return page(StatusCode::BAD_REQUEST, "The purchase token is missing. Open this page from the marketplace.");
    };
    // A look at a page changes nothing: links are followed by whoever sees them. The token makes it the buyer's.
    let method = if parts.method == Method::HEAD { return page(StatusCode::OK, "") } else { parts.method };
    match inbound.welcome(&organization, &token).await {
        Ok(()) => page(StatusCode::OK, "Thank you. Your subscription was received; you can close this page."),
        Err(Trouble::Later(why)) => {
            tracing::warn!(%method, why, "a purchase could not be looked up");
            page(StatusCode::SERVICE_UNAVAILABLE, "The marketplace cannot be reached. Try again in a few minutes.")
        }
        Err(Trouble::Never(why) | Trouble::Moot(why)) => {
            tracing::info!(%method, why, "a purchase token was not accepted");
            let text = "The purchase token is not known or has expired. Open this page from the marketplace again.";
            page(StatusCode::BAD_REQUEST, text)
        }
    }
}

impl Inbound {
    async fn welcome(&self, organization: &str, token: &str) -> Result<(), Trouble> {
        let unknown = || Trouble::Never("no such organization, or without an account".to_owned());
        let tenant = self.inbox.store().find_tenant(organization).await?.ok_or_else(unknown)?;
        let Some(Adapter::CloudB(cloud)) = self.inbox.adapters().of(&tenant, Vendor::CloudB).await? else {
            return Err(unknown());
        };
        let resolved = cloud.resolve(token).await?;
        cloud_b::notices::receive(&tenant, &cloud, &resolved.id, None).await.map(drop)
    }
}

fn page(status: StatusCode, text: &str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Subscription</title><main><p>{text}</p></main></html>\n"
    );
    let headers = [
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (status, headers, Html(html)).into_response()
}
