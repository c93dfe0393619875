//! `airlock health`: whether a gateway takes requests, for health checks.

use std::time::Duration;

use anyhow::Context as _;

use super::running::RunningGateway;
use airlock_terminal::{outcome::CommandOutcome, output};

/// Path that says whether the gateway takes requests.
const READY: &str = "/ready";

/// Check whether a running gateway takes requests
///
/// Asks the gateway of the configuration, through its Unix socket or else at its address, or the one at --url, for
/// `GET /ready`. Ends with 0 if it is ready. Ends with 1 if it has not read the settings of its store yet, if it stops,
/// or if it does not respond in time. For the health checks of containers and supervisors.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock health --config airlock.json\n  airlock health --url https://airlock.example.com --timeout 2s"
)]
pub(super) struct HealthArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Time for the response.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    /// Print a JSON document: `{status}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &HealthArgs) -> anyhow::Result<CommandOutcome> {
    let asked = tokio::time::timeout(args.timeout, args.gateway.get(READY)).await;
    let ready = asked.with_context(|| {
        let limit = humantime::format_duration(args.timeout);
        format!("the gateway has not responded within {limit}")
    })??;
    output::response(&ready, args.json, "the gateway is ready")
}
