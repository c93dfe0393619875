//! The contract between the settings of a server and its transport: how the server is reached, and
//! what only its transport knows of its settings.
//!
//! A transport is one module with an implementation of [`Connector`]. The configuration makes the
//! object, and no other module distinguishes transports.

use std::{any::Any, fmt, sync::Arc};

use futures_util::future::BoxFuture;

use super::{
    channel::{Owner, ProcessExit},
    inbox::Inbox,
    transport::Transport,
};
use airlock_core::tool::{Cause, ClientName};
use airlock_mcp_oauth::{Authority, HttpSettings, Secrets, unusable_files};

/// A way to reach one server, with its settings.
pub trait Connector: Any + fmt::Debug + Send + Sync {
    /// Returns the name of the transport in the configuration.
    fn connection_type(&self) -> &'static str;

    /// Returns whether `other` is the same transport with the same settings.
    fn is_same(&self, other: &dyn Connector) -> bool;

    /// Opens the transport. Must be polled within a tokio runtime.
    fn open<'a>(&'a self, opening: Opening<'a>) -> BoxFuture<'a, Result<Opened, OpenError>>;

    /// Returns the secrets of the settings, which are redacted in what the server sends.
    fn secrets(&self) -> Secrets;

    /// Returns the settings of a server over HTTP, at which the operator may log in; `None` for
    /// others.
    fn http(&self) -> Option<&HttpSettings> {
        None
    }

    /// Returns the program that runs as a process of this machine; `None` if the server runs elsewhere
    /// or in a container.
    fn program(&self) -> Option<&str> {
        None
    }

    /// Returns whether the server is kept from the network, that of this machine included.
    fn has_no_network(&self) -> bool {
        false
    }

    /// Returns the files of the settings that cannot be used: of a server over HTTP, those of its
    /// certificates and of the gateway's own.
    fn check_files(&self) -> Vec<UnusableFile> {
        let unusable = self.http().map(unusable_files).unwrap_or_default();
        let unusable = unusable.into_iter().map(|(key, message)| UnusableFile {
            key: format!("tls_config.{key}"),
            message,
            is_certain: true,
        });
        unusable.collect()
    }

    /// Returns advice for the operator about an error, given with its causes; `None` if there is none.
    fn advice(&self, _error: &str) -> Option<&'static str> {
        None
    }

    /// Returns advice for the operator about the exit of the server's process; `None` if there is
    /// none.
    fn exit_advice(&self, _exit: &ProcessExit) -> Option<String> {
        None
    }
}

/// Values that a transport is opened with.
pub struct Opening<'a> {
    /// Name of the server.
    pub(super) client: &'a ClientName,
    /// Receives what the server sends.
    pub(super) inbox: Arc<Inbox>,
    /// Source of the credentials of requests, besides the headers of the settings; `None` if there is none.
    pub(super) authority: Option<Arc<Authority>>,
    /// True if messages to a process are framed with `Content-Length`.
    pub(super) has_headers: bool,
}

/// An open transport.
pub struct Opened {
    /// The transport.
    pub(super) transport: Arc<dyn Transport>,
    /// The owner of the server's process; `None` if the gateway has not started the server.
    pub(super) process: Option<Box<dyn Owner>>,
}

/// A file of a server's settings that cannot be used.
#[derive(Debug)]
pub struct UnusableFile {
    /// Its key in the configuration, below that of the server.
    pub key: String,
    /// The reason, for the operator.
    pub message: String,
    /// False if a gateway with another environment than that of this process may find it.
    pub is_certain: bool,
}

/// Reason that a transport was not opened. Its cause is an error of the transport.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The settings can never work.
    #[error("{0}")]
    Invalid(String),
    /// Something is missing that the operator may install later.
    #[error(transparent)]
    Missing(Cause),
    /// Only the operator can help.
    #[error(transparent)]
    Unusable(Cause),
    /// A later attempt may succeed.
    #[error(transparent)]
    Failed(Cause),
}
