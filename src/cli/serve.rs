//! `serve`: the service, until it is told to stop.

use std::path::Path;

use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::{open, secret_key, sentence};
use crate::app::{App, Workers};
use crate::config::{Environment, LogForm, ServeOptions};

pub async fn run(options: ServeOptions) -> Result<(), String> {
    start_log(options.listen.log);
    if options.database.environment == Environment::Demo {
        return Err("`serve` runs production or staging; for the demo use `mercato demo`.".to_owned());
    }
    let is_shared = options.database.database.starts_with("ws");
    if is_shared && secret_key::read(&options.database)?.is_none() {
        return Err("Processes that share a database need the same secret key: set MERCATO_SECRET_KEY (make one with \
            `openssl rand -base64 32`) or --secret-key-file."
            .to_owned());
    }
    options.listen.simulation.in_environment(options.database.environment, is_shared)?;
    let store = open(&options.database).await?;
    let app = App::start(store, &options.listen, Workers::Running).await.map_err(sentence)?;
    let simulator = app.services.stage.as_ref().map(|stage| stage.url());
    tracing::info!(base_url = app.base_url, auth_url = app.auth_url, simulator, "ready");
    if let Some(file) = &options.listen.ready_file {
        write_ready_file(file, &addresses(&app))?;
    }
    until_told_to_stop(app).await
}

/// What a ready file says of every service.
pub fn addresses(app: &App) -> Value {
    let mut addresses = json!({
        "baseUrl": app.base_url,
        "authUrl": app.auth_url,
        "graphqlUrl": format!("{}/graphql", app.base_url),
    });
    if let Some(stage) = &app.services.stage {
        addresses["simulatorUrl"] = json!(stage.url());
    }
    addresses
}

/// The file appears whole or not at all, and only its owner can read it: the demo's holds secrets.
pub fn write_ready_file(file: &Path, content: &Value) -> Result<(), String> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let failed = |error: std::io::Error| format!("The ready file {} cannot be written: {error}.", file.display());
    let partial = file.with_added_extension("partial");
    let mut open = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&partial)
        .map_err(failed)?;
    writeln!(open, "{content:#}").map_err(failed)?;
    std::fs::rename(&partial, file).map_err(failed)
}

/// SIGTERM or Ctrl-C: stop listening, let running requests end, exit 0.
pub async fn until_told_to_stop(app: App) -> Result<(), String> {
    told_to_stop().await?;
    tracing::info!("stopping");
    app.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// Returns on SIGTERM and on Ctrl-C.
pub async fn told_to_stop() -> Result<(), String> {
    let failed = |error: std::io::Error| format!("signals cannot be received: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// The log goes to standard error. RUST_LOG sets what is in it.
pub fn start_log(form: LogForm) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,mercato=info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match form {
        LogForm::Text => log.init(),
        LogForm::Json => log.json().flatten_event(true).with_current_span(true).with_span_list(false).init(),
    }
}
