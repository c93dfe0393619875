//! Requests that are refused before anything runs: each with its status and its code, and in the form
//! of JSON-RPC.

use airlock_tests::{
    Gateway, Setup,
    mcp::{Endpoint, LEGACY, MODERN, McpRequest},
    wait,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{plain, text, upstream::Upstream};

const MISMATCH: i64 = -32020;
const UNSUPPORTED_VERSION: i64 = -32022;
const NO_METHOD: i64 = -32601;
const BAD_PARAMS: i64 = -32602;
const BAD_REQUEST: i64 = -32600;
const NOT_JSON: i64 = -32700;

const META: &str = "/params/_meta";
const VERSION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
const CAPABILITIES: &str = "/params/_meta/io.modelcontextprotocol~1clientCapabilities";
const LOG_LEVEL: &str = "/params/_meta/io.modelcontextprotocol~1logLevel";

/// Sends a request. Returns its error, which must have this status and this code.
async fn refused(what: &str, request: McpRequest, status: u16, code: i64) -> Value {
    let response = request.send().await;
    let found = response.status().as_u16();
    let kind = response.headers().get("content-type").cloned();
    let text = response.text().await.expect("the answer is whole");
    assert_eq!(found, status, "{what}: {text}");
    assert_eq!(kind.expect("a content type"), "application/json", "{what}");
    let body: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(body["jsonrpc"], "2.0", "{what}: {text}");
    assert_eq!(body["error"]["code"], code, "{what}: {text}");
    assert!(body["error"]["message"].is_string() && body.get("result").is_none(), "{what}: {text}");
    body
}

/// Starts a gateway with the upstream, and returns a good modern call of `region`.
async fn with_a_call() -> (Upstream, Gateway, McpRequest) {
    let upstream = Upstream::start().await;
    let gateway = Setup::new().client(upstream.client("up")).serve_connected().await;
    let arguments = json!({"region": "eu", "count": 7});
    let params = json!({"name": "up-region", "arguments": arguments});
    let call = Endpoint::new(&gateway).modern("tools/call", params);
    let call = call.set("mcp-param-region", "eu").set("mcp-param-count", "7");
    (upstream, gateway, call)
}

#[tokio::test]
async fn a_modern_call_whose_headers_and_body_disagree_is_refused_and_does_not_run() {
    let (upstream, _gateway, call) = with_a_call().await;
    let cases = [
        ("no version", call.clone().without("mcp-protocol-version")),
        ("a legacy version", call.clone().set("mcp-protocol-version", LEGACY)),
        ("an unknown version", call.clone().set("mcp-protocol-version", "2099-01-01")),
        ("two versions", call.clone().add("mcp-protocol-version", MODERN)),
        ("two unequal versions", call.clone().add("mcp-protocol-version", LEGACY)),
        ("no method", call.clone().without("mcp-method")),
        ("another method", call.clone().set("mcp-method", "tools/list")),
        ("the method in capitals", call.clone().set("mcp-method", "Tools/Call")),
        ("two methods", call.clone().add("mcp-method", "tools/call")),
        ("no name", call.clone().without("mcp-name")),
        ("another name", call.clone().set("mcp-name", "up-rich")),
        ("an empty name", call.clone().set("mcp-name", "")),
        ("a name that is not Base64", call.clone().set("mcp-name", "=?base64?!?=")),
        ("two names", call.clone().add("mcp-name", "up-region")),
        ("no parameter", call.clone().without("mcp-param-region")),
        ("another parameter", call.clone().set("mcp-param-region", "us")),
        ("a number in other digits", call.clone().set("mcp-param-count", "7.0")),
        ("two parameters", call.clone().add("mcp-param-region", "eu")),
        ("a parameter that the body has not", call.clone().member("/params/arguments/count", ())),
        ("a null parameter", call.clone().member("/params/arguments", json!({"count": 7}))),
        ("a version that is not ASCII", call.clone().set("mcp-protocol-version", "2026\u{e9}")),
    ];
    for (what, request) in cases {
        let body = refused(what, request, 400, MISMATCH).await;
        assert!(matches!(&body["id"], Value::Null) || body["id"] == 1, "{what}: {body}");
    }
    assert_eq!(upstream.calls("region"), [Value::Null; 0], "one of them ran");
    let encoded = call.clone().set("mcp-name", "=?base64?dXAtcmVnaW9u?=");
    let encoded = encoded.set("mcp-param-region", "=?base64?ZXU=?=");
    for request in [call, encoded] {
        let result = request.result().await;
        assert_eq!(result["content"], text(r#"{"region":"eu","count":7}"#));
    }
}

#[tokio::test]
async fn a_header_of_a_parameter_is_checked_at_the_endpoint_of_its_source() {
    let (upstream, gateway, _) = with_a_call().await;
    let endpoint = Endpoint::new(&gateway).source("up");
    let params = json!({"name": "region", "arguments": {"region": "eu"}});
    let call = endpoint.modern("tools/call", params);
    refused("none", call.clone(), 400, MISMATCH).await;
    refused("another", call.clone().set("mcp-param-region", "us"), 400, MISMATCH).await;
    let extra = call.clone().set("mcp-param-region", "eu").set("mcp-param-count", "7");
    refused("one too many", extra, 400, MISMATCH).await;
    assert_eq!(upstream.calls("region"), [Value::Null; 0]);
    assert!(call.set("mcp-param-region", "eu").result().await["content"].is_array());
}

#[tokio::test]
async fn a_modern_request_with_a_bad_version_or_without_its_metadata_is_refused() {
    let (upstream, gateway, call) = with_a_call().await;
    let at = |version: &str| call.clone().member(VERSION, version);
    for version in ["2099-01-01", LEGACY, "2024-11-05", "", "DRAFT-2026-v1"] {
        let request = at(version).set("mcp-protocol-version", version);
        let body = refused(version, request, 400, UNSUPPORTED_VERSION).await;
        let expected = json!({"supported": [MODERN], "requested": version});
        assert_eq!((&body["error"]["data"], &body["id"]), (&expected, &json!(1)), "{body}");
    }
    let bad = [
        ("no metadata", call.clone().member(META, ())),
        ("metadata of another type", call.clone().member(META, "x")),
        ("no version", call.clone().member(VERSION, ())),
        ("a number as version", call.clone().member(VERSION, 7)),
        ("no capabilities", call.clone().member(CAPABILITIES, ())),
        ("capabilities of another type", call.clone().member(CAPABILITIES, json!([]))),
        ("an unknown log level", call.clone().member(LOG_LEVEL, "loud")),
    ];
    for (what, request) in bad {
        let body = refused(what, request, 400, BAD_PARAMS).await;
        assert_eq!(body["id"], 1, "{what}");
    }
    assert_eq!(upstream.calls("region"), [Value::Null; 0]);
    let discover = Endpoint::new(&gateway).modern("server/discover", json!({}));
    refused("discover", discover.clone().member(META, ()), 400, BAD_PARAMS).await;
    let supported = &discover.result().await["supportedVersions"];
    assert!(supported.as_array().expect("a list").contains(&json!(MODERN)), "{supported}");
}

#[tokio::test]
async fn a_method_that_the_revision_does_not_have_is_refused() {
    let gateway = Setup::new().serve().await;
    let endpoint = Endpoint::new(&gateway);
    let long = "x".repeat(128);
    for method in
        ["no/such", "ping", "initialize", "logging/setLevel", "resources/list", "", &*long]
    {
        let body = refused(method, endpoint.modern(method, json!({})), 404, NO_METHOD).await;
        assert_eq!(body["id"], 1, "{method}");
    }
    let session = endpoint.session().await;
    for method in ["no/such", "subscriptions/listen", "resources/list", "tasks/list"] {
        refused(method, session.request(method, json!({})), 200, NO_METHOD).await;
    }
    assert_eq!(session.request("ping", json!({})).result().await, json!({}));
}

#[tokio::test]
async fn a_legacy_request_whose_headers_are_wrong_is_refused() {
    let setup = Setup::new();
    let guest = plain(&setup, "guest");
    let gateway = setup.client(guest).serve_connected().await;
    let session = Endpoint::new(&gateway).session().await;
    let list = || session.request("tools/list", json!({}));
    let unknown = list().set("mcp-protocol-version", "2099-01-01");
    refused("an unknown version", unknown, 400, UNSUPPORTED_VERSION).await;
    let twice = list().add("mcp-protocol-version", LEGACY);
    refused("two versions", twice, 400, MISMATCH).await;
    let modern = list().set("mcp-protocol-version", MODERN);
    refused("the modern version without metadata", modern, 400, BAD_PARAMS).await;
    refused("another method", list().set("mcp-method", "tools/call"), 400, MISMATCH).await;
    // The header came after the first revisions.
    assert!(list().without("mcp-protocol-version").result().await["tools"].is_array());
}

#[tokio::test]
async fn a_body_that_is_no_message_is_refused() {
    let gateway = Setup::new().serve().await;
    let endpoint = Endpoint::new(&gateway);
    let deep = |levels: usize| {
        let open = "[".repeat(levels);
        let close = "]".repeat(levels);
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":{open}{close}}}}}"#)
    };
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let cases = [
        ("nothing", String::new(), NOT_JSON),
        ("blanks", "  \n ".to_owned(), NOT_JSON),
        ("half an object", r#"{"jsonrpc":"2.0","#.to_owned(), NOT_JSON),
        ("two objects", format!("{ping}{ping}"), NOT_JSON),
        ("a string", "\"ping\"".to_owned(), NOT_JSON),
        ("deep arrays", deep(100_000), NOT_JSON),
        ("a batch", format!("[{ping},{ping}]"), BAD_REQUEST),
        ("a batch of one", format!(" [{ping}]"), BAD_REQUEST),
        ("an empty batch", "[]".to_owned(), BAD_REQUEST),
        ("an empty object", "{}".to_owned(), BAD_REQUEST),
        ("a null id", ping.replace(":1,", ":null,"), BAD_REQUEST),
        ("a fraction as id", ping.replace(":1,", ":1.5,"), BAD_REQUEST),
        ("a long id", ping.replace(":1,", &format!(":\"{}\",", "x".repeat(300))), BAD_REQUEST),
        ("JSON-RPC 1.0", ping.replace("2.0", "1.0"), BAD_REQUEST),
        ("a list as params", ping.replace('}', r#","params":[]}"#), BAD_REQUEST),
    ];
    for (what, body, code) in cases {
        refused(what, endpoint.post(body), 400, code).await;
    }
    refused("bytes", endpoint.post(b"{\"jsonrpc\":\"\xff\"}".to_vec()), 400, NOT_JSON).await;
    assert_eq!(endpoint.post(deep(100)).result().await, json!({}), "a few levels are no fault");
}

#[tokio::test]
async fn a_body_that_takes_much_memory_once_parsed_is_refused() {
    let gateway = Setup::new().set("/server/max_body", "1MiB").serve().await;
    let before = gateway.peak_memory();
    let dense = r#"{"":0},"#.repeat((1 << 20) / 7 - 20);
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":[{dense}0]}}}}"#);
    refused("dense", Endpoint::new(&gateway).post(body), 400, NOT_JSON).await;
    let taken = gateway.peak_memory() - before;
    // The tree would have 45 MiB.
    assert!(taken < 24 << 20, "it took {taken} bytes");
}

#[tokio::test]
async fn another_content_type_or_an_impossible_accept_is_refused() {
    let gateway = Setup::new().serve().await;
    let endpoint = Endpoint::new(&gateway);
    let ping = || endpoint.post(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    let status = async |request: McpRequest| {
        let reply = request.reply().await;
        assert_eq!(reply.body["jsonrpc"], "2.0", "{}", reply.text);
        reply.status
    };
    for kind in ["text/plain", "application/jsonx", "application/x-www-form-urlencoded", ""] {
        assert_eq!(status(ping().set("content-type", kind)).await, 415, "{kind}");
    }
    assert_eq!(status(ping().without("content-type")).await, 415);
    assert_eq!(status(ping().add("content-type", "application/json")).await, 415);
    assert_eq!(status(ping().set("content-type", "Application/JSON; charset=utf-8")).await, 200);
    for accept in ["text/html", "application/xml", "application/json;q=0"] {
        assert_eq!(status(ping().set("accept", accept)).await, 406, "{accept}");
    }
    let session = endpoint.session().await;
    assert_eq!(status(session.listen().set("accept", "application/json")).await, 406);
    for accept in ["*/*", "application/json", "application/*, text/event-stream;q=0.5"] {
        assert_eq!(status(ping().set("accept", accept)).await, 200, "{accept}");
    }
}

#[tokio::test]
async fn a_method_of_http_without_a_meaning_is_refused() {
    let gateway = Setup::new().serve().await;
    for method in ["PUT", "PATCH", "OPTIONS"] {
        let method: reqwest::Method = method.parse().expect("a method");
        let reply = airlock_tests::Reply::fetch(gateway.request(method.clone(), "/mcp")).await;
        assert_eq!(reply.status, 405, "{method}: {}", reply.text);
    }
    // Without a session there is no stream, and nothing to end.
    let get = gateway.request(reqwest::Method::GET, "/mcp").header("accept", "text/event-stream");
    assert_eq!(airlock_tests::Reply::fetch(get).await.status, 405);
    let delete = gateway.request(reqwest::Method::DELETE, "/mcp");
    assert_eq!(airlock_tests::Reply::fetch(delete).await.status, 400);
}

#[tokio::test]
async fn a_page_of_another_origin_and_a_foreign_host_are_refused() {
    let setup = Setup::new();
    let guest = plain(&setup, "guest");
    let gateway = setup.client(guest).serve_connected().await;
    let port = gateway.address().rsplit_once(':').expect("a port").1.to_owned();
    let foreign = [
        ("host", "evil.example".to_owned()),
        ("host", format!("evil.example:{port}")),
        ("host", format!("127.0.0.1.evil.example:{port}")),
        ("origin", "http://evil.example".to_owned()),
        ("origin", format!("http://127.0.0.1.evil.example:{port}")),
        ("origin", "http://localhost:1".to_owned()),
        ("origin", "null".to_owned()),
    ];
    let endpoint = Endpoint::new(&gateway);
    let session = endpoint.session().await;
    for (name, value) in foreign {
        let what = format!("{name}: {value}");
        for request in [
            endpoint.modern("tools/call", json!({"name": "guest-run"})),
            endpoint.initialize(LEGACY),
            session.request("tools/list", json!({})),
            session.listen(),
            session.delete(),
        ] {
            refused(&what, request.set(name, &value), 403, -32000).await;
        }
    }
    let own = endpoint.header("origin", gateway.address());
    assert!(own.modern("tools/list", json!({})).result().await["tools"].is_array());
    assert!(session.request("tools/list", json!({})).result().await["tools"].is_array());
}

/// Opens a connection and sends the head of a POST request.
async fn head(gateway: &Gateway, headers: &str) -> TcpStream {
    let address = gateway.address().trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("it is read");
    stream
}

/// Reads until the gateway closes the connection.
async fn read_to_end(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut received = Vec::new();
    // A reset after the response counts as an end.
    let read = tokio::time::timeout(wait::SOON, stream.read_to_end(&mut received)).await;
    let _ = read.expect("the gateway closes the connection");
    String::from_utf8(received).expect("UTF-8")
}

fn is_refusal(response: &str, status: u16) {
    assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
    assert!(response.contains("\r\n\r\n{\"jsonrpc\":\"2.0\",\"error\":{"), "{response}");
}

#[tokio::test]
async fn a_body_of_100_mib_is_refused_by_its_announced_length() {
    let gateway = Setup::new().serve().await;
    let mut stream = head(&gateway, &format!("content-length: {}\r\n", 100 << 20)).await;
    is_refusal(&read_to_end(&mut stream).await, 413);
}

#[tokio::test]
async fn a_body_of_100_mib_in_chunks_is_refused_at_the_limit() {
    let gateway = Setup::new().set("/server/max_body", "1MiB").serve().await;
    let before = gateway.peak_memory();
    let stream = head(&gateway, "transfer-encoding: chunked\r\n").await;
    let (mut reader, mut writer) = stream.into_split();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(64 << 10));
    let writing = tokio::spawn(async move {
        for sent in 0..(100 << 20) / (64 << 10) {
            if writer.write_all(chunk.as_bytes()).await.is_err() {
                return sent << 16;
            }
        }
        100 << 20
    });
    is_refusal(&read_to_end(&mut reader).await, 413);
    // The rest was at most in the buffers of the two sockets.
    let sent = writing.await.expect("no panic in it");
    assert!(sent < 50 << 20, "{sent} bytes were read");
    let taken = gateway.peak_memory() - before;
    // A gateway that has just started takes up to 20 MiB for its first requests.
    assert!(taken < 40 << 20, "it took {taken} bytes");
}

#[tokio::test]
async fn a_request_that_never_ends_is_ended_by_the_read_timeout() {
    let gateway = Setup::new().set("/server/read_timeout", "1s").serve().await;
    let mut half = head(&gateway, "content-length: 100\r\n").await;
    half.write_all(b"{\"jsonrpc\"").await.expect("it is read");
    is_refusal(&read_to_end(&mut half).await, 408);
    // One that sends a byte now and then.
    let (mut reader, mut writer) =
        head(&gateway, "transfer-encoding: chunked\r\n").await.into_split();
    let reading = tokio::spawn(async move { read_to_end(&mut reader).await });
    wait::until("the drip to be ended", async || {
        let dripped = writer.write_all(b"1\r\n \r\n").await;
        (dripped.is_err() || reading.is_finished()).then_some(())
    })
    .await;
    is_refusal(&reading.await.expect("no panic in it"), 408);
    // One that does not even end its head.
    let address = gateway.address().trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: loc").await.expect("it is read");
    read_to_end(&mut stream).await;
    let list = Endpoint::new(&gateway).modern("tools/list", json!({}));
    assert_eq!(list.result().await["tools"], json!([]));
}
