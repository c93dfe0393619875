//! `server`.

use std::net::SocketAddr;

use super::{super::file, Place};
use crate::{
    server,
    units::{Size, Span},
};

const DEFAULT_LISTEN: &str = "127.0.0.1:8080";

pub(super) fn resolve(place: &Place<'_>, file: file::Server, has_active_key: bool) -> server::Settings {
    let waits = Span::millis(1)..=Span::secs(60 * 60);
    let settings = server::Settings {
        listen: listen(&place.member("listen"), file.listen.as_deref().unwrap_or(DEFAULT_LISTEN)),
        // A key that one may leave out protects nothing, so that has to be asked for.
        require_virtual_key: file.require_virtual_key.unwrap_or(has_active_key),
        allowed_hosts: hosts(&place.member("allowed_hosts"), file.allowed_hosts),
        max_body_bytes: place.member("max_body").within(file.max_body, Size::mib(16), Size::kib(1)..=Size::mib(256)).bytes(),
        max_header_bytes: place.member("max_header").within(file.max_header, Size::kib(64), Size::kib(8)..=Size::mib(1)).bytes(),
        read_timeout: place.member("read_timeout").within(file.read_timeout, Span::secs(30), waits.clone()).0,
        drain_timeout: place.member("drain_timeout").within(file.drain_timeout, Span::secs(30), waits).0,
        max_connections: place.member("max_connections").count(file.max_connections, 1_024, 1..=65_536) as usize,
    };
    if settings.require_virtual_key && !has_active_key {
        place.member("require_virtual_key").refuse("is true, but `governance.virtual_keys` has no active key: nobody could call");
    }
    if !settings.require_virtual_key && !settings.listen.ip().is_loopback() {
        place.member("listen").refuse(format_args!(
            "{} can be reached from other machines: set `server.require_virtual_key` to true, or listen on 127.0.0.1",
            settings.listen
        ));
    }
    settings
}

fn listen(place: &Place<'_>, text: &str) -> SocketAddr {
    let wrong = |_| format!("found {text:?}, expected an IP address and a port, such as {DEFAULT_LISTEN:?} or \"[::1]:8080\"");
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    place.accept(text.parse().map_err(wrong)).unwrap_or(loopback)
}

fn hosts(place: &Place<'_>, hosts: Vec<String>) -> Vec<String> {
    let is_name = |host: &str| {
        !host.is_empty() && host.len() <= 253 && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
    };
    for (index, host) in hosts.iter().enumerate().filter(|(_, host)| !is_name(host)) {
        place
            .element(index)
            .refuse(format_args!("found {host:?}, expected a host name without scheme or port, such as \"tools.example.com\""));
    }
    hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect()
}
