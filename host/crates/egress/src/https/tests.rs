use std::{net::SocketAddr, time::Duration};

use http::{Method, Uri};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

use super::*;
use airlock_core::secret::Secret;
use airlock_test_http as fake;
use airlock_tls::{IdentitySource, KeySource};

fn client(is_tls: bool, proxy: Option<&str>) -> HttpsClient {
    let settings = HttpsSettings {
        is_tls,
        connect_timeout: Duration::from_secs(10),
        proxy: proxy.map(|url| HttpProxy::parse(url).expect("a good URL")),
        authorities: Vec::new(),
        identity: None,
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

#[tokio::test]
async fn requests_at_one_time_have_connections_of_their_own_and_later_ones_use_them_again() {
    let server = fake::Server::start(|_| fake::ok("one")).await;
    let client = client(false, None);
    let uri = format!("http://{}/", server.address);
    for _ in 0..3 {
        let both = tokio::join!(client.send(request(&uri)), client.send(request(&uri)));
        let (first, second) = both;
        text(first.expect("a response")).await;
        text(second.expect("a response")).await;
    }
    assert_eq!((server.connections(), server.requests().len()), (2, 6));
}

#[tokio::test]
async fn a_connection_whose_response_was_not_read_to_its_end_is_closed() {
    let server = fake::Server::start(|_| fake::endless_events("data: 1\n\n")).await;
    let client = client(false, None);
    let uri = format!("http://{}/", server.address);
    for expected in 1..=2 {
        let response = client.send(request(&uri)).await.expect("a response");
        let mut body = response.into_body();
        body.data().await.expect("a good stream").expect("its first event");
        drop(body);
        server.until_hung_up(1).await;
        assert_eq!(server.connections(), expected);
    }
}

#[tokio::test]
async fn a_connection_is_used_again_if_only_the_end_of_its_body_was_not_read() {
    let (address, requests) = serve(async |mut stream: TcpStream| {
        let mut last = String::new();
        for _ in 0..2 {
            last = head(&mut stream).await;
            let response =
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
            stream.write_all(response).await.expect("open");
        }
        last
    })
    .await;
    let client = client(false, None);
    let first = client.send(request(&format!("http://{address}/first"))).await;
    let mut body = first.expect("a response").into_body();
    assert_eq!(body.data().await.expect("a body").as_deref(), Some(b"hi".as_slice()));
    drop(body);
    client.pool.until_kept().await;
    let second = client.send(request(&format!("http://{address}/second"))).await;
    assert_eq!(text(second.expect("a response")).await, "hi");
    // After the body of the first request.
    assert!(requests.await.expect("it ends").starts_with("helloPOST /second "));
}

#[tokio::test]
async fn a_request_on_a_kept_connection_that_was_closed_is_sent_on_another_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let serving = tokio::spawn(async move {
        let mut heads = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            heads.push(head(&mut stream).await);
            // It does not say that it closes the connection.
            let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
            stream.write_all(response).await.expect("open");
        }
        heads
    });
    let client = client(false, None);
    for _ in 0..2 {
        let response = client.send(request(&format!("http://{address}/"))).await;
        assert_eq!(text(response.expect("a response")).await, "hi");
    }
    assert_eq!(serving.await.expect("it ends").len(), 2);
}

#[tokio::test]
async fn a_connection_that_is_not_used_is_closed() {
    let (address, closed) = serve(async |mut stream: TcpStream| {
        let head = head(&mut stream).await;
        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
        stream.write_all(response).await.expect("open");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.expect("it is closed and not reset");
        head
    })
    .await;
    let client = client(false, None);
    let response = client.send(request(&format!("http://{address}/"))).await;
    // From here on the clock goes on by itself while all tasks wait.
    tokio::time::pause();
    assert_eq!(text(response.expect("a response")).await, "hi");
    closed.await.expect("it ends");
}

#[test]
fn the_host_header_names_the_server_without_a_user_and_the_port_of_the_scheme() {
    for (uri, expected) in [
        ("http://a.test/", "a.test"),
        ("http://u:p@a.test:80/", "a.test"),
        ("https://a.test:443/", "a.test"),
        ("https://a.test:80/", "a.test:80"),
        ("http://[::1]:8080/", "[::1]:8080"),
    ] {
        let uri: Uri = uri.parse().expect("a URI");
        let server = ServerAddress::of_uri(&uri).expect("a server");
        assert_eq!(server.host().expect("a header"), expected);
    }
}

#[tokio::test]
async fn a_request_to_another_server_than_the_first_one_names_it() {
    let client = client(false, None);
    for (uri, expected) in [
        ("http://a.test/1", "a.test"),
        ("http://b.test:81/", "b.test:81"),
        ("http://a.test/2", "a.test"),
    ] {
        let server = ServerAddress::of_uri(&uri.parse().expect("a URI")).expect("a server");
        let (addressed, service) = client.addressed(request(uri), &server);
        assert_eq!(addressed.headers()[HOST], expected);
        assert_eq!((addressed.uri().authority(), service), (None, request(uri).uri().clone()));
    }
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
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
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

#[tokio::test]
async fn a_service_that_asks_for_a_certificate_gets_that_of_the_client() {
    let own = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new([]).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&own).expect("a certificate");
    let issuer = Issuer::new(params, own);
    let [service, gateway] = [(); 2].map(|()| {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        (params.signed_by(&key, &issuer).expect("a certificate"), key)
    });
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).expect("an authority");
    let provider = airlock_tls::provider();
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier.build().expect("a verifier"))
        .with_single_cert(vec![service.0.der().clone()], service.1.into())
        .expect("a pair");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), gateway.0.pem()).expect("written");
    let key = KeySource::Pem(Secret::new(gateway.1.serialize_pem()));
    let source = IdentitySource { certificate: file.path().to_owned(), key };
    for identity in [Some(source.read().expect("a pair")), None] {
        let is_identified = identity.is_some();
        let acceptor = acceptor.clone();
        let (address, served) = serve(move |stream| async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return "none".to_owned() };
            let shown = stream.get_ref().1.peer_certificates().map_or(0, <[_]>::len);
            let mut head = [0; 4];
            stream.read_exact(&mut head).await.expect("a request");
            let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            stream.write_all(response).await.expect("it is read");
            stream.shutdown().await.expect("it is read");
            shown.to_string()
        })
        .await;
        let settings = HttpsSettings {
            is_tls: true,
            connect_timeout: Duration::from_secs(10),
            proxy: None,
            authorities: vec![authority.der().clone()],
            identity,
        };
        let client = HttpsClient::new(settings).expect("a client");
        let sent = client.send(request(&format!("https://localhost:{}/", address.port()))).await;
        assert_eq!(sent.is_ok(), is_identified);
        let expected = if is_identified { "1" } else { "none" };
        assert_eq!(served.await.expect("no panic"), expected);
    }
}
