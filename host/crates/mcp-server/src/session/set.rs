//! All sessions, and the streams that wait for notifications: bounded, per tenant and in all.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Session, full, table::SessionTable};
use crate::{meta::Peer, metrics::ServerTimes, settings::SessionBounds, toolbox::ToolboxScope};
use airlock_core::tenant::Tenant;
use airlock_wire::error::RpcError;

/// The most sessions, and streams, that make room for another one. After a bound was lowered, there are more
/// than it permits; all of them at once would hold up every other client for as long as it takes to find them.
const MOST_CLOSED: usize = 16;

/// All sessions.
pub struct Sessions {
    bounds: Mutex<SessionBounds>,
    table: Mutex<SessionTable>,
    streams: Mutex<Streams>,
    /// Running requests.
    tasks: TaskTracker,
    times: Arc<ServerTimes>,
}

/// Streams that wait for notifications, by tenant and in their order.
#[derive(Default)]
struct Streams {
    by_tenant: HashMap<Tenant, BTreeMap<u64, CancellationToken>>,
    next: u64,
}

impl Streams {
    fn count(&self) -> usize {
        self.by_tenant.values().map(BTreeMap::len).sum()
    }

    /// Ends the oldest streams of a tenant beyond `most`, which is lower than it was when they began. Returns
    /// the number of the rest.
    fn cut(&mut self, tenant: &Tenant, most: usize) -> usize {
        let Some(own) = self.by_tenant.get_mut(tenant) else { return 0 };
        while own.len() > most {
            if let Some((_, evicted)) = own.pop_first() {
                evicted.cancel();
            }
        }
        own.len()
    }

    /// Ends the oldest stream of the tenant with the most, if that has at least two more than a
    /// tenant with `own`; false if it has not.
    fn displace(&mut self, own: usize) -> bool {
        let largest = self.by_tenant.values_mut().max_by_key(|streams| streams.len());
        let oldest =
            largest.filter(|streams| streams.len() > own + 1).and_then(BTreeMap::pop_first);
        oldest.map(|(_, evicted)| evicted.cancel()).is_some()
    }
}

impl Sessions {
    /// Creates an empty set of sessions, whose times are measured.
    pub fn new(bounds: SessionBounds, times: Arc<ServerTimes>) -> Arc<Self> {
        Arc::new(Self {
            bounds: Mutex::new(bounds),
            table: Mutex::default(),
            streams: Mutex::default(),
            tasks: TaskTracker::new(),
            times,
        })
    }

    /// Changes the bounds. Sessions and streams beyond lower ones end when further ones are opened, some for
    /// each, in the order in which they make room for it.
    pub fn set_bounds(&self, bounds: SessionBounds) {
        *self.bounds.lock() = bounds;
    }

    /// Opens a session. Fails if the tenant has as many as it may and none of them is idle, or if
    /// all are in use.
    pub fn open(
        &self,
        tenant: Tenant,
        scope: ToolboxScope,
        peer: Peer,
    ) -> Result<Arc<Session>, RpcError> {
        let bounds = *self.bounds.lock();
        let mut table = self.table.lock();
        table.expire(bounds.idle);
        let mut own = table.count(&tenant);
        for _ in 0..MOST_CLOSED {
            if own < bounds.per_key {
                break;
            }
            if !table.close_idle(&tenant) {
                return Err(full(format!(
                    "this caller has {own} sessions in use, as many as it may; end one with DELETE"
                )));
            }
            own -= 1;
        }
        for _ in 0..MOST_CLOSED {
            if table.len() < bounds.total {
                break;
            }
            if !table.displace(own) {
                return Err(full(format!("all {} sessions are in use", bounds.total)));
            }
            own = table.count(&tenant);
        }
        let session = Session::new(tenant, scope, peer, self.tasks.clone(), self.times.clone());
        let session = Arc::new(session);
        table.insert(session.clone(), Instant::now());
        Ok(session)
    }

    /// Finds a session of a tenant that was opened at the path with these tools; `None` if there is none,
    /// or if it is another tenant's or another path's.
    pub fn find(&self, id: &str, tenant: &Tenant, scope: &ToolboxScope) -> Option<Arc<Session>> {
        let idle = self.bounds.lock().idle;
        let mut table = self.table.lock();
        let session = table.get(id)?;
        let session = Some(session).filter(|own| own.tenant == *tenant && own.scope == *scope)?;
        let session = session.clone();
        let now = Instant::now();
        if session.is_alive(now, idle) {
            session.state().last_used = now;
            // Expired sessions hold subscriptions, whose room this one may need.
            table.expire(idle);
            return Some(session);
        }
        table.remove(id);
        session.close();
        None
    }

    /// Closes a session: its requests are cancelled, its streams end.
    pub fn close(&self, session: &Session) {
        self.table.lock().remove(&session.id);
        session.close();
    }

    /// Takes room for a stream that waits for notifications.
    pub fn stream(self: &Arc<Self>, tenant: Tenant) -> Result<StreamSlot, RpcError> {
        let bounds = *self.bounds.lock();
        self.table.lock().expire(bounds.idle);
        let mut streams = self.streams.lock();
        let own = streams.cut(&tenant, bounds.streams_per_key);
        if own >= bounds.streams_per_key {
            return Err(full(format!("this caller has {own} waiting streams, as many as it may")));
        }
        for _ in 0..MOST_CLOSED {
            if streams.count() < bounds.streams {
                break;
            }
            if !streams.displace(own) {
                return Err(full(format!("all {} waiting streams are in use", bounds.streams)));
            }
        }
        let number = streams.next;
        let evicted = CancellationToken::new();
        streams.next += 1;
        streams.by_tenant.entry(tenant.clone()).or_default().insert(number, evicted.clone());
        drop(streams);
        Ok(StreamSlot { sessions: self.clone(), tenant, number, evicted })
    }

    /// Waits until no request is running. Call it when no more begin.
    pub async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Closes all sessions.
    pub fn close_all(&self) {
        let all = self.table.lock().take_all();
        for session in all {
            session.close();
        }
    }

    /// Returns the number of sessions, and that of streams that wait for notifications.
    pub fn usage(&self) -> (usize, usize) {
        (self.table.lock().len(), self.streams.lock().count())
    }
}

/// Room for a stream that waits for notifications. Dropping it gives the room back.
pub struct StreamSlot {
    sessions: Arc<Sessions>,
    tenant: Tenant,
    number: u64,
    evicted: CancellationToken,
}

impl StreamSlot {
    /// Waits until the room is needed for a stream of another tenant, which has fewer.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut streams = self.sessions.streams.lock();
        if let Some(own) = streams.by_tenant.get_mut(&self.tenant) {
            own.remove(&self.number);
            if own.is_empty() {
                streams.by_tenant.remove(&self.tenant);
            }
        }
    }
}
