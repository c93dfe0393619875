//! Keeps web pages out. A page that a browser has open can send requests to loopback addresses, and with a name that it
//! points there (DNS rebinding) read the answers too. It cannot forge `Host` and `Origin`.

use http::{HeaderMap, HeaderValue, Uri, header, uri::Authority};

use super::{Settings, respond::ApiError};

/// Refuses a request whose `Host` or `Origin` is not one of the gateway's own names.
pub(super) fn check(settings: &Settings, headers: &HeaderMap, uri: &Uri) -> Result<(), ApiError> {
    if !settings.listen.ip().is_loopback() && settings.allowed_hosts.is_empty() {
        return Ok(());
    }
    // HTTP/2 sends `:authority`; a request that sends both is held to both.
    let hosts = headers.get_all(header::HOST).iter().map(host_of).chain(uri.authority().map(|a| Some(a.host().to_owned())));
    let hosts: Vec<Option<String>> = hosts.collect();
    let is_ours = |host: &Option<String>| host.as_ref().is_some_and(|host| is_allowed(settings, host));
    if hosts.is_empty() || !hosts.iter().all(is_ours) {
        return Err(ApiError::forbidden("host_not_allowed", "this host name is not one of the gateway's `allowed_hosts`"));
    }
    if !headers.get_all(header::ORIGIN).iter().map(host_of_origin).all(|host| is_ours(&host)) {
        return Err(ApiError::forbidden("origin_not_allowed", "this origin is not one of the gateway's `allowed_hosts`"));
    }
    Ok(())
}

fn host_of(value: &HeaderValue) -> Option<String> {
    Some(Authority::try_from(value.as_bytes()).ok()?.host().to_owned())
}

/// The host of `scheme://host:port`; none of `null`.
fn host_of_origin(value: &HeaderValue) -> Option<String> {
    Some(Uri::try_from(value.as_bytes()).ok()?.authority()?.host().to_owned())
}

fn is_allowed(settings: &Settings, host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_local = match bare.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback() || address == settings.listen.ip(),
        Err(_) => bare.eq_ignore_ascii_case("localhost"),
    };
    is_local || settings.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn is_let_in(listen: &str, host: Option<&str>, origin: Option<&str>) -> bool {
        let settings = Settings {
            listen: listen.parse().expect("an address"),
            require_virtual_key: true,
            allowed_hosts: vec!["Tools.example".to_owned()],
            max_body_bytes: 0,
            max_header_bytes: 0,
            read_timeout: Duration::ZERO,
            drain_timeout: Duration::ZERO,
            max_connections: 0,
        };
        let mut headers = HeaderMap::new();
        for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
            headers.extend(value.map(|value| (name, HeaderValue::from_str(value).expect("a good value"))));
        }
        check(&settings, &headers, &Uri::from_static("/health")).is_ok()
    }

    #[test]
    fn own_names_are_let_in_on_any_port() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:1", "127.9.9.9", "[::1]:8080", "tools.example", "TOOLS.EXAMPLE:443"]
        {
            assert!(is_let_in("127.0.0.1:0", Some(host), None), "{host}");
            assert!(is_let_in("127.0.0.1:0", Some("localhost"), Some(&format!("http://{host}"))), "{host}");
        }
        assert!(is_let_in("10.1.2.3:0", Some("10.1.2.3:8080"), None));
    }

    #[test]
    fn other_names_are_not() {
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "tools.example.evil", ""] {
            assert!(!is_let_in("127.0.0.1:0", Some(host), None), "{host}");
            assert!(!is_let_in("127.0.0.1:0", Some("localhost"), Some(&format!("https://{host}"))), "{host}");
        }
        assert!(!is_let_in("127.0.0.1:0", Some("localhost"), Some("null")));
        assert!(!is_let_in("127.0.0.1:0", None, None));
        assert!(!is_let_in("0.0.0.0:0", Some("evil.example"), None));
    }
}
