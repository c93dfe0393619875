//! `server`.

use std::{collections::BTreeSet, net::SocketAddr};

use url::Url;

use super::{super::file, Field};
use airlock_core::units::Size;
use airlock_mcp_server::Settings;
use airlock_server as server;

const DEFAULT_LISTEN: &str = "127.0.0.1:8080";
const DEFAULT_REQUEST_MEMORY: Size = Size::mib(256);

pub(super) fn resolve(
    field: &Field<'_>,
    file: file::Server,
    has_active_key: bool,
) -> server::Settings {
    let max_connections = file.max_connections.count() as usize;
    // A quarter, so that two addresses cannot take all connections.
    let quarter = max_connections.div_ceil(4);
    let mut settings = server::Settings {
        listen: listen(&field.member("listen"), file.listen.as_deref().unwrap_or(DEFAULT_LISTEN)),
        // An optional key protects nothing, so with an active key `false` must be set explicitly.
        require_virtual_key: file.require_virtual_key.unwrap_or(has_active_key),
        allowed_hosts: hosts(&field.member("allowed_hosts"), file.allowed_hosts),
        allowed_origins: origins(&field.member("allowed_origins"), &file.allowed_origins),
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
        builtin_tools: builtin_tools(&field.member("responses"), &file.responses),
        responses: responses(&file.responses),
        mcp: Settings::default(),
    };
    settings.max_request_memory_bytes =
        request_memory(&field.member("max_request_memory"), file.max_request_memory, &settings);
    if settings.require_virtual_key && !has_active_key {
        field
            .member("require_virtual_key")
            .refuse("is true, but `governance.virtual_keys` has no active key: every request would be refused");
    }
    if !settings.require_virtual_key && !settings.listen.ip().is_loopback() {
        field.member("listen").refuse(format_args!(
            "{} can be reached from other machines: set `server.require_virtual_key` to true, or listen on 127.0.0.1",
            settings.listen
        ));
    }
    settings
}

/// Returns the bounds on stored responses; `None` if responses are not stored.
fn responses(file: &file::Responses) -> Option<server::ResponseBounds> {
    let bounds = server::ResponseBounds {
        expire_after: file.expire_after.get().0,
        total_bytes: file.max_bytes.get().0,
        owner_bytes: file.max_bytes_per_key.get().0,
    };
    file.store.0.then_some(bounds)
}

/// Returns what happens to built-in tools. Notes a problem if types are listed that are not passed, or
/// none are.
fn builtin_tools(field: &Field<'_>, file: &file::Responses) -> server::BuiltinTools {
    let to_pass: BTreeSet<String> = file.builtin_tools_to_pass.iter().cloned().collect();
    match file.builtin_tools {
        file::BuiltinTools::Pass if to_pass.is_empty() => {
            field
                .member("builtin_tools")
                .refuse("is \"pass\", and `builtin_tools_to_pass` lists no types");
        }
        file::BuiltinTools::Pass => return server::BuiltinTools::Pass(to_pass),
        _ if !to_pass.is_empty() => field
            .member("builtin_tools_to_pass")
            .refuse("has no effect unless `builtin_tools` is \"pass\""),
        file::BuiltinTools::Drop => {}
        file::BuiltinTools::Refuse => return server::BuiltinTools::Refuse,
    }
    server::BuiltinTools::Drop
}

/// Returns the memory for requests in flight. Notes a problem if it is too small for one body of
/// the largest size, because such a body would always be refused.
fn request_memory(field: &Field<'_>, memory: Option<Size>, settings: &server::Settings) -> usize {
    let least = Size::from(settings.least_request_memory());
    let default = if least > DEFAULT_REQUEST_MEMORY { least } else { DEFAULT_REQUEST_MEMORY };
    let memory = memory.unwrap_or(default);
    if memory < least {
        let body = Size::from(settings.max_body_bytes);
        field.refuse(format_args!(
            "must be at least {least} where `server.max_body` is {body}, found {memory}"
        ));
    }
    memory.bytes()
}

fn listen(field: &Field<'_>, text: &str) -> SocketAddr {
    let address = text.parse::<SocketAddr>().map_err(|_| {
        format!(
            "found {text:?}, expected an IP address and a port, such as {DEFAULT_LISTEN:?} or \"[::1]:8080\""
        )
    });
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    field.accept(address).unwrap_or(loopback)
}

fn hosts(field: &Field<'_>, hosts: Vec<String>) -> Vec<String> {
    for (index, host) in hosts.iter().enumerate().filter(|(_, host)| !is_host_name(host)) {
        field
            .element(index)
            .refuse(format_args!("found {host:?}, expected a host name without scheme or port, such as \"tools.example.com\""));
    }
    hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect()
}

fn is_host_name(host: &str) -> bool {
    !host.is_empty()
        && host.len() <= 253
        && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

/// Returns origins as browsers write them: in lower case, without the default port of the scheme.
fn origins(field: &Field<'_>, origins: &[String]) -> Vec<String> {
    let read = origins.iter().enumerate().filter_map(|(index, text)| {
        let origin = Url::parse(text).ok().filter(|url| {
            let is_bare = url.path() == "/"
                && url.query().is_none()
                && url.fragment().is_none()
                && url.username().is_empty();
            is_bare
                && url.password().is_none()
                && matches!(url.scheme(), "http" | "https")
                && !text.ends_with('/')
        });
        if origin.is_none() {
            let expected = "an origin: scheme, host name and port if it is not the scheme's own, such as \"https://tools.example.com\"";
            field.element(index).refuse(format_args!("found {text:?}, expected {expected}"));
        }
        origin.map(|url| url.origin().ascii_serialization())
    });
    read.collect()
}
