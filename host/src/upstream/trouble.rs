//! Why a server is not connected, and how the operator is told.

use std::{io, process::ExitStatus, time::Duration};

use rmcp::service::{ClientInitializeError, ServiceError};

use super::{http, mask::Mask, meter::Flood};
use crate::{text::with_causes, tool::Cause};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// The settings can never work.
    #[error("{0}")]
    Settings(String),
    /// No such program.
    #[error("command {command:?} is not found in {place}")]
    NoCommand {
        /// As configured.
        command: String,
        /// Where it was looked for.
        place: &'static str,
    },
    /// The program is there and does not start.
    #[error("command {command:?} cannot be started")]
    Spawn {
        /// As configured.
        command: String,
        #[source]
        cause: io::Error,
    },
    /// Not ready in time.
    #[error("not connected within {0:?}")]
    Late(Duration),
    /// It cannot be reached, or does not speak MCP as we know it.
    #[error("the handshake failed")]
    Handshake {
        #[source]
        cause: Cause,
        /// Whether messages got through.
        was_reached: bool,
    },
    /// It has no list of tools.
    #[error("listing its tools failed")]
    List(#[source] Cause),
    /// It went away.
    #[error("the connection ended")]
    Ended,
    /// It is there and answers nothing.
    #[error("no sign of life within {0:?}")]
    Silent(Duration),
    /// It cannot be reached any more.
    #[error("it cannot be reached")]
    Unreachable(#[source] Cause),
    /// It sends more than it may.
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

/// The cause of a failed request. What wraps a transport's error is of no interest but to a
/// debugger of `rmcp`.
pub(super) fn cause(error: ServiceError) -> Cause {
    match error {
        ServiceError::TransportSend(error) => http::bare(error.error),
        other => Cause::from(other),
    }
}

impl Trouble {
    /// Whether trying again right away is pointless.
    pub(super) fn is_lasting(&self) -> bool {
        matches!(self, Self::Settings(_) | Self::NoCommand { .. })
    }

    /// Whether a server that was asked in one era's words may understand the other's: old ones may
    /// hang up at a method that they do not know, or never answer it.
    pub(super) fn may_be_the_era(&self) -> bool {
        match self {
            Self::Late(_) => true,
            Self::Handshake { was_reached, .. } => *was_reached,
            _ => false,
        }
    }
}

/// How a child process ended.
#[derive(Debug)]
pub(super) struct Ending {
    /// Its exit status, if it could be had.
    pub(super) status: Option<ExitStatus>,
    /// Whether it ended by itself.
    pub(super) unasked: bool,
    /// The end of what it wrote to stderr, on one line.
    pub(super) stderr: String,
}

/// What happened, with what the child had to say about it.
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
    /// One line for the operator: bounded, without control characters, and without the server's
    /// secrets.
    pub(super) fn reason(&self, mask: &Mask) -> String {
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
        mask.reason(&parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::{secret::Secret, upstream::Transport};

    fn mask() -> Mask {
        let env = [
            ("TOKEN".into(), Secret::new("hunter2hunter2")),
            ("LEVEL".into(), Secret::new("info")),
        ]
        .into();
        Mask::new(&Transport::Stdio { command: "server".into(), args: vec![], env })
            .expect("good secrets")
    }

    #[test]
    fn a_reason_has_the_exit_status_the_last_words_and_no_secret() {
        let ending = Ending {
            status: Some(ExitStatus::from_raw(127 << 8)),
            unasked: true,
            stderr: "env: node: info \u{1b}[31m not found, TOKEN=hunter2hunter2".into(),
        };
        let failure = Failure { trouble: Trouble::Ended, ending: Some(ending) };
        insta::assert_snapshot!(failure.reason(&mask()), @r#"the connection ended; it ended with exit status: 127; it inherits no environment and may need a "PATH" in its envs; its last words: env: node: info [31m not found, TOKEN=[secret TOKEN]"#);
    }

    #[test]
    fn a_reason_is_cut() {
        let failure = Failure::from(Trouble::Settings("x".repeat(100_000)));
        assert!(failure.reason(&mask()).len() <= 2 << 10);
    }
}
