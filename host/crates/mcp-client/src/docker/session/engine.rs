//! The daemon. Every request to it has a time limit.

use std::{io, time::Duration};

use bollard::{API_DEFAULT_VERSION, Docker as Api, errors::Error as ApiError};
use tokio::{net::UnixStream, time::timeout};

use super::error::DockerError;

/// Scheme of the address of a Unix socket.
const UNIX: &str = "unix://";
/// Time limit for each request to the Docker daemon.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to the daemon.
#[derive(Clone)]
pub(super) struct Engine(Api);

impl Engine {
    /// Connects to the daemon at an address, and agrees on a version with it.
    pub(super) async fn connect(host: &str) -> Result<Self, DockerError> {
        // A failure of the library itself does not tell the reasons apart.
        if let Some(path) = host.strip_prefix(UNIX) {
            let probe = within("accept a connection", TIMEOUT, UnixStream::connect(path));
            probe.await?.map_err(|cause| unreachable(host, cause))?;
        }
        // The library's own limit holds until the head of a response. Ours is shorter.
        let seconds = 2 * TIMEOUT.as_secs();
        let api = match host.strip_prefix(UNIX) {
            Some(path) => Api::connect_with_unix(path, seconds, API_DEFAULT_VERSION),
            None => Api::connect_with_http(host, seconds, API_DEFAULT_VERSION),
        };
        let step = "agree on a version of its API";
        let api = api.map_err(|cause| DockerError::Api { step, cause })?;
        let negotiated = within(step, TIMEOUT, api.negotiate_version()).await?;
        negotiated.map(Self).map_err(|cause| match cause {
            ApiError::HyperLegacyError { .. } if !host.starts_with(UNIX) => {
                DockerError::NoDaemon { host: host.to_owned() }
            }
            cause => DockerError::Api { step, cause },
        })
    }

    /// Returns the interface whose requests are passed to [`ask`].
    pub(super) fn api(&self) -> &Api {
        &self.0
    }
}

fn unreachable(host: &str, cause: io::Error) -> DockerError {
    let host = host.to_owned();
    match cause.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            DockerError::NoDaemon { host }
        }
        io::ErrorKind::PermissionDenied => DockerError::Denied { host },
        _ => DockerError::Unreachable { host, cause },
    }
}

/// Waits for a request, at most [`TIMEOUT`]. `step` completes "did not" and "failed to".
pub(super) async fn ask<T>(
    step: &'static str,
    request: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, DockerError> {
    ask_within(TIMEOUT, step, request).await
}

/// Waits for a request, at most `limit`.
pub(super) async fn ask_within<T>(
    limit: Duration,
    step: &'static str,
    request: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, DockerError> {
    within(step, limit, request).await?.map_err(|cause| DockerError::Api { step, cause })
}

async fn within<T>(
    step: &'static str,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Result<T, DockerError> {
    timeout(limit, work).await.map_err(|_| DockerError::Timeout { step, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_daemon_is_told_from_one_that_is_silent() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("docker.sock");
        let host = format!("unix://{}", path.display());
        let missing = Engine::connect(&host).await.err().expect("no daemon").to_string();
        assert!(missing.starts_with("no Docker daemon listens on unix:///"), "{missing}");

        let closed = Engine::connect("tcp://127.0.0.1:1").await.err().expect("no daemon");
        assert!(matches!(closed, DockerError::NoDaemon { .. }), "{closed:?}");

        let silent = tokio::net::UnixListener::bind(&path).expect("a socket");
        tokio::time::pause();
        let late = Engine::connect(&host).await.err().expect("no answer").to_string();
        assert_eq!(late, "the Docker daemon did not agree on a version of its API within 10s");
        drop(silent);
        let refused = Engine::connect(&host).await.err().expect("nobody accepts");
        assert!(matches!(refused, DockerError::NoDaemon { .. }), "{refused:?}");
    }

    #[test]
    fn a_socket_that_may_not_be_used_is_named() {
        let denied = unreachable("unix:///s", io::ErrorKind::PermissionDenied.into()).to_string();
        insta::assert_snapshot!(denied, @"the gateway's user may not use unix:///s; add the user to the socket's group, which gives it the rights of root");
    }
}
