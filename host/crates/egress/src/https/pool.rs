//! Connections that are kept open between requests.
//!
//! The connection that was used last is used first, so that the others close when there is less to do. Kept
//! connections are HTTP/1.1, which [`Connector`](super::connect::Connector) alone offers: each serves one request at
//! a time. No task waits for their ends, so one that its server has closed is dropped when it is taken, or by the task
//! that closes those that were not used for long.

use std::{fmt, sync::Arc, time::Duration};

use http::{HeaderValue, Uri, uri::Authority};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    task::AbortHandle,
    time::{Instant, interval},
};

use super::connection::PolledConnection;

/// Time after which an unused connection is closed. One that nothing asks for is closed after half as long again.
const IDLE: Duration = Duration::from_secs(90);

/// The server of a connection, as a URI names it.
#[derive(Debug, Clone, Eq)]
pub(super) struct ServerAddress {
    authority: Authority,
    is_tls: bool,
}

impl PartialEq for ServerAddress {
    fn eq(&self, other: &Self) -> bool {
        let authority = &self.authority;
        // Most are the same text, which is compared as a whole. Others are compared letter by letter, without case.
        self.is_tls == other.is_tls
            && (authority.as_str() == other.authority.as_str() || *authority == other.authority)
    }
}

impl ServerAddress {
    /// Returns the server of a URI; `None` unless it is an absolute one.
    pub(super) fn of_uri(uri: &Uri) -> Option<Self> {
        let is_tls = uri.scheme_str()? == "https";
        Some(Self { authority: uri.authority()?.clone(), is_tls })
    }

    /// Returns the value of the header `Host`: the authority without a user, and without the port of the scheme.
    pub(super) fn host(&self) -> Option<HeaderValue> {
        let host = self.authority.host();
        let default = if self.is_tls { 443 } else { 80 };
        match self.authority.port_u16().filter(|port| *port != default) {
            Some(port) => HeaderValue::try_from(format!("{host}:{port}")).ok(),
            None => HeaderValue::from_str(host).ok(),
        }
    }
}

/// The unused connections of one client.
#[derive(Default)]
pub(super) struct Pool {
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    /// In the order in which they became unused.
    idle: Vec<IdleConnection>,
    /// The task that closes connections; `None` if there are none.
    closing: Option<AbortHandle>,
}

struct IdleConnection {
    server: ServerAddress,
    connection: PolledConnection,
    since: Instant,
}

impl Pool {
    /// Takes the connection to a server that was used last; `None` if there is none.
    pub(super) fn take(&self, server: &ServerAddress) -> Option<PolledConnection> {
        let mut state = self.state.lock();
        let now = Instant::now();
        for position in (0..state.idle.len()).rev() {
            let kept = &state.idle[position];
            if !kept.is_usable(now) {
                state.idle.remove(position);
            } else if kept.server == *server {
                return Some(state.idle.remove(position).connection);
            }
        }
        None
    }

    /// Keeps a connection that is ready for a request.
    pub(super) fn keep(self: &Arc<Self>, server: ServerAddress, connection: PolledConnection) {
        // Without a runtime, the connection cannot be used any more.
        let Ok(runtime) = Handle::try_current() else { return };
        if connection.is_closed() {
            return;
        }
        connection.leave();
        let mut state = self.state.lock();
        state.idle.push(IdleConnection { server, connection, since: Instant::now() });
        if state.closing.is_none() {
            let pool = Arc::downgrade(self);
            let closing = runtime.spawn(async move {
                let mut ticks = interval(IDLE / 2);
                ticks.tick().await;
                loop {
                    ticks.tick().await;
                    let Some(pool) = pool.upgrade() else { return };
                    if pool.close_unused() {
                        return;
                    }
                }
            });
            state.closing = Some(closing.abort_handle());
        }
    }

    /// Waits until a connection is unused.
    #[cfg(test)]
    pub(super) async fn until_kept(&self) {
        while self.state.lock().idle.is_empty() {
            tokio::task::yield_now().await;
        }
    }

    /// Closes connections that were not used for long, or whose servers have closed them. Returns whether none is left.
    fn close_unused(&self) -> bool {
        let mut state = self.state.lock();
        let now = Instant::now();
        state.idle.retain_mut(|kept| kept.is_usable(now) && kept.connection.is_open());
        if state.idle.is_empty() {
            state.closing = None;
        }
        state.idle.is_empty()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(closing) = self.state.get_mut().closing.take() {
            closing.abort();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pool").field("idle", &self.state.lock().idle.len()).finish()
    }
}

impl IdleConnection {
    fn is_usable(&self, now: Instant) -> bool {
        !self.connection.is_closed() && now.duration_since(self.since) < IDLE
    }
}
