//! Reasons that a server is not connected, and their text for the operator.

use std::time::Duration;

use super::{
    channel::ProcessExit,
    connector::OpenError,
    flood::Flood,
    handshake::HandshakeError,
    inbox::Noise,
    link::AskError,
    settings::Settings,
    transport::{ReceiveError, SendError},
};
use airlock_core::{secret::Scrubber, tool::Cause};
use airlock_mcp_oauth::MAX_REASON_BYTES;
use airlock_strings::with_causes;

/// Reason that there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The transport was not opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The server was not ready in time.
    #[error("it was not ready within its startup timeout of {0:?}")]
    StartupTimeout(Duration),
    /// The handshake was not completed.
    #[error(transparent)]
    Handshake(HandshakeError),
    /// The operator has to log in.
    #[error(transparent)]
    LoginNeeded(Cause),
    /// The list of tools cannot be read.
    #[error("listing its tools failed")]
    ListTools(#[source] AskError),
    /// The connection ended.
    #[error("the connection ended")]
    Closed,
    /// The server has sent nothing for too long.
    #[error("it sent nothing for {0:?}")]
    Stale(Duration),
    /// The server does not respond to a check.
    #[error("it did not respond to a ping within {0:?}")]
    PingTimeout(Duration),
    /// The server can no longer be reached.
    #[error("it cannot be reached")]
    Unreachable(#[source] Cause),
    /// The server floods the gateway.
    #[error(transparent)]
    Flood(#[from] Flood),
}

impl From<HandshakeError> for ConnectionError {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Closed => Self::Closed,
            HandshakeError::Failed(error) => {
                Self::asked(error, |error| Self::Handshake(HandshakeError::Failed(error)))
            }
            error => Self::Handshake(error),
        }
    }
}

impl From<ReceiveError> for ConnectionError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Closed => Self::Closed,
            ReceiveError::Flood(flood) => Self::Flood(flood),
            ReceiveError::NotOpened(error) => HandshakeError::Failed(error.into()).into(),
            ReceiveError::Lost(cause) => Self::Unreachable(cause),
        }
    }
}

impl ConnectionError {
    /// Creates the error of a request that failed: that the operator has to log in, that the
    /// connection ended, or else what `otherwise` returns. Requests in flight, those that are being
    /// written to a pipe, and the reader of the connection learn of its end at once, in any order,
    /// and give the same reason.
    pub fn asked(error: AskError, otherwise: impl FnOnce(AskError) -> Self) -> Self {
        match error {
            AskError::Send(SendError::LoginNeeded(needed)) => Self::LoginNeeded(needed),
            AskError::Lost | AskError::Send(SendError::Closed) => Self::Closed,
            // The pipe broke.
            AskError::Send(SendError::Failed(cause)) if cause.is::<std::io::Error>() => {
                Self::Closed
            }
            error => otherwise(error),
        }
    }

    /// Returns whether the settings can never work.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Self::Open(OpenError::Invalid(_)))
    }

    /// Returns whether only the operator can help, so that an immediate retry is pointless.
    pub fn is_permanent(&self) -> bool {
        matches!(
            self,
            Self::Open(OpenError::Invalid(_) | OpenError::Missing(_) | OpenError::Unusable(_))
                | Self::LoginNeeded(_)
        )
    }

    /// Returns whether the other handshake may work: a legacy server may hang up at a method that
    /// it does not know, or never answer it.
    pub fn suggests_other_handshake(&self) -> bool {
        match self {
            Self::StartupTimeout(_)
            | Self::Closed
            | Self::Handshake(HandshakeError::Refused { .. }) => true,
            Self::Handshake(HandshakeError::Failed(error)) => !error.is_unsent(),
            _ => false,
        }
    }
}

/// An error, with the exit of the child process if there was one.
#[derive(Debug)]
pub struct ConnectionFailure {
    /// The error.
    pub error: ConnectionError,
    pub(super) exit: Option<ProcessExit>,
    /// Text on stdout of a process that did not start, that is no message.
    pub(super) noise: Option<Noise>,
    /// True if the server has sent nothing at all.
    pub is_silent: bool,
}

impl From<ConnectionError> for ConnectionFailure {
    fn from(error: ConnectionError) -> Self {
        Self { error, exit: None, noise: None, is_silent: false }
    }
}

impl ConnectionFailure {
    /// Returns one line for the operator: bounded, without control characters, and with the
    /// server's secrets redacted.
    pub fn reason(&self, settings: &Settings, scrubber: &Scrubber) -> String {
        let mut parts = vec![with_causes(&self.error)];
        if let Some(Noise { lines, first }) = &self.noise {
            let (lines, are) = if *lines == 1 {
                ("1 line".to_owned(), "that is no MCP message".to_owned())
            } else {
                (format!("{lines} lines"), "that are not MCP messages, the first".to_owned())
            };
            parts.push(format!("it wrote {lines} to stdout {are}: {first:?}"));
        }
        if let Some(exit) = &self.exit {
            let hung_up = matches!(
                self.error,
                ConnectionError::Closed | ConnectionError::Handshake(HandshakeError::Failed(_))
            );
            if let Some(status) = exit.status.filter(|_| hung_up && exit.before_signal) {
                parts.push(format!("it ended with {status}"));
                if matches!(status.code(), Some(126 | 127)) {
                    parts.push("a program that it starts may be missing from its PATH".into());
                }
            }
            parts.extend(settings.transport.exit_advice(exit));
            let stderr = after_traceback(&exit.stderr);
            if !stderr.is_empty() {
                parts.push(format!("its stderr ends with: {}", stderr.join(" | ")));
            }
        }
        parts.extend(settings.transport.advice(&parts[0]).map(str::to_owned));
        scrubber.line(&parts.join("; "), MAX_REASON_BYTES)
    }
}

/// Returns the lines from the error of the last Python traceback on; all lines if there is none. The
/// frames of a traceback say nothing to an operator, and `airlock upstream logs` has them.
fn after_traceback(lines: &[String]) -> &[String] {
    let Some(frame) = lines.iter().rposition(|line| is_frame(line)) else { return lines };
    // After a frame come its source and marks below it, or neither.
    match lines[frame + 1..].iter().position(|line| is_python_error(line)) {
        Some(error) => &lines[frame + 1 + error..],
        None => lines,
    }
}

/// Returns whether a line of a traceback names a frame.
fn is_frame(line: &str) -> bool {
    line.trim_start().strip_prefix("File \"").is_some_and(|rest| rest.contains("\", line "))
}

/// Returns whether a line begins with the name of a Python exception.
fn is_python_error(line: &str) -> bool {
    let name = line.split([':', ' ']).next().unwrap_or_default();
    let rest = &line[name.len()..];
    name.split('.').all(is_python_name)
        && name.rsplit('.').next().is_some_and(|last| last.starts_with(char::is_uppercase))
        && (rest.is_empty() || rest.starts_with(": "))
}

fn is_python_name(part: &str) -> bool {
    part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

    use super::*;
    use crate::{Process, ProcessLimits};
    use airlock_core::{secret::Secret, tool::ClientName};

    fn settings(process: Process) -> Settings {
        Settings::new(ClientName::parse("up").expect("a name"), process)
    }

    fn scrubber() -> Scrubber {
        Scrubber::new([("TOKEN", &Secret::new("hunter2hunter2"))]).expect("a good secret")
    }

    #[test]
    fn a_reason_has_the_exit_status_the_end_of_stderr_and_no_secret() {
        let exit = ProcessExit {
            status: Some(ExitStatus::from_raw(127 << 8)),
            before_signal: true,
            stderr: vec!["env: node: \u{1b}[31m not found".into(), "TOKEN=hunter2hunter2".into()],
        };
        let settings = settings(Process::default());
        insta::assert_snapshot!(closed(exit).reason(&settings, &scrubber()), @r#"the connection ended; it ended with exit status: 127; a program that it starts may be missing from its PATH; its stderr ends with: env: node: �[31m not found | TOKEN=[secret TOKEN]"#);
    }

    fn closed(exit: ProcessExit) -> ConnectionFailure {
        ConnectionFailure { exit: Some(exit), ..ConnectionError::Closed.into() }
    }

    #[test]
    fn the_end_of_a_connection_has_one_reason_whoever_learns_of_it_first() {
        let broken = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let broken = SendError::Failed(Cause::from(broken));
        for error in [AskError::Lost, SendError::Closed.into(), broken.into()] {
            let error = ConnectionError::asked(error, ConnectionError::ListTools);
            assert!(matches!(error, ConnectionError::Closed), "{error:?}");
        }
        let error = ConnectionError::asked(AskError::TooLarge, ConnectionError::ListTools);
        assert!(matches!(error, ConnectionError::ListTools(_)), "{error:?}");
    }

    #[test]
    fn of_a_traceback_the_reason_has_the_error_alone() {
        let error = "ModuleNotFoundError: No module named 'mcp.nonesuch'";
        let traceback = [
            "starting",
            "Traceback (most recent call last):",
            "File \"/srv/server.py\", line 3, in <module>",
            "Broken = import_module(name)",
            "^^^^^^^^^^^^^^^^^^^",
            "File \"<frozen importlib._bootstrap>\", line 1140, in _find_and_load_unlocked",
            error,
        ];
        assert_eq!(after_traceback(&lines(&traceback)), [error]);
        let more = [&traceback[..], &["It has two lines"]].concat();
        assert_eq!(after_traceback(&lines(&more)), [error, "It has two lines"]);
        for other in [&["one", "two: 2"][..], &[], &traceback[..6], &["Error: x", "at f (a.js:1)"]]
        {
            assert_eq!(after_traceback(&lines(other)), lines(other));
        }
        for name in ["KeyboardInterrupt", "pkg.errors.Broken: why"] {
            let mut cut = lines(&traceback[2..]);
            *cut.last_mut().expect("some") = name.to_owned();
            assert_eq!(after_traceback(&cut), [name]);
        }
    }

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|&line| line.to_owned()).collect()
    }

    #[test]
    fn a_reason_is_cut() {
        let failure =
            ConnectionFailure::from(ConnectionError::from(OpenError::Invalid("x".repeat(100_000))));
        let settings = settings(Process::default());
        assert!(failure.reason(&settings, &scrubber()).len() <= MAX_REASON_BYTES);
    }

    #[test]
    fn a_reason_has_the_text_on_stdout_that_is_no_message() {
        insta::assert_snapshot!(reason_with_noise(1), @r#"it was not ready within its startup timeout of 8s; it wrote 1 line to stdout that is no MCP message: "Listening""#);
        insta::assert_snapshot!(reason_with_noise(2), @r#"it was not ready within its startup timeout of 8s; it wrote 2 lines to stdout that are not MCP messages, the first: "Listening""#);
    }

    fn reason_with_noise(lines: u64) -> String {
        let noise = Some(Noise { lines, first: "Listening".to_owned() });
        let error = ConnectionError::StartupTimeout(Duration::from_secs(8));
        let failure = ConnectionFailure { error, exit: None, noise, is_silent: false };
        failure.reason(&settings(Process::default()), &scrubber())
    }

    #[test]
    fn a_crash_with_a_limit_on_memory_names_the_limit() {
        insta::assert_snapshot!(reason_of_exit(Some(64 << 20), 11), @"the connection ended; it ended with signal: 11 (SIGSEGV); its `limits.memory` of 64 MiB may be too small: it bounds the address space, of which many programs reserve more than they use");
        assert!(!reason_of_exit(None, 11).contains("limits"));
        assert!(!reason_of_exit(Some(64 << 20), 0).contains("limits"), "it ended by itself");
    }

    fn reason_of_exit(memory_bytes: Option<u64>, status: i32) -> String {
        let limits = ProcessLimits { memory_bytes, ..ProcessLimits::default() };
        let exit = ProcessExit {
            status: Some(ExitStatus::from_raw(status)),
            before_signal: true,
            stderr: Vec::new(),
        };
        closed(exit).reason(&settings(Process { limits, ..Process::default() }), &scrubber())
    }
}
