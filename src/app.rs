//! The composition root: [`App::start`] puts the parts together, [`App::stop`] takes them down in order.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use chrono::TimeDelta;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::auth::limiter::Limiter;
use crate::auth::sharing::Sharing;
use crate::auth::vigil::Vigilance;
use crate::config::{ListenOptions, Simulation, WebhookOptions};
use crate::courier::{Courier, CourierSettings};
use crate::http::metrics::Metrics;
use crate::http::server::{Limits, serve, stopped};
use crate::http::trace::trace;
use crate::http::{HttpSettings, Services, StreamSettings};
use crate::marketplace::adapters::Adapters;
use crate::marketplace::clerk::Clerk;
use crate::marketplace::hands;
use crate::marketplace::http::{Client, ClientSettings};
use crate::marketplace::inbound;
use crate::marketplace::inbox::Inbox;
use crate::marketplace::reconciler::Reconciler;
use crate::marketplace::simulator::{MOST, Simulator, SimulatorSettings};
use crate::marketplace::stage::Stage;
use crate::model::application::RateLimits;
use crate::resolvers::clockwork;
use crate::rest::Side;
use crate::store::{OpenError, Store};
use crate::webhook::DispatchSettings;
use crate::webhook::backoff::Schedule;
use crate::webhook::dispatcher::Dispatcher;
use crate::{graphql, rest};

/// How often the rate windows are shared; the contract allows a second.
const SHARING_INTERVAL: Duration = Duration::from_millis(500);
/// How often expired rows are forgotten.
const SWEEP_INTERVAL: Duration = Duration::from_mins(5);
/// How often the clock looks for what is due.
const CLOCKWORK_INTERVAL: Duration = Duration::from_secs(1);
/// How often it is looked for organizations that the simulator does not know yet.
const STAGE_INTERVAL: Duration = Duration::from_secs(1);

/// How long publishing an offer takes at our own simulator, of its clock.
const PUBLICATION: TimeDelta = TimeDelta::seconds(60);
/// How long a webhook that was just served stays at hand.
const LINGER: Duration = Duration::from_secs(1);

/// A running service.
pub struct App {
    pub base_url: String,
    pub auth_url: String,
    pub services: Arc<Services>,
    pub sharing: Arc<Sharing>,
    /// Of an app whose workers are driven by hand.
    pub dispatcher: Option<Dispatcher>,
    pub clerk: Arc<Clerk>,
    pub reconciler: Arc<Reconciler>,
    pub inbox: Arc<Inbox>,
    event_retention: TimeDelta,
    simulator: Option<Simulator>,
    stop: watch::Sender<bool>,
    servers: Vec<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

/// Whether the workers run by themselves, or a test drives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    Running,
    ByHand,
}

impl App {
    /// Binds the listeners and serves. Requests are answered when this returns.
    pub async fn start(store: Store, options: &ListenOptions, workers: Workers) -> Result<Self, OpenError> {
        let api = bind(options.listen).await?;
        let auth = match options.auth_listen {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        let (base_url, auth_url) = addresses(options, &api, auth.as_ref());
        let limiter = Arc::new(Limiter::default());
        let settings = HttpSettings {
            base_url: base_url.clone(),
            auth_url: auth_url.clone(),
            trusted_proxies: options.trusted_proxy.clone(),
            address_limits: RateLimits {
                hour: options.address_limit.saturating_mul(60),
                minute: options.address_limit,
            },
            body_timeout: Duration::from_secs(options.body_timeout),
            answer_timeout: Duration::from_secs(30),
            streams: streams(options),
        };
        let courier = courier(options, &store)?;
        let (simulator, stage) = set_the_stage(options, &store, &base_url, &api).await?;
        let stop = watch::Sender::new(false);
        let services = Arc::new(Services {
            store: store.clone(),
            courier,
            limiter: Arc::clone(&limiter),
            metrics: Metrics::default(),
            settings,
            stage: stage.clone(),
            vigilance: Vigilance::default(),
            stop: stop.subscribe(),
        });
        let client = marketplace_client(options, &store, stage.as_deref(), workers)?;
        let adapters = Arc::new(Adapters::new(client));
        let clerk = Arc::new(Clerk::new(store.clone(), Arc::clone(&adapters)));
        let reconciler = Arc::new(Reconciler::new(store.clone(), Arc::clone(&adapters)));
        let inbox = Arc::new(Inbox::new(store.clone(), adapters));
        let sharing = Arc::new(Sharing::new(store, limiter));
        let mut app = Self {
            base_url,
            auth_url,
            services,
            sharing,
            dispatcher: None,
            clerk,
            reconciler,
            inbox,
            simulator,
            event_retention: TimeDelta::days(i64::from(options.event_retention_days)),
            stop,
            servers: Vec::new(),
            workers: Vec::new(),
        };
        // What was admitted before a restart still counts.
        if let Err(error) = app.sharing.exchange().await {
            tracing::warn!(cause = error.cause(), "the rate windows could not be read");
        }
        let bounds = limits(options);
        if let Some(stage) = &stage {
            report("registering at the simulator", stage.enrol_all().await);
        }
        match auth {
            None => app.listen(api, Side::Both, bounds),
            Some(auth) => {
                app.listen(api, Side::Api, bounds.clone());
                app.listen(auth, Side::Auth, bounds);
            }
        }
        let dispatcher = Dispatcher::new(
            app.services.store.clone(),
            app.services.courier.clone(),
            dispatch_settings(&options.webhooks, workers),
        );
        match workers {
            Workers::Running => app.run_workers(dispatcher),
            Workers::ByHand => app.dispatcher = Some(dispatcher),
        }
        Ok(app)
    }

    fn listen(&mut self, listener: TcpListener, side: Side, bounds: Limits) {
        let router = router(&self.services, &self.inbox, side);
        let gauge = Arc::clone(&self.services.metrics.connections);
        self.servers.push(tokio::spawn(serve(listener, router, bounds, gauge, self.stop.subscribe())));
    }

    fn run_workers(&mut self, dispatcher: Dispatcher) {
        let mut stop = self.stop.subscribe();
        self.workers.push(tokio::spawn(dispatcher.run(async move { stopped(&mut stop).await })));
        let sharing = Arc::clone(&self.sharing);
        self.every(SHARING_INTERVAL, move || {
            let sharing = Arc::clone(&sharing);
            async move { report("sharing rate windows", sharing.exchange().await.map(drop)) }
        });
        let store = self.services.store.clone();
        self.every(CLOCKWORK_INTERVAL, move || {
            let store = store.clone();
            async move { report("the clock's work", clockwork::run(&store).await.map(drop)) }
        });
        let reconciler = Arc::clone(&self.reconciler);
        self.workers.push(tokio::spawn(hands::work(reconciler, self.stop.subscribe())));
        self.workers.push(tokio::spawn(hands::work(Arc::clone(&self.inbox), self.stop.subscribe())));
        self.workers.push(tokio::spawn(hands::work(Arc::clone(&self.clerk), self.stop.subscribe())));
        if let Some(stage) = self.services.stage.clone() {
            self.every(STAGE_INTERVAL, move || {
                let stage = Arc::clone(&stage);
                async move { report("registering at the simulator", stage.enrol_all().await) }
            });
        }
        let (store, retention) = (self.services.store.clone(), self.event_retention);
        let inbox = Arc::clone(&self.inbox);
        self.every(SWEEP_INTERVAL, move || {
            let (store, inbox) = (store.clone(), Arc::clone(&inbox));
            async move {
                report("sweeping", store.sweep(retention).await.map(drop));
                report("forgetting notifications", inbox.sweep().await.map(drop));
            }
        });
    }

    /// Runs a task again and again, until the order to stop; the run that has begun is finished.
    fn every<F, T>(&mut self, pause: Duration, mut task: T)
    where
        F: Future<Output = ()> + Send,
        T: FnMut() -> F + Send + 'static,
    {
        let mut stop = self.stop.subscribe();
        self.workers.push(tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(pause) => task().await,
                    () = stopped(&mut stop) => break,
                }
            }
        }));
    }

    /// Stops listening, lets running requests end, stops the workers, lets go of the database.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        for task in self.servers.into_iter().chain(self.workers) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task did not end well");
            }
        }
        if let Some(simulator) = self.simulator {
            simulator.stop().await;
        }
        self.inbox.close().await;
        if let Err(error) = self.sharing.exchange().await {
            tracing::warn!(cause = error.cause(), "the rate windows could not be written");
        }
    }
}

/// All routes of a side, with the layer that every request passes.
pub fn router(services: &Arc<Services>, inbox: &Arc<Inbox>, side: Side) -> Router {
    let mut router = rest::router(services, side);
    if side != Side::Auth {
        router = router.merge(graphql::router(services)).merge(inbound::router(services, inbox));
    }
    router.layer(from_fn_with_state(Arc::clone(services), trace))
}

fn report(task: &str, result: crate::error::Result<()>) {
    if let Err(error) = result {
        tracing::warn!(cause = error.cause(), "{task} failed; it is tried again");
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, OpenError> {
    TcpListener::bind(address).await.map_err(|error| {
        OpenError(format!("The address {address} cannot be listened at ({error}); choose another with --listen."))
    })
}

fn addresses(options: &ListenOptions, api: &TcpListener, auth: Option<&TcpListener>) -> (String, String) {
    let own =
        |listener: &TcpListener, fallback: SocketAddr| format!("http://{}", listener.local_addr().unwrap_or(fallback));
    let clean = |url: &String| url.trim_end_matches('/').to_owned();
    let base = options.base_url.as_ref().map_or_else(|| own(api, options.listen), clean);
    let fallback = auth.map_or_else(|| base.clone(), |listener| own(listener, options.listen));
    (base, options.auth_url.as_ref().map_or(fallback, clean))
}

fn courier(options: &ListenOptions, store: &Store) -> Result<Courier, OpenError> {
    let webhooks = &options.webhooks;
    let extra_ca = match &webhooks.webhook_extra_ca {
        None => None,
        Some(file) => Some(std::fs::read(file).map_err(|error| {
            OpenError(format!(
                "The certificates in {} cannot be read ({error}); see --webhook-extra-ca.",
                file.display()
            ))
        })?),
    };
    let settings =
        CourierSettings { allowed: webhooks.webhook_allow_subnet.clone(), extra_ca, timeout: webhooks.webhook_timeout };
    Courier::new(settings, store.clock().clone()).map_err(OpenError)
}

/// The simulator that stands in for the marketplaces where this environment has one, and our end of it.
async fn set_the_stage(
    options: &ListenOptions,
    store: &Store,
    base_url: &str,
    api: &TcpListener,
) -> Result<(Option<Simulator>, Option<Arc<Stage>>), OpenError> {
    let simulation = options.simulation.in_environment(store.environment(), !store.is_embedded()).map_err(OpenError)?;
    let (simulator, url, home) = match simulation {
        Simulation::None => return Ok((None, None)),
        Simulation::At(url) => (None, url, base_url.to_owned()),
        Simulation::Own(listen) => {
            let simulator = start_simulator(listen, store).await?;
            let url = simulator.url();
            // Notifications within a process need no way around through whatever proxy the base URL names.
            (Some(simulator), url, own_url(api).unwrap_or_else(|| base_url.to_owned()))
        }
    };
    let stage = Stage::new(store.clone(), url, home).map_err(OpenError)?;
    Ok((simulator, Some(Arc::new(stage))))
}

async fn start_simulator(listen: SocketAddr, store: &Store) -> Result<Simulator, OpenError> {
    let settings = SimulatorSettings { listen, publish: PUBLICATION, clock: store.clock().clone(), most: MOST };
    Simulator::start(settings).await.map_err(|error| {
        OpenError(format!(
            "The simulator cannot listen at {listen} ({error}); choose another address with --simulator-listen, or \
             --no-simulator."
        ))
    })
}

/// Where this process is reached from itself.
fn own_url(api: &TcpListener) -> Option<String> {
    let mut address = api.local_addr().ok()?;
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    Some(format!("http://{address}"))
}

fn marketplace_client(
    options: &ListenOptions,
    store: &Store,
    stage: Option<&Stage>,
    workers: Workers,
) -> Result<Client, OpenError> {
    let mut allowed = options.marketplaces.marketplace_allow_subnet.clone();
    allowed.extend(stage.into_iter().flat_map(|stage| Stage::subnets(stage.url())));
    let mut settings = ClientSettings { allowed, ..ClientSettings::default() };
    if workers == Workers::ByHand {
        settings.pauses = [Duration::ZERO; 3];
    }
    Client::new(settings, store.clock().clone()).map_err(OpenError)
}

fn dispatch_settings(options: &WebhookOptions, workers: Workers) -> DispatchSettings {
    DispatchSettings {
        schedule: Schedule(options.webhook_retries.clone()),
        failures: options.webhook_failures,
        per_webhook: options.webhook_concurrency.into(),
        per_organization: options.webhook_organization_concurrency.into(),
        in_all: options.webhook_total_concurrency.into(),
        timeout: options.webhook_timeout,
        linger: if workers == Workers::Running { LINGER } else { Duration::ZERO },
    }
}

fn limits(options: &ListenOptions) -> Limits {
    Limits {
        connections: options.max_connections,
        connections_per_address: options.max_connections_per_address,
        header_timeout: Duration::from_secs(options.header_timeout),
        write_timeout: Duration::from_secs(options.write_timeout),
        ..Limits::default()
    }
}

fn streams(options: &ListenOptions) -> StreamSettings {
    StreamSettings {
        subscriptions_per_application: options.max_subscriptions_per_application,
        init_timeout: Duration::from_secs(options.socket_init_timeout),
        ping_interval: Duration::from_secs(options.socket_ping_interval.max(1)),
        keep_alive: Duration::from_secs(options.stream_keep_alive.max(1)),
        write_timeout: Duration::from_secs(options.write_timeout),
    }
}
