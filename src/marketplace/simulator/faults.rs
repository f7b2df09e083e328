//! What goes wrong on demand. Every fault counts down as it is used.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};

use super::Sim;
use super::answer::{refuse_a, refuse_b};
use super::metering_a::TARGET as METERING;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Faults {
    pub drop_notifications: u32,
    pub duplicate_notifications: u32,
    pub delay_notifications: Delay,
    pub reorder_notifications: u32,
    pub server_errors: u32,
    pub errors_after: u32,
    pub throttle: u32,
    pub poison: Option<String>,
    pub fail_publications: u32,
    pub slow_answers: Slowness,
    /// Whether the last throttled batch of usage was refused as a whole: the next one loses a part.
    #[serde(skip)]
    pub was_refused: bool,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Delay {
    pub count: u32,
    pub seconds: u32,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Slowness {
    pub count: u32,
    pub milliseconds: u32,
}

/// What becomes of a notification that is put into the queue: one fault at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Mishap {
    Dropped,
    Delayed { seconds: u32 },
    Held { last: bool },
    Duplicated,
}

/// What becomes of a batch of cloud_a's usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttled {
    /// As a whole.
    Refused,
    /// The second half is left unprocessed.
    Halved,
}

impl Faults {
    pub fn next_mishap(&mut self) -> Option<Mishap> {
        if spend(&mut self.drop_notifications) {
            return Some(Mishap::Dropped);
        }
        if spend(&mut self.delay_notifications.count) {
            return Some(Mishap::Delayed { seconds: self.delay_notifications.seconds });
        }
        if spend(&mut self.reorder_notifications) {
            return Some(Mishap::Held { last: self.reorder_notifications == 0 });
        }
        spend(&mut self.duplicate_notifications).then_some(Mishap::Duplicated)
    }

    pub fn fails_publication(&mut self) -> bool {
        spend(&mut self.fail_publications)
    }

    pub fn throttles_batch(&mut self) -> Option<Throttled> {
        if !spend(&mut self.throttle) {
            return None;
        }
        self.was_refused = !self.was_refused;
        Some(if self.was_refused { Throttled::Refused } else { Throttled::Halved })
    }

    /// How long the next call has to wait, of the machine's time.
    fn next_wait(&mut self) -> Option<Duration> {
        let Slowness { count, milliseconds } = &mut self.slow_answers;
        spend(count).then(|| Duration::from_millis(u64::from(*milliseconds)))
    }

    pub fn is_poison(&self, dimension: &str) -> bool {
        self.poison.as_deref() == Some(dimension)
    }
}

fn spend(count: &mut u32) -> bool {
    let left = *count > 0;
    *count = count.saturating_sub(1);
    left
}

/// Stands before every call of both sides but those of identity.
pub async fn intrude(State(sim): State<Sim>, request: Request, next: Next) -> Response {
    let of_cloud_a = request.uri().path().starts_with("/cloud_a");
    // A batch of usage is throttled where its records are known.
    let wait = sim.world().faults.next_wait();
    if let Some(wait) = wait {
        tokio::time::sleep(wait).await;
    }
    let is_batch = request.headers().get("x-amz-target").is_some_and(|target| target == METERING);
    {
        let faults = &mut sim.world().faults;
        if spend(&mut faults.server_errors) {
            return failure(of_cloud_a);
        }
        if !is_batch && spend(&mut faults.throttle) {
            return throttled(of_cloud_a);
        }
    }
    let response = next.run(request).await;
    if response.status().is_success() && spend(&mut sim.world().faults.errors_after) {
        return failure(of_cloud_a);
    }
    response
}

fn failure(of_cloud_a: bool) -> Response {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    let message = "an error on demand";
    if of_cloud_a { refuse_a(status, "InternalServiceException", message) } else { refuse_b(status, message) }
        .into_response()
}

fn throttled(of_cloud_a: bool) -> Response {
    if of_cloud_a {
        return throttling().into_response();
    }
    let mut response = refuse_b(StatusCode::TOO_MANY_REQUESTS, "too many requests").into_response();
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

pub fn throttling() -> super::answer::Refusal {
    refuse_a(StatusCode::BAD_REQUEST, "ThrottlingException", "too many requests")
}
