//! Calls of the functions that are linked for a guest, in the order in which a guest makes them.

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
