//! How much is measured: in full, or as a smoke.

use std::time::Duration;

pub struct Scale {
    /// Interleaved rounds of floor and service.
    pub rounds: usize,
    /// How long a round of reads lasts.
    pub read_time: Duration,
    /// Pairs of one GraphQL request and the REST calls for the same data.
    pub graph_rounds: usize,
    /// Records that each writer creates in a round.
    pub writes_each: usize,
    /// Customers in the three databases whose pages are read.
    pub page_sizes: [usize; 3],
    /// Entitlements in the two databases whose contracts are counted and listed.
    pub contract_sizes: [usize; 2],
    /// Readings of each kind, where sizes are compared.
    pub readings: usize,
    /// Interleaved rounds of dispatching, and the deliveries of each.
    pub dispatch_rounds: usize,
    pub deliveries: usize,
    /// How long events happen at a steady rate.
    pub latency_time: Duration,
    /// Subscribers that one event goes to, how often, and how many are there when nothing happens.
    pub subscribers: [usize; 3],
    pub fan_out_rounds: usize,
    pub fan_outs: usize,
    pub idle_subscribers: u32,
    /// Deliveries that wait.
    pub backlog: usize,
    /// Notifications in all.
    pub notifications: usize,
    /// Starts of the process on each kind of database.
    pub starts: usize,
    /// How long the process idles before its memory is read.
    pub idle: Duration,
}

impl Scale {
    pub fn from_environment() -> Self {
        if std::env::var("MERCATO_BENCH_SCALE").is_ok_and(|scale| scale == "small") {
            Self::small()
        } else {
            Self::full()
        }
    }

    fn full() -> Self {
        Self {
            rounds: 9,
            read_time: Duration::from_secs(3),
            graph_rounds: 200,
            writes_each: 100,
            page_sizes: [1_000, 100_000, 1_000_000],
            contract_sizes: [1_000, 1_000_000],
            readings: 400,
            dispatch_rounds: 5,
            deliveries: 20_000,
            latency_time: Duration::from_secs(20),
            subscribers: [100, 1_000, 5_000],
            fan_out_rounds: 5,
            fan_outs: 10,
            idle_subscribers: 2_000,
            backlog: 1_000_000,
            notifications: 3_000,
            starts: 5,
            idle: Duration::from_secs(5),
        }
    }

    fn small() -> Self {
        Self {
            rounds: 3,
            read_time: Duration::from_millis(500),
            graph_rounds: 20,
            writes_each: 10,
            page_sizes: [1_000, 5_000, 20_000],
            contract_sizes: [1_000, 20_000],
            readings: 50,
            dispatch_rounds: 1,
            deliveries: 400,
            latency_time: Duration::from_secs(2),
            subscribers: [20, 100, 300],
            fan_out_rounds: 1,
            fan_outs: 5,
            idle_subscribers: 300,
            backlog: 10_000,
            notifications: 300,
            starts: 1,
            idle: Duration::from_secs(1),
        }
    }
}

/// The middle one.
pub fn median<T: Copy + PartialOrd>(values: &[T]) -> T {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).expect("measurements are numbers"));
    sorted[sorted.len() / 2]
}
