//! Memory of idle sessions of a gateway.

use airlock_tests::{
    Client, Gateway, Setup,
    bench::{
        address,
        message::Work,
        process::{Process, kib_each},
    },
    guests,
};
use hyper::header::HeaderValue;

use super::http::{Connection, Endpoint};

/// Resident memory of a gateway, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// Before any session.
    before: u64,
    /// With all sessions.
    first: u64,
    /// After all were closed.
    closed: u64,
    /// With as many sessions again.
    again: u64,
    /// With the stream of each session open as well.
    streams: u64,
}

impl Memory {
    /// Returns the memory of one of `count` sessions in KiB: of the first ones, of those that were
    /// opened again, and of the latter with their streams. All count from a gateway without sessions.
    pub(crate) fn of_each(self, count: u32) -> [f64; 3] {
        [self.first, self.again, self.streams].map(|with| kib_each(with, self.before, count))
    }

    /// Returns the memory that stays with the process after all were closed, in KiB of a session.
    pub(crate) fn kept(self, count: u32) -> f64 {
        kib_each(self.closed, self.before, count)
    }
}

/// Opens `count` sessions, closes them, and opens as many again, on one connection. Then each opens
/// its stream on a connection of its own. A fresh gateway: memory that an allocator keeps from other
/// work would hide theirs.
pub(crate) async fn measure(count: u32) -> Memory {
    let gateway = start().await;
    let process = Process::new(gateway.pid());
    let endpoint = Endpoint::new(address(&gateway));
    let mut lane = endpoint.connect().await;
    // What is made once for all sessions.
    let few = open(&endpoint, &mut lane, 16).await;
    close(&endpoint, &mut lane, few).await;
    let before = process.resident();
    let sessions = open(&endpoint, &mut lane, count).await;
    let first = process.resident();
    close(&endpoint, &mut lane, sessions).await;
    let closed = process.resident();
    let sessions = open(&endpoint, &mut lane, count).await;
    let again = process.resident();
    let mut streams = Vec::new();
    for session in &sessions {
        streams.push(endpoint.open_stream(endpoint.connect().await, session).await);
    }
    let memory = Memory { before, first, closed, again, streams: process.resident() };
    drop(streams);
    close(&endpoint, &mut lane, sessions).await;
    memory
}

/// Opens sessions. Each lists the tools and calls one before it is idle.
async fn open(endpoint: &Endpoint, lane: &mut Connection, count: u32) -> Vec<HeaderValue> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        let session = endpoint.open_session(lane).await;
        endpoint.in_session(lane, &session, Work::List).await;
        endpoint.in_session(lane, &session, Work::Call("noop-ok")).await;
        sessions.push(session);
    }
    sessions
}

async fn close(endpoint: &Endpoint, lane: &mut Connection, sessions: Vec<HeaderValue>) {
    for session in sessions {
        endpoint.close_session(lane, &session).await;
    }
}

async fn start() -> Gateway {
    Setup::new()
        .client(Client::wasm("noop", guests::NOOP).auto(&["*"]))
        .set("/server/max_connections", 8_192)
        .set("/server/max_connections_per_peer", 8_192)
        .serve_connected()
        .await
}
