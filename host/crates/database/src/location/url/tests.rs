//! Tests of locations.

use std::path::Path;

use super::*;
use crate::location::Location;

fn tls(text: &str) -> Result<ServerTls, LocationError> {
    match text.parse()? {
        Location::Server(url) => Ok(url.tls),
        Location::File(path) => panic!("{} is a path", path.display()),
    }
}

#[test]
fn a_location_is_a_path_or_a_url_of_postgresql() {
    for path in ["airlock.db", "/var/lib/airlock.db", "a/b://c", "://x", ""] {
        let location: Location = path.parse().expect("a path");
        assert_eq!(location.path(), Some(Path::new(path)));
        assert_eq!(location.to_string(), path);
    }
    for url in ["postgres://h/d", "postgresql://u@h:1/d"] {
        assert_eq!(url.parse::<Location>().expect("a URL").path(), None);
    }
    let other = "mysql://u:hunter2@h/d".parse::<Location>().expect_err("refused");
    assert_eq!(other, LocationError::Scheme { found: "mysql".into() });
}

#[test]
fn plain_text_stays_on_this_machine_unless_the_url_permits_it() {
    let verified = ServerTls::Verified { authorities: None };
    for local in [
        "postgres://u@localhost/d",
        "postgres://u@127.0.0.1:6432/d",
        "postgres://u@[::1]/d",
        "postgres://u@%2Frun%2Fpostgresql/d",
        "postgres:///d?host=/run/postgresql",
        "postgres://u@db/d?hostaddr=127.0.0.1",
        "postgres://u@db.example.com/d?sslmode=disable",
    ] {
        assert_eq!(tls(local), Ok(ServerTls::Off), "{local}");
    }
    for encrypted in [
        "postgres://u@db.example.com/d",
        "postgres://u@10.0.0.1/d",
        "postgres://u@localhost,db.example.com/d",
        "postgres://u@localhost/d?hostaddr=10.0.0.1",
        "postgres://u@localhost.example.com/d",
        "postgres://u@db.example.com/d?sslmode=require",
        "postgres://u@localhost/d?sslmode=verify-full&connect_timeout=3",
    ] {
        assert_eq!(tls(encrypted), Ok(verified.clone()), "{encrypted}");
    }
    let own = tls("postgres://u@h/d?sslrootcert=%2Fetc%2Fown%20ca.pem").expect("valid");
    assert_eq!(own, ServerTls::Verified { authorities: Some("/etc/own ca.pem".into()) });
}

#[test]
fn modes_that_do_not_protect_a_connection_are_refused_with_the_reason() {
    for mode in ["prefer", "allow", "verify-ca", "off"] {
        let refused = tls(&format!("postgres://u@h/d?sslmode={mode}")).expect_err("refused");
        assert!(matches!(&refused, LocationError::Mode { found, .. } if found == mode));
    }
    let refused = tls("postgres://u@h/d?sslmode=prefer").expect_err("refused").to_string();
    let expected = "sslmode=prefer is not supported: it uses plain text if an attacker or the server \
                    refuses TLS; use verify-full, or disable for plain text";
    assert_eq!(refused, expected);
    let socket = tls("postgres:///d?host=/run/postgresql&sslmode=require");
    assert_eq!(socket, Err(LocationError::SocketTls));
    assert_eq!(tls("postgres:///d"), Err(LocationError::NoHost));
}

#[test]
fn no_password_is_shown_not_even_of_a_url_that_cannot_be_parsed() {
    for url in [
        "postgres://u:hunter2@h:7/d",
        "postgres://u:hunter2%3F@h/d",
        "postgres://u@h/d?password=hunter2",
        "postgres://u@h/d?password=hunter2@h",
    ] {
        let location: Location = url.parse().expect("valid");
        for shown in [format!("{location}"), format!("{location:?}")] {
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
    for url in [
        "postgres://u:p/hunter2@h:x/d",
        "postgres://u:1/hunter2@h/d",
        "postgres://u:1@hunter2@h/d",
        "postgres://u:1@h/hunter2@h/d",
        "postgres://u:hunter2?@h/d",
        "postgres://u@h/d?hunter2=1",
        "postgres://u@h:hunter2/d",
        "postgres:u:hunter2@h/d",
        "postgresql:/u:hunter2@h/d",
        "postgres:u:hunter2@h/d?x=://",
    ] {
        let refused = url.parse::<Location>().expect_err("invalid");
        assert_eq!(refused, LocationError::Malformed, "{url}");
        assert!(!refused.to_string().contains("hunter2"));
    }
    let shown: Location = "postgres://u:hunter2@a:1,b:2/d".parse().expect("valid");
    assert_eq!(shown.to_string(), "postgres://u@a:1,b:2/d");
}

#[test]
fn an_at_sign_in_the_query_hides_no_parameter() {
    for url in [
        "postgres:///d?host=h&user=a@b&sslmode=disable",
        "postgres://h?user=a@b&sslmode=disable",
        "postgres://h/d?sslmode=disable&user=a@b",
    ] {
        let Location::Server(url) = url.parse().expect("valid") else { panic!("it is a URL") };
        assert_eq!(url.tls, ServerTls::Off);
        assert_eq!(url.config.get_user(), Some("a@b"));
        assert_eq!(url.config.get_hosts(), [Host::Tcp("h".to_owned())]);
    }
}

#[test]
fn of_several_hosts_one_that_allows_writes_is_chosen() {
    for (url, expected) in [
        ("postgres://u@a/d", TargetSessionAttrs::Any),
        ("postgres://u@a,b/d", TargetSessionAttrs::ReadWrite),
        ("postgres://u@a:1,b:2/d?target_session_attrs=any", TargetSessionAttrs::ReadWrite),
        ("postgres://u@a,b/d?target_session_attrs=read-only", TargetSessionAttrs::ReadOnly),
    ] {
        let Location::Server(found) = url.parse().expect("valid") else { panic!("it is a URL") };
        assert_eq!(found.config.get_target_session_attrs(), expected, "{url}");
    }
}
