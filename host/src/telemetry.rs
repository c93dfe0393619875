//! Logging to standard error, as text or JSON, and the export over OTLP. Neither contains arguments, results or
//! credentials.

#[cfg(feature = "otlp")]
mod export;
#[cfg(not(feature = "otlp"))]
#[path = "telemetry/no_export.rs"]
mod export;
mod lines;
mod text;

use std::io::{self, IsTerminal as _};

use anyhow::Context as _;
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

pub(crate) use self::{export::Export, lines::LogLines};
use self::{lines::LineForm, text::UncolouredText};

/// Environment variable with the log filter, in the syntax of `tracing`: `airlock=debug,rmcp=info`.
pub(crate) const FILTER_VARIABLE: &str = "AIRLOCK_LOG";

/// Default filter of a gateway that runs unattended: life cycle and failures. `rmcp` is off because
/// its warnings contain whole messages; the upstream module logs the same events without contents.
pub(crate) const SERVICE_FILTER: &str = "airlock=info,warn,rmcp=off";
/// Default filter of interactive commands: failures only.
pub(crate) const COMMAND_FILTER: &str = "warn,rmcp=off";
/// Default filter of the demo, where failures are part of the scenes. The log of plugins is off: the
/// hostile plugin writes an error when it crashes, before its scene is printed.
pub(crate) const DEMO_FILTER: &str = "error,rmcp=off,airlock_sandbox::plugin::log=off";

/// Added to every filter: at the level `debug`, the OAuth client of `rmcp` writes authorization codes.
const NO_CODES: &str = "rmcp::transport::auth=off";

/// Format of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// Starts logging for the whole process, with `filter`, or with `otherwise` if `filter` is absent
/// or empty. Fails if the filter is invalid or logging is already started. Returns the lines that wait,
/// to be flushed when the process ends.
pub(crate) fn init(
    format: LogFormat,
    filter: Option<&str>,
    otherwise: &str,
) -> anyhow::Result<LogLines> {
    let filter = filter.filter(|filter| !filter.is_empty()).unwrap_or(otherwise);
    let filter = EnvFilter::try_new(filter)
        .with_context(|| format!("{FILTER_VARIABLE} is not a valid log filter"))?;
    let filter = filter.add_directive(NO_CODES.parse().context("a filter of the gateway's own")?);
    let has_colours = io::stderr().is_terminal();
    let form = match format {
        LogFormat::Json => LineForm::Json,
        LogFormat::Text if has_colours => LineForm::Coloured,
        LogFormat::Text => LineForm::Plain,
    };
    let lines = LogLines::to_stderr(form).context("logging cannot be started")?;
    let format_of = fmt().with_env_filter(filter).with_writer(lines.clone()).with_ansi(has_colours);
    let started = match format {
        LogFormat::Text if has_colours => format_of.finish().with(export::log_layer()).try_init(),
        LogFormat::Text => {
            format_of.event_format(UncolouredText).finish().with(export::log_layer()).try_init()
        }
        LogFormat::Json => format_of.json().finish().with(export::log_layer()).try_init(),
    };
    started.context("logging cannot be started")?;
    Ok(lines)
}
