//! `demo`: an embedded durable database, a sample organization with a year behind it, and commands to paste.

use serde_json::json;

use super::history;
use super::sample::{self, Credentials};
use super::secret_key;
use super::serve::{addresses, start_log, until_told_to_stop, write_ready_file};
use super::{plainly, sentence};
use crate::app::{App, Workers};
use crate::clock::Clock;
use crate::config::{DemoOptions, Environment};
use crate::store::Store;
use crate::store::connect::Target;
use crate::store::migrate::Resume;

pub async fn run(options: DemoOptions) -> Result<(), String> {
    start_log(options.listen.log);
    let target = Target {
        url: format!("surrealkv://{}", options.data.display()),
        environment: Environment::Demo,
        login: None,
        secret_key: Some(secret_key::from_file(&secret_key::beside(&options.data.display().to_string()))?),
    };
    // The sample's year ends now; from then on, and at once where there is a sample already, the clock is the system's.
    let clock = Clock::rehearsal(Clock::system().now().plus(-history::LENGTH));
    let store = Store::open(&target, clock, Resume::Refuse).await.map_err(sentence)?;
    let credentials = sample::fill(&store, options.customers, |line| eprintln!("{line}")).await.map_err(plainly)?;
    let app = App::start(store, &options.listen, Workers::Running).await.map_err(sentence)?;
    if let Some(file) = &options.listen.ready_file {
        let mut content = addresses(&app);
        content["organizationId"] = json!(credentials.organization);
        content["clientId"] = json!(credentials.client.application.client_id);
        content["clientSecret"] = json!(credentials.client.client_secret);
        content["loadClientId"] = json!(credentials.load_client.application.client_id);
        content["loadClientSecret"] = json!(credentials.load_client.client_secret);
        write_ready_file(file, &content)?;
    }
    print!("{}", welcome(&app, &credentials));
    until_told_to_stop(app).await
}

fn welcome(app: &App, credentials: &Credentials) -> String {
    let (base, auth) = (&app.base_url, &app.auth_url);
    let simulator = app.services.stage.as_ref();
    let simulator = simulator.map(|stage| format!("  simulator      {}\n", stage.url())).unwrap_or_default();
    let (id, secret) = (&credentials.client.application.client_id, &credentials.client.client_secret);
    format!(
        r#"
mercato is running.

  address        {base}
  docs           {base}/docs
{simulator}  client id      {id}
  client secret  {secret}

Paste this into another terminal:

  TOKEN=$(curl -s {auth}/oauth/token -d grant_type=client_credentials \
    -d client_id={id} -d client_secret={secret} | sed 's/.*"access_token":"\([^"]*\)".*/\1/')

  curl -s "{base}/api/v1/customers?limit=3" -H "Authorization: Bearer $TOKEN"

  curl -s {base}/api/v1/customers -H "Authorization: Bearer $TOKEN" \
    -H "Content-Type: application/json" -H "Idempotency-Key: my-first-customer" \
    -d '{{"vendor": "cloud_a", "cloudAccountId": "my-account", "companyName": "My first customer"}}'

  curl -s {base}/graphql -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \
    -d '{{"query": "{{ customers(first: 3) {{ nodes {{ id companyName entitlements {{ nodes {{ id status }} }} privateOffers {{ nodes {{ id status }} }} }} }} }}"}}'

  curl -s {base}/api/v1/analytics/contracts -H "Authorization: Bearer $TOKEN"

A second client without rate limits, for load tests:

  client id      {load_id}
  client secret  {load_secret}

The secrets are new at every start. Stop with Ctrl-C; the data stays.
"#,
        load_id = credentials.load_client.application.client_id,
        load_secret = credentials.load_client.client_secret,
    )
}
