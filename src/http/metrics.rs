//! `/metrics`, in the Prometheus text format. Labels come from the catalogue, so their number is bounded.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    operation: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
}

pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter<u64, AtomicU64>>,
    durations: Family<OperationLabels, Histogram, fn() -> Histogram>,
    pub connections: Arc<Gauge>,
    /// Subscriptions that run, over WebSocket and SSE.
    pub subscriptions: Gauge,
    /// Executions that rendered an event for subscribers; each serves all who share a document.
    pub renderings: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("mercato");
        let requests = Family::default();
        let durations: Family<OperationLabels, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.000_25, 2.0, 16)));
        let connections = Gauge::default();
        let subscriptions = Gauge::default();
        let renderings = Counter::default();
        registry.register("requests", "Answers, by operation and status", requests.clone());
        registry.register_with_unit("request_duration", "Time to answer", Unit::Seconds, durations.clone());
        registry.register("connections", "Open connections", connections.clone());
        registry.register("subscriptions", "Running subscriptions", subscriptions.clone());
        registry.register("event_renderings", "Executions that rendered an event for subscribers", renderings.clone());
        Self { registry, requests, durations, connections: Arc::new(connections), subscriptions, renderings }
    }
}

impl Metrics {
    pub fn observe(&self, operation: &'static str, status: u16, took: Duration) {
        self.requests.get_or_create(&RequestLabels { operation, status }).inc();
        self.durations.get_or_create(&OperationLabels { operation }).observe(took.as_secs_f64());
    }

    /// The whole exposition, or nothing if it cannot be written.
    pub fn expose(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
