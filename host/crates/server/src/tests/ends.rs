//! The ends of connections and of the server.

use super::*;

#[tokio::test]
async fn closing_the_connection_stops_the_tool() {
    let mut gateway = Gateway::standard().await;
    let stream = gateway.connect(&hanging_chat()).await;
    assert_eq!(gateway.next_event().await, "started");
    drop(stream);
    assert_eq!(gateway.next_event().await, "dropped");
    gateway.stop().await;
}

#[tokio::test]
async fn a_drain_sends_finished_responses_and_drops_hanging_requests_at_its_timeout() {
    let mut gateway = Gateway::start(Settings { drain_timeout: SHORT, ..settings() }).await;
    let idle = gateway.connect("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let hanging = gateway.connect(&hanging_chat()).await;
    assert_eq!(gateway.next_event().await, "started");
    gateway.stop.send(()).expect("it runs");
    soon(gateway.running).await.expect("no panic").expect("no error");
    assert_eq!(gateway.happened.recv().await, Some("dropped"));
    assert!(rest_of(idle).await.starts_with("HTTP/1.1 200 "));
    assert_eq!(rest_of(hanging).await, "");
    assert!(TcpStream::connect(gateway.address).await.is_err());
}

#[tokio::test]
async fn dropping_the_server_stops_its_connections() {
    let mut gateway = Gateway::standard().await;
    let stream = gateway.connect(&hanging_chat()).await;
    assert_eq!(gateway.next_event().await, "started");
    gateway.running.abort();
    assert_eq!(gateway.next_event().await, "dropped");
    assert_eq!(rest_of(stream).await, "");
}
