//! Advice for the operator about a server that does not start, from its settings and its failure.

use std::os::unix::process::ExitStatusExt as _;

use super::{
    error::ProcessExit,
    settings::{Settings, Transport},
};

/// Statuses of a server that speaks another transport over HTTP.
const OTHER_TRANSPORT: [&str; 5] =
    ["HTTP 400", "HTTP 404", "HTTP 405", "HTTP 406", "with the content type"];

/// Returns advice about an error with its causes; `None` if there is none.
pub(super) fn of_error(settings: &Settings, error: &str) -> Option<&'static str> {
    match &settings.transport {
        Transport::Sse(_) if has_any(error, &OTHER_TRANSPORT) => {
            Some("if the server speaks streamable HTTP, set `connection_type` to \"http\"")
        }
        Transport::Http(_) if has_any(error, &OTHER_TRANSPORT[1..3]) => Some(
            "if the server speaks HTTP+SSE, the transport of 2024-11-05, set `connection_type` to \"sse\"",
        ),
        Transport::Stdio(process)
            if process.confinement.is_some()
                && error.contains("cannot be started: Permission denied") =>
        {
            Some(
                "`confine` may deny the program or its interpreter; add their directories to `confine.read`",
            )
        }
        _ => None,
    }
}

fn has_any(error: &str, texts: &[&str]) -> bool {
    texts.iter().any(|text| error.contains(text))
}

/// Returns advice about the exit of a process that has limits; `None` if there is none.
pub(super) fn of_exit(settings: &Settings, exit: &ProcessExit) -> Option<String> {
    let Transport::Stdio(process) = &settings.transport else { return None };
    let memory_bytes = process.limits.memory_bytes?;
    let has_crashed = exit.before_signal
        && exit.status.is_some_and(|status| status.signal().is_some() || !status.success());
    has_crashed.then(|| {
        format!(
            "its `limits.memory` of {} MiB may be too small: it bounds the address space, of which many programs reserve more than they use",
            memory_bytes >> 20
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Confinement, Process};
    use airlock_core::tool::ClientName;

    fn advised(transport: Transport, error: &str) -> &'static str {
        let settings = Settings::new(ClientName::parse("up").expect("a name"), transport);
        of_error(&settings, error).unwrap_or_default()
    }

    #[test]
    fn a_server_of_the_other_http_transport_is_recognized_by_its_status() {
        for status in ["400 Bad Request: No valid session ID provided", "404 Not Found", "405 x"] {
            assert!(sse(&refused(status)).contains("\"http\""), "{status}");
        }
        assert!(sse("HTTP 200 OK with the content type \"application/json\"").contains("\"http\""));
        for status in ["404 Not Found: Cannot POST /sse", "405 Method Not Allowed"] {
            assert!(http(&refused(status)).contains("\"sse\""), "{status}");
        }
        for error in ["the server refuses the credentials: HTTP 401 Unauthorized: no", "HTTP 503"] {
            assert_eq!((sse(error), http(error)), ("", ""), "{error}");
        }
        assert_eq!(http(&refused("400 Bad Request: x")), "");
    }

    fn sse(error: &str) -> &'static str {
        advised(Transport::Sse(Box::default()), error)
    }

    fn http(error: &str) -> &'static str {
        advised(Transport::Http(Box::default()), error)
    }

    fn refused(status: &str) -> String {
        format!("the handshake failed: HTTP {status}")
    }

    #[test]
    fn a_confined_program_without_permission_names_the_confinement() {
        let error = "command \"x\" cannot be started: Permission denied (os error 13)";
        let confinement = Confinement { read: Vec::new(), write: Vec::new(), required: true };
        assert!(advised(stdio(Some(confinement)), error).contains("`confine.read`"));
        assert_eq!(advised(stdio(None), error), "");
    }

    fn stdio(confinement: Option<Confinement>) -> Transport {
        Transport::Stdio(Box::new(Process { confinement, ..Process::default() }))
    }
}
