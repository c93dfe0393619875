//! Servers that an embedding program reaches in its own way: inside the process, or through a stream that it opens.
//!
//! ```text
//! connect, each reconnect ─► ServerTransport ─► ServerStream ─ lines of JSON-RPC ─► Stdio
//! ```
//!
//! From the stream on, such a server is like one that is a process: untrusted, bounded and supervised.

use std::{any::Any, fmt, panic::AssertUnwindSafe, sync::Arc};

use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    connector::{Connector, OpenError, Opened, Opening},
    stdio::Stdio,
};
use airlock_core::tool::Cause;
use airlock_mcp_oauth::Secrets;

/// A duplex of bytes to an MCP server: one JSON-RPC message for each line, in both directions. Every stream
/// of tokio is one.
pub trait ServerStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ServerStream for S {}

/// A way of the embedding program to an MCP server.
///
/// ```
/// # use airlock_mcp_client as airlock;
/// use airlock::{ConnectFailure, ServerStream, ServerTransport};
/// use futures_util::future::BoxFuture;
/// use tokio::net::TcpStream;
///
/// struct Tunnel(u16);
///
/// impl ServerTransport for Tunnel {
///     fn connect(&self) -> BoxFuture<'_, Result<Box<dyn ServerStream>, ConnectFailure>> {
///         Box::pin(async move {
///             let stream = TcpStream::connect(("127.0.0.1", self.0)).await;
///             let stream = stream.map_err(ConnectFailure::retried)?;
///             Ok(Box::new(stream) as Box<dyn ServerStream>)
///         })
///     }
/// }
/// ```
pub trait ServerTransport: Send + Sync + 'static {
    /// Connects to the server. Called for each connection: at the start, after each one that has ended, and for
    /// each call if the life cycle has a connection for each. The connections are separate: the server must
    /// accept a handshake on each. The future is dropped after the startup timeout. It is polled on a runtime of
    /// the gateway, whose tasks end with the gateway. A panic is a failure after which a later attempt may succeed.
    ///
    /// The gateway closes the connection by dropping the stream.
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn ServerStream>, ConnectFailure>>;
}

/// Reason that a [`ServerTransport`] has not connected. The operator sees it with its causes.
#[derive(Debug, thiserror::Error)]
pub enum ConnectFailure {
    /// A later attempt may succeed.
    #[error(transparent)]
    Retried(Cause),
    /// Only the operator can help: the server is shown as failed until a further attempt succeeds.
    #[error(transparent)]
    Permanent(Cause),
}

impl ConnectFailure {
    /// Creates a failure after which a later attempt may succeed.
    pub fn retried(cause: impl Into<Cause>) -> Self {
        Self::Retried(cause.into())
    }

    /// Creates a failure that only the operator can help.
    pub fn permanent(cause: impl Into<Cause>) -> Self {
        Self::Permanent(cause.into())
    }
}

impl From<ConnectFailure> for OpenError {
    fn from(failure: ConnectFailure) -> Self {
        match failure {
            ConnectFailure::Retried(cause) => Self::Failed(cause),
            ConnectFailure::Permanent(cause) => Self::Unusable(cause),
        }
    }
}

/// The transport of a server that the embedding program reaches.
#[derive(Clone)]
pub struct EmbeddedServer(Arc<dyn ServerTransport>);

impl EmbeddedServer {
    /// Name of the transport, where those of configured servers have their `connection_type`.
    pub const CONNECTION_TYPE: &str = "embedded";

    /// Wraps the transport of the program.
    pub fn new(transport: Arc<dyn ServerTransport>) -> Self {
        Self(transport)
    }

    /// Connects. A panic of the transport would end the supervision of the server, which nothing begins again.
    async fn connect(&self) -> Result<Box<dyn ServerStream>, ConnectFailure> {
        let connecting = AssertUnwindSafe(async { self.0.connect().await });
        let connected = connecting.catch_unwind().await;
        connected.unwrap_or_else(|_| {
            Err(ConnectFailure::retried("the transport of the program panicked"))
        })
    }
}

impl Connector for EmbeddedServer {
    fn connection_type(&self) -> &'static str {
        Self::CONNECTION_TYPE
    }

    fn is_same(&self, other: &dyn Connector) -> bool {
        let other: Option<&Self> = (other as &dyn Any).downcast_ref();
        other.is_some_and(|other| Arc::ptr_eq(&self.0, &other.0))
    }

    fn open<'a>(&'a self, opening: Opening<'a>) -> BoxFuture<'a, Result<Opened, OpenError>> {
        Box::pin(async move {
            let stream = self.connect().await?;
            let (read, write) = tokio::io::split(stream);
            let stdio = Stdio::new(read, write, opening.inbox, opening.has_headers);
            Ok(Opened { transport: Arc::new(stdio), process: None })
        })
    }

    /// Returns none: the program has the credentials of the connection.
    fn secrets(&self) -> Secrets {
        Secrets::default()
    }
}

impl fmt::Debug for EmbeddedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EmbeddedServer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::Process;

    struct Closed;

    impl ServerTransport for Closed {
        fn connect(&self) -> BoxFuture<'_, Result<Box<dyn ServerStream>, ConnectFailure>> {
            Box::pin(async { Err(ConnectFailure::permanent(io::Error::other("no host key"))) })
        }
    }

    #[test]
    fn a_transport_is_the_same_as_itself_alone() {
        let server = EmbeddedServer::new(Arc::new(Closed));
        assert!(server.is_same(&server.clone()));
        // `Closed` has no bytes, and two of them may be at one address: another type is another transport.
        assert!(!server.is_same(&Process::default()));
    }

    struct Panicking;

    impl ServerTransport for Panicking {
        fn connect(&self) -> BoxFuture<'_, Result<Box<dyn ServerStream>, ConnectFailure>> {
            panic!("on purpose")
        }
    }

    #[tokio::test]
    async fn a_transport_that_panics_is_asked_again() {
        let connected = EmbeddedServer::new(Arc::new(Panicking)).connect().await;
        let failure = connected.err().expect("it does not connect");
        assert!(matches!(failure, ConnectFailure::Retried(_)), "{failure}");
    }

    #[tokio::test]
    async fn a_failure_that_only_the_operator_can_help_is_unusable_with_its_cause() {
        let failure = Closed.connect().await.err().expect("it does not connect");
        let OpenError::Unusable(cause) = OpenError::from(failure) else { panic!("unusable") };
        assert_eq!(cause.to_string(), "no host key");
        let failure = OpenError::from(ConnectFailure::retried(io::Error::other("busy")));
        assert!(matches!(failure, OpenError::Failed(_)));
    }
}
