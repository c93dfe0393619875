//! The HTTP client of the exporters, over that of the gateway.
//!
//! Exporters call it from threads of their own, which have no runtime, so each request is a task of the gateway's runtime
//! and the thread waits for its result. It makes no spans.

use std::{error::Error, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header::CONTENT_TYPE};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use super::queue::DropCounter;
use crate::settings::Collector;

/// Maximum size of a collector's response, in bytes. It is held in memory, and has a message of
/// some words. A transport fails beyond it.
pub const MAX_RESPONSE_BYTES: usize = 64 << 10;
/// Type of the messages.
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

/// Error of a request to a collector.
pub type TransportError = Box<dyn Error + Send + Sync>;
/// A request that is being sent.
pub type Sending = Pin<Box<dyn Future<Output = Result<Response<Bytes>, TransportError>> + Send>>;

/// Sends the requests of the export.
pub trait OtlpTransport: Send + Sync + 'static {
    /// Sends a request and reads the whole response, up to [`MAX_RESPONSE_BYTES`]. Its caller limits the time, and drops
    /// the future at the end of it.
    fn send(&self, request: Request<Bytes>) -> Sending;
}

/// A client of one collector.
#[derive(Clone)]
pub(super) struct CollectorClient {
    transport: Arc<dyn OtlpTransport>,
    runtime: Handle,
    url: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    timeout: Duration,
    drops: Arc<DropCounter>,
}

impl CollectorClient {
    /// Creates a client whose requests are sent on the runtime of the caller.
    pub(super) fn new(
        collector: &Collector,
        transport: Arc<dyn OtlpTransport>,
        drops: Arc<DropCounter>,
    ) -> Self {
        Self {
            transport,
            runtime: Handle::current(),
            url: collector.url.clone(),
            headers: collector.headers.clone(),
            timeout: collector.timeout,
            drops,
        }
    }

    /// Returns the count of what is dropped on the way to this collector.
    pub(super) fn drops(&self) -> &Arc<DropCounter> {
        &self.drops
    }

    /// Sends a message, within the time for one export. Returns the response, whatever its status is.
    pub(super) async fn post(&self, message: Bytes) -> Result<Response<Bytes>, TransportError> {
        let mut request = Request::new(message);
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.url.clone();
        *request.headers_mut() = self.headers();
        timeout(self.timeout, self.transport.send(request))
            .await
            .map_err(|_| "no response in time")?
    }

    fn headers(&self) -> HeaderMap {
        let own = [(CONTENT_TYPE, PROTOBUF)];
        self.headers.iter().cloned().chain(own).collect()
    }
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL and the headers may have credentials.
        f.debug_struct("CollectorClient").finish_non_exhaustive()
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // Only the body is taken over: the exporter adds headers of the environment, over which the file wins.
        let client = self.clone();
        let (respond, response) = oneshot::channel();
        self.runtime.spawn(async move {
            let _ = respond.send(client.post(request.into_body()).await);
        });
        let response = response.await.unwrap_or_else(|_| Err("the gateway stops".into()));
        response.inspect_err(|error| self.drops.explain(&**error))
    }
}
