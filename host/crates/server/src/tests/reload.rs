//! Settings that are replaced while the gateway serves.

use super::*;
use crate::{BadSettings, tests::hooks::request_settings};

/// Path of a reload of everything.
const RELOAD: &str = "/api/config/reload";
const AS_ADMIN: (&str, &str) = ("authorization", "Bearer alop_admin");
const AS_OPERATOR: (&str, &str) = ("authorization", "Bearer alop_operator");

impl Gateway {
    fn replace(&self, settings: Settings) -> Result<(), BadSettings> {
        self.live.replace(request_settings(settings, fake::scripted(&turns())))
    }
}

#[tokio::test]
async fn a_request_under_way_has_the_settings_with_which_it_began() {
    let gateway = Gateway::standard().await;
    // It is read and then refused, because it names no model.
    let body = json!({"messages": [], "user": "x".repeat(5_000)}).to_string();
    let mut stream = TcpStream::connect(gateway.address).await.expect("a connection");
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut read = [0; 25];
    // It is sent once the handler reads the body.
    stream.read_exact(&mut read).await.expect("the gateway asks for the body");
    gateway.replace(Settings { max_body_bytes: 1_000, ..settings() }).expect("good settings");
    stream.write_all(body.as_bytes()).await.expect("sent");
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.expect("a response");
    assert_eq!(String::from_utf8_lossy(&status), "HTTP/1.1 400");
    let (status, _) = gateway.ask(Method::POST, "/v1/chat/completions", &[], &body).await;
    assert_eq!(status, 413);
    gateway.stop().await;
}

#[tokio::test]
async fn the_next_request_has_new_settings_and_bad_ones_change_nothing() {
    let gateway = Gateway::standard().await;
    let page = [("origin", "https://tools.example.com")];
    assert_eq!(gateway.get("/api/mcp/clients", &[]).await.0, 200);
    assert_eq!(gateway.get("/api/mcp/clients", &page).await.0, 403);
    let new = Settings {
        require_virtual_key: true,
        allowed_origins: vec![page[0].1.to_owned()],
        ..settings()
    };
    gateway.replace(new.clone()).expect("good settings");
    assert_eq!(gateway.get("/api/mcp/clients", &[]).await.0, 401);
    let key = ("x-bf-vk", "sk-bf-ann");
    assert_eq!(gateway.get("/api/mcp/clients", &[key, page[0]]).await.0, 200);
    let open = SocketAddr::from(([0, 0, 0, 0], 0));
    let unsafe_settings = Settings { listen: open, require_virtual_key: false, ..new };
    assert_eq!(gateway.replace(unsafe_settings), Err(BadSettings::Open { listen: open }));
    assert_eq!(gateway.get("/api/mcp/clients", &[]).await.0, 401);
    gateway.replace(settings()).expect("good settings");
    assert_eq!(gateway.get("/api/mcp/clients", &[]).await.0, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn only_an_administrator_reloads_the_configuration() {
    let gateway = Gateway::standard().await;
    for (header, status) in [(None, 401), (Some(AS_OPERATOR), 403), (Some(AS_ADMIN), 200)] {
        let headers: Vec<_> = header.into_iter().collect();
        let (found, body) = gateway.ask(Method::POST, RELOAD, &headers, "").await;
        assert_eq!(found, status, "{body}");
    }
    gateway.stop().await;
}
