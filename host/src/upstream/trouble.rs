//! Reasons that a server is not connected, and their text for the operator.

use std::{io, process::ExitStatus, time::Duration};

use rmcp::service::{ClientInitializeError, ServiceError};

use super::{http, limits::MAX_REASON_BYTES, meter::Flood};
use crate::{secret::Scrubber, text::with_causes, tool::Cause};

/// Reason that there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// The settings can never work.
    #[error("{0}")]
    Settings(String),
    /// The program was not found.
    #[error("command {command:?} is not found in {place}")]
    NoCommand {
        /// The command as configured.
        command: String,
        /// Place that was searched.
        place: &'static str,
    },
    /// The program exists but does not start.
    #[error("command {command:?} cannot be started")]
    Spawn {
        /// The command as configured.
        command: String,
        #[source]
        cause: io::Error,
    },
    /// The server was not ready in time.
    #[error("not connected within {0:?}")]
    Late(Duration),
    /// The server cannot be reached, or does not speak a known version of MCP.
    #[error("the handshake failed")]
    Handshake {
        #[source]
        cause: Cause,
        /// True if messages reached the server.
        was_reached: bool,
    },
    /// The list of tools cannot be read.
    #[error("listing its tools failed")]
    List(#[source] Cause),
    /// The connection ended.
    #[error("the connection ended")]
    Ended,
    /// The server does not respond to a check.
    #[error("no sign of life within {0:?}")]
    Silent(Duration),
    /// The server can no longer be reached.
    #[error("it cannot be reached")]
    Unreachable(#[source] Cause),
    /// The server floods the gateway.
    #[error(transparent)]
    Flood(#[from] Flood),
}

impl From<ClientInitializeError> for Trouble {
    fn from(error: ClientInitializeError) -> Self {
        match error {
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => Self::from(*fallback),
            ClientInitializeError::TransportError { error, .. } => {
                Self::Handshake { cause: http::bare(error.error), was_reached: false }
            }
            other => Self::Handshake { cause: Cause::from(other), was_reached: true },
        }
    }
}

/// Returns the cause of a failed request. The wrapper of a transport's error is removed, because it
/// is useful only for debugging `rmcp`.
pub(super) fn cause(error: ServiceError) -> Cause {
    match error {
        ServiceError::TransportSend(error) => http::bare(error.error),
        other => Cause::from(other),
    }
}

impl Trouble {
    /// Returns whether the settings are at fault, so that an immediate retry is pointless.
    pub(super) fn is_lasting(&self) -> bool {
        matches!(self, Self::Settings(_) | Self::NoCommand { .. })
    }

    /// Returns whether the handshake of the other era may work: a legacy server may hang up at a
    /// method that it does not know, or never answer it.
    pub(super) fn may_be_the_era(&self) -> bool {
        match self {
            Self::Late(_) => true,
            Self::Handshake { was_reached, .. } => *was_reached,
            _ => false,
        }
    }
}

/// End of a child process.
#[derive(Debug)]
pub(super) struct Ending {
    /// Its exit status, if known.
    pub(super) status: Option<ExitStatus>,
    /// True if it exited before the gateway sent a signal.
    pub(super) unasked: bool,
    /// The end of its stderr, on one line.
    pub(super) stderr: String,
}

/// A trouble, with the end of the child process if there was one.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) trouble: Trouble,
    pub(super) ending: Option<Ending>,
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        Self { trouble, ending: None }
    }
}

impl Failure {
    /// Returns one line for the operator: bounded, without control characters, and with the
    /// server's secrets redacted.
    pub(super) fn reason(&self, scrubber: &Scrubber) -> String {
        let mut parts = vec![with_causes(&self.trouble)];
        if let Some(ending) = &self.ending {
            let hung_up = matches!(self.trouble, Trouble::Ended | Trouble::Handshake { .. });
            if let Some(status) = ending.status.filter(|_| hung_up && ending.unasked) {
                parts.push(format!("it ended with {status}"));
                if matches!(status.code(), Some(126 | 127)) {
                    parts.push(
                        "it inherits no environment and may need a \"PATH\" in its envs".into(),
                    );
                }
            }
            if !ending.stderr.is_empty() {
                parts.push(format!("its last words: {}", ending.stderr));
            }
        }
        scrubber.line(&parts.join("; "), MAX_REASON_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::secret::Secret;

    fn scrubber() -> Scrubber {
        Scrubber::new([("TOKEN", &Secret::new("hunter2hunter2"))]).expect("a good secret")
    }

    #[test]
    fn a_reason_has_the_exit_status_the_end_of_stderr_and_no_secret() {
        let ending = Ending {
            status: Some(ExitStatus::from_raw(127 << 8)),
            unasked: true,
            stderr: "env: node: \u{1b}[31m not found, TOKEN=hunter2hunter2".into(),
        };
        let failure = Failure { trouble: Trouble::Ended, ending: Some(ending) };
        insta::assert_snapshot!(failure.reason(&scrubber()), @r#"the connection ended; it ended with exit status: 127; it inherits no environment and may need a "PATH" in its envs; its last words: env: node: �[31m not found, TOKEN=[secret TOKEN]"#);
    }

    #[test]
    fn a_reason_is_cut() {
        let failure = Failure::from(Trouble::Settings("x".repeat(100_000)));
        assert!(failure.reason(&scrubber()).len() <= MAX_REASON_BYTES);
    }
}
