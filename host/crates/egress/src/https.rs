//! hyper's client for services that the operator configured, such as providers of models: a pool of
//! kept connections, TLS, and a proxy.
//!
//! It follows no redirects, decodes no bodies, reads no environment and resolves names as the operating
//! system does. Limits on time and size are its caller's, but for that on a connection: how long a
//! response may take depends on what it is.

mod connect;
mod pool;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderValue, Request, Response, Uri, header::HOST, header::PROXY_AUTHORIZATION, uri};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::{Body as _, Incoming},
    client::conn::http1,
};
use rustls::pki_types::CertificateDer;
use tokio::runtime::Handle;

pub use self::connect::{BadProxy, HttpProxy};
use self::{
    connect::{BoxError, ConnectTimedOut, Connector},
    pool::{Pool, Sender, Server},
};
use airlock_tls::Identity;

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
    /// Certificate for the service, if it asks for one. A proxy never gets it.
    pub identity: Option<Identity>,
}

/// A client of one service. Clones share its connections.
#[derive(Debug, Clone)]
pub struct HttpsClient {
    connect: Connector,
    pool: Arc<Pool>,
    /// Credential for a proxy that reads the requests.
    proxy_authorization: Option<HeaderValue>,
    /// The server of the first request, which is usually that of all, with its header `Host`.
    host: Arc<OnceLock<(Server, Option<HeaderValue>)>>,
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
    Connect(#[source] BoxError),
    /// The connection failed before the response began.
    #[error("the connection failed")]
    Request(#[source] hyper::Error),
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
        let connect = Connector::new(settings)?;
        Ok(Self { connect, pool: Arc::default(), proxy_authorization, host: Arc::default() })
    }

    /// Sends a request and returns the response as soon as its head has arrived. The URI is absolute.
    /// A request of which nothing was sent, because its kept connection was closed meanwhile, is sent on another
    /// one. Dropping the future closes the connection.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<HttpsBody>, HttpsError> {
        let service = request.uri().clone();
        let Some(server) = Server::of_uri(&service) else {
            return Err(HttpsError::Connect("the address has no scheme or no host".into()));
        };
        let mut request = self.addressed(request, &server).map(Full::new);
        loop {
            let kept = self.pool.take(&server);
            let is_kept = kept.is_some();
            let mut sender = match kept {
                Some(sender) => sender,
                None => self.open(service.clone()).await?,
            };
            match sender.try_send_request(request).await {
                Ok(response) => {
                    let connection = UsedConnection { server, sender, pool: self.pool.clone() };
                    return Ok(
                        response.map(|body| HttpsBody { body, connection: Some(connection) })
                    );
                }
                Err(mut error) => match error.take_message() {
                    Some(unsent) if is_kept => request = unsent,
                    _ => return Err(HttpsError::Request(error.into_error())),
                },
            }
        }
    }

    /// Returns a request in the form in which its server, or the proxy, takes it.
    fn addressed(&self, mut request: Request<Bytes>, server: &Server) -> Request<Bytes> {
        let (first, host) = self.host.get_or_init(|| (server.clone(), server.host()));
        let host = if first == server { host.clone() } else { server.host() };
        if let Some(host) = host {
            request.headers_mut().entry(HOST).or_insert(host);
        }
        if let Some(authorization) = &self.proxy_authorization {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        if !self.connect.is_forwarded() {
            let mut parts = uri::Parts::default();
            parts.path_and_query = request.uri().path_and_query().cloned();
            *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        }
        request
    }

    /// Makes a connection to the service of a URI.
    async fn open(&self, service: Uri) -> Result<Sender, HttpsError> {
        let stream = self.connect.open(service).await.map_err(|error| {
            if ConnectTimedOut::caused(&*error) {
                HttpsError::ConnectTimeout
            } else {
                HttpsError::Connect(error)
            }
        })?;
        let (sender, connection) = http1::handshake(stream).await.map_err(HttpsError::Request)?;
        // It ends with its sender. An error is one of the exchange, too. No `async` block, which would keep room
        // for the connection twice.
        tokio::spawn(connection.map(drop));
        Ok(sender)
    }
}

/// Body of a response. Dropping it closes the connection, unless the rest of the body has arrived.
#[derive(Debug)]
pub struct HttpsBody {
    body: Incoming,
    /// The connection, until the end of the body.
    connection: Option<UsedConnection>,
}

/// A connection on which a response arrives.
#[derive(Debug)]
struct UsedConnection {
    server: Server,
    sender: Sender,
    pool: Arc<Pool>,
}

impl HttpsBody {
    /// Waits for more of the body; `None` at its end. Trailers are left out.
    pub async fn data(&mut self) -> Result<Option<Bytes>, HttpsError> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(data) = frame.map_err(HttpsError::Body)?.into_data() {
                return Ok(Some(data));
            }
        }
        self.end();
        Ok(None)
    }

    /// Keeps the connection for the next request.
    fn end(&mut self) {
        if let Some(UsedConnection { server, sender, pool }) = self.connection.take() {
            pool.keep(server, sender);
        }
    }
}

impl Drop for HttpsBody {
    fn drop(&mut self) {
        if self.body.is_end_stream() {
            self.end();
        } else if let Some(UsedConnection { server, mut sender, pool }) = self.connection.take()
            && let Ok(runtime) = Handle::try_current()
        {
            // hyper reads what has arrived of the rest. It closes the connection unless that is the end, which
            // streams of events have after their last one.
            runtime.spawn(async move {
                if sender.ready().await.is_ok() {
                    pool.keep(server, sender);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests;
