//! Where log lines go: standard error, as text or JSON. Arguments, results and credentials are in
//! none of them.

use std::io::{self, IsTerminal as _};

use anyhow::Context as _;
use tracing_subscriber::{EnvFilter, fmt};

/// The variable that says what is logged, in the syntax of `tracing`: `airlock=debug,rmcp=info`.
pub const FILTER_VARIABLE: &str = "AIRLOCK_LOG";

/// What a gateway says that runs by itself: its life cycle, and what went wrong. `rmcp` is silent
/// because its warnings hold whole messages; the same events are told by the upstream module,
/// without contents.
pub const SERVICE_FILTER: &str = "airlock=info,warn,rmcp=off";
/// What a command says that someone is waiting for: what went wrong.
pub const COMMAND_FILTER: &str = "warn,rmcp=off";
/// What the demo says, where things go wrong on purpose.
pub const DEMO_FILTER: &str = "error,rmcp=off";

/// How log lines are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// Starts logging for the whole process, once, with the operator's filter or else the command's
/// own.
pub fn init(format: LogFormat, filter: Option<&str>, otherwise: &str) -> anyhow::Result<()> {
    let filter = filter.filter(|filter| !filter.is_empty()).unwrap_or(otherwise);
    let filter = EnvFilter::try_new(filter)
        .with_context(|| format!("{FILTER_VARIABLE} cannot be understood"))?;
    let lines =
        fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    let started = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    started.map_err(|error| anyhow::anyhow!(error)).context("logging cannot be started")
}
