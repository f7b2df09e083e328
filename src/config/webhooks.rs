//! Settings of webhooks.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ipnet::IpNet;

use crate::model::webhook::FAILURES_MAX;

/// How webhooks are delivered.
#[derive(Debug, Clone, Args)]
pub struct WebhookOptions {
    /// Deliver to receivers in this subnet although it is not public (tests, private networks)
    #[arg(long, env = "MERCATO_WEBHOOK_ALLOW_SUBNET", value_delimiter = ',')]
    pub webhook_allow_subnet: Vec<IpNet>,
    /// Trust the certificates in this PEM file besides the public ones
    #[arg(long, env = "MERCATO_WEBHOOK_EXTRA_CA")]
    pub webhook_extra_ca: Option<PathBuf>,
    /// Time for one attempt, such as 5s or 500ms
    #[arg(long, env = "MERCATO_WEBHOOK_TIMEOUT", default_value = "5s", value_parser = read_duration)]
    pub webhook_timeout: Duration,
    /// The pauses between the attempts of a delivery; there is one attempt more
    #[arg(long, env = "MERCATO_WEBHOOK_RETRIES", default_value = "5s,1m,5m,30m,1h,3h,6h,12h,24h", value_delimiter = ',',
        value_parser = read_duration)]
    pub webhook_retries: Vec<Duration>,
    /// Consecutive failures after which a webhook is disabled
    #[arg(long, env = "MERCATO_WEBHOOK_FAILURES", default_value_t = FAILURES_MAX)]
    pub webhook_failures: u32,
    /// Attempts under way at one webhook
    #[arg(long, env = "MERCATO_WEBHOOK_CONCURRENCY", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub webhook_concurrency: u16,
    /// Attempts under way at the webhooks of one organization
    #[arg(long, env = "MERCATO_WEBHOOK_ORGANIZATION_CONCURRENCY", default_value_t = 64,
        value_parser = clap::value_parser!(u16).range(1..))]
    pub webhook_organization_concurrency: u16,
    /// Attempts under way in all
    #[arg(long, env = "MERCATO_WEBHOOK_TOTAL_CONCURRENCY", default_value_t = 1024,
        value_parser = clap::value_parser!(u16).range(1..))]
    pub webhook_total_concurrency: u16,
}

/// `500ms`, `5s`, `1m`, `24h`.
fn read_duration(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|character: char| character.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("must be a number with its unit: ms, s, m or h".to_owned()),
    };
    let millis = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    millis.map(Duration::from_millis).ok_or_else(|| "must be a number with its unit: ms, s, m or h".to_owned())
}
