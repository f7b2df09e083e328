//! `healthcheck`: asks a running service whether it is ready.

use std::time::Duration;

use crate::config::HealthcheckOptions;

pub async fn run(options: &HealthcheckOptions) -> Result<(), String> {
    let client = reqwest::Client::builder()
        .timeout(Duration::from_secs(3))
        .no_proxy()
        .build()
        .map_err(|error| format!("the check cannot be made: {error}"))?;
    let answer =
        client.get(&options.url).send().await.map_err(|error| format!("no answer from {}: {error}", options.url))?;
    if answer.status().is_success() { Ok(()) } else { Err(format!("{} answered {}", options.url, answer.status())) }
}
