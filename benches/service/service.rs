//! The service in this process, on a real port, with the sample's customers and a token that has no limits.

use std::net::SocketAddr;

use clap::Parser;
use mercato::app::{App, Workers};
use mercato::call::{Call, Caller};
use mercato::cli::fill;
use mercato::config::{Command, CommandLine, ListenOptions};
use mercato::model::application::{ApplicationInput, ApplicationWithSecret, RateLimits};
use mercato::model::id::OrganizationId;
use mercato::model::scope::Scope;
use mercato::resolvers::applications;
use mercato::store::Store;

use crate::place::Place;

pub struct Running {
    pub app: App,
    pub organization: OrganizationId,
    pub token: String,
    _place: Place,
}

impl Running {
    pub async fn start(customers: usize) -> Self {
        let place = Place::new();
        let store = place.store().await;
        let credentials = fill(&store, customers, |_| {}).await.expect("the sample fits into an empty database");
        let app = App::start(store, &listen_options(), Workers::Running).await.expect("a free port can be had");
        let client = &credentials.load_client;
        let token = issue_token(&app.auth_url, &client.application.client_id, &client.client_secret).await;
        Self { app, organization: credentials.organization, token, _place: place }
    }

    pub fn address(&self) -> SocketAddr {
        address(&self.app)
    }
}

pub fn address(app: &App) -> SocketAddr {
    let address = app.base_url.strip_prefix("http://").and_then(|address| address.parse().ok());
    address.expect("the base URL is the listener's address")
}

/// What `mercato serve --listen 127.0.0.1:0` reads.
fn listen_options() -> ListenOptions {
    let line = CommandLine::try_parse_from(["mercato", "serve", "--listen", "127.0.0.1:0"]);
    match line.expect("the command line is valid").command {
        Command::Serve(options) => options.listen,
        other => unreachable!("{other:?} is not serve"),
    }
}

/// A client without limits in a database that nobody has open yet.
pub async fn made_offline(place: &Place) -> (String, String) {
    let store = place.store().await;
    let organization = store.create_organization("Bench").await.expect("an organization can be made");
    let made = application(&store, organization, Scope::ALL).await;
    (made.application.client_id, made.client_secret)
}

pub async fn application(store: &Store, organization: OrganizationId, scopes: &[Scope]) -> ApplicationWithSecret {
    let call = Call::new(store.clone(), Caller::Operator { organization }, None);
    let input = ApplicationInput {
        name: Some("Bench".to_owned()),
        scopes: Some(scopes.to_vec()),
        ..ApplicationInput::default()
    };
    let made = applications::create_with_limits(&call, input, RateLimits::UNLIMITED).await;
    made.expect("the application breaks no rule")
}

pub async fn issue_token(auth_url: &str, id: &str, secret: &str) -> String {
    let request = reqwest::Client::new()
        .post(format!("{auth_url}/oauth/token"))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("grant_type=client_credentials&client_id={id}&client_secret={secret}"));
    let answer: serde_json::Value =
        request.send().await.expect("the service answers").json().await.expect("the answer is JSON");
    answer["access_token"].as_str().unwrap_or_else(|| panic!("no token: {answer}")).to_owned()
}
