use std::net::SocketAddr;

use http::{Method, Uri};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::*;
use airlock_test_http as fake;

fn client(is_tls: bool, proxy: Option<&str>) -> HttpsClient {
    let settings = HttpsSettings {
        is_tls,
        connect_timeout: Duration::from_secs(10),
        proxy: proxy.map(|url| HttpProxy::parse(url).expect("a good URL")),
        authorities: Vec::new(),
    };
    HttpsClient::new(settings).expect("certificates of the operating system")
}

fn request(uri: &str) -> Request<Bytes> {
    let mut request = Request::new(Bytes::from_static(b"hello"));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri.parse::<Uri>().expect("a URI");
    request
}

async fn text(response: Response<HttpsBody>) -> String {
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Some(data) = body.data().await.expect("a whole body") {
        text.extend_from_slice(&data);
    }
    String::from_utf8(text).expect("UTF-8")
}

/// Starts a server that reads the head of one request with `answer` as its response.
async fn serve<F>(
    answer: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> (SocketAddr, JoinHandle<String>)
where
    F: Future<Output = String> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let task = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        answer(stream).await
    });
    (address, task)
}

/// Reads the head of a request.
async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("more of the head"));
    }
    String::from_utf8(head).expect("UTF-8")
}

#[tokio::test]
async fn a_connection_is_used_again_and_no_redirect_is_followed() {
    let server = fake::Server::start(|path| {
        if path.starts_with("/v1/x?") {
            fake::ok("one")
        } else {
            fake::redirect(302, "http://127.0.0.1:1/elsewhere")
        }
    })
    .await;
    let client = client(false, None);
    let uri = format!("http://{}/v1/x?y=z", server.address);
    assert_eq!(text(client.send(request(&uri)).await.expect("a response")).await, "one");
    let moved = format!("http://{}/moved", server.address);
    let redirect = client.send(request(&moved)).await.expect("a response");
    assert_eq!(redirect.status(), 302);
    assert_eq!(server.connections(), 1);
    let sent = &server.requests()[0];
    assert!(sent.starts_with("POST /v1/x?y=z HTTP/1.1\r\n"), "{sent}");
}

#[tokio::test(start_paused = true)]
async fn the_limit_on_a_connection_includes_tls() {
    let (address, _task) = serve(async |stream: TcpStream| {
        let _open = stream;
        std::future::pending().await
    })
    .await;
    let error = client(true, None).send(request(&format!("https://{address}/"))).await;
    let error = error.expect_err("TLS does not begin");
    assert!(matches!(error, HttpsError::ConnectTimeout), "{error:?}");
    assert!(error.is_before_request());
}

#[tokio::test]
async fn a_failure_before_and_after_the_connection_are_told_apart() {
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = closed.local_addr().expect("it is bound");
    drop(closed);
    let error = client(false, None).send(request(&format!("http://{address}/"))).await;
    assert!(error.expect_err("nothing listens").is_before_request());
    let server = fake::Server::start(|_| fake::Answer::HangsUp).await;
    let error = client(false, None).send(request(&format!("http://{}/", server.address))).await;
    let error = error.expect_err("it hangs up");
    assert!(matches!(error, HttpsError::Request(_)) && !error.is_before_request(), "{error:?}");
}

#[tokio::test]
async fn a_proxy_gets_whole_requests_without_tls_and_tunnels_them_with_tls() {
    let (address, seen) = serve(async |mut stream: TcpStream| {
        let head = head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await.expect("open");
        head
    })
    .await;
    let proxy = format!("http://me:p%40ss@{address}");
    let answer = client(false, Some(&proxy)).send(request("http://service.test/v1")).await;
    assert_eq!(text(answer.expect("a response")).await, "hi");
    let seen = seen.await.expect("it ends");
    assert!(seen.starts_with("POST http://service.test/v1 HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains("proxy-authorization: Basic bWU6cEBzcw==\r\n"), "{seen}");

    let (address, seen) = serve(async |mut stream: TcpStream| {
        let head = head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await.expect("open");
        head
    })
    .await;
    let proxy = format!("http://me:pass@{address}");
    let error = client(true, Some(&proxy)).send(request("https://service.test/v1")).await;
    assert!(error.expect_err("no tunnel").is_before_request());
    let seen = seen.await.expect("it ends");
    assert!(seen.starts_with("CONNECT service.test:443 HTTP/1.1\r\n"), "{seen}");
    assert!(seen.to_lowercase().contains("proxy-authorization: basic bwu6cgfzcw==\r\n"), "{seen}");
    assert!(!seen.contains("hello"), "the request is inside the tunnel");
}

/// Plays a SOCKS proxy without credentials. Returns the type of the address that it was asked for (1 for
/// IPv4, 3 for a name), the address, the port, and the first line of the request.
async fn socks(mut stream: TcpStream) -> String {
    let mut greeting = [0; 2];
    stream.read_exact(&mut greeting).await.expect("a greeting");
    let mut methods = vec![0; greeting[1].into()];
    stream.read_exact(&mut methods).await.expect("methods");
    stream.write_all(&[5, 0]).await.expect("open");
    let mut asked = [0; 4];
    stream.read_exact(&mut asked).await.expect("a request");
    let address = if asked[3] == 3 {
        let length = stream.read_u8().await.expect("a length");
        let mut name = vec![0; length.into()];
        stream.read_exact(&mut name).await.expect("a name");
        String::from_utf8(name).expect("UTF-8")
    } else {
        let mut address = [0; 4];
        stream.read_exact(&mut address).await.expect("an address");
        std::net::Ipv4Addr::from(address).to_string()
    };
    let port = stream.read_u16().await.expect("a port");
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.expect("open");
    let head = head(&mut stream).await;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await.expect("open");
    let line = head.lines().next().unwrap_or_default();
    format!("{} {address} {port} {line}", asked[3])
}

#[tokio::test]
async fn a_socks_proxy_resolves_the_name_only_if_it_is_asked_to() {
    for (scheme, uri, expected) in [
        ("socks5h", "http://service.test/v1", "3 service.test 80 POST /v1 HTTP/1.1"),
        ("socks5", "http://127.0.0.1:81/v1", "1 127.0.0.1 81 POST /v1 HTTP/1.1"),
    ] {
        let (address, seen) = serve(socks).await;
        let client = client(false, Some(&format!("{scheme}://{address}")));
        let answer = client.send(request(uri)).await.expect("a response");
        assert_eq!(text(answer).await, "hi");
        assert_eq!(seen.await.expect("it ends"), expected);
    }
}

#[tokio::test]
async fn a_request_with_tls_is_never_sent_to_a_proxy_that_would_read_it() {
    let client = client(false, Some("http://127.0.0.1:1"));
    let error = client.send(request("https://service.test/v1")).await.expect_err("refused");
    assert!(error.is_before_request());
    let cause = std::error::Error::source(&error).and_then(std::error::Error::source);
    let cause = cause.expect("a cause").to_string();
    assert!(cause.contains("what TLS protects"), "{cause}");
}

#[test]
fn a_proxy_is_a_url_of_a_known_scheme_with_a_host_and_its_password_is_not_shown() {
    for good in ["http://p", "https://p:8443", "socks5://p", "socks5h://u:secret@[::1]:1080"] {
        let proxy = HttpProxy::parse(good);
        let shown = format!("{:?}", proxy.expect(good));
        assert!(!shown.contains("secret"), "{shown}");
    }
    for bad in ["", "p:3128", "ftp://p", "socks4://p", "http://"] {
        assert!(HttpProxy::parse(bad).is_err(), "{bad}");
    }
}
