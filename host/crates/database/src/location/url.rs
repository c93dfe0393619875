//! The URL of a database on a server, and the encryption of connections to it.

use std::{fmt, path::PathBuf, sync::Arc};

use airlock_strings::percent_decoded;
use tokio_postgres::{
    Config,
    config::{Host, SslMode, TargetSessionAttrs},
};

use super::LocationError;

/// Name that the server lists the gateway's connections under, unless the URL has another one.
const APPLICATION_NAME: &str = "airlock";

/// URL of a database on a server of `PostgreSQL`, for example
/// `postgres://airlock@db.example.com/airlock?sslmode=verify-full`. `Display` and `Debug` show no
/// password.
///
/// Without `sslmode`, connections to other machines are encrypted and the server's certificate is
/// verified; those to this machine, by a loopback address or a Unix socket, are in plain text. Of several hosts, the
/// first that allows writes is used, unless `target_session_attrs` is `read-only`.
#[derive(Clone)]
pub struct ServerUrl {
    config: Arc<Config>,
    tls: ServerTls,
    /// URL of the same database without the pooler that this URL names; `None` if this URL is the
    /// server itself.
    direct: Option<Arc<ServerUrl>>,
}

/// Encryption of the connections to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerTls {
    /// Plain text.
    Off,
    /// TLS. The server's certificate is verified with its host name, by `authorities` or those of the
    /// operating system.
    Verified { authorities: Option<PathBuf> },
}

impl ServerUrl {
    pub(super) fn parse(text: &str) -> Result<Self, LocationError> {
        let parts = UrlParts::split(text)?;
        let mut config: Config = parts.rest.parse().map_err(|_| LocationError::Malformed)?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(LocationError::NoHost);
        }
        if config.get_application_name().is_none() {
            config.application_name(APPLICATION_NAME);
        }
        let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
        if hosts > 1 && config.get_target_session_attrs() == TargetSessionAttrs::Any {
            // A standby refuses each change, and reads from it would lag behind: it may not know yet that a key is revoked.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let tls = choose(parts.mode.as_deref(), parts.authorities, &config)?;
        config.ssl_mode(match tls {
            ServerTls::Off => SslMode::Disable,
            ServerTls::Verified { .. } => SslMode::Require,
        });
        Ok(Self { config: Arc::new(config), tls, direct: None })
    }

    /// Makes this the URL of a pooler, which may give each transaction another connection to the
    /// server. Notifications are received at `direct`, the server itself.
    #[must_use]
    pub fn pooled(self, direct: Self) -> Self {
        Self { direct: Some(Arc::new(direct)), ..self }
    }

    /// Returns whether transactions may share no connection: a session keeps nothing for the next one.
    pub(crate) fn is_pooled(&self) -> bool {
        self.direct.is_some()
    }

    /// Returns the URL at which notifications are received.
    pub(crate) fn direct(&self) -> &Self {
        self.direct.as_deref().unwrap_or(self)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn tls(&self) -> &ServerTls {
        &self.tls
    }
}

/// A URL, with the parameters of its query that are read here taken out.
struct UrlParts {
    rest: String,
    mode: Option<String>,
    authorities: Option<PathBuf>,
}

impl UrlParts {
    fn split(text: &str) -> Result<Self, LocationError> {
        let query = query_of(text)?;
        let mut mode = None;
        let mut authorities = None;
        let mut kept = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(decoded(value)?),
                Some(("sslrootcert", value)) => authorities = Some(decoded(value)?.into()),
                // The client takes all before the first `@` of the URL for a user.
                _ => kept.push(pair.replace('@', "%40")),
            }
        }
        let before = text.len() - query.map_or(0, |query| query.len() + 1);
        let rest = format!("{}?{}", &text[..before], kept.join("&"));
        Ok(Self { rest: rest.trim_end_matches('?').to_owned(), mode, authorities })
    }
}

/// Returns the part of a URL after its `?`; `None` if there is none. Fails if the part before it has
/// an `@` that does not end the user: a password that is not percent-encoded would become a part of
/// the host or of the name of the database, and be shown.
fn query_of(text: &str) -> Result<Option<&str>, LocationError> {
    let after_scheme = text.split_once("://").map_or(text, |(_, rest)| rest);
    let (place, query) = match after_scheme.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (after_scheme, None),
    };
    let authority = place.split('/').next().unwrap_or_default();
    let is_clear = match authority.split_once('@') {
        Some((user, _)) => !place[user.len() + 1..].contains('@'),
        None => !place.contains('@'),
    };
    if is_clear { Ok(query) } else { Err(LocationError::Malformed) }
}

fn decoded(value: &str) -> Result<String, LocationError> {
    let bytes = percent_decoded(value).ok_or(LocationError::Malformed)?;
    String::from_utf8(bytes).map_err(|_| LocationError::Malformed)
}

/// Chooses the encryption. `require` verifies the certificate as `verify-full` does: a connection that
/// anyone between can decrypt is no better than plain text.
fn choose(
    mode: Option<&str>,
    authorities: Option<PathBuf>,
    config: &Config,
) -> Result<ServerTls, LocationError> {
    let verified = ServerTls::Verified { authorities };
    match mode {
        Some("disable") => Ok(ServerTls::Off),
        Some("require" | "verify-full") if has_socket(config) => Err(LocationError::SocketTls),
        Some("require" | "verify-full") => Ok(verified),
        Some(found) => {
            let reason = match found {
                "prefer" | "allow" => "uses plain text if an attacker or the server refuses TLS",
                "verify-ca" => "accepts the certificate of another host",
                _ => "is unknown",
            };
            Err(LocationError::Mode { found: found.to_owned(), reason })
        }
        None if is_local(config) => Ok(ServerTls::Off),
        None => Ok(verified),
    }
}

fn has_socket(config: &Config) -> bool {
    config.get_hosts().iter().any(|host| matches!(host, Host::Unix(_)))
}

/// Returns whether all connections stay on this machine.
fn is_local(config: &Config) -> bool {
    // An address is connected to instead of the host.
    let hosts = if config.get_hostaddrs().is_empty() { config.get_hosts() } else { &[] };
    config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback)
        && hosts.iter().all(|host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => {
                name == "localhost"
                    || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
            }
        })
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(f, "{user}@")?;
        }
        for (index, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match host {
                Host::Tcp(name) => write!(f, "{comma}{name}")?,
                Host::Unix(path) => write!(f, "{comma}{}", path.display())?,
            }
            if let Some(port) = self.config.get_ports().get(index) {
                write!(f, ":{port}")?;
            }
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
