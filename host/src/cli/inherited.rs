//! A listener that a service manager has opened and passes as standard input.
//!
//! systemd passes it so with `StandardInput=socket` in the unit of the service. The gateway does not take descriptors by
//! their numbers (`LISTEN_FDS`): these stay open in every program that it starts, so that an MCP server could accept the
//! connections of callers. Standard input is replaced in each of them.

use anyhow::bail;
use tokio::net::TcpListener;

use airlock_config::environment;

/// Returns the listener that was passed; `None` if there is none. Fails if a socket was passed in another way, or if it
/// is none of TCP. Must be called within a tokio runtime.
pub(super) fn take() -> anyhow::Result<Option<TcpListener>> {
    let passed = passed()?;
    if passed.is_none() && are_numbered(&environment, std::process::id()) {
        bail!(
            "the service manager passes sockets by number (LISTEN_FDS); pass one as standard input: \
             StandardInput=socket and StandardOutput=journal in the unit"
        );
    }
    Ok(passed)
}

/// Returns whether the environment announces descriptors for the process with this id.
fn are_numbered(environment: &dyn Fn(&str) -> Option<String>, process: u32) -> bool {
    let is_own = environment("LISTEN_PID").is_some_and(|id| id == process.to_string());
    is_own && environment("LISTEN_FDS").is_some_and(|count| count != "0")
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps, reason = "it is the signature of Linux")]
fn passed() -> anyhow::Result<Option<TcpListener>> {
    Ok(None)
}

/// Returns the listener that standard input is.
#[cfg(target_os = "linux")]
fn passed() -> anyhow::Result<Option<TcpListener>> {
    use std::{io, os::fd::AsFd as _};

    use anyhow::{Context as _, ensure};
    use rustix::net::{AddressFamily, sockopt};

    let input = io::stdin();
    // Fails for what is no socket.
    if !sockopt::socket_acceptconn(&input).unwrap_or(false) {
        return Ok(None);
    }
    let family = sockopt::socket_domain(&input).context("standard input is a strange socket")?;
    ensure!(
        matches!(family, AddressFamily::INET | AddressFamily::INET6),
        "standard input is a listening socket, but none of TCP: ListenStream= needs a port, with or without an IP address"
    );
    let listener = std::net::TcpListener::from(input.as_fd().try_clone_to_owned()?);
    listener.set_nonblocking(true)?;
    Ok(Some(TcpListener::from_std(listener)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_descriptors_count_for_the_process_that_they_are_for() {
        for (id, count, expected) in
            [("7", "1", true), ("7", "0", false), ("8", "1", false), ("", "1", false)]
        {
            let found = are_numbered(
                &|name| Some(if name == "LISTEN_PID" { id } else { count }.to_owned()),
                7,
            );
            assert_eq!(found, expected, "{id:?} {count:?}");
        }
        assert!(!are_numbered(&|_| None, 7));
    }
}
