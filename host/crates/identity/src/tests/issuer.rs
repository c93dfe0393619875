//! An issuer on the loopback interface.

use std::{collections::HashMap, sync::Arc};

use airlock_test_http::{Answer, Server, says};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// A running issuer, whose pages a test may change at any time.
pub(super) struct Issuer {
    server: Server,
    pages: Arc<Mutex<HashMap<String, Page>>>,
}

/// Reaction to a request.
#[derive(Clone)]
pub(super) enum Page {
    Response {
        status: &'static str,
        headers: String,
        body: String,
    },
    /// Sends a body without end.
    Drips,
    /// Sends nothing.
    IsSilent,
    /// Closes the connection.
    HangsUp,
}

impl Page {
    /// A key set.
    pub(super) fn keys(keys: &[Value]) -> Self {
        Self::json(json!({ "keys": keys }).to_string())
    }

    /// A text that is declared as JSON.
    pub(super) fn json(body: impl Into<String>) -> Self {
        let headers = "content-type: application/json\r\n".to_owned();
        Self::Response { status: "200 OK", headers, body: body.into() }
    }

    /// The same page with another header line.
    pub(super) fn with_header(mut self, line: &str) -> Self {
        if let Self::Response { headers, .. } = &mut self {
            headers.push_str(line);
            headers.push_str("\r\n");
        }
        self
    }

    /// A redirect.
    pub(super) fn redirect(location: &str) -> Self {
        let headers = format!("location: {location}\r\n");
        Self::Response { status: "302 Found", headers, body: String::new() }
    }

    /// A page with another status.
    pub(super) fn status(status: &'static str) -> Self {
        Self::Response { status, headers: String::new(), body: String::new() }
    }
}

impl Issuer {
    pub(super) async fn start<const N: usize>(pages: [(&str, Page); N]) -> Self {
        let pages = pages.map(|(path, page)| (path.to_owned(), page));
        let pages = Arc::new(Mutex::new(HashMap::from(pages)));
        let server = Server::start({
            let pages = pages.clone();
            move |path| match pages.lock().get(path).cloned() {
                Some(Page::Response { status, headers, body }) => says(status, &headers, &body),
                Some(Page::Drips) => Answer::Says(format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: \
                     1000000000\r\n\r\n{}",
                    " ".repeat(crate::fetch::MAX_BODY_BYTES + 1),
                )),
                Some(Page::IsSilent) => Answer::IsSilent,
                Some(Page::HangsUp) => Answer::HangsUp,
                None => says("404 Not Found", "", ""),
            }
        })
        .await;
        Self { server, pages }
    }

    /// Replaces a page.
    pub(super) fn set(&self, path: &str, page: Page) {
        self.pages.lock().insert(path.to_owned(), page);
    }

    pub(super) fn url(&self, path: &str) -> String {
        self.server.url("127.0.0.1", path)
    }

    /// Returns the paths of the requests so far.
    pub(super) fn requests(&self) -> Vec<String> {
        let requests = self.server.requests();
        let paths = requests.iter().map(|request| request.split(' ').nth(1).unwrap_or_default());
        paths.map(str::to_owned).collect()
    }

    /// Returns the heads of the requests so far.
    pub(super) fn heads(&self) -> String {
        self.server.requests().join("\n")
    }

    /// Waits until a connection without a response has been closed.
    pub(super) async fn until_hung_up(&self) {
        self.server.until_hung_up(1).await;
    }

    /// Number of requests so far.
    pub(super) fn fetches(&self) -> usize {
        self.server.requests().len()
    }
}
