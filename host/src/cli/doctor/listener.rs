//! The address of the gateway, and a gateway of this configuration that runs.

use std::{
    io::{self, ErrorKind},
    path::Path,
    sync::Arc,
};

use http::Method;
use serde_json::Value;

use super::{
    checkup::{Check, PATIENCE},
    finding::DoctorFinding,
};
use airlock_config::Config;
use airlock_gateway::{GatewayError, command_line::bind};
use airlock_ingress::socket;
use airlock_server::Settings;
use airlock_strings::with_causes;

const GATEWAY: &str = "gateway";
const LISTEN: &str = "listen";
/// Largest response about the health of a gateway, in bytes. An address that is no gateway must not fill the memory.
const MAX_BYTES: usize = 1 << 20;

/// Returns the check of the address.
pub(super) fn check(config: &Arc<Config>) -> Check {
    let server = config.server.clone();
    let subject = server.listen.to_string();
    Check::new(LISTEN, subject, async move { inspect(&server).await })
}

async fn inspect(server: &Settings) -> Vec<DoctorFinding> {
    let management = &server.management;
    let socket = management.socket.as_deref().filter(|_| !management.disabled);
    let asked = match socket {
        Some(path) => ask(path).await,
        None => Ok(None),
    };
    match (asked, socket) {
        (Ok(Some(version)), Some(path)) => {
            let text = "a gateway of this configuration has it, if that has not changed since";
            vec![
                running(path, &version),
                DoctorFinding::ok(LISTEN, server.listen.to_string(), text),
            ]
        }
        (Err(error), Some(path)) => vec![unreachable(path, &error), free(server).await],
        _ => vec![free(server).await],
    }
}

/// Asks the gateway on a socket for its version; `None` if no gateway listens on it.
async fn ask(path: &Path) -> io::Result<Option<String>> {
    match socket::request(path, Method::GET, "/health", None, MAX_BYTES, PATIENCE).await {
        Ok((_, body)) => {
            let health: Value = serde_json::from_slice(&body).unwrap_or_default();
            Ok(Some(health["version"].as_str().unwrap_or("unknown").to_owned()))
        }
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn running(path: &Path, version: &str) -> DoctorFinding {
    let subject = path.display().to_string();
    let text = format!("a gateway of version {version} runs");
    let own = env!("CARGO_PKG_VERSION");
    if version == own {
        return DoctorFinding::ok(GATEWAY, subject, text);
    }
    DoctorFinding::warning(
        GATEWAY,
        subject,
        format!("{text}, and this command is of version {own}"),
    )
    .valid("the same version")
    .fix("restart the gateway, or run the command of its version")
}

fn unreachable(path: &Path, error: &io::Error) -> DoctorFinding {
    DoctorFinding::warning(GATEWAY, path.display().to_string(), error.to_string())
        .valid("a socket that this user may connect to, at a path of at most 107 bytes")
        .fix("run the command as the user of the gateway, or change `management.socket`")
}

/// Checks that the address can be listened on, and gives it back at once.
async fn free(server: &Settings) -> DoctorFinding {
    let subject = server.listen.to_string();
    let Err(error) = bind(server).await else {
        return DoctorFinding::ok(LISTEN, subject, "it is free");
    };
    let text = with_causes(&error);
    let GatewayError::Listen { source, .. } = &error else {
        return DoctorFinding::error(LISTEN, subject, text);
    };
    match source.kind() {
        ErrorKind::AddrInUse => DoctorFinding::error("listen_in_use", subject, text)
            .valid("an address on which no other program listens")
            .fix("stop the other program, or change `server.listen`"),
        ErrorKind::PermissionDenied => DoctorFinding::error(LISTEN, subject, text)
            .valid("a port from 1024 on, or the right to listen below it")
            .fix("`server.listen`, or AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit"),
        _ => DoctorFinding::error(LISTEN, subject, text)
            .valid("an address of this machine")
            .fix("`server.listen`"),
    }
}
