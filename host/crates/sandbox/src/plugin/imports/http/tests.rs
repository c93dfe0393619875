//! Requests of a real guest, which passes its arguments through, to a real server.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::{Duration, Instant},
};

use airlock_compile::pooled_engine;
use airlock_core::{
    secret::Secret,
    tool::{CallError, ClientName, ReachedLimit, ToolName},
};
use airlock_egress::{
    Bounds, Credential, Credentials, Egress, EgressError, Injection, Outlet, Policy, Resolver,
};
use airlock_test_http::{Answer, Server, ok, says};
use futures_util::future::BoxFuture;
use wasmtime::{
    Engine, Store,
    component::{Component, Val},
};

use crate::{
    Limits,
    plugin::{self, side::PluginSide},
    run::{instance, memory, state::State},
};

/// Component that exports `send` as it imports it: passes on the sixteen values of the request, and
/// the result, unchanged.
const GUEST: &str = r#"
    (component
      (import "airlock:host/http@0.1.0" (instance $http
        (type $h (record (field "name" string) (field "value" (list u8))))
        (export "header" (type $header (eq $h)))
        (type $d (enum "follow" "manual"))
        (export "redirects" (type $redirects (eq $d)))
        (type $q (record
          (field "method" string) (field "url" string) (field "headers" (list $header)) (field "body" (option (list u8)))
          (field "timeout-ms" (option u64)) (field "max-response-bytes" (option u64)) (field "credentials" (list string))
          (field "redirects" $redirects)))
        (export "request" (type $request (eq $q)))
        (type $r (record
          (field "status" u16) (field "headers" (list $header)) (field "body" (list u8)) (field "final-url" string)))
        (export "response" (type $response (eq $r)))
        (type $k (enum "denied" "invalid-request" "dns" "connect" "tls" "timeout" "too-large" "too-many-redirects" "protocol"
          "unavailable" "limit-reached" "other"))
        (export "http-error-kind" (type $kind (eq $k)))
        (type $e (record (field "kind" $kind) (field "message" string) (field "request-sent" bool)))
        (export "http-error" (type $error (eq $e)))
        (export "send" (func (param "request" $request) (result (result $response (error $error)))))))
      (alias export $http "request" (type $request))
      (alias export $http "response" (type $response))
      (alias export $http "http-error" (type $error))
      (core module $memory
        (memory (export "memory") 512)
        (global $free (mut i32) (i32.const 1024))
        (func (export "realloc") (param i32 i32 i32 i32) (result i32)
          (local $at i32)
          (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
          (global.set $free (i32.add (local.get $at) (local.get 3)))
          (local.get $at)))
      (core instance $m (instantiate $memory))
      (core func $send (canon lower (func $http "send") (memory (core memory $m "memory")) (realloc (core func $m "realloc"))))
      (core module $pass
        (import "" "send" (func $send
          (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32 i64 i32 i32 i32 i32)))
        (func (export "send")
          (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32 i64 i32 i32 i32) (result i32)
          (call $send
            (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4) (local.get 5) (local.get 6) (local.get 7)
            (local.get 8) (local.get 9) (local.get 10) (local.get 11) (local.get 12) (local.get 13) (local.get 14)
            (local.get 15) (i32.const 64))
          (i32.const 64)))
      (core instance $p (instantiate $pass (with "" (instance (export "send" (func $send))))))
      (func (export "send") (param "request" $request) (result (result $response (error $error)))
        (canon lift (core func $p "send") (memory (core memory $m "memory")) (realloc (core func $m "realloc")))))"#;

/// Runs `body` as a plugin's call that may send through `outlet`.
pub(crate) async fn run<T>(
    outlet: Option<Outlet>,
    limits: Limits,
    body: impl AsyncFnOnce(&Engine, &mut Store<State<PluginSide>>) -> wasmtime::Result<T>,
) -> Result<T, CallError> {
    run_with(1 << 30, outlet, limits, body).await
}

/// Runs `body` like [`run`], with `memory_bytes` of guest memory for the process.
pub(crate) async fn run_with<T>(
    memory_bytes: usize,
    outlet: Option<Outlet>,
    limits: Limits,
    body: impl AsyncFnOnce(&Engine, &mut Store<State<PluginSide>>) -> wasmtime::Result<T>,
) -> Result<T, CallError> {
    let engine = pooled_engine(1, None).expect("an engine");
    let client = ClientName::parse("test").expect("a name");
    let guest = PluginSide { outlet, ..PluginSide::denied(client.clone(), Arc::default()) };
    let call = guest.call(ToolName::new(&client, "call"), limits);
    instance::run(&engine, &memory::budget(memory_bytes), call, async |store| {
        body(&engine, store).await
    })
    .await
}

/// Resolves every name to this machine.
struct Loopback;

impl Resolver for Loopback {
    fn resolve(&self, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![Ipv4Addr::LOCALHOST.into()]) })
    }
}

/// Outlet that may send to `server` as `x.example.com`, with the credential `token` for all paths
/// below `/for/`.
pub(crate) fn outlet(server: &Server, bounds: Bounds) -> Outlet {
    let policy = Policy::new(
        None,
        vec![rule(server, "http://x.example.com:PORT GET,POST /** private")],
        bounds,
    )
    .expect("a policy");
    let injection = Injection::header("authorization", "Bearer ").expect("a header");
    let audience = vec![rule(server, "http://x.example.com:PORT GET /for/**")];
    let token = Credential::new("token", Secret::new("s3cret-value"), injection, audience)
        .expect("a credential");
    let credentials = Credentials::new(vec![token]).expect("credentials");
    Egress::with_resolver(Arc::new(Loopback)).expect("clients").outlet("test", policy, credentials)
}

fn rule(server: &Server, text: &str) -> airlock_egress::Rule {
    text.replace("PORT", &server.address.port().to_string()).parse().expect("a rule")
}

/// Sends a request from inside a guest.
async fn send(
    engine: &Engine,
    store: &mut Store<State<PluginSide>>,
    request: Val,
) -> wasmtime::Result<Result<Val, Val>> {
    let component = Component::new(engine, wat::parse_str(GUEST).expect("a component"))?;
    let instance = plugin::linker(engine)?.instantiate_async(&mut *store, &component).await?;
    let send = instance.get_func(&mut *store, "send").expect("it is exported");
    let mut answer = [Val::Bool(false)];
    send.call_async(&mut *store, &[request], &mut answer).await?;
    let [Val::Result(answer)] = answer else { panic!("no result: {answer:?}") };
    Ok(answer.map(|value| *value.expect("a response")).map_err(|value| *value.expect("an error")))
}

fn bytes(bytes: &[u8]) -> Val {
    Val::List(bytes.iter().copied().map(Val::U8).collect())
}

fn optional(value: Option<Val>) -> Val {
    Val::Option(value.map(Box::new))
}

fn request(
    method: &str,
    url: &str,
    headers: &[(&str, &[u8])],
    body: Option<&[u8]>,
    credential: Option<&str>,
) -> Val {
    Val::Record(vec![
        ("method".into(), Val::String(method.into())),
        ("url".into(), Val::String(url.into())),
        (
            "headers".into(),
            Val::List(
                headers
                    .iter()
                    .map(|(name, value)| {
                        Val::Record(vec![
                            ("name".into(), Val::String((*name).into())),
                            ("value".into(), bytes(value)),
                        ])
                    })
                    .collect(),
            ),
        ),
        ("body".into(), optional(body.map(bytes))),
        ("timeout-ms".into(), optional(None)),
        ("max-response-bytes".into(), optional(None)),
        (
            "credentials".into(),
            Val::List(credential.map(|name| Val::String(name.into())).into_iter().collect()),
        ),
        ("redirects".into(), Val::Enum("follow".into())),
    ])
}

fn field<'a>(record: &'a Val, name: &str) -> &'a Val {
    let Val::Record(fields) = record else { panic!("no record: {record:?}") };
    &fields
        .iter()
        .find(|(field, _)| field == name)
        .unwrap_or_else(|| panic!("no {name}: {record:?}"))
        .1
}

#[tokio::test]
async fn a_guest_sends_a_request_and_receives_the_response() {
    let server = Server::start(|_| says("201 Created", "x-odd: 1\r\n", "made")).await;
    let url = server.url("x.example.com", "/things?a=b");
    let headers: [(&str, &[u8]); 1] = [("X-Mine", b"\xff")];
    let response =
        run(Some(outlet(&server, Bounds::PLUGIN)), Limits::PLUGIN, async |engine, store| {
            send(engine, store, request("POST", &url, &headers, Some(b"body"), None)).await
        });
    let response = response.await.expect("it returns").expect("a response");
    assert_eq!(field(&response, "status"), &Val::U16(201));
    assert_eq!(field(&response, "body"), &bytes(b"made"));
    assert_eq!(field(&response, "final-url"), &Val::String(url));
    let Val::List(headers) = field(&response, "headers") else { panic!("no list") };
    assert!(
        headers.iter().any(|header| field(header, "name") == &Val::String("x-odd".into())),
        "{headers:?}"
    );
    let sent = &server.requests()[0];
    assert!(
        sent.starts_with("POST /things?a=b HTTP/1.1\r\n")
            && sent.contains("x-mine: ")
            && sent.ends_with("body"),
        "{sent}"
    );
}

#[tokio::test]
async fn a_guest_names_a_credential_and_does_not_see_it() {
    let server = Server::start(|_| ok("Bearer s3cret-value")).await;
    let url = server.url("x.example.com", "/for/me");
    let response =
        run(Some(outlet(&server, Bounds::PLUGIN)), Limits::PLUGIN, async |engine, store| {
            send(engine, store, request("GET", &url, &[], None, Some("token"))).await
        });
    let response = response.await.expect("it returns").expect("a response");
    assert_eq!(field(&response, "body"), &bytes(b"Bearer ************"));
    assert!(server.requests()[0].contains("authorization: Bearer s3cret-value\r\n"));
}

#[tokio::test]
async fn a_denied_request_returns_an_error_and_does_not_end_the_guest() {
    let server = Server::start(|_| ok("")).await;
    let elsewhere = server.url("y.example.com", "/");
    for granted in [Some(outlet(&server, Bounds::PLUGIN)), None] {
        let refused = run(granted, Limits::PLUGIN, async |engine, store| {
            send(engine, store, request("GET", &elsewhere, &[], None, None)).await
        });
        let error = refused.await.expect("it returns").expect_err("it is refused");
        assert_eq!(field(&error, "kind"), &Val::Enum("denied".into()));
        let message = EgressError::denied().message.into_owned();
        assert_eq!(field(&error, "message"), &Val::String(message));
        assert_eq!(field(&error, "request-sent"), &Val::Bool(false));
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn requests_cost_fuel_by_their_size_and_count_as_host_calls() {
    let server = Server::start(|path| ok(&"x".repeat(path.len()))).await;
    let least = spent(&server, "/", b"").await;
    let longer_body = spent(&server, "/", &[b'x'; 10_000]).await;
    assert_eq!(longer_body - least, 10_000);
    // The path is in the URL of the request and of the response, and in the response's body;
    // `content-length` has three more digits.
    assert_eq!(spent(&server, &format!("/{}", "x".repeat(1_000)), b"").await - least, 3_003);
    let limits = Limits { host_calls: 0, ..Limits::PLUGIN };
    let url = server.url("x.example.com", "/");
    let stopped = run(Some(outlet(&server, Bounds::PLUGIN)), limits, async |engine, store| {
        send(engine, store, request("GET", &url, &[], None, None)).await
    });
    let stopped = stopped.await.expect_err("not even one");
    assert_eq!(stopped.limit(), Some(ReachedLimit::Budget { what: "host calls", most: 0 }));
}

async fn spent(server: &Server, path: &str, body: &[u8]) -> u64 {
    let url = server.url("x.example.com", path);
    let spent = run(Some(outlet(server, Bounds::PLUGIN)), Limits::PLUGIN, async |engine, store| {
        send(engine, store, request("POST", &url, &[], Some(body), None))
            .await?
            .expect("a response");
        Ok(store.data().meter.debt())
    });
    spent.await.expect("it returns")
}

#[tokio::test]
async fn a_request_is_aborted_before_the_deadline_of_its_call() {
    let server = Server::start(|_| Answer::IsSilent).await;
    let url = server.url("x.example.com", "/");
    let limits = Limits { deadline: Duration::from_secs(3), ..Limits::PLUGIN };
    let began = Instant::now();
    let ended = run(Some(outlet(&server, Bounds::PLUGIN)), limits, async |engine, store| {
        send(engine, store, request("GET", &url, &[], None, None)).await
    });
    let error = ended.await.expect("the guest handles it").expect_err("a timeout");
    assert_eq!(field(&error, "kind"), &Val::Enum("timeout".into()));
    assert!(began.elapsed() < Duration::from_secs(10));
    // The server's read ends when the connection is closed.
    server.until_hung_up(1).await;
}
