//! Connections: direct, or by a proxy.

use std::{
    error::Error,
    future::Future,
    io,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use airlock_tls::Identity;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::future::BoxFuture;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::{
    client::legacy::connect::{
        HttpConnector,
        proxy::{SocksV5, Tunnel},
    },
    rt::TokioIo,
};
use percent_encoding::percent_decode_str;
use rustls::{ClientConfig, pki_types::CertificateDer};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tower_service::Service;
use url::Url;

use crate::tls;

/// Silence after which the operating system asks whether the other side is still there, and the time
/// between the questions.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Number of unanswered questions after which a connection counts as broken.
const KEEPALIVE_RETRIES: u32 = 3;
/// Maximum time for which sent bytes may be unacknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

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

/// A proxy, from its URL.
#[derive(Clone)]
pub struct HttpProxy {
    scheme: ProxyScheme,
    /// Its address, without credentials.
    uri: Uri,
    /// User and password.
    credential: Option<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProxyScheme {
    /// HTTP, over TLS or not.
    Http,
    /// SOCKS 5.
    Socks {
        /// True if the proxy resolves names.
        resolves: bool,
    },
}

/// Reason that a URL names no proxy. It does not repeat the URL, which may have a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an http://, https://, socks5:// or socks5h:// URL")]
pub struct BadProxy;

impl HttpProxy {
    /// Parses a URL, such as `http://user:password@proxy:3128`.
    pub fn parse(url: &str) -> Result<Self, BadProxy> {
        let url = Url::parse(url).map_err(|_| BadProxy)?;
        let (scheme, port) = match url.scheme() {
            "http" => (ProxyScheme::Http, 80),
            "https" => (ProxyScheme::Http, 443),
            "socks5" => (ProxyScheme::Socks { resolves: false }, 1080),
            "socks5h" => (ProxyScheme::Socks { resolves: true }, 1080),
            _ => return Err(BadProxy),
        };
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(BadProxy)?;
        let port = url.port().unwrap_or(port);
        // The connector of SOCKS proxies takes the address alone.
        let reached = if url.scheme() == "https" { "https" } else { "http" };
        let uri = format!("{reached}://{host}:{port}").parse().map_err(|_| BadProxy)?;
        let credential = (!url.username().is_empty() || url.password().is_some())
            .then(|| (decoded(url.username()), decoded(url.password().unwrap_or_default())));
        Ok(Self { scheme, uri, credential })
    }

    /// Returns the credential as a header of HTTP; `None` for a SOCKS proxy.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        let (user, password) = self.credential.as_ref()?;
        if self.scheme != ProxyScheme::Http {
            return None;
        }
        let basic = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        let mut value = HeaderValue::try_from(basic).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl std::fmt::Debug for HttpProxy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("HttpProxy").field(&self.uri).finish_non_exhaustive()
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Makes the connections of a client.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    route: ConnectRoute,
    timeout: Duration,
}

type Tls<C> = HttpsConnector<C>;

#[derive(Clone)]
enum ConnectRoute {
    Direct(Tls<HttpConnector>),
    /// By a proxy that passes the bytes of TLS on.
    Tunnel(Tls<Tunnel<Tls<HttpConnector>>>),
    /// By a proxy that reads the requests.
    Forward {
        proxy: Uri,
        connect: Tls<HttpConnector>,
    },
    Socks(Tls<Resolving>),
}

impl std::fmt::Debug for ConnectRoute {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Direct(_) => "Direct",
            Self::Tunnel(_) => "Tunnel",
            Self::Forward { .. } => "Forward",
            Self::Socks(_) => "Socks",
        })
    }
}

impl Connector {
    pub(super) fn new(settings: HttpsSettings) -> Result<Self, rustls::Error> {
        let HttpsSettings { is_tls, connect_timeout, proxy, authorities, identity } = settings;
        // A proxy over HTTPS is another server than the one that the certificate is for.
        let of_proxy = Arc::new(tls::client_config(authorities)?);
        let config = match identity {
            Some(identity) => Arc::new(tls::identified(&of_proxy, &identity)),
            None => of_proxy.clone(),
        };
        let route = match proxy {
            None => ConnectRoute::Direct(with_tls(tcp(), &config)),
            Some(HttpProxy { scheme: ProxyScheme::Socks { resolves }, uri, credential }) => {
                let mut socks = SocksV5::new(uri, tcp());
                if let Some((user, password)) = credential {
                    socks = socks.with_auth(user, password);
                }
                ConnectRoute::Socks(with_tls(
                    Resolving { socks, is_left_to_proxy: resolves },
                    &config,
                ))
            }
            Some(proxy) if is_tls => {
                let mut tunnel = Tunnel::new(proxy.uri.clone(), with_tls(tcp(), &of_proxy));
                if let Some(authorization) = proxy.authorization() {
                    tunnel = tunnel.with_auth(authorization);
                }
                ConnectRoute::Tunnel(with_tls(tunnel, &config))
            }
            Some(HttpProxy { uri, .. }) => {
                ConnectRoute::Forward { proxy: uri, connect: with_tls(tcp(), &of_proxy) }
            }
        };
        Ok(Self { route, timeout: connect_timeout })
    }
}

fn with_tls<C>(connect: C, config: &Arc<ClientConfig>) -> HttpsConnector<C> {
    HttpsConnector::from((connect, config.clone()))
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE));
    tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    tcp
}

/// There was no connection in time.
#[derive(Debug, thiserror::Error)]
#[error("the connection took longer than its limit")]
pub(super) struct ConnectTimedOut;

impl ConnectTimedOut {
    /// Returns whether it is the cause of an error.
    pub(super) fn caused(error: &(dyn Error + 'static)) -> bool {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if error.is::<Self>() {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

impl Connector {
    /// Returns whether a proxy reads the requests, which then have absolute addresses.
    pub(super) fn is_forwarded(&self) -> bool {
        matches!(self.route, ConnectRoute::Forward { .. })
    }

    /// Makes a connection to the service of an absolute URI. Fails with [`ConnectTimedOut`] at the time
    /// limit. Dropping the future stops it.
    pub(super) async fn open(&self, service: Uri) -> Result<ServiceConnection, BoxError> {
        let connecting = match &self.route {
            ConnectRoute::Direct(connect) => opened(connect.clone().call(service)),
            ConnectRoute::Tunnel(connect) => opened(connect.clone().call(service)),
            ConnectRoute::Socks(connect) => opened(connect.clone().call(service)),
            ConnectRoute::Forward { .. } if service.scheme_str() != Some("http") => {
                return Err(io::Error::other("a proxy must not read what TLS protects").into());
            }
            ConnectRoute::Forward { proxy, connect } => opened(connect.clone().call(proxy.clone())),
        };
        timeout(self.timeout, connecting).await.map_err(|_| ConnectTimedOut)?
    }
}

/// Connects by a SOCKS proxy, after the name of the service is resolved unless that is left to the
/// proxy. The connector of SOCKS proxies would block a worker for it.
#[derive(Debug, Clone)]
struct Resolving {
    socks: SocksV5<HttpConnector>,
    is_left_to_proxy: bool,
}

impl Service<Uri> for Resolving {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<TokioIo<TcpStream>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, service: Uri) -> Self::Future {
        let Self { mut socks, is_left_to_proxy } = self.clone();
        Box::pin(async move {
            let host = service.host().unwrap_or_default();
            // Without a port, the connector takes that of HTTPS.
            let is_http = service.scheme_str() == Some("http");
            let port = service.port_u16().unwrap_or(if is_http { 80 } else { 443 });
            let authority = if is_left_to_proxy {
                format!("{host}:{port}")
            } else {
                let name = host.trim_start_matches('[').trim_end_matches(']');
                let mut addresses = lookup_host((name, port)).await?;
                addresses.next().ok_or("the name has no address")?.to_string()
            };
            let address = Uri::builder().scheme("http").authority(authority).path_and_query("/");
            socks.call(address.build()?).await.map_err(Into::into)
        })
    }
}

fn opened<S: Stream + 'static>(
    connecting: impl Future<Output = Result<MaybeHttpsStream<S>, BoxError>> + Send + 'static,
) -> BoxFuture<'static, Result<ServiceConnection, BoxError>> {
    Box::pin(async move {
        let stream: ServiceConnection = match connecting.await? {
            // Without TLS, a connection does not have the room of one with it, a kibibyte.
            MaybeHttpsStream::Http(plain) => Box::new(plain),
            tls @ MaybeHttpsStream::Https(_) => Box::new(tls),
        };
        Ok(stream)
    })
}

/// Bytes to and from a service.
pub(super) trait Stream: Read + Write + Send + Unpin {}

impl<S: Read + Write + Send + Unpin> Stream for S {}

/// A connection to a service, or to a proxy that reads the requests.
pub(super) type ServiceConnection = Box<dyn Stream>;
