//! hyper's client for services that the operator configured, such as providers of models: a pool of
//! kept connections, TLS, and a proxy. A connection is polled by the task that uses it.
//!
//! It follows no redirects, decodes no bodies, reads no environment and resolves names as the operating
//! system does. Limits on time and size are its caller's, but for that on a connection: how long a
//! response may take depends on what it is.

mod connect;
mod connection;
mod pool;

use std::{
    future::poll_fn,
    mem,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header::HOST, header::PROXY_AUTHORIZATION, uri};
use http_body_util::Full;
use hyper::body::{Frame, Incoming};
use tokio::runtime::Handle;

pub use self::connect::{BadProxy, HttpProxy, HttpsSettings};
use self::{
    connect::{BoxError, ConnectTimedOut, Connector},
    connection::PolledConnection,
    pool::{Pool, ServerAddress},
};

/// A client of one service. Clones share its connections.
#[derive(Debug, Clone)]
pub struct HttpsClient {
    connect: Connector,
    pool: Arc<Pool>,
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
        Ok(Self { connect, pool: Arc::default(), proxy_authorization })
    }

    /// Sends a request and returns the response as soon as its head has arrived. The URI is absolute.
    /// A request of which nothing was sent, because its kept connection was closed meanwhile, is sent on another
    /// one. Dropping the future closes the connection.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<HttpsBody>, HttpsError> {
        let Some(server) = ServerAddress::of_uri(request.uri()) else {
            return Err(HttpsError::Connect("the address has no scheme or no host".into()));
        };
        let (request, service) = self.addressed(request, &server);
        let mut request = request.map(Full::new);
        loop {
            let kept = self.pool.take(&server);
            let is_kept = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                None => self.open(service.clone()).await?,
            };
            match connection.send(request).await {
                Ok(response) => {
                    let used = UsedConnection { server, connection, pool: self.pool.clone() };
                    return Ok(response.map(|body| HttpsBody { body, used: Some(used) }));
                }
                Err(mut error) => match error.take_message() {
                    Some(unsent) if is_kept => request = unsent,
                    _ => return Err(HttpsError::Request(error.into_error())),
                },
            }
        }
    }

    /// Returns a request in the form in which its server, or the proxy, takes it, and the URI that it had.
    fn addressed(
        &self,
        mut request: Request<Bytes>,
        server: &ServerAddress,
    ) -> (Request<Bytes>, Uri) {
        if !request.headers().contains_key(HOST) {
            request.headers_mut().extend(server.host().map(|host| (HOST, host)));
        }
        if let Some(authorization) = &self.proxy_authorization {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        if self.connect.is_forwarded() {
            let service = request.uri().clone();
            return (request, service);
        }
        let mut parts = uri::Parts::default();
        parts.path_and_query = request.uri().path_and_query().cloned();
        let origin_form = Uri::from_parts(parts).unwrap_or_default();
        let service = mem::replace(request.uri_mut(), origin_form);
        (request, service)
    }

    /// Makes a connection to the service of a URI.
    async fn open(&self, service: Uri) -> Result<PolledConnection, HttpsError> {
        let stream = self.connect.open(service).await.map_err(|error| {
            if ConnectTimedOut::caused(&*error) {
                HttpsError::ConnectTimeout
            } else {
                HttpsError::Connect(error)
            }
        })?;
        PolledConnection::begin(stream).await.map_err(HttpsError::Request)
    }
}

/// Body of a response. Dropping it closes the connection, unless the rest of the body has arrived.
#[derive(Debug)]
pub struct HttpsBody {
    body: Incoming,
    /// The connection, until the end of the body.
    used: Option<UsedConnection>,
}

/// A connection on which a response arrives.
#[derive(Debug)]
struct UsedConnection {
    server: ServerAddress,
    connection: PolledConnection,
    pool: Arc<Pool>,
}

impl HttpsBody {
    /// Waits for more of the body; `None` at its end. Trailers are left out.
    pub async fn data(&mut self) -> Result<Option<Bytes>, HttpsError> {
        while let Some(frame) = poll_fn(|context| self.poll_frame(context)).await {
            if let Ok(data) = frame.map_err(HttpsError::Body)?.into_data() {
                return Ok(Some(data));
            }
        }
        self.end();
        Ok(None)
    }

    fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.used {
            Some(used) => used.connection.poll_frame(&mut self.body, context),
            None => Poll::Ready(None),
        }
    }

    /// Keeps the connection for the next request. Of what is left of the body, hyper reads what has arrived. It closes
    /// the connection unless that is the end, which streams of events have after their last one.
    fn end(&mut self) {
        let Some(used) = self.used.take() else { return };
        let UsedConnection { server, mut connection, pool } = used;
        if connection.is_ready() {
            pool.keep(server, connection);
        } else if !connection.is_closed()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move {
                if connection.until_ready().await {
                    pool.keep(server, connection);
                }
            });
        }
    }
}

impl Drop for HttpsBody {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
