//! `server`.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use http::{Uri, uri::Scheme};
use url::{Host, Url};

use super::{endpoint, file_env::FileEnv, http_client, resolved::Resolved, tls};
use airlock_config_file::{
    env_text::EnvText,
    file,
    refused::{InvalidValue, NamedPart, Referent},
};
use airlock_core::units::Size;
use airlock_mcp_server as mcp_server;
use airlock_operator_api::ManagementSettings;
use airlock_replicas::ReplicaTls;
use airlock_responses::BuiltinTools;
use airlock_server::{self as server, DebugSettings};
use airlock_store::responses::ResponseBounds;

const DEFAULT_LISTEN: &str = "127.0.0.1:8080";
const DEFAULT_REQUEST_MEMORY: Size = Size::mib(256);

/// The credentials that requests may have.
#[derive(Clone, Copy)]
pub(super) struct CallerCredentials {
    /// True if there is an active virtual key.
    pub(super) has_active_key: bool,
    /// True if access tokens are accepted.
    pub(super) has_tokens: bool,
    /// True if operators may add virtual keys while the gateway runs.
    pub(super) keys_can_be_added: bool,
}

impl CallerCredentials {
    /// Returns whether requests may have a credential at present.
    fn exist(self) -> bool {
        self.has_active_key || self.has_tokens
    }
}

pub(super) fn resolve(
    file: file::Server,
    credentials: CallerCredentials,
    env: FileEnv<'_>,
) -> Resolved<server::Settings> {
    let max_connections = file.max_connections.count() as usize;
    // A quarter, so that two addresses cannot take all connections.
    let quarter = max_connections.div_ceil(4);
    Resolved::new(|problems| {
        let mut settings = server::Settings {
            listen: problems.merge(listen(&file)),
            // An optional credential protects nothing, so where there is one, `false` must be set
            // explicitly.
            require_virtual_key: file.require_virtual_key.unwrap_or(credentials.exist()),
            tls: file.tls.as_ref().map(|tls| problems.take("tls", tls::listener(tls, env))),
            external_url: file
                .external_url
                .as_deref()
                .and_then(|url| problems.accept("external_url", external_url(url))),
            allowed_hosts: problems.take("allowed_hosts", hosts(&file.allowed_hosts)),
            allowed_origins: problems.take("allowed_origins", origins(&file.allowed_origins)),
            max_body_bytes: file.max_body.get().bytes(),
            max_request_memory_bytes: 0,
            max_header_bytes: file.max_header.get().bytes(),
            read_timeout: file.read_timeout.get().0,
            write_timeout: file.write_timeout.get().0,
            idle_timeout: file.idle_timeout.get().0,
            drain_timeout: file.drain_timeout.get().0,
            max_connections,
            max_connections_per_peer: file
                .max_connections_per_peer
                .map_or(quarter, |connections| connections.count() as usize),
            startup_wait: file.startup_wait.get().0,
            responses: responses(&file.responses),
            builtin_tools: problems.take("responses", builtin_tools(file.responses)),
            replica_url: file
                .replica_url
                .and_then(|url| problems.accept("replica_url", replica_url(url, env))),
            replica_tls: file
                .replica_tls
                .map(|tls| problems.take("replica_tls", replica_tls(tls, env)))
                .unwrap_or_default(),
            debug_requests: file.debug_requests.as_ref().map(|debug| DebugSettings {
                max: debug.max.count() as usize,
                max_bytes: debug.max_bytes.get().bytes(),
            }),
            mcp: mcp_server::Settings::default(),
            management: ManagementSettings::default(),
        };
        let replica_scheme = settings.replica_url.as_ref().and_then(Uri::scheme);
        if settings.replica_tls != ReplicaTls::default() && replica_scheme != Some(&Scheme::HTTPS) {
            let message = "needs a `replica_url` beside it that begins with https://";
            problems.refuse("replica_tls", message);
        }
        let memory = request_memory(file.max_request_memory, &settings);
        settings.max_request_memory_bytes =
            problems.accept("max_request_memory", memory).map_or(0, Size::bytes);
        let may_have_one = credentials.exist() || credentials.keys_can_be_added;
        if settings.require_virtual_key && !may_have_one {
            problems.refuse("require_virtual_key", InvalidValue::absent(
                Referent::ElementOf(NamedPart::VirtualKeys),
                "is true, but `governance.virtual_keys` has no active key, there is no `mcp_server.oauth`, and `management.disabled` lets no operator add a key: every request would be refused",
            ));
        }
        if !settings.require_virtual_key && !settings.listen.ip().is_loopback() {
            let message = format_args!(
                "{} can be reached from other machines: set `server.require_virtual_key` to true, or listen on 127.0.0.1",
                settings.listen
            );
            // With an active key, it would be true by default.
            let keys = Referent::ElementOf(NamedPart::VirtualKeys);
            problems.refuse("listen", InvalidValue::absent(keys, message));
        }
        settings
    })
}

/// Returns the certificates of the gateways for each other.
fn replica_tls(file: file::TlsConfig, env: FileEnv<'_>) -> Resolved<ReplicaTls> {
    Resolved::new(|problems| {
        let (authorities, identity) = problems.merge(http_client::tls(file, env));
        ReplicaTls { authorities, identity }
    })
}

/// Returns the URL at which the other gateways reach this one.
fn replica_url(text: EnvText, env: FileEnv<'_>) -> Result<Uri, InvalidValue> {
    let url = endpoint::url(text, env)?;
    let expected = "expected a URL without a path, such as http://10.0.0.5:8080";
    let uri = url.parse::<Uri>().map_err(|_| expected)?;
    let is_bare = uri.path() == "/" && uri.query().is_none();
    let address = uri
        .host()
        .map(|host| host.trim_matches(['[', ']']))
        .and_then(|host| host.parse::<IpAddr>().ok());
    if address.is_some_and(|address| address.is_unspecified()) {
        return Err(
            "is the address of every machine for itself; expected that of this machine".into()
        );
    }
    (is_bare && uri.host().is_some_and(|host| !host.is_empty()))
        .then_some(uri)
        .ok_or_else(|| expected.into())
}

/// Returns the bounds on stored responses; `None` if responses are not stored.
fn responses(file: &file::Responses) -> Option<ResponseBounds> {
    let bounds = ResponseBounds {
        expire_after: file.expire_after.get().0,
        total_bytes: file.max_bytes.get().0,
        owner_bytes: file.max_bytes_per_key.get().0,
    };
    file.store.0.then_some(bounds)
}

/// Returns the treatment of built-in tools. Refuses types that are listed and not passed, and passing
/// without types.
fn builtin_tools(file: file::Responses) -> Resolved<BuiltinTools> {
    let to_pass: BTreeSet<String> = file.builtin_tools_to_pass.into_iter().collect();
    Resolved::new(|problems| match file.builtin_tools {
        file::BuiltinTools::Pass => {
            if to_pass.is_empty() {
                let message = "is \"pass\", and `builtin_tools_to_pass` lists no types";
                problems.refuse("builtin_tools", message);
            }
            BuiltinTools::Pass(to_pass)
        }
        other => {
            if !to_pass.is_empty() {
                let message = "has no effect unless `builtin_tools` is \"pass\"";
                problems.refuse("builtin_tools_to_pass", message);
            }
            match other {
                file::BuiltinTools::Refuse => BuiltinTools::Refuse,
                _ => BuiltinTools::Drop,
            }
        }
    })
}

/// Returns the memory for requests in flight. Fails if it is too small for one body of the largest
/// size, because such a body would always be refused.
fn request_memory(memory: Option<Size>, settings: &server::Settings) -> Result<Size, String> {
    let least = Size::from(settings.least_request_memory());
    let default = if least > DEFAULT_REQUEST_MEMORY { least } else { DEFAULT_REQUEST_MEMORY };
    let memory = memory.unwrap_or(default);
    if memory < least {
        let body = Size::from(settings.max_body_bytes);
        return Err(format!(
            "must be at least {least} where `server.max_body` is {body}, found {memory}"
        ));
    }
    Ok(memory)
}

/// Returns the address that the gateway listens on.
pub(super) fn listen(file: &file::Server) -> Resolved<SocketAddr> {
    Resolved::new(|problems| {
        let address = socket_address(file.listen.as_deref().unwrap_or(DEFAULT_LISTEN));
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        problems.accept("listen", address).unwrap_or(loopback)
    })
}

fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "found {text:?}, expected an IP address and a port, such as {DEFAULT_LISTEN:?} or \"[::1]:8080\""
        )
    })
}

/// Returns the URL of the gateway. Codes of logins are redirected there, so it is not plain HTTP but to this
/// machine.
fn external_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| {
        let is_local = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        let is_bare = url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        is_bare && (url.scheme() == "https" || (url.scheme() == "http" && is_local))
    });
    url.ok_or_else(|| {
        format!(
            "found {text:?}, expected a URL without user name, query and fragment that begins with https://, such as \"https://airlock.example.com\"; http:// is for loopback addresses"
        )
    })
}

fn hosts(hosts: &[String]) -> Resolved<Vec<String>> {
    Resolved::elements(hosts, |problems, host| {
        if !is_host_name(host) {
            problems.refuse_whole(format_args!(
                "found {host:?}, expected a host name without scheme or port, such as \"tools.example.com\""
            ));
        }
        Some(host.to_ascii_lowercase())
    })
}

fn is_host_name(host: &str) -> bool {
    !host.is_empty()
        && host.len() <= 253
        && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

/// Returns origins as browsers write them: in lower case, without the default port of the scheme.
fn origins(origins: &[String]) -> Resolved<Vec<String>> {
    Resolved::elements(origins, |problems, text| {
        let url = Url::parse(text).ok().filter(|url| {
            let is_bare = url.path() == "/"
                && url.query().is_none()
                && url.fragment().is_none()
                && url.username().is_empty()
                && url.password().is_none();
            is_bare && matches!(url.scheme(), "http" | "https") && !text.ends_with('/')
        });
        if url.is_none() {
            problems.refuse_whole(format_args!(
                "found {text:?}, expected an origin: scheme, host name and port if it is not the scheme's own, such as \"https://tools.example.com\""
            ));
        }
        url.map(|url| url.origin().ascii_serialization())
    })
}
