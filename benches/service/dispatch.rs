//! Webhooks: how fast a backlog is dispatched to 1, 10 and 100 receivers, against a bare client with as many requests under
//! way; what one dead receiver costs the others; how long an event takes from its commit to the receiver. The receivers are
//! real HTTPS servers in this process, the same for floor and service.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use mercato::app::{App, Workers};
use mercato::call::{Call, Caller};
use mercato::config::{Command, CommandLine, ListenOptions};
use mercato::model::customer::NewCustomer;
use mercato::model::event::{EventKind, Sequence};
use mercato::model::id::OrganizationId;
use mercato::model::scope::Scope;
use mercato::model::vendor::Vendor;
use mercato::model::webhook::WebhookInput;
use mercato::resolvers::{customers, webhooks};
use mercato::store::Store;

use crate::place::Place;
use crate::receiver::{Authority, Manner, Receiver};
use crate::report::{Line, Round};
use crate::scale::Scale;

const LEAST: f64 = 0.60;
/// What one dead receiver of a hundred may cost the others.
const LEAST_BESIDE_DEAD: f64 = 0.90;
/// Of one webhook and of one organization, as `serve` has them.
const PER_WEBHOOK: usize = 16;
const PER_ORGANIZATION: usize = 64;
const EVENTS_A_SECOND: u32 = 200;
const WEBHOOKS: usize = 10;

/// A service with an organization whose webhooks point to receivers of ours.
pub struct Stand {
    pub app: App,
    pub store: Store,
    pub organization: OrganizationId,
    pub receivers: Vec<Receiver>,
    authority: Authority,
    _place: Place,
}

impl Stand {
    pub async fn new(receivers: usize, workers: Workers) -> Self {
        let authority = Authority::new();
        let place = Place::new();
        let file = place.path().join("ca.pem");
        let mut made = std::fs::File::create(&file).expect("the folder can be written");
        made.write_all(authority.pem().as_bytes()).expect("the disk has room");
        let store = place.store().await;
        let app = App::start(store.clone(), &options(&file), workers).await.expect("a free port can be had");
        let organization = store.create_organization("Bench").await.expect("an organization can be made");
        let mut stand = Self { app, store, organization, receivers: Vec::new(), authority, _place: place };
        for _ in 0..receivers {
            let receiver = Receiver::start(&stand.authority).await;
            stand.webhook(&receiver.url()).await;
            stand.receivers.push(receiver);
        }
        stand
    }

    pub fn call(&self) -> Call {
        Call::new(self.store.clone(), Caller::Operator { organization: self.organization }, None)
    }

    pub async fn webhook(&self, url: &str) {
        let input = WebhookInput {
            name: Some("Bench".to_owned()),
            url: Some(url.to_owned()),
            events: Some(vec![EventKind::CustomerCreated]),
            ..WebhookInput::default()
        };
        webhooks::create(&self.call(), &self.app.services.courier, input).await.expect("the webhook breaks no rule");
    }

    pub fn address(&self) -> std::net::SocketAddr {
        crate::service::address(&self.app)
    }

    /// A token of a new application.
    pub async fn token(&self, scopes: &[Scope]) -> String {
        let made = crate::service::application(&self.store, self.organization, scopes).await;
        crate::service::issue_token(&self.app.auth_url, &made.application.client_id, &made.client_secret).await
    }

    /// One event.
    pub async fn happen(&self) {
        let new = NewCustomer {
            vendor: Some(Vendor::CloudA),
            company_name: Some("Northwind Analytics Inc".to_owned()),
            cloud_account_id: Some(self.store.clock().mint().to_string()),
            ..NewCustomer::default()
        };
        customers::create(&self.call(), new).await.expect("the customer is new and breaks no rule");
    }

    fn forget(&self) {
        self.receivers.iter().for_each(|receiver| drop(receiver.take()));
    }
}

fn options(ca: &std::path::Path) -> ListenOptions {
    let ca = ca.to_str().expect("the temporary folder has a plain name");
    let words = [
        "mercato",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--webhook-allow-subnet",
        "127.0.0.0/8",
        "--webhook-extra-ca",
        ca,
        "--max-subscriptions-per-application",
        "100000",
        "--max-connections-per-address",
        "100000",
        "--max-connections",
        "100000",
    ];
    match CommandLine::try_parse_from(words).expect("the command line is valid").command {
        Command::Serve(options) => options.listen,
        other => unreachable!("{other:?} is not serve"),
    }
}

pub async fn measure(scale: &Scale) -> Vec<Line> {
    let mut lines = Vec::new();
    for receivers in [1, 10, 100] {
        lines.push(throughput(scale, receivers).await);
    }
    lines.push(beside_a_dead_one(scale).await);
    lines
}

/// Deliveries a second of a backlog, and of a bare client.
async fn throughput(scale: &Scale, receivers: usize) -> Line {
    let stand = Stand::new(receivers, Workers::ByHand).await;
    let dispatcher = stand.app.dispatcher.as_ref().expect("it is driven by hand");
    let events = scale.deliveries / receivers;
    let ca = reqwest::Certificate::from_pem(stand.authority.pem().as_bytes()).expect("PEM");
    let client = reqwest::Client::builder().no_proxy().tls_certs_merge([ca]).build().expect("a client");
    let mut rounds = Vec::new();
    for round in 0..=scale.dispatch_rounds {
        for _ in 0..events {
            stand.happen().await;
        }
        let body = stand.store.tenant(stand.organization, None).events_after(Sequence::default(), 1).await;
        let body = body.expect("the log can be read").remove(0).envelope.to_string();
        let floor = bare(&stand, &client, events, &body).await;
        stand.forget();
        let began = Instant::now();
        let settled = dispatcher.settle().await.expect("deliveries succeed");
        let ours = per_second(settled, began.elapsed());
        assert_eq!(settled, events * receivers, "every event is delivered to every receiver");
        stand.forget();
        // The first round warms up.
        if round > 0 {
            rounds.push(Round { floor, ours });
        }
    }
    Line::rate_ratio(format!("deliveries to {receivers} receivers"), &rounds, LEAST)
}

/// A loop of POSTs with as many under way as the dispatcher has.
async fn bare(stand: &Stand, client: &reqwest::Client, events: usize, body: &str) -> f64 {
    let under_way = Arc::new(tokio::sync::Semaphore::new((PER_WEBHOOK * stand.receivers.len()).min(PER_ORGANIZATION)));
    let mut loops = tokio::task::JoinSet::new();
    let began = Instant::now();
    for receiver in &stand.receivers {
        let queue = Arc::new(std::sync::atomic::AtomicUsize::new(events));
        for _ in 0..PER_WEBHOOK {
            let (client, url, body) = (client.clone(), receiver.url(), bytes::Bytes::from(body.to_owned()));
            let (queue, under_way) = (Arc::clone(&queue), Arc::clone(&under_way));
            loops.spawn(async move {
                use std::sync::atomic::Ordering::SeqCst;
                while queue.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
                    let _slot = under_way.acquire().await.expect("it stays open");
                    let sent =
                        client.post(&url).header("content-type", "application/json").body(body.clone()).send().await;
                    let answer = sent.expect("the receiver answers");
                    assert!(answer.status().is_success());
                    drop(answer.bytes().await.expect("the answer is whole"));
                }
            });
        }
    }
    loops.join_all().await;
    per_second(events * stand.receivers.len(), began.elapsed())
}

fn per_second(count: usize, took: Duration) -> f64 {
    f64::from(u32::try_from(count).expect("a bench makes fewer")) / took.as_secs_f64()
}

/// How fast 99 receivers are served when the hundredth is well, and when it never answers.
async fn beside_a_dead_one(scale: &Scale) -> Line {
    let mut rounds = Vec::new();
    // A round is over in two seconds, so it takes more of them.
    for _ in 0..2 * scale.dispatch_rounds {
        let floor = others(scale, Manner::Answer(200)).await;
        let ours = others(scale, Manner::Silent).await;
        rounds.push(Round { floor, ours });
    }
    Line::rate_ratio("99 receivers, the hundredth dead", &rounds, LEAST_BESIDE_DEAD)
}

async fn others(scale: &Scale, manner: Manner) -> f64 {
    let stand = Stand::new(100, Workers::Running).await;
    stand.receivers[0].behave(manner);
    let events = scale.deliveries / 100;
    let began = Instant::now();
    for _ in 0..events {
        stand.happen().await;
    }
    for receiver in &stand.receivers[1..] {
        receiver.wait_for(events).await;
    }
    let rate = per_second(events * 99, began.elapsed());
    stand.app.stop().await;
    rate
}

/// From the commit to the receiver, at a steady rate.
pub async fn latency(scale: &Scale) -> Vec<Line> {
    let stand = Stand::new(WEBHOOKS, Workers::Running).await;
    let mut committed = Vec::new();
    let mut tick = tokio::time::interval(Duration::from_secs(1) / EVENTS_A_SECOND);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    for _ in 0..EVENTS_A_SECOND * u32::try_from(scale.latency_time.as_secs()).expect("a short time") {
        tick.tick().await;
        stand.happen().await;
        committed.push(Instant::now());
    }
    let mut took = Vec::new();
    for receiver in &stand.receivers {
        receiver.wait_for(committed.len()).await;
        for received in receiver.received() {
            let number = usize::try_from(received.sequence() - 1).expect("sequences begin at one");
            took.push(received.at.saturating_duration_since(committed[number]));
        }
    }
    took.sort_unstable();
    let at = |share: usize| took[took.len() * share / 1000].as_secs_f64() * 1000.0;
    let what = format!("commit to receiver, {EVENTS_A_SECOND} events a second, {WEBHOOKS} webhooks");
    stand.app.stop().await;
    vec![
        Line::at_most(format!("{what}, p50"), at(500), 25.0, "ms"),
        Line::at_most(format!("{what}, p99"), at(990), 250.0, "ms"),
    ]
}
