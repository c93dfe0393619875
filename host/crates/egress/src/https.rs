//! hyper's client for services that the operator configured, such as providers of models: a pool of
//! kept connections, TLS, and a proxy.
//!
//! It follows no redirects, decodes no bodies, reads no environment and resolves names as the operating
//! system does. Limits on time and size are its caller's, but for that on a connection: how long a
//! response may take depends on what it is.

mod connect;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header::PROXY_AUTHORIZATION};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};
use rustls::pki_types::CertificateDer;

pub use self::connect::{BadProxy, HttpProxy};
use self::connect::{Connect, ConnectTimedOut};

/// Time after which an unused connection is closed.
const IDLE: Duration = Duration::from_secs(90);

/// Settings of a client.
#[derive(Debug)]
pub struct HttpsSettings {
    /// True if the service is reached over TLS.
    pub is_tls: bool,
    /// Time limit for a connection: name, TCP, proxy and TLS.
    pub connect_timeout: Duration,
    /// Proxy of all connections.
    pub proxy: Option<HttpProxy>,
    /// Certificates of authorities that are trusted beside those of the operating system.
    pub authorities: Vec<CertificateDer<'static>>,
}

/// A client of one service. Clones share its connections.
#[derive(Debug, Clone)]
pub struct HttpsClient {
    client: Client<Connect, Full<Bytes>>,
    /// Credential for a proxy that reads the requests.
    proxy_authorization: Option<HeaderValue>,
}

/// Error of an exchange. It does not name the address.
#[derive(Debug, thiserror::Error)]
pub enum HttpsError {
    /// There was no connection in time.
    #[error("no connection in time")]
    ConnectTimeout,
    /// The response was not complete in time. Reported by callers, who know the limit.
    #[error("no complete response in time")]
    Timeout,
    /// There was no connection.
    #[error("cannot connect")]
    Connect(#[source] hyper_util::client::legacy::Error),
    /// The connection failed before the response began.
    #[error("the connection failed")]
    Request(#[source] hyper_util::client::legacy::Error),
    /// The connection failed before the response was complete.
    #[error("the response was cut off")]
    Body(#[source] hyper::Error),
}

impl HttpsError {
    /// Returns whether there was no connection, so that nothing of the request was sent.
    pub fn is_before_request(&self) -> bool {
        matches!(self, Self::ConnectTimeout | Self::Connect(_))
    }
}

impl HttpsClient {
    /// Creates a client. Fails if the certificates of the operating system cannot be used.
    pub fn new(settings: HttpsSettings) -> Result<Self, rustls::Error> {
        let HttpsSettings { is_tls, proxy, .. } = &settings;
        let proxy_authorization =
            proxy.as_ref().filter(|_| !is_tls).and_then(HttpProxy::authorization);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(Connect::new(settings)?);
        Ok(Self { client, proxy_authorization })
    }

    /// Sends a request and returns the response as soon as its head has arrived. The URI is absolute.
    /// Dropping the future or the body closes the connection, unless the body is at its end.
    pub async fn send(
        &self,
        mut request: Request<Bytes>,
    ) -> Result<Response<HttpsBody>, HttpsError> {
        if let Some(authorization) = &self.proxy_authorization {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        let response = self.client.request(request.map(Full::new)).await.map_err(|error| {
            if ConnectTimedOut::caused(&error) {
                HttpsError::ConnectTimeout
            } else if error.is_connect() {
                HttpsError::Connect(error)
            } else {
                HttpsError::Request(error)
            }
        })?;
        Ok(response.map(HttpsBody))
    }
}

/// Body of a response. Dropping it closes the connection, unless it is at its end.
#[derive(Debug)]
pub struct HttpsBody(Incoming);

impl HttpsBody {
    /// Waits for more of the body; `None` at its end. Trailers are left out.
    pub async fn data(&mut self) -> Result<Option<Bytes>, HttpsError> {
        while let Some(frame) = self.0.frame().await {
            if let Ok(data) = frame.map_err(HttpsError::Body)?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
