//! Receives the redirect with which an authorization server sends the browser of the operator back
//! (RFC 8252, section 7.3): a listener on the loopback address, for the time of one login.

use std::{collections::VecDeque, io, net::Ipv4Addr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::timeout,
};
use url::form_urlencoded;

/// Path of the redirect.
const PATH: &str = "/callback";
/// Maximum length of the head of a request to the callback, in bytes. It has room for a code of
/// an authorization server and the cookies that a browser has for the host.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// Maximum connections from which a request is awaited: a further one ends the oldest. Browsers
/// open some that they do not use, and any process of this machine can.
const MAX_CONNECTIONS: usize = 32;
/// Time for a connection to send its request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for the response to be taken.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reason that no redirect can be received.
#[derive(Debug, thiserror::Error)]
#[error("no connection can be accepted on the loopback address")]
pub struct CallbackError(#[from] io::Error);

/// Listener for the redirect of one login.
pub struct Callback {
    listener: TcpListener,
    port: u16,
}

/// Parameters of a redirect.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Redirected {
    /// `state`.
    pub state: String,
    /// `code`.
    pub code: Option<String>,
    /// `iss`.
    pub issuer: Option<String>,
    /// `error`.
    pub error: Option<String>,
    /// `error_description`.
    pub description: Option<String>,
}

/// The browser, which waits for a page.
pub(super) struct Browser(TcpStream);

impl Callback {
    /// Listens on a port of the loopback address; on a free one if it is 0.
    pub async fn listen(port: u16) -> Result<Self, CallbackError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Returns the URL of the redirect.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for a redirect. Any other request gets a page that says so. Fails if the listener fails.
    pub(super) async fn next(&self) -> Result<(Redirected, Browser), CallbackError> {
        let mut reading = JoinSet::new();
        let mut open: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let (stream, _) = accepted?;
                    open.retain(|task| !task.is_finished());
                    if open.len() == MAX_CONNECTIONS
                        && let Some(oldest) = open.pop_front()
                    {
                        oldest.abort();
                    }
                    open.push_back(reading.spawn(read(stream, self.port)));
                }
                Some(read) = reading.join_next() => {
                    if let Ok(Some(redirected)) = read {
                        return Ok(redirected);
                    }
                }
            }
        }
    }
}

impl Browser {
    /// Shows the end of the login.
    pub(super) async fn show(self, is_done: bool) {
        if is_done {
            self.page("200 OK", "Login complete", "You can close this window.").await;
        } else {
            self.page("400 Bad Request", "Login failed", "The terminal has the reason.").await;
        }
    }

    /// Shows a page without any text of the request. A browser that does not take it loses it.
    async fn page(mut self, status: &str, title: &str, text: &str) {
        let body = format!(
            "<!doctype html><html lang=en><meta charset=utf-8><title>Airlock</title><h1>{title}</h1><p>{text}</p></html>\n"
        );
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
             cache-control: no-store\r\ncontent-security-policy: default-src 'none'\r\n\
             referrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let writing = async {
            self.0.write_all(head.as_bytes()).await?;
            self.0.write_all(body.as_bytes()).await?;
            self.0.shutdown().await
        };
        let _ = timeout(TIMEOUT, writing).await;
    }
}

/// Reads a request. Returns `None` if it is no redirect.
async fn read(mut stream: TcpStream, port: u16) -> Option<(Redirected, Browser)> {
    let head = timeout(HEAD_TIMEOUT, head(&mut stream)).await.ok()??;
    let browser = Browser(stream);
    let head = std::str::from_utf8(&head).ok().filter(|head| is_for(head, port));
    let Some(redirected) = head.and_then(redirected) else {
        browser.page("404 Not Found", "Not found", "This is no answer to a login.").await;
        return None;
    };
    Some((redirected, browser))
}

/// Reads the head of a request; `None` if it is too long.
async fn head(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut part = [0; 4 << 10];
        let length = stream.read(&mut part).await.ok().filter(|length| *length > 0)?;
        if head.len() + length > MAX_HEAD_BYTES {
            return None;
        }
        head.extend_from_slice(&part[..length]);
    }
    Some(head)
}

/// Returns whether a request names this listener as its host: not so the page of another site whose
/// name leads here.
fn is_for(head: &str, port: u16) -> bool {
    let mut hosts = head.lines().skip(1).filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    let host = hosts.next();
    let is_own = host == Some(&*format!("127.0.0.1:{port}"));
    is_own && hosts.next().is_none()
}

/// Parses the head of a request. `None` if it is no redirect, or has a parameter twice.
fn redirected(head: &str) -> Option<Redirected> {
    let target = head.lines().next()?.strip_prefix("GET ")?.strip_suffix(" HTTP/1.1")?;
    Redirected::parse(target.strip_prefix(PATH)?.strip_prefix('?')?)
}

impl Redirected {
    /// Parses the query of a redirect. `None` if it has no state, or a parameter twice.
    pub fn parse(query: &str) -> Option<Self> {
        let mut state = None;
        let mut found = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let place = match &*name {
                "state" => &mut state,
                "code" => &mut found.code,
                "iss" => &mut found.issuer,
                "error" => &mut found.error,
                "error_description" => &mut found.description,
                _ => continue,
            };
            if place.replace(value.into_owned()).is_some() {
                return None;
            }
        }
        found.state = state?;
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(target: &str) -> Option<Redirected> {
        redirected(&format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n"))
    }

    #[test]
    fn only_a_redirect_with_each_parameter_once_is_read() {
        let found = parsed("/callback?code=a%20b&state=s&iss=https%3A%2F%2Fas&other=x&other=y");
        let expected = Redirected {
            state: "s".to_owned(),
            code: Some("a b".to_owned()),
            issuer: Some("https://as".to_owned()),
            ..Redirected::default()
        };
        assert_eq!(found, Some(expected));
        for other in [
            "/callback",
            "/callback?code=c",
            "/callback?state=s&state=t&code=c",
            "/callback?state=s&code=c&code=d",
            "/callback?state=s&code=c&iss=a&iss=b",
            "/other?state=s&code=c",
            "/callback/x?state=s&code=c",
            "http://127.0.0.1/callback?state=s",
        ] {
            assert_eq!(parsed(other), None, "{other}");
        }
        assert_eq!(redirected("POST /callback?state=s HTTP/1.1\r\n\r\n"), None);
        assert_eq!(redirected(""), None);
    }

    async fn connect(callback: &Callback) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, callback.port)).await.expect("connected")
    }

    fn asking(port: u16) -> String {
        format!("GET /callback?state=s HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n")
    }

    #[test]
    fn a_request_must_name_the_listener_once() {
        assert!(is_for(&asking(8_765), 8_765));
        for host in ["127.0.0.1", "127.0.0.1:1", "evil.example:8765", "x\r\nHost: 127.0.0.1:8765"] {
            assert!(!is_for(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), 8_765), "{host}");
        }
        assert!(!is_for("GET / HTTP/1.1\r\n\r\n", 8_765));
    }

    #[tokio::test]
    async fn the_oldest_of_many_idle_connections_gives_way() {
        let callback = Callback::listen(0).await.expect("a port");
        let mut idle = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            idle.push(connect(&callback).await);
        }
        let mut browser = connect(&callback).await;
        browser.write_all(asking(callback.port).as_bytes()).await.expect("sent");
        let (redirected, _) = callback.next().await.expect("a redirect");
        assert_eq!(redirected.state, "s");
    }

    #[tokio::test]
    async fn an_idle_connection_and_an_endless_head_delay_no_redirect() {
        let callback = Callback::listen(0).await.expect("a port");
        let _idle = connect(&callback).await;
        let mut endless = connect(&callback).await;
        let mut browser = connect(&callback).await;
        let head = vec![b'x'; MAX_HEAD_BYTES + 1];
        let request = asking(callback.port);
        let (next, (ended, page)) = tokio::join!(callback.next(), async {
            let _ = endless.write_all(&head).await;
            let mut rest = Vec::new();
            // A reset connection has ended too.
            let ended = endless.read_to_end(&mut rest).await.unwrap_or_default();
            browser.write_all(request.as_bytes()).await.expect("sent");
            (ended, browser)
        });
        let (redirected, waiting) = next.expect("a redirect");
        assert_eq!((redirected.state.as_str(), ended), ("s", 0));
        let mut shown = String::new();
        let mut page = page;
        let ((), read) = tokio::join!(waiting.show(true), page.read_to_string(&mut shown));
        read.expect("a page");
        assert!(shown.starts_with("HTTP/1.1 200 OK\r\n") && shown.contains("complete"), "{shown}");
    }
}
