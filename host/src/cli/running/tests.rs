use super::*;

#[test]
fn an_address_without_a_scheme_is_refused_with_the_right_one() {
    assert_eq!(url("http://127.0.0.1:1").expect("a URL").as_str(), "http://127.0.0.1:1/");
    for (text, remedy) in [
        ("127.0.0.1:18730", "write http://127.0.0.1:18730"),
        ("localhost:8080", "write http://localhost:8080"),
        ("ftp://host", "such as http://127.0.0.1:8080"),
    ] {
        let refused = url(text).expect_err("no URL of a gateway");
        assert!(refused.ends_with(remedy), "{refused}");
    }
}

#[test]
fn a_refusal_hides_a_part_of_a_gateway_unless_the_token_is_none_or_the_gateway_fails() {
    for (status, code, expected) in [
        (401, "operator_required", true),
        (403, "role_insufficient", true),
        (404, "unknown_url", true),
        (401, "operator_unknown", false),
        (503, "store_unavailable", false),
    ] {
        let code = code.to_owned();
        let refusal = GatewayRefusal { status, code, message: String::new() };
        assert_eq!(refusal.is_hidden(), expected, "{refusal:?}");
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_command_that_lists_the_names() {
    for (status, code, expected) in [
        (404, "not_found", true),
        (404, "unknown_url", false),
        (409, "conflict", false),
        (403, "role_insufficient", false),
    ] {
        let refusal = GatewayRefusal { status, code: code.to_owned(), message: String::new() };
        assert_eq!(refusal.is_unknown(), expected, "{refusal:?}");
    }
    let named = NamedElement { kind: "virtual key", name: "an\"n", list: "airlock key list" };
    assert_eq!(
        named.unknown(" --config a.json"),
        r#"no virtual key is named "an\"n"; `airlock key list --config a.json` shows those that exist"#
    );
}

#[test]
fn a_gateway_that_is_not_ready_says_why() {
    let body = br#"{"status": "unavailable", "reason": "draining"}"#;
    let answered = answer(StatusCode::SERVICE_UNAVAILABLE, body, &"test").expect("JSON");
    let refused = answered.expect_err("it is not ready");
    assert_eq!((refused.status, refused.message.as_str()), (503, "draining"));
}

#[test]
fn only_the_user_of_another_gateway_is_sent_to_its_user() {
    let denied = unreachable_socket(ErrorKind::PermissionDenied.into());
    assert_eq!(denied.to_string(), OTHER_USER);
    let late = unreachable_socket(ErrorKind::TimedOut.into());
    assert_ne!(late.to_string(), OTHER_USER);
}

#[test]
fn a_gateway_on_all_addresses_is_reached_on_the_loopback_address() {
    for (listen, expected) in [
        ("127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080/"),
        ("[::]:8080", "http://[::1]:8080/"),
        ("10.1.2.3:80", "http://10.1.2.3/"),
    ] {
        assert_eq!(url_of(&plain(listen)).expect("a URL").as_str(), expected);
    }
    assert!(url_of(&plain("127.0.0.1:0")).is_err());
    let secure = GatewayAddress { certificate: Some("c.pem".into()), ..plain("0.0.0.0:8443") };
    assert_eq!(url_of(&secure).expect("a URL").as_str(), "https://127.0.0.1:8443/");
}

/// Returns the address of a gateway without TLS and without a socket.
fn plain(listen: &str) -> GatewayAddress {
    let listen = listen.parse().expect("an address");
    GatewayAddress { socket: None, listen, certificate: None }
}
