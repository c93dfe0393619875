//! The open sessions, by identifier, by tenant and by their last use. No operation looks at all of them: there
//! may be a million, and every client waits for the lock.
//!
//! The use of a session does not change the table, so its place may be that of an earlier use. The session is
//! moved when it comes first and has been used since.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::Session;
use airlock_core::tenant::Tenant;

/// Maximum number of sessions that one call of [`SessionTable::expire`] checks.
const MOST_LOOKS: usize = 64;

/// Time of the last known use of a session, and a number that is unique to the place.
type SessionOrder = (Instant, u64);

/// The open sessions.
#[derive(Default)]
pub(super) struct SessionTable {
    by_id: HashMap<Arc<str>, FiledSession>,
    /// Identifiers of all sessions.
    order: BTreeMap<SessionOrder, Arc<str>>,
    /// Identifiers of the sessions of each tenant that has some.
    of_tenant: HashMap<Tenant, BTreeMap<SessionOrder, Arc<str>>>,
    /// Tenants by the number of their sessions.
    by_count: BTreeMap<usize, HashSet<Tenant>>,
    next: u64,
}

struct FiledSession {
    session: Arc<Session>,
    place: SessionOrder,
}

impl SessionTable {
    /// Returns the number of sessions.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns the number of sessions of a tenant.
    pub(super) fn count(&self, tenant: &Tenant) -> usize {
        self.of_tenant.get(tenant).map_or(0, BTreeMap::len)
    }

    /// Finds a session, expired or not.
    pub(super) fn get(&self, id: &str) -> Option<&Arc<Session>> {
        self.by_id.get(id).map(|filed| &filed.session)
    }

    /// Adds a session that was used at a time.
    pub(super) fn insert(&mut self, session: Arc<Session>, used: Instant) {
        let place = (used, self.next);
        self.next += 1;
        let id = session.id.clone();
        self.order.insert(place, id.clone());
        let own = self.of_tenant.entry(session.tenant.clone()).or_default();
        own.insert(place, id.clone());
        let count = own.len();
        self.recount(&session.tenant, count - 1, count);
        self.by_id.insert(id, FiledSession { session, place });
    }

    /// Takes a session out; `None` if there is none.
    pub(super) fn remove(&mut self, id: &str) -> Option<Arc<Session>> {
        let FiledSession { session, place } = self.by_id.remove(id)?;
        self.order.remove(&place);
        if let Some(own) = self.of_tenant.get_mut(&session.tenant) {
            own.remove(&place);
            let count = own.len();
            if count == 0 {
                self.of_tenant.remove(&session.tenant);
            }
            self.recount(&session.tenant, count + 1, count);
        }
        Some(session)
    }

    fn recount(&mut self, tenant: &Tenant, before: usize, now: usize) {
        if let Some(tenants) = self.by_count.get_mut(&before) {
            tenants.remove(tenant);
            if tenants.is_empty() {
                self.by_count.remove(&before);
            }
        }
        if now > 0 {
            self.by_count.entry(now).or_default().insert(tenant.clone());
        }
    }

    /// Drops sessions that have been idle for `idle`. Checks at most [`MOST_LOOKS`].
    pub(super) fn expire(&mut self, idle: Duration) {
        let now = Instant::now();
        for _ in 0..MOST_LOOKS {
            let Some((&(used, _), id)) = self.order.first_key_value() else { return };
            if now.duration_since(used) < idle {
                return;
            }
            let id = id.clone();
            let Some(session) = self.remove(&id) else { return };
            if session.is_alive(now, idle) {
                let used = session.idle_since().unwrap_or(now);
                self.insert(session, used);
            }
        }
    }

    /// Closes the session of a tenant that has been idle for longest; false if none is idle.
    pub(super) fn close_idle(&mut self, tenant: &Tenant) -> bool {
        let now = Instant::now();
        // Each is moved once at most, those in use behind all others.
        for _ in 0..2 * self.count(tenant) {
            let first = self.of_tenant.get(tenant).and_then(BTreeMap::first_key_value);
            let Some((&(used, _), id)) = first else { return false };
            let id = id.clone();
            let Some(session) = self.remove(&id) else { return false };
            match session.idle_since() {
                Some(since) if since <= used => {
                    session.close();
                    return true;
                }
                since => self.insert(session, since.unwrap_or(now)),
            }
        }
        false
    }

    /// Closes a session of the tenant with the most: the one that is idle for longest, or else the one
    /// that was not used for longest, if that tenant has at least two more than a tenant with `own`.
    /// False if none could be closed.
    pub(super) fn displace(&mut self, own: usize) -> bool {
        let Some((&count, tenants)) = self.by_count.last_key_value() else { return false };
        let Some(largest) = tenants.iter().next().cloned() else { return false };
        if self.close_idle(&largest) {
            return true;
        }
        let busy = self.of_tenant.get(&largest).filter(|_| count > own + 1);
        let busy = busy.into_iter().flat_map(BTreeMap::values).filter_map(|id| self.get(id));
        let oldest = busy.min_by_key(|session| session.state().last_used);
        let oldest = oldest.map(|session| session.id.clone());
        let closed = oldest.and_then(|id| self.remove(&id));
        closed.inspect(|session| session.close()).is_some()
    }

    /// Takes all sessions out.
    pub(super) fn take_all(&mut self) -> Vec<Arc<Session>> {
        let all = std::mem::take(self).by_id;
        all.into_values().map(|filed| filed.session).collect()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::{meta::Peer, toolbox::ToolboxScope};
    use airlock_core::tool::QuestionKinds;
    use airlock_wire::version::Version;

    const IDLE: Duration = Duration::from_mins(10);

    fn tenant(number: u8) -> Tenant {
        Tenant::of_key([number; 32], "t")
    }

    fn open(table: &mut SessionTable, tenant: Tenant) -> Arc<Session> {
        let peer = Peer {
            version: Version::V2025_11_25,
            questions: QuestionKinds::NONE,
            log_level: None,
            takes_tasks: false,
        };
        let tasks = TaskTracker::new();
        let session = Session::new(tenant, ToolboxScope::All, peer, tasks, Arc::default());
        let session = Arc::new(session);
        table.insert(session.clone(), Instant::now());
        session
    }

    /// Checks that the table has the same sessions in each order.
    fn check(table: &SessionTable) {
        assert_eq!(table.order.len(), table.len());
        assert_eq!(table.of_tenant.values().map(BTreeMap::len).sum::<usize>(), table.len());
        let tenants: usize = table.by_count.values().map(HashSet::len).sum();
        assert_eq!(tenants, table.of_tenant.len());
        for (id, FiledSession { session, place }) in &table.by_id {
            assert_eq!(table.order.get(place), Some(id));
            assert_eq!(table.of_tenant[&session.tenant].get(place), Some(id));
            assert!(table.by_count[&table.count(&session.tenant)].contains(&session.tenant));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_orders_follow_each_change() {
        let mut table = SessionTable::default();
        let mut listening = Vec::new();
        for step in 0..300_usize {
            advance(IDLE / 50).await;
            let number = u8::try_from(step * 7 % 5).expect("small");
            let session = open(&mut table, tenant(number));
            match step % 6 {
                0 => listening.push(session.listen()),
                1 => drop(listening.pop()),
                2 => assert!(table.remove(session.id()).is_some()),
                3 => assert!(table.close_idle(&tenant(number))),
                4 => assert!(table.displace(0)),
                _ => table.expire(IDLE),
            }
            check(&table);
        }
        assert!(listening.is_empty());
        advance(IDLE).await;
        table.expire(IDLE);
        assert_eq!(table.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_session_that_was_used_least_recently_is_closed_wherever_it_was_filed() {
        let mut table = SessionTable::default();
        let first = open(&mut table, tenant(1));
        advance(Duration::from_secs(1)).await;
        let second = open(&mut table, tenant(1));
        advance(Duration::from_secs(1)).await;
        // It was used since, and the other one is in use.
        first.state().last_used = Instant::now();
        let listening = second.listen();
        assert!(table.close_idle(&tenant(1)));
        assert!(first.closed().is_cancelled() && !second.closed().is_cancelled());
        assert!(!table.close_idle(&tenant(1)), "it is in use");
        drop(listening);
        assert!(table.close_idle(&tenant(1)));
        assert_eq!(table.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_expired_sessions_some_are_dropped_at_a_time() {
        let mut table = SessionTable::default();
        for _ in 0..=MOST_LOOKS {
            open(&mut table, tenant(1));
        }
        advance(IDLE).await;
        table.expire(IDLE);
        assert_eq!(table.len(), 1);
        table.expire(IDLE);
        assert_eq!(table.len(), 0);
        check(&table);
    }
}
