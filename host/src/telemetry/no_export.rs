//! The export over OTLP without the feature `otlp`: there is none.

use anyhow::ensure;
use tracing_subscriber::layer::Identity;

use airlock_gateway::Gateway;
use airlock_telemetry::settings::TelemetrySettings;

/// The export of a command.
pub(crate) struct Export;

impl Export {
    /// Fails if the configuration or the environment asks for an export.
    pub(crate) fn start(settings: &TelemetrySettings) -> anyhow::Result<Self> {
        ensure!(
            settings.otlp.is_none(),
            "`telemetry.otlp`, or OTEL_EXPORTER_OTLP_ENDPOINT in its place, is set, and this build exports nothing: it has no feature `otlp`"
        );
        Ok(Self)
    }

    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn add_metrics(&mut self, _: &Gateway) {}

    #[expect(clippy::unused_async, clippy::unused_self, reason = "as with the feature")]
    pub(crate) async fn end(self, _: bool) {}
}

/// Returns a part of the subscriber that does nothing.
pub(super) fn log_layer() -> Identity {
    Identity::new()
}
