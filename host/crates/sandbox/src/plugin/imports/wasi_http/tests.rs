//! Calls of the functions that are linked for a guest, in the order in which a guest makes them.

use airlock_core::tool::{CallError, HostCode};
use airlock_egress::Bounds;
use airlock_test_http::{Answer, Server, ok, redirect, says};
use wasmtime::{
    ResourceLimiter as _, Store,
    component::{Component, Resource},
};
use wasmtime_wasi::p2::{DynOutputStream, InputStream as _, Pollable as _};
use wasmtime_wasi_http::{
    WasiHttpView as _,
    p2::{
        HeaderError,
        bindings::http::{
            outgoing_handler::Host as _,
            types::{
                self, ErrorCode, HostFields as _, HostIncomingResponse as _, HostOutgoingBody as _,
                HostOutgoingRequest as _, Method, Scheme,
            },
        },
        types::{HostFutureIncomingResponse, HostIncomingResponse},
    },
};

use super::*;
use crate::{
    Limits,
    plugin::{
        self,
        imports::http::tests::{outlet, run, run_with},
        side::PluginSide,
    },
    run::state::State,
};

type Guest<'a> = &'a mut Store<State<PluginSide>>;

/// Starts a request, then writes its body in pieces.
async fn start(
    store: Guest<'_>,
    server: &Server,
    path: &str,
    headers: &[(&str, &str)],
    pieces: &[&[u8]],
) -> wasmtime::Result<Resource<HostFutureIncomingResponse>> {
    let mut http = store.data_mut().http();
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
        .collect();
    let headers = http.from_list(headers).expect("headers");
    let request = types::HostOutgoingRequest::new(&mut http, headers)?;
    let method = if pieces.is_empty() { Method::Get } else { Method::Post };
    http.set_method(again(&request), method)?.expect("a method");
    http.set_scheme(again(&request), Some(Scheme::Http))?.expect("a scheme");
    http.set_authority(again(&request), Some(format!("x.example.com:{}", server.address.port())))?
        .expect("an authority");
    http.set_path_with_query(again(&request), Some(path.to_owned()))?.expect("a path");
    let body = types::HostOutgoingRequest::body(&mut http, again(&request))?.expect("a body");
    let stream: Resource<DynOutputStream> =
        http.write(Resource::new_borrow(body.rep()))?.expect("a stream");
    let response = http.handle(request, None)?;
    for piece in pieces {
        let stream = http.table.get_mut(&stream)?;
        stream.ready().await;
        // The body is no longer read once the request has failed; the response has the error.
        if stream.check_write().is_ok() {
            stream.write(Bytes::copy_from_slice(piece))?;
        }
    }
    http.table.delete(stream)?;
    // If the request has failed already, the response has the error.
    drop(types::HostOutgoingBody::finish(&mut http, body, None));
    Ok(response)
}

fn again<T: 'static>(resource: &Resource<T>) -> Resource<T> {
    Resource::new_borrow(resource.rep())
}

/// Waits for the head of a response.
async fn head(
    store: Guest<'_>,
    response: &Resource<HostFutureIncomingResponse>,
) -> wasmtime::Result<Result<Resource<HostIncomingResponse>, ErrorCode>> {
    let mut http = store.data_mut().http();
    http.table.get_mut(response)?.ready().await;
    let answer =
        types::HostFutureIncomingResponse::get(&mut http, Resource::new_borrow(response.rep()))?;
    Ok(answer.expect("it is ready").expect("it is asked for once"))
}

/// Sends a request and reads the whole response.
async fn exchange(
    store: Guest<'_>,
    server: &Server,
    path: &str,
    headers: &[(&str, &str)],
    pieces: &[&[u8]],
) -> wasmtime::Result<Result<(u16, http::HeaderMap, Vec<u8>), ErrorCode>> {
    let response = start(store, server, path, headers, pieces).await?;
    let response = match head(store, &response).await? {
        Ok(response) => response,
        Err(error) => return Ok(Err(error)),
    };
    let mut http = store.data_mut().http();
    let status = http.status(again(&response))?;
    let fields = types::HostIncomingResponse::headers(&mut http, again(&response))?;
    let headers: http::HeaderMap = http.table.delete(fields)?.into();
    let body = http.consume(again(&response))?.expect("once");
    let mut body = http.table.delete(body)?.take_stream().expect("once");
    let mut read = Vec::new();
    loop {
        body.ready().await;
        match body.read(1 << 20) {
            Ok(bytes) => read.extend_from_slice(&bytes),
            Err(_) => return Ok(Ok((status, headers, read))),
        }
    }
}

#[tokio::test]
async fn a_request_is_sent_whole_and_its_response_arrives_whole() {
    let server = Server::start(|_| says("201 Created", "x-odd: 1\r\n", "made")).await;
    let answered = run(Some(outlet(&server, Bounds::PLUGIN)), Limits::PLUGIN, async |_, store| {
        exchange(
            store,
            &server,
            "/a?b",
            &[("X-Mine", "1"), ("content-length", "6")],
            &[b"abc", b"def"],
        )
        .await
    });
    let (status, headers, body) = answered.await.expect("it returns").expect("a response");
    assert_eq!((status, body.as_slice()), (201, b"made".as_slice()));
    assert_eq!(
        (&headers["x-odd"], &headers["content-length"]),
        (&"1".parse().unwrap(), &"4".parse().unwrap())
    );
    let sent = &server.requests()[0];
    assert!(
        sent.starts_with("POST /a?b HTTP/1.1\r\nx-mine: 1\r\n") && sent.ends_with("\r\n\r\nabcdef"),
        "{sent}"
    );
    assert_eq!(sent.matches("content-length: 6\r\n").count(), 1, "{sent}");
    assert_eq!(sent.matches("host: ").count(), 1, "{sent}");
}

#[tokio::test]
async fn a_request_that_is_not_permitted_or_one_too_many_fails() {
    let server = Server::start(|_| ok("")).await;
    let elsewhere = Server::start(|_| ok("")).await;
    for granted in [Some(outlet(&server, Bounds::PLUGIN)), None] {
        let refused = run(granted, Limits::PLUGIN, async |_, store| {
            exchange(store, &elsewhere, "/", &[], &[]).await
        });
        let error = refused.await.expect("it returns").expect_err("it is refused");
        assert!(matches!(error, ErrorCode::HttpRequestDenied), "{error:?}");
    }
    assert_eq!(elsewhere.connections(), 0);
    let bounds = Bounds { requests: 1, response_bytes: 3, ..Bounds::PLUGIN };
    let bounded = run(Some(outlet(&server, bounds)), Limits::PLUGIN, async |_, store| {
        exchange(store, &server, "/", &[], &[]).await?.expect("the first");
        exchange(store, &server, "/", &[], &[]).await
    });
    let error = bounded.await.expect("it returns").expect_err("the second");
    let ErrorCode::InternalError(Some(message)) = error else { panic!("{error:?}") };
    assert_eq!(message, "this call has used all its HTTP requests");
}

#[tokio::test]
async fn a_silent_server_fails_a_request_before_its_call_ends() {
    let server = Server::start(|_| Answer::IsSilent).await;
    let limits = Limits { deadline: Duration::from_secs(3), ..Limits::PLUGIN };
    let failed = run(Some(outlet(&server, Bounds::PLUGIN)), limits, async |_, store| {
        exchange(store, &server, "/", &[], &[]).await
    });
    let error = failed.await.expect("the guest handles it").expect_err("a timeout");
    assert!(matches!(error, ErrorCode::HttpResponseTimeout), "{error:?}");
}

#[tokio::test]
async fn a_redirect_is_returned_to_the_guest() {
    let server = Server::start(|_| redirect(302, "http://y.example.com/")).await;
    let answered = run(Some(outlet(&server, Bounds::PLUGIN)), Limits::PLUGIN, async |_, store| {
        exchange(store, &server, "/", &[], &[]).await
    });
    let (status, headers, _) = answered.await.expect("it returns").expect("a response");
    assert_eq!(
        (status, headers["location"].as_bytes()),
        (302, b"http://y.example.com/".as_slice())
    );
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn bodies_beyond_their_limits_fail() {
    let server = Server::start(|path| ok(&"x".repeat(path.len()))).await;
    let bounds = Bounds { request_bytes: 6, response_bytes: 6, ..Bounds::PLUGIN };
    let answers = run(Some(outlet(&server, bounds)), Limits::PLUGIN, async |_, store| {
        Ok([
            exchange(store, &server, "/", &[], &[b"abc", b"def"]).await?,
            exchange(store, &server, "/", &[], &[b"abc", b"def", b"g"]).await?,
            exchange(store, &server, "/23456", &[], &[]).await?,
            exchange(store, &server, "/234567", &[], &[]).await?,
        ])
    });
    let [at, beyond, response_at, response_beyond] = answers.await.expect("it returns");
    assert!(at.is_ok() && response_at.is_ok(), "{at:?} {response_at:?}");
    assert!(matches!(beyond, Err(ErrorCode::HttpRequestBodySize(Some(6)))), "{beyond:?}");
    assert!(
        matches!(response_beyond, Err(ErrorCode::HttpResponseBodySize(None))),
        "{response_beyond:?}"
    );
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn reserved_and_too_long_headers_are_refused() {
    let server = Server::start(|_| ok("")).await;
    let refused = run(Some(outlet(&server, Bounds::PLUGIN)), Limits::PLUGIN, async |_, store| {
        let mut http = store.data_mut().http();
        let mut set = |name: &str| http.from_list(vec![(name.to_owned(), b"1".to_vec())]);
        Ok(["Host", "transfer-encoding", "Expect", "X-HTTP-Method-Override", "proxy-anything"]
            .map(|name| set(name).is_err())
            .into_iter()
            .chain([set("content-length").is_ok(), set("authorization").is_ok()])
            .collect::<Vec<_>>())
    });
    assert_eq!(refused.await.expect("it returns"), [true; 7]);
    let long = run(Some(outlet(&server, Bounds::PLUGIN)), Limits::PLUGIN, async |_, store| {
        let value = vec![b'x'; MAX_FIELD_BYTES];
        let field: Result<_, HeaderError> =
            store.data_mut().http().from_list(vec![("x-long".to_owned(), value)]);
        Ok(field.is_err())
    });
    assert!(long.await.expect("it returns"), "headers have an end");
}

#[tokio::test]
async fn unread_responses_count_as_requests_in_flight() {
    let server = Server::start(|_| ok("body")).await;
    let bounds = Bounds { in_flight: 2, ..Bounds::PLUGIN };
    run(Some(outlet(&server, bounds)), Limits::PLUGIN, async |_, store| {
        let mut unread = Vec::new();
        for _ in 0..2 {
            let response = start(store, &server, "/", &[], &[]).await?;
            unread.push(head(store, &response).await?.expect("there is room"));
        }
        let error = exchange(store, &server, "/", &[], &[]).await?.expect_err("there is none");
        assert!(matches!(error, ErrorCode::ConnectionLimitReached), "{error:?}");
        store.data_mut().running.table.delete(unread.pop().expect("two of them"))?;
        exchange(store, &server, "/", &[], &[]).await?.expect("there is room again");
        Ok(())
    })
    .await
    .expect("it returns");
}

#[tokio::test]
async fn unread_responses_count_as_guest_memory() {
    let server = Server::start(|_| ok(&"x".repeat(1_000))).await;
    run_with(3_500, Some(outlet(&server, Bounds::PLUGIN)), Limits::PLUGIN, async |_, store| {
        let mut unread = Vec::new();
        for _ in 0..3 {
            let response = start(store, &server, "/", &[], &[]).await?;
            unread.push(head(store, &response).await?.expect("there is memory"));
        }
        let error = exchange(store, &server, "/", &[], &[]).await?.expect_err("there is none");
        assert!(matches!(error, ErrorCode::ConnectionLimitReached), "{error:?}");
        assert!(memory_is_short(store), "it is the memory that guests grow into");
        // Only the first byte of one body is read. The rest is still held and still counts.
        let mut http = store.data_mut().http();
        let body = http.consume(Resource::new_borrow(unread[0].rep()))?.expect("once");
        let mut body = http.table.delete(body)?.take_stream().expect("once");
        body.ready().await;
        assert_eq!(body.read(1).expect("a byte").len(), 1);
        assert!(memory_is_short(store));
        drop(body);
        exchange(store, &server, "/", &[], &[]).await?.expect("there is memory again");
        Ok(())
    })
    .await
    .expect("it returns");
}

#[tokio::test]
async fn bodies_of_requests_count_as_guest_memory() {
    let server = Server::start(|_| ok("")).await;
    run_with(3_500, Some(outlet(&server, Bounds::PLUGIN)), Limits::PLUGIN, async |_, store| {
        let short = vec![b'x'; 1_000];
        exchange(store, &server, "/", &[], &[&short]).await?.expect("there is memory");
        let long = vec![b'x'; 4_000];
        let error = exchange(store, &server, "/", &[], &[&long]).await?.expect_err("there is none");
        assert!(matches!(error, ErrorCode::ConnectionLimitReached), "{error:?}");
        Ok(())
    })
    .await
    .expect("it returns");
    assert_eq!(server.requests().len(), 1);
}

fn memory_is_short(store: Guest<'_>) -> bool {
    !store.data_mut().limiter.memory_growing(0, 600, None).expect("answers")
}

#[tokio::test]
async fn requests_cost_fuel_by_their_size() {
    let server = Server::start(|path| ok(&"x".repeat(path.len()))).await;
    let costs = run(Some(outlet(&server, Bounds::PLUGIN)), Limits::PLUGIN, async |_, store| {
        let mut costs = Vec::new();
        for (path, piece) in [("/", 0), ("/", 10_000), ("/2345678", 0)] {
            exchange(store, &server, path, &[], &[&vec![b'x'; piece]]).await?.expect("a response");
            costs.push(store.data().running.wasi_http.late_fuel().take());
        }
        Ok(costs)
    });
    let costs = costs.await.expect("it returns");
    assert!(costs[0] > SEND_FUEL, "{costs:?}");
    // The path is in the URL of the request and of the response, and the body is as long as the
    // path.
    assert_eq!([costs[1] - costs[0], costs[2] - costs[0]], [10_000, 3 * 7]);
}

#[tokio::test]
async fn a_component_that_imports_wasi_http_links() {
    let server = Server::start(|_| ok("")).await;
    let linked = run(Some(outlet(&server, Bounds::PLUGIN)), Limits::PLUGIN, async |engine, _| {
        let text = r#"
            (component
              (import "wasi:http/types@0.2.0" (instance $types
                (export "outgoing-request" (type (sub resource)))
                (export "request-options" (type (sub resource)))
                (export "future-incoming-response" (type (sub resource)))))
              (import "wasi:http/outgoing-handler@0.2.0" (instance)))"#;
        let component = Component::new(engine, wat::parse_str(text).expect("a component"))?;
        plugin::linker(engine)?.instantiate_pre(&component).map(drop)
    });
    linked.await.expect("it links");
}

/// Component that sets a method, an authority and a path of `length` bytes. Returns a bit for each
/// that is refused.
const TEXTS: &str = r#"
    (component
      (import "wasi:http/types@0.2.0" (instance $types
        (export "fields" (type $fields (sub resource)))
        (export "outgoing-request" (type $request (sub resource)))
        (type $m (variant (case "get") (case "head") (case "post") (case "put") (case "delete") (case "connect")
          (case "options") (case "trace") (case "patch") (case "other" string)))
        (export "method" (type $method (eq $m)))
        (export "[constructor]fields" (func (result (own $fields))))
        (export "[constructor]outgoing-request" (func (param "headers" (own $fields)) (result (own $request))))
        (export "[method]outgoing-request.set-method"
          (func (param "self" (borrow $request)) (param "method" $method) (result (result))))
        (export "[method]outgoing-request.set-authority"
          (func (param "self" (borrow $request)) (param "authority" (option string)) (result (result))))
        (export "[method]outgoing-request.set-path-with-query"
          (func (param "self" (borrow $request)) (param "path-with-query" (option string)) (result (result))))))
      (core module $memory (memory (export "memory") 1))
      (core instance $m (instantiate $memory))
      (core func $fields (canon lower (func $types "[constructor]fields")))
      (core func $request (canon lower (func $types "[constructor]outgoing-request")))
      (core func $method (canon lower (func $types "[method]outgoing-request.set-method") (memory (core memory $m "memory"))))
      (core func $authority
        (canon lower (func $types "[method]outgoing-request.set-authority") (memory (core memory $m "memory"))))
      (core func $path
        (canon lower (func $types "[method]outgoing-request.set-path-with-query") (memory (core memory $m "memory"))))
      (core module $set
        (import "" "memory" (memory 1))
        (import "" "fields" (func $fields (result i32)))
        (import "" "request" (func $request (param i32) (result i32)))
        (import "" "method" (func $method (param i32 i32 i32 i32) (result i32)))
        (import "" "authority" (func $authority (param i32 i32 i32 i32) (result i32)))
        (import "" "path" (func $path (param i32 i32 i32 i32) (result i32)))
        (func (export "set") (param $length i32) (result i32)
          (local $made i32)
          (memory.fill (i32.const 1) (i32.const 97) (i32.const 65535))
          (i32.store8 (i32.const 0) (i32.const 47))
          (local.set $made (call $request (call $fields)))
          (i32.or
            (call $method (local.get $made) (i32.const 9) (i32.const 1) (local.get $length))
            (i32.or
              (i32.shl
                (call $authority (local.get $made) (i32.const 1) (i32.const 1) (local.get $length))
                (i32.const 1))
              (i32.shl
                (call $path (local.get $made) (i32.const 1) (i32.const 0) (local.get $length))
                (i32.const 2))))))
      (core instance $s (instantiate $set (with "" (instance
        (export "memory" (memory $m "memory"))
        (export "fields" (func $fields))
        (export "request" (func $request))
        (export "method" (func $method))
        (export "authority" (func $authority))
        (export "path" (func $path))))))
      (func (export "set") (param "length" u32) (result u32) (canon lift (core func $s "set"))))"#;

#[tokio::test]
async fn the_texts_of_a_request_that_the_host_holds_are_bounded() {
    let refused = run(None, Limits::PLUGIN, async |engine, store| {
        let component = Component::new(engine, wat::parse_str(TEXTS).expect("a component"))?;
        let linker = plugin::linker(engine)?;
        let instance = linker.instantiate_async(&mut *store, &component).await?;
        let set = instance.get_typed_func::<(u32,), (u32,)>(&mut *store, "set")?;
        let mut refused = Vec::new();
        for length in [8 << 10, (8 << 10) + 1] {
            refused.push(set.call_async(&mut *store, (length,)).await?.0);
        }
        Ok(refused)
    });
    assert_eq!(refused.await.expect("it returns"), [0, 0b111]);
}

/// Component that makes headers, or requests of them, as many times as its argument. Only `dropped` drops them.
const MESSAGES: &str = r#"
    (component
      (import "wasi:http/types@0.2.0" (instance $types
        (export "fields" (type $fields (sub resource)))
        (export "outgoing-request" (type $request (sub resource)))
        (type $e (variant (case "invalid-syntax") (case "forbidden") (case "immutable")))
        (export "header-error" (type $error (eq $e)))
        (export "[constructor]fields" (func (result (own $fields))))
        (export "[static]fields.from-list"
          (func (param "entries" (list (tuple string (list u8)))) (result (result (own $fields) (error $error)))))
        (export "[method]fields.clone" (func (param "self" (borrow $fields)) (result (own $fields))))
        (export "[constructor]outgoing-request" (func (param "headers" (own $fields)) (result (own $request))))))
      (alias export $types "fields" (type $fields))
      (core module $memory (memory (export "memory") 1))
      (core instance $m (instantiate $memory))
      (core func $new (canon lower (func $types "[constructor]fields")))
      (core func $list
        (canon lower (func $types "[static]fields.from-list") (memory (core memory $m "memory"))))
      (core func $clone (canon lower (func $types "[method]fields.clone")))
      (core func $request (canon lower (func $types "[constructor]outgoing-request")))
      (core func $drop (canon resource.drop $fields))
      (core module $make
        (import "" "new" (func $new (result i32)))
        (import "" "list" (func $list (param i32 i32 i32)))
        (import "" "clone" (func $clone (param i32) (result i32)))
        (import "" "request" (func $request (param i32) (result i32)))
        (import "" "drop" (func $drop (param i32)))
        (func (export "new") (param $times i32)
          (loop $again
            (drop (call $new))
            (br_if $again (local.tee $times (i32.sub (local.get $times) (i32.const 1))))))
        (func (export "list") (param $times i32)
          (loop $again
            (call $list (i32.const 0) (i32.const 0) (i32.const 16))
            (br_if $again (local.tee $times (i32.sub (local.get $times) (i32.const 1))))))
        (func (export "clone") (param $times i32)
          (local $made i32)
          (local.set $made (call $new))
          (loop $again
            (drop (call $clone (local.get $made)))
            (br_if $again (local.tee $times (i32.sub (local.get $times) (i32.const 1))))))
        (func (export "request") (param $times i32)
          (loop $again
            (drop (call $request (call $new)))
            (br_if $again (local.tee $times (i32.sub (local.get $times) (i32.const 1))))))
        (func (export "dropped") (param $times i32)
          (loop $again
            (call $drop (call $new))
            (br_if $again (local.tee $times (i32.sub (local.get $times) (i32.const 1)))))))
      (core instance $i (instantiate $make (with "" (instance
        (export "new" (func $new))
        (export "list" (func $list))
        (export "clone" (func $clone))
        (export "request" (func $request))
        (export "drop" (func $drop))))))
      (func (export "new") (param "times" u32) (canon lift (core func $i "new")))
      (func (export "list") (param "times" u32) (canon lift (core func $i "list")))
      (func (export "clone") (param "times" u32) (canon lift (core func $i "clone")))
      (func (export "request") (param "times" u32) (canon lift (core func $i "request")))
      (func (export "dropped") (param "times" u32) (canon lift (core func $i "dropped"))))"#;

#[tokio::test]
async fn messages_that_a_guest_keeps_count_as_guest_memory() {
    // A tenant gets seven eighths of the memory, and a request takes four times that of its headers.
    for (what, fits) in [("new", 12), ("list", 12), ("clone", 11), ("request", 2)] {
        make(what, fits).await.expect(what);
        let error = make(what, 15).await.expect_err(what);
        assert_eq!(error.code(), HostCode::Busy, "{what}");
    }
    make("dropped", 1_000).await.expect("they are gone");
}

/// Makes messages, with the memory of sixteen headers for the process.
async fn make(what: &str, times: u32) -> Result<(), CallError> {
    run_with(16 * link::FIELDS_BYTES, None, Limits::PLUGIN, async |engine, store| {
        let component = Component::new(engine, wat::parse_str(MESSAGES).expect("a component"))?;
        let instance = plugin::linker(engine)?.instantiate_async(&mut *store, &component).await?;
        let make = instance.get_typed_func::<(u32,), ()>(&mut *store, what)?;
        make.call_async(&mut *store, (times,)).await
    })
    .await
}
