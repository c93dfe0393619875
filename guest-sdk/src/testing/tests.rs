//! The mock host grants what is declared, and refuses the rest as a gateway does.

use serde_json::json;

use super::*;
use crate::http::HttpErrorKind;
use crate::tools::{self, Call};
use crate::{ErrorKind, log, secrets};

/// Sends a request with these credentials.
fn send(credentials: &[&str]) -> Result<Response, HttpError> {
    let request = Request::get("https://a.example/");
    credentials.iter().fold(request, |request, name| request.with_credential(*name)).send()
}

#[test]
fn without_a_declaration_everything_is_refused_as_in_a_gateway() {
    Host::new().run(|context| {
        assert_eq!(kv::open("s").unwrap_err(), kv::KvError::NoSuchStore);
        assert_eq!(send(&[]).unwrap_err().kind, HttpErrorKind::Denied);
        assert!(!secrets::exists("token"));
        assert_eq!(secrets::reveal("token").unwrap_err().code(), Some("secret_no_such_secret"));
        assert_eq!(tools::call("t", &json!({})).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(tools::describe("t").unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(tools::list(None, 10).unwrap().items, []);
        assert_eq!(crate::config::get::<u8>("rows").unwrap(), None);
        assert_eq!(context.remaining(), None);
    });
}

#[test]
fn without_a_host_nothing_is_available() {
    assert!(matches!(kv::open("s").unwrap_err(), kv::KvError::Unavailable(_)));
    assert_eq!(send(&[]).unwrap_err().kind, HttpErrorKind::Unavailable);
    assert_eq!(secrets::reveal("token").unwrap_err().code(), Some("secret_unavailable"));
    assert_eq!(tools::call("t", &json!({})).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn a_request_has_only_the_credentials_that_are_granted_and_at_most_eight() {
    let host = Host::new().secret("a", "1").secret("b", "2").http(|request: &Request| {
        Response::new(200).with_body(request.credentials().collect::<Vec<_>>().join(","))
    });
    host.run(|_| {
        assert_eq!(send(&["a", "b"]).unwrap().text(), "a,b");
        assert_eq!(send(&["a", "c"]).unwrap_err().kind, HttpErrorKind::Denied);
        assert_eq!(send(&["a"; 9]).unwrap_err().kind, HttpErrorKind::InvalidRequest);
    });
}

#[test]
fn a_response_that_is_larger_than_the_request_admits_is_too_large() {
    let host = Host::new().http(|_| Response::new(200).with_body("12345"));
    host.run(|_| {
        let request = Request::get("https://a.example/x");
        let response = request.clone().with_max_response_bytes(5).send().unwrap();
        assert_eq!(response.final_url, "https://a.example/x");
        let error = request.with_max_response_bytes(4).send().unwrap_err();
        assert_eq!((error.kind, error.request_sent), (HttpErrorKind::TooLarge, true));
    });
}

#[test]
fn a_failure_of_the_server_reaches_the_plugin_with_its_details() {
    let host = Host::new()
        .http(|_| Err(HttpError::new(HttpErrorKind::Timeout, "too slow").with_request_sent(true)));
    let error = host.run(|_| Error::from(send(&[]).unwrap_err()));
    assert_eq!((error.kind(), error.code()), (ErrorKind::Timeout, Some("http_timeout")));
    assert_eq!(error.details(), Some(&json!({ "request_sent": true })));
}

#[test]
fn a_secret_is_revealed_only_if_its_value_is_granted() {
    Host::new().secret("a", "1").revealed_secret("b", "2").run(|_| {
        assert!(secrets::exists("a") && secrets::exists("b"));
        assert_eq!(secrets::reveal("a").unwrap_err().code(), Some("secret_denied"));
        assert_eq!(secrets::reveal("b").unwrap().expose(), b"2");
    });
}

#[test]
fn a_tool_is_called_by_its_slot_and_may_call_others() {
    let host = Host::new()
        .tool("outer", |arguments| tools::call("inner", &arguments))
        .tool("inner", |arguments| Output::json(&arguments));
    host.run(|_| {
        let output = tools::call("outer", &json!({ "a": 1 })).unwrap();
        assert_eq!(output.structured_content, Some(json!({ "a": 1 })));
        let calls = ["inner", "none"].map(|name| Call::new(name, &json!({})).unwrap());
        let kinds: Vec<_> = tools::call_batch(calls)
            .into_iter()
            .map(|result| result.map_err(|error| error.kind()).is_ok())
            .collect();
        assert_eq!(kinds, [true, false]);
        let error = tools::call("inner", &json!([])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let error = tools::call("unknown", &json!({})).unwrap_err();
        assert!(error.is_from_host() && error.kind() == ErrorKind::NotFound, "{error:?}");
        let page = tools::list(None, 1).unwrap();
        assert_eq!((page.items[0].name.as_str(), page.next.as_deref()), ("inner", Some("inner")));
        assert_eq!(tools::list(page.next.as_deref(), 1).unwrap().items[0].name, "outer");
    });
}

#[test]
fn progress_lines_and_parts_are_kept_in_their_order() {
    let host = Host::new().remaining(Duration::from_secs(2));
    host.run(|context| {
        context.progress(1.0, None, Some("one"));
        context.emit("part");
        log::warn!(row = 3, "read");
        assert_eq!(context.remaining(), Some(Duration::from_secs(2)));
    });
    let one = Progress { done: 1.0, total: None, message: Some("one".to_owned()) };
    assert_eq!(host.progress(), [one]);
    assert_eq!(host.parts(), [Content::text("part")]);
    let line = Line {
        level: log::Level::Warn,
        message: "read".to_owned(),
        fields: vec![("row".to_owned(), "3".to_owned())],
    };
    assert_eq!(host.logs(), [line]);
}

/// Sends a part ahead, and fails if its arguments are `true`.
struct Early;

impl Tool for Early {
    const NAME: &'static str = "early";

    fn descriptor() -> crate::Descriptor {
        crate::Descriptor::new(Self::NAME, "", json!({}).try_into().unwrap())
    }

    fn invoke(arguments: &str, context: &Context<'_>) -> Result<Output, Error> {
        context.emit("early");
        if arguments == "true" {
            Err(Error::conflict("m").with("late"))
        } else {
            Ok(Output::text("late"))
        }
    }
}

#[test]
fn the_content_of_a_result_and_of_an_error_begins_with_the_emitted_parts() {
    let host = Host::new();
    let output = host.call::<Early>(false).unwrap();
    assert_eq!(texts(&output.content), "early late");
    let error = host.call::<Early>(true).unwrap_err();
    assert_eq!(texts(error.content()), "early late");
    assert_eq!(host.parts().len(), 2);
}

fn texts(content: &[Content]) -> String {
    content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join(" ")
}

#[test]
fn slots_come_first_in_the_list() {
    let host = ["b-x", "c", "a-x", "d"]
        .iter()
        .fold(Host::new(), |host, name| host.tool(*name, |_| Ok(crate::Output::default())));
    host.run(|_| {
        assert_eq!(listed(None, 10), "c d a-x b-x");
        assert_eq!(listed(Some("d"), 1), "a-x");
    });
}

fn listed(cursor: Option<&str>, limit: u32) -> String {
    let page = tools::list(cursor, limit).unwrap();
    page.items.into_iter().map(|item| item.name).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_host_is_in_use_until_its_code_ends_even_by_a_panic() {
    let outer = Host::new().kv("outer");
    let inner = Host::new().kv("inner");
    outer.run(|_| {
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            inner.run(|_| {
                assert!(kv::open("inner").is_ok() && kv::open("outer").is_err());
                panic!("on purpose");
            });
        }));
        assert!(panicked.is_err());
        assert!(kv::open("outer").is_ok() && kv::open("inner").is_err());
    });
    assert!(kv::open("outer").is_err());
}
