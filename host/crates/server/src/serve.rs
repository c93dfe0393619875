//! Serves the APIs over sockets, after a check of the settings.

use std::{io, sync::Arc};

use http::Request;
use tokio::net::TcpListener;

use super::{App, LiveApp};
use airlock_ingress::{
    self as ingress, ChargedReply, ConnectionSettings, HttpService, Ingress, ListenerTls,
    RequestBody, RequestHandler, socket::SocketListener,
};

/// Error of a listener whose certificate was not loaded.
const NOT_LOADED: &str = "the certificate of the listener was not loaded";
/// Error of settings with TLS, without the certificate: the listener would speak plain HTTP.
const NO_CERTIFICATE: &str =
    "the settings have `tls`, and the hooks have none: create a `ListenerTls` and load it";

/// Serves until `shutdown` completes: all APIs over `listener`, and the management API over
/// `socket`. Then it stops accepting connections, removes the path of the socket and lets the
/// requests in flight end, for at most `drain_timeout`. Dropping the future stops them at once.
/// Fails if the settings are unsafe or cannot work, or if they have TLS and its files were never loaded;
/// errors of connections are logged.
pub async fn serve(
    listener: TcpListener,
    socket: Option<SocketListener>,
    live: Arc<LiveApp>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let app = live.current();
    app.settings.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let unusable = match &app.hooks.tls {
        Some(tls) => (!tls.is_loaded()).then_some(NOT_LOADED),
        None => app.settings.tls.as_ref().map(|_| NO_CERTIFICATE),
    };
    drop(app);
    if let Some(problem) = unusable {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    ingress::serve(listener, socket, Arc::new(AllApis(live)), shutdown).await;
    Ok(())
}

/// The service of the gateway's own sockets.
struct AllApis(Arc<LiveApp>);

impl HttpService for AllApis {
    type Handler = App;

    fn current(&self) -> Arc<App> {
        self.0.current()
    }

    async fn drain(&self, connections: impl Future<Output = ()> + Send) {
        self.0.drain(connections).await;
    }
}

impl RequestHandler for App {
    fn connections(&self) -> ConnectionSettings {
        self.settings.connections()
    }

    fn tls(&self) -> Option<&ListenerTls> {
        self.hooks.tls.as_ref()
    }

    // No `async` block, which would have room for the request twice.
    fn handle(
        &self,
        request: Request<RequestBody>,
        ingress: Ingress,
    ) -> impl Future<Output = ChargedReply> + Send {
        self.respond(request, ingress)
    }
}
