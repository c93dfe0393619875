//! Requests that another server of the process passes on.

use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tower_service::Service as _;

use super::*;
use airlock_ingress::{PeerAddress, PeerCertificate};

fn service(gateway: &Gateway) -> GatewayService {
    gateway.live.service(Arc::new(()))
}

fn call(tool: &str, headers: &[(&'static str, &str)]) -> Request<Full<Bytes>> {
    let body = json!({"id": "c1", "type": "function", "function": {"name": tool, "arguments": r#"{"a":1}"#}});
    let request = Request::post("/v1/mcp/tool/execute");
    let request = request.header("content-type", "application/json");
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(Full::from(body.to_string())).expect("a request")
}

const HOST: (&str, &str) = ("host", "localhost:3000");

async fn answered(response: Response<GatewayBody>) -> (u16, Value) {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("it ends well").to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

async fn ask(service: &mut GatewayService, request: Request<Full<Bytes>>) -> (u16, Value) {
    let Ok(response) = service.call(request).await;
    answered(response).await
}

#[tokio::test]
async fn a_request_of_another_server_is_checked_and_routed_like_one_of_a_socket() {
    let gateway = Gateway::standard().await;
    let mut service = service(&gateway);
    let (status, answer) = ask(&mut service, call("desk-write", &[HOST])).await;
    assert_eq!((status, &answer["content"]), (200, &json!(r#"write {"a":1}"#)));
    for (headers, status, code) in [
        (&[("host", "evil.example")][..], 403, "host_not_allowed"),
        (&[HOST, ("origin", "https://evil.example")], 403, "origin_not_allowed"),
        (&[HOST, ("x-bf-vk", "sk-bf-nobody")], 401, "invalid_api_key"),
    ] {
        let (found, answer) = ask(&mut service, call("desk-write", headers)).await;
        assert_eq!((found, &answer["error"]["code"]), (status, &json!(code)), "{headers:?}");
    }
    let ann = [HOST, ("x-bf-vk", "sk-bf-ann")];
    let (status, _) = ask(&mut service, call("desk-write", &ann)).await;
    assert_eq!(status, 400, "the key has no row for it");
    let long = Request::post("/v1/chat/completions").header("host", "localhost");
    let long = long.header("content-type", "application/json");
    let long = long.body(Full::from(vec![b' '; 10_001])).expect("a request");
    let (status, answer) = ask(&mut service, long).await;
    assert_eq!((status, &answer["error"]["code"]), (413, &json!("request_too_large")));
    gateway.stop().await;
}

#[tokio::test]
async fn a_streamed_response_reaches_the_other_server_to_its_end() {
    let gateway = Gateway::standard().await;
    let messages = json!([{"role": "user", "content": "echo"}]);
    let body = json!({"model": "demo/m", "stream": true, "messages": messages});
    let request = Request::post("/v1/chat/completions").header("host", "localhost");
    let request = request.header("content-type", "application/json");
    let request = request.body(Full::<Bytes>::from(body.to_string())).expect("a request");
    let Ok(response) = service(&gateway).call(request).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let body = response.into_body().collect().await.expect("it ends well").to_bytes();
    assert!(body.ends_with(b"data: [DONE]\n\n"), "{body:?}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_certificate_counts_only_if_the_other_server_tells_it() {
    let gateway = Gateway::standard().await;
    let mut service = service(&gateway);
    let tia = [HOST, ("x-bf-vk", "sk-bf-tia")];
    assert_eq!(ask(&mut service, call("desk-echo", &tia)).await.0, 401);
    let mut shown = call("desk-echo", &tia);
    shown.extensions_mut().insert(PeerCertificate(https::der_of_tia()));
    assert_eq!(ask(&mut service, shown).await.0, 200);
    let mut other = call("desk-echo", &tia);
    other.extensions_mut().insert(PeerCertificate(b"no certificate".to_vec()));
    assert_eq!(ask(&mut service, other).await.0, 401);
    gateway.stop().await;
}

#[tokio::test]
async fn metrics_are_shown_without_an_operator_only_to_a_client_known_to_be_local() {
    let gateway = Gateway::standard().await;
    let mut service = service(&gateway);
    for (address, expected) in [
        (None, 401),
        (Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))), 401),
        (Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), 200),
    ] {
        let request = Request::get("/metrics").header("host", "localhost");
        let mut request = request.body(Full::default()).expect("a request");
        if let Some(address) = address {
            request.extensions_mut().insert(PeerAddress(address));
        }
        assert_eq!(ask(&mut service, request).await.0, expected, "{address:?}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn beyond_loopback_metrics_are_not_shown_under_a_name_that_a_page_may_have_rebound() {
    let listen = SocketAddr::from(([0, 0, 0, 0], 0));
    let gateway =
        Gateway::start(Settings { listen, require_virtual_key: true, ..settings() }).await;
    let mut service = service(&gateway);
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let other = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    for (address, host, status, code) in [
        (local, "localhost:8080", 200, Value::Null),
        (local, "10.0.0.9:8080", 200, Value::Null),
        (local, "evil.example:8080", 403, json!("host_not_allowed")),
        (other, "evil.example:8080", 401, json!("operator_required")),
    ] {
        let request = Request::get("/metrics").header("host", host);
        let mut request = request.body(Full::default()).expect("a request");
        request.extensions_mut().insert(PeerAddress(address));
        let (found, answer) = ask(&mut service, request).await;
        assert_eq!((found, &answer["error"]["code"]), (status, &code), "{host}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_gateway_that_drains_waits_for_running_requests_and_takes_no_further_ones() {
    let mut gateway = Gateway::start(Settings { drain_timeout: SHORT, ..settings() }).await;
    let mut service = service(&gateway);
    let hanging = tokio::spawn(service.call(call("desk-hang", &[HOST])));
    assert_eq!(gateway.next_event().await, "started");
    let has_ended = gateway.live.drain(std::future::ready(())).await;
    assert!(!has_ended, "the call outlives the time to drain");
    let (status, answer) = ask(&mut service, call("desk-echo", &[HOST])).await;
    assert_eq!((status, &answer["error"]["code"]), (503, &json!("gateway_stopping")));
    hanging.abort();
    assert_eq!(gateway.next_event().await, "dropped");
    assert!(soon(gateway.live.drain(std::future::ready(()))).await, "nothing is left");
    gateway.stop().await;
}

#[tokio::test]
async fn a_gateway_that_drains_twice_takes_the_time_to_drain_once() {
    let mut gateway = Gateway::start(Settings { drain_timeout: SHORT, ..settings() }).await;
    let mut service = service(&gateway);
    let hanging = tokio::spawn(service.call(call("desk-hang", &[HOST])));
    assert_eq!(gateway.next_event().await, "started");
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    for _ in 0..2 {
        assert!(!gateway.live.drain(std::future::ready(())).await, "the call hangs");
    }
    assert!(begun.elapsed() < 2 * SHORT);
    tokio::time::resume();
    hanging.abort();
    assert_eq!(gateway.next_event().await, "dropped");
    gateway.stop().await;
}
