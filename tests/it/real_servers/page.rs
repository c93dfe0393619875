//! A web server with one page, which it responds with to every request.

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// A web server with one page.
pub(super) struct Page {
    pub(super) url: String,
    _serving: JoinSet<()>,
}

impl Page {
    /// Starts a server with a page of this type and content.
    pub(super) async fn start(content_type: &'static str, content: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                // The test sees what a broken connection leads to.
                connections.spawn(async { drop(respond(stream, content_type, content).await) });
            }
        });
        Self { url, _serving: serving }
    }
}

async fn respond(stream: TcpStream, content_type: &str, content: &str) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 2 {
        line.clear();
    }
    let length = content.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(content.as_bytes()).await?;
    stream.flush().await
}
