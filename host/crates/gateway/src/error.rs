//! Reasons that a gateway does not start or does not serve, one for each party that can mend it.

use std::{io, net::SocketAddr};

use airlock_core::tool::Cause;
use airlock_guards::GuardLoadError;
use airlock_sandbox::LoadError;

/// Problem of settings that the server refuses.
pub(super) const UNSAFE: &str = "the server's settings are not safe";

/// Reason that a gateway does not start or does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// Settings are unsafe or cannot work. A change of the configuration helps.
    #[error("{problem}")]
    Configuration {
        /// The settings, and the problem with them.
        problem: &'static str,
        /// The cause.
        #[source]
        source: Cause,
    },
    /// The address is in use, or not one of the machine. Another address helps.
    #[error("cannot listen on {address} (`server.listen`)")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The system does not start threads for the connections to upstream servers. Higher limits for
    /// the process help.
    #[error("no threads for upstream servers")]
    Threads(#[source] io::Error),
    /// The gateway serves already, or has served. One serves once.
    #[error("the gateway serves already, or has served: `Gateway::serve` may be called once")]
    Served,
    /// The component of a guard cannot be used, or refuses its settings. Another component, or other settings, help.
    #[error(transparent)]
    Guard(#[from] GuardLoadError),
    /// The sandbox cannot be created, or the script executor cannot be compiled in it. Other settings
    /// of the sandbox, or more memory, help.
    #[error(transparent)]
    Sandbox(#[from] LoadError),
}

impl GatewayError {
    /// Returns a function that names the settings that an error is about.
    pub(super) fn configuration<E: Into<Cause>>(problem: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Configuration { problem, source: source.into() }
    }
}
