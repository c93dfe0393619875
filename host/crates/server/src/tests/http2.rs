//! HTTP/2 clients that misbehave, frame by frame.

use tokio::io::AsyncRead;

use super::*;
use airlock_core::request_memory::{Memory, REQUEST_BYTES};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
pub(super) const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
pub(super) const INITIAL_WINDOW_SIZE: u8 = 4;
pub(super) const CANCEL: [u8; 4] = [0, 0, 0, 8];

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Encodes a header in HPACK: the name by its index in the static table, the value as a literal.
fn header(name: u8, value: &str) -> Vec<u8> {
    // An index of fifteen or more takes a second byte.
    let mut header = if name < 15 { vec![name] } else { vec![15, name - 15] };
    header.push(u8::try_from(value.len()).expect("a short value"));
    header.extend(value.as_bytes());
    header
}

/// Encodes a request head. The method and `:scheme: http` are indexed fields.
fn head(method: u8, path: &str) -> Vec<u8> {
    [vec![method, 0x86], header(4, path), header(1, "localhost"), header(31, "application/json")]
        .concat()
}

pub(super) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &head(0x82, path))
}

pub(super) fn post(stream: u32, path: &str, body: &str) -> Vec<u8> {
    [
        frame(HEADERS, END_HEADERS, stream, &head(0x83, path)),
        frame(DATA, END_STREAM, stream, body.as_bytes()),
    ]
    .concat()
}

impl Gateway {
    /// Opens an HTTP/2 connection with these settings.
    pub(super) async fn connect_2(&self, settings: &[u8]) -> TcpStream {
        let mut stream = self.connect("").await;
        stream.write_all(&opening(settings)).await.expect("it is read");
        stream
    }
}

/// Returns the first bytes of a client with these settings.
pub(super) fn opening(settings: &[u8]) -> Vec<u8> {
    [PREFACE.to_vec(), frame(SETTINGS, 0, 0, settings)].concat()
}

/// Reads frames until one of `kind` and returns its payload. Panics if the connection ends first.
pub(super) async fn next(stream: &mut (impl AsyncRead + Unpin), kind: u8) -> Vec<u8> {
    loop {
        let (found, _, _, payload) = soon(read_frame(stream)).await.expect("a frame");
        if found == kind {
            return payload;
        }
    }
}

/// Reads one frame and returns its kind, flags, stream and payload; `None` if the connection ends
/// first.
pub(super) async fn read_frame(
    stream: &mut (impl AsyncRead + Unpin),
) -> Option<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    stream.read_exact(&mut payload).await.ok()?;
    let [_, _, _, kind, flags, id @ ..] = head;
    Some((kind, flags, u32::from_be_bytes(id), payload))
}

#[tokio::test]
async fn an_idle_http_2_connection_is_closed() {
    let gateway = Gateway::start(Settings { idle_timeout: SHORT, ..settings() }).await;
    let mut stream = gateway.connect_2(&[]).await;
    stream.write_all(&get(1, "/health")).await.expect("it is read");
    assert_eq!(next(&mut stream, HEADERS).await[0], 0x88, "status 200");
    next(&mut stream, GOAWAY).await;
    rest_of(stream).await;
    gateway.stop().await;
}

#[tokio::test]
async fn an_http_2_connection_without_any_request_is_closed_although_it_answers_pings() {
    let gateway = Gateway::start(Settings { read_timeout: SHORT, ..settings() }).await;
    let mut stream = gateway.connect_2(&[]).await;
    // hyper closes a connection whose client does not answer pings, and leaves the others open.
    soon(async {
        while let Some((kind, flags, _, payload)) = read_frame(&mut stream).await {
            if (kind, flags) == (PING, 0) {
                // The gateway may close the connection at any time.
                let _ = stream.write_all(&frame(PING, ACK, 0, &payload)).await;
            }
        }
    })
    .await;
    gateway.stop().await;
}

#[tokio::test]
async fn an_http_2_client_that_grants_no_window_is_disconnected() {
    let gateway = Gateway::start(Settings { write_timeout: SHORT, ..settings() }).await;
    let mut stream = gateway.connect_2(&[0, INITIAL_WINDOW_SIZE, 0, 0, 0, 0]).await;
    stream.write_all(&get(1, "/health")).await.expect("it is read");
    next(&mut stream, HEADERS).await;
    rest_of(stream).await;
    gateway.stop().await;
}

#[tokio::test]
async fn http_2_clients_that_grant_no_window_do_not_block_others() {
    let write_timeout = Duration::from_hours(1);
    let limits = Settings { max_connections: 4, write_timeout, drain_timeout: SHORT, ..settings() };
    let gateway = Gateway::start(limits).await;
    let mut unread = Vec::new();
    for _ in 0..4 {
        let mut stream = gateway.connect_2(&[0, INITIAL_WINDOW_SIZE, 0, 0, 0, 0]).await;
        stream.write_all(&get(1, "/health")).await.expect("it is read");
        next(&mut stream, HEADERS).await;
        unread.push(stream);
    }
    assert_eq!(soon(gateway.get("/health", &[])).await.0, 200);
    next(&mut unread[0], GOAWAY).await;
    rest_of(unread.remove(0)).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_response_is_charged_until_the_client_has_read_it() {
    let limits = Settings { drain_timeout: SHORT, ..settings() };
    let least = limits.least_request_memory();
    let gateway = Gateway::start(Settings { max_request_memory_bytes: least, ..limits }).await;
    let mut unread = gateway.connect_2(&[0, INITIAL_WINDOW_SIZE, 0, 0, 0, 0]).await;
    let call = json!({"function": {"name": "desk-large"}}).to_string();
    // Each response takes the base of a request and its own bytes of one caller's share. The last
    // one needs some more while it is made.
    let fit = Memory::share_of(least) / (REQUEST_BYTES + fake::LARGE);
    let most = u32::try_from(fit).expect("a small number");
    let mut sent = 0;
    while sent <= most {
        let path = "/v1/mcp/tool/execute?present=raw";
        unread.write_all(&post(sent * 2 + 1, path, &call)).await.expect("sent");
        if next(&mut unread, HEADERS).await[0] != 0x88 {
            break;
        }
        sent += 1;
    }
    assert!((most - 2..=most).contains(&sent), "{sent} of {most} with status 200");
    assert_eq!(gateway.get("/v1/models", &[("x-bf-vk", "sk-bf-ann")]).await.0, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn an_http_2_client_that_resets_too_many_requests_is_disconnected() {
    let mut gateway = Gateway::standard().await;
    let mut stream = gateway.connect_2(&[]).await;
    let body =
        json!({"model": "demo/m", "messages": [{"role": "user", "content": "hang"}]}).to_string();
    for number in 0..129 {
        let id = number * 2 + 1;
        stream.write_all(&post(id, "/v1/chat/completions", &body)).await.expect("it is read");
        assert_eq!(gateway.next_event().await, "started", "{number}");
        stream.write_all(&frame(RST_STREAM, 0, id, &CANCEL)).await.expect("it is read");
        assert_eq!(gateway.next_event().await, "dropped", "{number}");
    }
    rest_of(stream).await;
    gateway.stop().await;
}

#[tokio::test]
async fn idle_http_2_connections_do_not_block_others_or_the_drain() {
    let drain_timeout = Duration::from_hours(1);
    let gateway =
        Gateway::start(Settings { max_connections: 4, drain_timeout, ..settings() }).await;
    let mut idle = Vec::new();
    for _ in 0..4 {
        let mut stream = gateway.connect_2(&[]).await;
        stream.write_all(&get(1, "/health")).await.expect("it is read");
        next(&mut stream, HEADERS).await;
        next(&mut stream, DATA).await;
        idle.push(stream);
    }
    assert_eq!(soon(gateway.get("/health", &[])).await.0, 200);
    rest_of(idle.remove(0)).await;
    // Idle connections do not delay the drain either.
    gateway.stop().await;
}
