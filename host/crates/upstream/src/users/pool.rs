//! The connections of all users at all servers. A user has one connection at each server, which all its
//! calls there use, and no other user's.
//!
//! A connection is kept as long as it is used, and for [`USER_IDLE`] after that. If there are too many,
//! the one that is idle for longest is removed; one that is in use never is. A user whose tokens are exchanged
//! has at most [`MAX_TOKENS_OF_USER`] at a server, and removes its own for one more. Servers share the connections
//! that calls use, see [`PooledConnections::has_share`]. A connection that was removed is closed once its last call has ended,
//! and at once if its login is of no use any more. Until then, it counts as one in use: a server that ends one call of
//! each user and lets the others hang gets no more than others.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::limits::{MAX_SERVER_USERS, MAX_TOKENS_OF_USER, MAX_USERS, USER_IDLE};
use airlock_core::tool::ClientName;
use airlock_mcp_client::{ConnectionError, Link};
use airlock_store::OwnerId;

/// Names the connection of one user at one server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PoolKey {
    /// Number of the server.
    pub(super) server: u64,
    /// Name of its client.
    pub(super) client: ClientName,
    /// Scope of the user's tenant.
    pub(super) holder: OwnerId,
    /// Digest of the exchanged token that the connection has; `None` if its credentials are stored. A
    /// connection is never used with another one.
    pub(super) token: Option<[u8; 32]>,
}

impl PoolKey {
    /// Returns whether the connection is one of the same user at the same server.
    fn is_of_user(&self, other: &Self) -> bool {
        self.server == other.server && self.holder == other.holder
    }
}

/// Result of opening a connection.
pub(super) type Opened = Result<Arc<Link>, Arc<ConnectionError>>;

/// The connections of all users.
#[derive(Default)]
pub(super) struct UserPool(Mutex<PooledConnections>);

#[derive(Default)]
struct PooledConnections {
    /// Those that calls get.
    current: HashMap<PoolKey, Arc<UserConnection>>,
    /// Those that were removed while calls used them. They are no more than all that may be in use.
    removed: Vec<Weak<UserConnection>>,
}

/// Connection of one user at one server, which is open or being opened.
pub(super) struct UserConnection {
    key: PoolKey,
    opened: Shared<BoxFuture<'static, Opened>>,
    /// Cancelled when it is to be closed at once.
    stop: CancellationToken,
    used: Mutex<Instant>,
    /// Dropped when it was removed and no call uses it any more.
    _users: DropGuard,
}

/// Place of a connection in the pool, for the task that opens and serves it.
pub(super) struct Slot {
    pool: Arc<UserPool>,
    pub(super) key: PoolKey,
    pub(super) stop: CancellationToken,
    /// Cancelled when the connection was removed and no call uses it any more.
    unused: CancellationToken,
}

impl UserConnection {
    /// Waits until it is open, or has failed to be opened.
    pub(super) async fn opened(&self) -> Opened {
        self.opened.clone().await
    }

    fn is_idle(self: &Arc<Self>) -> bool {
        // The pool has one, and each call that uses it another one.
        Arc::strong_count(self) == 1
    }
}

impl UserPool {
    /// Returns the connection with this name. If there is none, `open` is to start the task that opens
    /// it and sends the result. `None` if there are too many and all of them are in use, or if the server has no
    /// [share](PooledConnections::has_share) for one more in use.
    pub(super) fn connection(
        self: &Arc<Self>,
        key: PoolKey,
        open: impl FnOnce(Slot, oneshot::Sender<Opened>),
    ) -> Option<Arc<UserConnection>> {
        let mut connections = self.connections();
        connections.forget_unused();
        let known = connections.current.get(&key);
        if let Some(known) = known.filter(|known| !known.stop.is_cancelled()) {
            // One that is in use has its part of the share.
            if known.is_idle() && !connections.has_share(key.server) {
                return None;
            }
            *known.used.lock() = Instant::now();
            return Some(known.clone());
        }
        connections.current.retain(|_, connection| !connection.stop.is_cancelled());
        if !connections.has_share(key.server) {
            return None;
        }
        connections.make_room_of_user(&key)?;
        connections.make_room(key.server)?;
        let (sender, receiver) = oneshot::channel();
        let opened = receiver.map(|opened| opened.unwrap_or_else(|_| Err(closed())));
        let stop = CancellationToken::new();
        let unused = CancellationToken::new();
        let connection = Arc::new(UserConnection {
            key: key.clone(),
            opened: opened.boxed().shared(),
            stop: stop.clone(),
            used: Mutex::new(Instant::now()),
            _users: unused.clone().drop_guard(),
        });
        connections.current.insert(key.clone(), connection.clone());
        drop(connections);
        open(Slot { pool: self.clone(), key, stop, unused }, sender);
        Some(connection)
    }

    /// Removes one connection, so that the next call opens another one. One that was opened in its place
    /// stays.
    pub(super) fn remove(&self, connection: &Arc<UserConnection>) {
        let mut connections = self.connections();
        let present = connections.current.get(&connection.key);
        if present.is_some_and(|present| Arc::ptr_eq(present, connection)) {
            connections.current.remove(&connection.key);
            connections.forget_unused();
            connections.removed.push(Arc::downgrade(connection));
        }
    }

    /// Closes the connections whose names `selects` accepts, those that are in use too, and those that were removed.
    pub(super) fn close(&self, selects: impl Fn(&PoolKey) -> bool) {
        let mut connections = self.connections();
        for removed in connections.removed().filter(|removed| selects(&removed.key)) {
            removed.stop.cancel();
        }
        connections.current.retain(|key, connection| {
            let is_kept = !selects(key);
            if !is_kept {
                connection.stop.cancel();
            }
            is_kept
        });
    }

    /// Removes the connection with this name if it is idle for [`USER_IDLE`]. Returns the time at which it
    /// was used last; now, if it is in use, or if there is none.
    fn remove_idle(&self, key: &PoolKey) -> Instant {
        let now = Instant::now();
        let mut connections = self.connections();
        let idle = connections.current.get(key).filter(|connection| connection.is_idle());
        let used = idle.map(|connection| *connection.used.lock());
        match used {
            Some(used) if now < used + USER_IDLE => used,
            Some(_) => {
                connections.current.remove(key);
                now
            }
            None => now,
        }
    }

    fn connections(&self) -> MutexGuard<'_, PooledConnections> {
        self.0.lock()
    }
}

impl Slot {
    /// Waits until the connection is to be closed. Removes it meanwhile if it is idle for [`USER_IDLE`].
    pub(super) async fn unneeded(&self) {
        let removing = async {
            let mut used = Instant::now();
            loop {
                sleep_until(used + USER_IDLE).await;
                used = self.pool.remove_idle(&self.key);
            }
        };
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.unused.cancelled() => {}
            () = removing => {}
        }
    }

    /// Removes the connection from the pool, if it is there, because it has ended.
    pub(super) fn vacate(&self) {
        self.stop.cancel();
        self.pool
            .connections()
            .current
            .retain(|key, present| *key != self.key || !present.stop.is_cancelled());
    }
}

impl PooledConnections {
    /// Forgets the removed connections that no call uses any more.
    fn forget_unused(&mut self) {
        self.removed.retain(|connection| connection.strong_count() > 0);
    }

    /// Iterates over the removed connections that calls use.
    fn removed(&self) -> impl Iterator<Item = Arc<UserConnection>> {
        self.removed.iter().filter_map(Weak::upgrade)
    }

    /// Iterates over the servers of the connections that calls use, also of those that were removed.
    fn servers_in_use(&self) -> impl Iterator<Item = u64> {
        let in_use = self.current.values().filter(|connection| !connection.is_idle());
        let in_use = in_use.map(|connection| connection.key.server);
        in_use.chain(self.removed().map(|connection| connection.key.server))
    }

    /// Returns whether calls may use one more connection at a server: those in use there are fewer than the connections
    /// that no call uses at any server. Servers whose calls hang get half of all, a quarter, an eighth, and so on; the rest
    /// is for others, for which idle connections are removed.
    fn has_share(&self, server: u64) -> bool {
        let of_server = self.servers_in_use().filter(|used| *used == server).count();
        of_server < MAX_USERS.saturating_sub(self.servers_in_use().count())
    }

    /// Makes room for a connection with one more token of its user. Fails if there are too many and all of them
    /// are in use.
    fn make_room_of_user(&mut self, key: &PoolKey) -> Option<()> {
        let of_user = self.current.values().filter(|connection| connection.key.is_of_user(key));
        let removed = self.removed().filter(|connection| connection.key.is_of_user(key)).count();
        if of_user.clone().count() + removed < MAX_TOKENS_OF_USER {
            return Some(());
        }
        let candidates = of_user.filter(|connection| connection.is_idle());
        let oldest = candidates.min_by_key(|connection| *connection.used.lock())?;
        let oldest = oldest.key.clone();
        self.current.remove(&oldest);
        Some(())
    }

    /// Makes room for one more connection at a server. Fails if there are too many and all of them are in use.
    fn make_room(&mut self, server: u64) -> Option<()> {
        let of_server = self.current.keys().filter(|key| key.server == server).count();
        let removed = self.removed().filter(|connection| connection.key.server == server).count();
        let is_server_full = of_server + removed >= MAX_SERVER_USERS;
        if !is_server_full && self.current.len() + self.removed().count() < MAX_USERS {
            return Some(());
        }
        let candidates = self.current.values().filter(|connection| {
            connection.is_idle() && (!is_server_full || connection.key.server == server)
        });
        let oldest = candidates.min_by_key(|connection| *connection.used.lock())?;
        let key = oldest.key.clone();
        self.current.remove(&key);
        Some(())
    }
}

fn closed() -> Arc<ConnectionError> {
    Arc::new(ConnectionError::Closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(server: u64, holder: u32) -> PoolKey {
        let mut scope = [0; 32];
        scope[..4].copy_from_slice(&holder.to_be_bytes());
        let client = ClientName::parse("up").expect("a good name");
        PoolKey { server, client, holder: scope, token: None }
    }

    /// Takes a connection. Returns it with its slot if it is a new one.
    fn take(pool: &Arc<UserPool>, key: PoolKey) -> Option<(Arc<UserConnection>, Option<Slot>)> {
        let mut slot = None;
        let connection = pool.connection(key, |new, _| slot = Some(new))?;
        Some((connection, slot))
    }

    /// Returns whether a connection is to be closed.
    fn is_over(slot: &Slot) -> bool {
        slot.stop.is_cancelled() || slot.unused.is_cancelled()
    }

    #[tokio::test]
    async fn a_user_has_one_connection_at_a_server_until_it_is_closed() {
        let pool = Arc::<UserPool>::default();
        let (first, slot) = take(&pool, key(1, 1)).expect("room");
        let slot = slot.expect("it is new");
        for other in [key(1, 2), key(2, 1)] {
            let (connection, slot) = take(&pool, other).expect("room");
            assert!(slot.is_some() && !Arc::ptr_eq(&first, &connection));
        }
        let (again, none) = take(&pool, key(1, 1)).expect("room");
        assert!(none.is_none() && Arc::ptr_eq(&first, &again));
        pool.remove(&first);
        let (next, later) = take(&pool, key(1, 1)).expect("room");
        let later = later.expect("it is new");
        assert!(!Arc::ptr_eq(&first, &next));
        pool.remove(&first);
        assert!(Arc::ptr_eq(&next, &take(&pool, key(1, 1)).expect("room").0), "it stays");
        drop(again);
        assert!(!is_over(&slot), "a call uses it");
        drop(first);
        assert!(is_over(&slot) && !is_over(&later));
        pool.close(|key| key.server == 1);
        assert!(is_over(&later), "although a call uses it");
        drop(next);
        let (_, slot) = take(&pool, key(2, 1)).expect("room");
        assert!(slot.is_none(), "another server's stays");
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_is_idle_for_longest_is_closed_for_one_too_many() {
        let pool = Arc::<UserPool>::default();
        let most = u32::try_from(MAX_SERVER_USERS).expect("few");
        let mut slots = Vec::new();
        let (in_use, slot) = take(&pool, key(1, 0)).expect("room");
        slots.extend(slot);
        for holder in 1..most {
            tokio::time::advance(std::time::Duration::from_millis(1)).await;
            slots.extend(take(&pool, key(1, holder)).expect("room").1);
        }
        assert!(!slots.iter().any(is_over));
        assert!(take(&pool, key(1, most)).is_some());
        let closed: Vec<_> = slots.iter().map(is_over).collect();
        assert!(!closed[0] && closed[1] && closed[2..].iter().all(|closed| !closed));
        drop(in_use);
    }

    #[tokio::test(start_paused = true)]
    async fn many_tokens_of_one_user_close_its_own_connections_alone() {
        let pool = Arc::<UserPool>::default();
        let (_, other) = take(&pool, key(1, 2)).expect("room");
        let other = other.expect("it is new");
        let mut held = Vec::new();
        let mut slots = Vec::new();
        for number in 0..MAX_TOKENS_OF_USER {
            tokio::time::advance(std::time::Duration::from_millis(1)).await;
            let (connection, slot) = take(&pool, with_token(number)).expect("room");
            held.push(connection);
            slots.extend(slot);
        }
        assert!(take(&pool, with_token(MAX_TOKENS_OF_USER)).is_none(), "all are in use");
        assert!(take(&pool, key(2, 1)).is_some(), "another server has room");
        held.clear();
        assert!(take(&pool, with_token(MAX_TOKENS_OF_USER)).is_some());
        assert!(is_over(&slots[0]) && !slots[1..].iter().any(is_over) && !is_over(&other));
    }

    /// Names the connection of one user with the token of this number.
    fn with_token(number: usize) -> PoolKey {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        PoolKey { token: Some(digest), ..key(1, 1) }
    }

    #[tokio::test]
    async fn one_too_many_is_refused_if_all_are_in_use_and_other_servers_have_room() {
        let pool = Arc::<UserPool>::default();
        let of_server = u32::try_from(MAX_SERVER_USERS).expect("few");
        let held: Vec<_> =
            (0..of_server).map(|holder| take(&pool, key(1, holder)).expect("room")).collect();
        assert!(take(&pool, key(1, of_server)).is_none());
        assert!(take(&pool, key(2, 0)).is_some());
        drop(held);
        assert!(take(&pool, key(1, of_server)).is_some());
    }

    #[tokio::test]
    async fn servers_whose_calls_hang_leave_connections_to_others() {
        let pool = Arc::<UserPool>::default();
        let most = u32::try_from(MAX_SERVER_USERS).expect("few");
        for server in 1..=2 {
            for holder in 0..most {
                assert!(take(&pool, key(server, holder)).is_some(), "the others are idle");
            }
        }
        // All of them are used again, and none is released.
        let held: Vec<_> = (1..=3).map(|server| take_all(&pool, server)).collect();
        let counts: Vec<_> = held.iter().map(Vec::len).collect();
        assert_eq!(counts, [128, 64, 32]);
        assert!(take(&pool, key(2, 0)).is_some(), "a connection in use takes more calls");
        assert!(take(&pool, key(4, 0)).is_some(), "an idle one was removed for it");
        drop(held);
        assert_eq!(take_all(&pool, 2).len(), MAX_SERVER_USERS);
    }

    #[tokio::test]
    async fn a_removed_connection_counts_until_its_last_call_ends() {
        let pool = Arc::<UserPool>::default();
        let of_server = u32::try_from(MAX_SERVER_USERS).expect("few");
        let removed = (0..of_server).map(|holder| take_removed(&pool, key(1, holder)));
        let mut hanging: Vec<_> = removed.map(|removed| removed.expect("room")).collect();
        assert!(take(&pool, key(1, 0)).is_none() && take(&pool, key(1, of_server)).is_none());
        assert!(take(&pool, key(2, 0)).is_some(), "another server has room");
        hanging.pop();
        assert!(take(&pool, key(1, of_server)).is_some());
        assert!(pool.connections().removed.len() < MAX_SERVER_USERS);
    }

    #[tokio::test]
    async fn the_removed_connections_of_a_user_count_as_its_own_and_are_closed_with_them() {
        let pool = Arc::<UserPool>::default();
        let removed = (0..MAX_TOKENS_OF_USER).map(|_| take_removed(&pool, key(1, 1)));
        let hanging: Vec<_> = removed.map(|removed| removed.expect("room")).collect();
        assert!(take(&pool, key(1, 1)).is_none());
        let (_, others) = take_removed(&pool, key(2, 1)).expect("another server has room");
        pool.close(|key| key.server == 1);
        assert!(hanging.iter().all(|(_, slot)| is_over(slot)));
        assert!(!others.stop.is_cancelled());
        drop(hanging);
        assert!(take(&pool, key(1, 1)).is_some());
    }

    #[tokio::test]
    async fn removed_connections_that_calls_use_leave_less_for_other_servers() {
        let pool = Arc::<UserPool>::default();
        let removed = (0..100).map(|holder| take_removed(&pool, key(1, holder)));
        let hanging: Vec<_> = removed.map(|removed| removed.expect("room")).collect();
        assert_eq!(take_all(&pool, 2).len(), (MAX_USERS - hanging.len()) / 2);
    }

    /// Takes a new connection, and removes it as a call does that it has failed; another call goes on.
    fn take_removed(pool: &Arc<UserPool>, key: PoolKey) -> Option<(Arc<UserConnection>, Slot)> {
        let (connection, slot) = take(pool, key)?;
        pool.remove(&connection);
        Some((connection, slot?))
    }

    /// Takes connections of different users at a server until one is refused.
    fn take_all(pool: &Arc<UserPool>, server: u64) -> Vec<Arc<UserConnection>> {
        let taken = (0..).map_while(|holder| take(pool, key(server, holder)));
        taken.map(|(connection, _)| connection).collect()
    }

    #[tokio::test]
    async fn all_servers_together_have_a_bounded_number_of_connections() {
        let pool = Arc::<UserPool>::default();
        let most = u32::try_from(MAX_USERS).expect("few");
        let held: Vec<_> = (0..most)
            .map(|number| take(&pool, key(number.into(), number)).expect("room"))
            .collect();
        assert!(take(&pool, key(0, most)).is_none());
        drop(held);
        assert!(take(&pool, key(0, most)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed_and_one_in_use_is_not() {
        let pool = Arc::<UserPool>::default();
        let (connection, slot) = take(&pool, key(1, 1)).expect("room");
        let slot = slot.expect("it is new");
        let mut unneeded = Box::pin(slot.unneeded());
        let waited = tokio::time::timeout(USER_IDLE * 3, &mut unneeded).await;
        assert!(waited.is_err(), "a call uses it");
        drop(connection);
        let begun = Instant::now();
        unneeded.await;
        assert!(begun.elapsed() <= USER_IDLE);
        assert!(take(&pool, key(1, 1)).expect("room").1.is_some());
    }

    #[tokio::test]
    async fn a_connection_that_is_not_opened_fails_for_all_that_wait() {
        let pool = Arc::<UserPool>::default();
        let (connection, _) = take(&pool, key(1, 1)).expect("room");
        for _ in 0..2 {
            let failed = connection.opened().await.err().expect("it failed");
            assert!(matches!(*failed, ConnectionError::Closed));
        }
    }
}
