//! A bare proxy in a process of its own: the limit of the gateway's design. It sends each request on
//! to the model server, on a connection that is kept open, and reads neither request nor response.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use airlock_tests::bench::{self, process::Process};
use anyhow::Result;
use hyper::{
    Request, Response, body::Incoming, client::conn::http1 as client,
    client::conn::http1::SendRequest, server::conn::http1 as server, service::service_fn,
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustix::process::Pid;
use tokio::net::{TcpListener, TcpStream};

/// Option that makes this program the proxy of a model server.
const OPTION: &str = "--bare-proxy";

/// A running proxy. Dropping it ends it.
pub(crate) struct BareProxy {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl BareProxy {
    /// Starts a proxy of the model server at `model`.
    pub(crate) fn start(model: SocketAddr) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .args([OPTION, &model.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started");
        let stdout = child.stdout.take().expect("piped above");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("it announces its address");
        Self { child, address: line.trim().parse().expect("an address") }
    }

    pub(crate) fn process(&self) -> Process {
        Process::new(Pid::from_child(&self.child))
    }
}

impl Drop for BareProxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves as a proxy if the option asks for it; returns false if it does not.
pub(crate) fn run_if_asked() -> bool {
    let Some(model) = bench::option(OPTION) else { return false };
    let model = model.parse().expect("an address");
    bench::runtime().block_on(serve(model)).expect("it serves until it is killed");
    true
}

type Idle = Arc<Mutex<Vec<SendRequest<Incoming>>>>;

async fn serve(model: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let idle = Idle::default();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let idle = idle.clone();
        let forward = service_fn(move |request| forward(model, idle.clone(), request));
        tokio::spawn(server::Builder::new().serve_connection(TokioIo::new(stream), forward));
    }
}

/// Sends a request on. The connection is free for the next one as soon as it is ready again.
async fn forward(
    model: SocketAddr,
    idle: Idle,
    request: Request<Incoming>,
) -> Result<Response<Incoming>> {
    let mut sender = loop {
        let last = idle.lock().pop();
        let Some(mut sender) = last else { break connect(model).await? };
        if sender.ready().await.is_ok() {
            break sender;
        }
    };
    let response = sender.send_request(request).await?;
    tokio::spawn(async move {
        if sender.ready().await.is_ok() {
            idle.lock().push(sender);
        }
    });
    Ok(response)
}

async fn connect(model: SocketAddr) -> Result<SendRequest<Incoming>> {
    let stream = TcpStream::connect(model).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = client::handshake(TokioIo::new(stream)).await?;
    // It ends with the sender. An error is one of the exchange, too.
    tokio::spawn(async { drop(connection.await) });
    Ok(sender)
}
