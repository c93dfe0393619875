//! The export over OTLP of a command that serves: its start, its end, and the way of its requests.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use bytes::Bytes;
use http::{Request, Response};

use airlock_egress::https::{HttpsClient, HttpsSettings};
use airlock_gateway::{Gateway, command_line};
use airlock_telemetry::{
    LogLayer, MAX_RESPONSE_BYTES, OtlpTransport, Sending, Telemetry, TransportError,
    settings::TelemetrySettings,
};

/// Time for a connection to a collector.
const CONNECT: Duration = Duration::from_secs(5);
/// Time for the last export when the process stops.
const LAST: Duration = Duration::from_secs(4);
/// The same for a command that has failed, or has received two signals to stop.
const LAST_OF_FAILED: Duration = Duration::from_millis(500);

/// The export of a command; nothing if the configuration has none.
pub(crate) struct Export(Option<Telemetry>);

impl Export {
    /// Starts to export spans and log records. Fails if no client for the collector can be made.
    pub(crate) fn start(settings: &TelemetrySettings) -> anyhow::Result<Self> {
        let Some(settings) = &settings.otlp else { return Ok(Self(None)) };
        let client = HttpsClient::new(HttpsSettings {
            // Only for proxies.
            is_tls: false,
            connect_timeout: CONNECT,
            proxy: None,
            authorities: Vec::new(),
            identity: None,
        });
        let client = client.context("no client for the collector of `telemetry.otlp`")?;
        let telemetry = Telemetry::start(settings, Arc::new(CollectorTransport(client)))
            .context("`telemetry.otlp` cannot be used")?;
        Ok(Self(Some(telemetry)))
    }

    /// Starts to export the metrics of a gateway.
    pub(crate) fn add_metrics(&mut self, gateway: &Gateway) {
        if let Some(telemetry) = &mut self.0 {
            telemetry.export_metrics(command_line::read_metrics(gateway));
        }
    }

    /// Sends the remaining data, within seconds; within less if the command has failed.
    pub(crate) async fn end(self, is_ok: bool) {
        if let Some(telemetry) = self.0 {
            telemetry.shutdown(if is_ok { LAST } else { LAST_OF_FAILED }).await;
        }
    }
}

/// Returns the part of the subscriber that exports log records.
pub(super) fn log_layer() -> LogLayer {
    LogLayer
}

/// The way to a collector: the client of providers of models.
struct CollectorTransport(HttpsClient);

impl OtlpTransport for CollectorTransport {
    fn send(&self, request: Request<Bytes>) -> Sending {
        Box::pin(exchange(self.0.clone(), request))
    }
}

async fn exchange(
    client: HttpsClient,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, TransportError> {
    let (head, mut body) = client.send(request).await?.into_parts();
    let mut whole = Vec::new();
    while let Some(part) = body.data().await? {
        if whole.len() + part.len() > MAX_RESPONSE_BYTES {
            return Err("the response is too large".into());
        }
        whole.extend_from_slice(&part);
    }
    Ok(Response::from_parts(head, whole.into()))
}
