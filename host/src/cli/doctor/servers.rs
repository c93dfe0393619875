//! MCP servers: one over HTTP completes a handshake, the daemon of one in a container accepts a connection. Those that
//! are processes are not started.

use std::{any::Any, sync::Arc, time::Duration};

use tokio::{
    net::{TcpStream, UnixStream},
    time::{Instant, timeout},
};
use url::Url;

use super::{
    checkup::{Check, PATIENCE},
    finding::{DoctorFinding, Status},
};
use airlock_config::{Config, Source};
use airlock_mcp_client::{
    Attempt, Connection, ConnectionError, ConnectionFailure, Credentials, Docker, Handshake,
    Settings, StderrLogs, Timeouts,
};
use airlock_mcp_oauth::{HttpSettings, Logins};
use airlock_store::{LazyDatabase, Settings as StoreSettings};
use airlock_strings::with_causes;

const CODE: &str = "server";

/// Returns a check for each instance of each MCP server.
pub(super) fn checks(config: &Arc<Config>, is_offline: bool) -> Vec<Check> {
    // Those of servers without OAuth, which read nothing of it.
    let logins = Logins::new(LazyDatabase::new(StoreSettings::at(config.store.clone())));
    let mut checks = Vec::new();
    for client in &config.clients {
        let Source::Upstream(settings) = &client.source else { continue };
        for instance in settings.instances() {
            checks.extend(check(client.name.to_string(), instance, &logins, is_offline));
        }
    }
    checks
}

fn check(name: String, settings: Settings, logins: &Logins, is_offline: bool) -> Option<Check> {
    let transport: &dyn Any = &*settings.transport;
    if let Some(docker) = transport.downcast_ref::<Docker>() {
        let host = docker.host.clone();
        let is_local = host.starts_with("unix://");
        return (is_local || !is_offline).then(|| {
            Check::new(CODE, name.clone(), async move { vec![daemon(name, &host).await] })
        });
    }
    if settings.transport.program().is_some() {
        return Some(Check::blocking(CODE, name.clone(), move || program(&name, &settings)));
    }
    if is_offline {
        return None;
    }
    let logins = logins.clone();
    Some(Check::new(CODE, name.clone(), async move {
        let found = connect(&name, &settings, &logins).await;
        found.into_iter().collect()
    }))
}

/// Returns the finding of a process whose files can be used. The check of files reports others.
fn program(name: &str, settings: &Settings) -> Vec<DoctorFinding> {
    if !settings.transport.check_files().is_empty() {
        return Vec::new();
    }
    vec![DoctorFinding::ok(CODE, name, "its command is there; it was not started")]
}

/// Connects to the daemon of containers.
async fn daemon(name: String, host: &str) -> DoctorFinding {
    let connecting = async {
        if let Some(path) = host.strip_prefix("unix://") {
            return UnixStream::connect(path).await.map(drop);
        }
        let address = host.strip_prefix("tcp://").unwrap_or(host);
        TcpStream::connect(address).await.map(drop)
    };
    let problem = match timeout(PATIENCE, connecting).await {
        Ok(Ok(())) => {
            return DoctorFinding::ok(CODE, name, format!("the daemon at {host} responds"));
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no connection in time".to_owned(),
    };
    DoctorFinding::error("server_unreachable", name, format!("the daemon at {host}: {problem}"))
        .valid("a Docker daemon that this user may use")
        .fix("start it, add this user to its group, or change `docker_config.host`")
}

/// Connects to a server over HTTP as far as that needs no login of a person.
async fn connect(name: &str, settings: &Settings, logins: &Logins) -> Option<DoctorFinding> {
    let http = settings.transport.http()?;
    if http.oauth.is_some() || http.users.is_some() {
        return Some(reach(name, &http.url, "its logins were not tried").await);
    }
    if sends_clear_text(http) {
        let found = reach(name, &http.url, "its headers would be sent in clear text").await;
        let status = if found.status == Status::Ok { Status::Warning } else { found.status };
        let fix = "`connection_string` with https";
        return Some(
            DoctorFinding { status, ..found }.valid("https, or a server of this machine").fix(fix),
        );
    }
    Some(match Credentials::new(settings, logins) {
        Ok(credentials) => shake_hands(name, settings, &credentials).await,
        Err(error) => DoctorFinding::error(CODE, name, with_causes(&error)),
    })
}

/// Returns whether headers of the configuration, which may be credentials, go to another machine without TLS.
fn sends_clear_text(http: &HttpSettings) -> bool {
    let Ok(url) = Url::parse(&http.url) else { return false };
    let is_local = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "http" && !is_local && !http.headers.is_empty()
}

/// Makes a connection to a URL, without a request.
async fn reach(name: &str, url: &str, note: &str) -> DoctorFinding {
    let parsed = Url::parse(url).ok();
    let address = parsed.as_ref().and_then(|url| {
        let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']');
        Some((host.to_owned(), url.port_or_known_default()?))
    });
    let Some((host, port)) = address else {
        return DoctorFinding::error(CODE, name, "its URL has no host").fix("`connection_string`");
    };
    let problem = match timeout(PATIENCE, TcpStream::connect((host.as_str(), port))).await {
        Ok(Ok(_)) => {
            return DoctorFinding::ok(CODE, name, format!("{host} accepts connections; {note}"));
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no connection in time".to_owned(),
    };
    unreachable(Status::Error, name, format!("{host} cannot be reached: {problem}"))
}

/// Completes the handshake, and ends the connection.
async fn shake_hands(name: &str, settings: &Settings, credentials: &Credentials) -> DoctorFinding {
    let begun = Instant::now();
    let startup = settings.timeouts.startup;
    let handshake = Handshake::first(settings.protocol, settings.questions);
    let mut failure = match open(settings, credentials, handshake, PATIENCE).await {
        Ok(()) => return responds(name, begun),
        Err(failure) => failure,
    };
    let left = PATIENCE.saturating_sub(begun.elapsed());
    if failure.error.suggests_other_handshake() && handshake.other() != handshake && !left.is_zero()
    {
        failure = match open(settings, credentials, handshake.other(), left).await {
            Ok(()) => return responds(name, begun),
            Err(failure) => failure,
        };
    }
    if matches!(failure.error, ConnectionError::StartupTimeout(_)) && startup > PATIENCE {
        let text =
            format!("it was not ready within {PATIENCE:?}; the gateway waits for {startup:?}");
        return unreachable(Status::Warning, name, text);
    }
    let needs_login = matches!(failure.error, ConnectionError::LoginNeeded(_));
    let status = if needs_login { Status::Warning } else { Status::Error };
    unreachable(status, name, failure.reason(settings, &credentials.scrubber()))
}

/// Opens a connection and closes it.
async fn open(
    settings: &Settings,
    credentials: &Credentials,
    handshake: Handshake,
    limit: Duration,
) -> Result<(), ConnectionFailure> {
    let startup = settings.timeouts.startup.min(limit);
    let timeouts = Timeouts { startup, ..settings.timeouts };
    let bounded = Settings { timeouts, ..settings.clone() };
    let attempt = Attempt { handshake, has_headers: false };
    let logs = StderrLogs::default();
    let connection = Connection::open(&bounded, credentials, &logs, attempt).await?;
    connection.shut_down().await;
    Ok(())
}

fn responds(name: &str, begun: Instant) -> DoctorFinding {
    let took = begun.elapsed().as_millis();
    DoctorFinding::ok(CODE, name, format!("it completed the handshake in {took} ms"))
}

fn unreachable(status: Status, name: &str, found: String) -> DoctorFinding {
    DoctorFinding::new(status, "server_unreachable", name, found)
        .valid("an MCP server that responds within its `timeouts.startup`")
        .fix(format!("start the server, or change `connection_string` of the client {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::secret::Secret;

    #[test]
    fn headers_to_another_machine_need_https() {
        for (url, has_header, expected) in [
            ("http://mcp.example.com/mcp", true, true),
            ("http://mcp.example.com/mcp", false, false),
            ("https://mcp.example.com/mcp", true, false),
            ("http://localhost/mcp", true, false),
            ("http://127.0.0.1/mcp", true, false),
            ("http://[::1]/mcp", true, false),
            ("http://10.0.0.1/mcp", true, true),
        ] {
            let mut http = HttpSettings::new(url);
            if has_header {
                http.headers.insert("authorization".to_owned(), Secret::new("hunter2"));
            }
            assert_eq!(sends_clear_text(&http), expected, "{url}");
        }
    }
}
