//! What the service costs, as ratios against floors that are measured in the same run: `cargo bench`.
//!
//! `cargo bench --bench service -- pages` runs the sections whose name contains `pages`; `MERCATO_BENCH_SCALE=small`
//! makes all of it a smoke, whose numbers mean little. Everything runs on surrealkv in temporary folders.

mod backlog;
mod bare_block;
mod client;
mod contract_fill;
mod contracts;
mod creations;
mod dispatch;
mod fanout;
mod fill;
mod graph;
mod inbound;
mod pages;
mod place;
mod process;
mod reads;
#[path = "../../tests/it/harness/receiver.rs"]
mod receiver;
mod report;
mod rows;
mod scale;
mod service;
mod sizes;
mod sockets;
mod writes;

use std::sync::Mutex;
use std::time::Instant;

use creations::{Customers, Offers};
use report::Line;
use scale::Scale;

/// As in `src/main.rs`: the engine recurses deeply.
const STACK: usize = 10 * 1024 * 1024;

const SECTIONS: [&str; 12] = [
    "process",
    "reads",
    "graph",
    "writes",
    "offers",
    "dispatch",
    "latency",
    "fanout",
    "backlog",
    "inbound",
    "pages",
    "contracts",
];

fn main() {
    log_as_serve_does();
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let scale = Scale::from_environment();
    let mut lines = Vec::new();
    for section in SECTIONS.iter().filter(|name| filter.as_ref().is_none_or(|wanted| name.contains(wanted.as_str()))) {
        let started = Instant::now();
        eprintln!("{section} …");
        lines.extend(run(section, &scale));
        eprintln!("{section} took {:.0} s", started.elapsed().as_secs_f64());
    }
    report::print(&lines);
}

/// One section in a runtime of its own, so that nothing of it is at work during the next.
fn run(section: &str, scale: &Scale) -> Vec<Line> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK).build();
    let runtime = runtime.expect("this machine can start a few threads");
    runtime.block_on(async {
        match section {
            "process" => process::measure(scale),
            "reads" => reads::measure(scale).await,
            "graph" => graph::measure(scale).await,
            "writes" => writes::measure::<Customers>(scale).await,
            "offers" => writes::measure::<Offers>(scale).await,
            "dispatch" => dispatch::measure(scale).await,
            "latency" => dispatch::latency(scale).await,
            "fanout" => fanout::measure(scale).await,
            "backlog" => backlog::measure(scale).await,
            "inbound" => inbound::measure(scale).await,
            "pages" => pages::measure(scale).await,
            "contracts" => contracts::measure(scale).await,
            _ => unreachable!("{section} is not a section"),
        }
    })
}

/// The log lines of `serve` are made and written here too, only nobody keeps them.
fn log_as_serve_does() {
    let nowhere = std::fs::File::options().write(true).open("/dev/null").expect("every Unix has /dev/null");
    let filter = tracing_subscriber::EnvFilter::new("warn,mercato=info");
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(Mutex::new(nowhere)).init();
}
