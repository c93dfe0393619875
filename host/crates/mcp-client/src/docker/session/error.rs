//! Reasons that a server in a container does not start. Each says what the operator can do.

use std::{io, time::Duration};

use bollard::errors::Error as ApiError;

/// Exit code of a container whose main process was killed, as its removal does.
const KILLED: i64 = 137;
/// Steps that start a session. They fail with the runtime's own words if the container ends meanwhile.
const SESSION_STEPS: [&str; 3] = ["create a session", "start a session", "start a container"];

/// Reason that a server in a container does not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum DockerError {
    /// There is no daemon.
    #[error(
        "no Docker daemon listens on {host}; start it, or set `docker_config.host` to its address"
    )]
    NoDaemon { host: String },
    /// The gateway's user may not use the socket.
    #[error(
        "the gateway's user may not use {host}; add the user to the socket's group, which gives it the rights of root"
    )]
    Denied { host: String },
    /// The daemon cannot be reached for another reason.
    #[error("the Docker daemon on {host} cannot be reached")]
    Unreachable {
        host: String,
        #[source]
        cause: io::Error,
    },
    /// The daemon did not answer in time.
    #[error("the Docker daemon did not {step} within {limit:?}")]
    Timeout { step: &'static str, limit: Duration },
    /// The image is missing.
    #[error(
        "the image {image:?} is not on the Docker host; pull or build it there, or set `docker_config.pull` to true"
    )]
    NoImage { image: String },
    /// The container is missing.
    #[error(
        "the container {name:?} does not exist; create it, or correct `docker_config.container`"
    )]
    NoContainer { name: String },
    /// The container of the operator is stopped.
    #[error("the container {name:?} is not running; start it with `docker start {name}`")]
    NotRunning { name: String },
    /// A container of another origin has the name of the gateway's own.
    #[error(
        "a container named {name:?} exists that the gateway did not create; remove or rename it"
    )]
    Foreign { name: String },
    /// The gateway's own container does not keep running.
    #[error(
        "the container {name:?} ended at once with exit code {code}; `docker_config.main` must name a command of the image that keeps running"
    )]
    Ended { name: String, code: i64 },
    /// The daemon refused a request, or its response is invalid.
    #[error("the Docker daemon failed to {step}")]
    Api {
        step: &'static str,
        #[source]
        cause: ApiError,
    },
}

impl DockerError {
    /// Returns whether the daemon does not know what was asked for.
    pub(super) fn is_not_found(&self) -> bool {
        self.has_status(404)
    }

    /// Returns whether the daemon refused because something exists already.
    pub(super) fn is_conflict(&self) -> bool {
        self.has_status(409)
    }

    /// Returns whether the daemon has refused a request, which it then has not carried out.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Api { cause: ApiError::DockerResponseServerError { .. }, .. })
    }

    /// Returns whether the container may have been removed while a session in it was started.
    pub(super) fn is_of_removal(&self) -> bool {
        match self {
            Self::NoContainer { .. } | Self::Ended { code: KILLED, .. } => true,
            Self::Api { step, .. } => SESSION_STEPS.contains(step),
            _ => false,
        }
    }

    fn has_status(&self, wanted: u16) -> bool {
        matches!(
            self,
            Self::Api { cause: ApiError::DockerResponseServerError { status_code, .. }, .. }
                if *status_code == wanted
        )
    }
}
