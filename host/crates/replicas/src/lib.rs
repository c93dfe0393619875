//! Replicas: the gateways that share the store of this one. Finds the replica that has the state of a handle.
//!
//! A gateway with a `replica_url` announces the URL in the store at regular intervals. The other gateways know it
//! while its last announcement is recent. They connect only to announced URLs: a handle selects one of them.

mod forward;
mod trust;

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures_util::future;
use http::{HeaderMap, Uri, header::RETRY_AFTER};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{info, warn};

use self::trust::ReplicaClient;
pub use self::{
    forward::{ForwardedHead, PeerGateway},
    trust::{BadReplicaTls, ReplicaTls},
};
use airlock_core::replica::ReplicaId;
use airlock_http::respond::ApiError;
use airlock_store::{LazyDatabase, Unavailable, replicas::StoredReplica};

/// Interval at which a gateway announces itself.
const BEAT: Duration = Duration::from_secs(5);
/// Time after its last announcement for which a gateway counts as running, and for which this one uses
/// what it has read.
const ALIVE: Duration = Duration::from_secs(15);
/// Minimum time between two looks for a gateway that is not known, which forged handles could
/// otherwise cause without end. Requests about such handles wait for the next look.
const LOOK: Duration = Duration::from_secs(1);

/// True while a gateway of this process is announced. Their handles have the same identifier.
static ANNOUNCED: AtomicBool = AtomicBool::new(false);

/// The gateways that share the store of this one.
pub struct Replicas {
    database: LazyDatabase,
    url: Uri,
    client: ReplicaClient,
    known: Mutex<Known>,
    looks: SharedLooks,
}

/// The last look. Locked during a look, so that all who wait for one share it, also if it fails: a store
/// that does not answer would otherwise delay each of them by as long again.
#[derive(Default)]
struct SharedLooks(tokio::sync::Mutex<Option<Look>>);

#[derive(Clone, Copy)]
struct Look {
    began: Instant,
    has_read: bool,
}

#[derive(Default)]
struct Known {
    urls: HashMap<ReplicaId, Uri>,
    /// Time of the last reading; `None` before the first one.
    read: Option<Instant>,
    /// Number of gateways whose URL has another scheme.
    unusable: usize,
}

/// Reason that a gateway cannot be announced.
#[derive(Debug, thiserror::Error)]
pub enum NoReplicas {
    /// Another one of this process is.
    #[error(
        "another gateway of this process has a replica_url: only one of a process can have one"
    )]
    Second,
    /// The certificates for other gateways cannot be used.
    #[error(transparent)]
    Tls(BadReplicaTls),
}

/// Returns a URL with another port if its own one is 0.
fn with_port(url: &Uri, port: u16) -> Uri {
    let mut parts = url.clone().into_parts();
    let host = url.host().filter(|_| url.port_u16() == Some(0));
    if let Some(authority) = host.and_then(|host| format!("{host}:{port}").parse().ok()) {
        parts.authority = Some(authority);
    }
    Uri::from_parts(parts).unwrap_or_else(|_| url.clone())
}

impl Replicas {
    /// Creates the set of gateways of a store, of which only this one is known. The others reach it at
    /// `url`, whose scheme, `http` or `https`, is that of all of them; `port` stands in the place of its
    /// port 0. Blocks while it reads the files of `tls`. Fails if they cannot be used, or if there is such a
    /// set in this process already.
    pub fn new(
        database: LazyDatabase,
        url: &Uri,
        port: u16,
        tls: &ReplicaTls,
    ) -> Result<Self, NoReplicas> {
        let url = with_port(url, port);
        let client = ReplicaClient::new(tls, &url).map_err(NoReplicas::Tls)?;
        if ANNOUNCED.swap(true, Ordering::Relaxed) {
            return Err(NoReplicas::Second);
        }
        let known = Mutex::default();
        Ok(Self { database, url, client, known, looks: SharedLooks::default() })
    }

    /// Announces this gateway, again and again, and reads its certificates for the others, until `end`
    /// completes; then tells the others that it stops. If the future is dropped, the others notice it after
    /// a while.
    pub async fn announce_until(&self, end: impl Future<Output = ()>) {
        tokio::select! {
            (never, _) = future::join(self.announce(), self.client.follow()) => match never {},
            () = end => self.leave().await,
        }
    }

    async fn announce(&self) -> Infallible {
        let mut last = Instant::now();
        let mut failed = false;
        loop {
            match self.beat(last.elapsed()).await {
                Ok(()) => {
                    last = Instant::now();
                    if failed {
                        info!("the gateway is announced to the others again");
                    }
                    failed = false;
                }
                Err(error) if !failed => {
                    failed = true;
                    warn!(%error, "the gateway cannot be announced to the others; it tries again");
                }
                Err(_) => {}
            }
            sleep(BEAT).await;
        }
    }

    async fn leave(&self) {
        let left = match self.database.available().await {
            Ok(database) => database.forget_replica(&ReplicaId::current().to_string()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = left {
            warn!(%error, "the other gateways could not be told that this one stops");
        }
    }

    /// Announces this gateway. The store could not be used for the time of the `gap` since the last
    /// announcement, so the others could not announce themselves either.
    async fn beat(&self, gap: Duration) -> Result<(), Unavailable> {
        let own = StoredReplica { id: ReplicaId::current().to_string(), url: self.url.to_string() };
        let database = self.database.available().await?;
        let all = database.announce_replica(own, ALIVE + gap).await?;
        self.take(all);
        Ok(())
    }

    /// Finds the gateway that has what a handle opens. `None` if that is this one, if no announced one
    /// has the identifier, or if another gateway has forwarded the request. Fails if that cannot be told,
    /// because the store cannot be read.
    pub async fn elsewhere(
        &self,
        owner: Option<ReplicaId>,
        headers: &HeaderMap,
    ) -> Result<Option<Uri>, ApiError> {
        let Some(owner) = owner.filter(|owner| *owner != ReplicaId::current()) else {
            return Ok(None);
        };
        if headers.contains_key(forward::FORWARDED) {
            return Ok(None);
        }
        if let Some(url) = self.fresh(owner) {
            return Ok(Some(url));
        }
        if !self.looks.share(Instant::now(), self.read()).await {
            return Err(unknown());
        }
        Ok(self.known.lock().urls.get(&owner).cloned())
    }

    /// Returns the URL of a gateway by what was read last, unless that is too long ago.
    fn fresh(&self, owner: ReplicaId) -> Option<Uri> {
        let known = self.known.lock();
        let is_fresh = known.read.is_some_and(|read| read.elapsed() < ALIVE);
        known.urls.get(&owner).filter(|_| is_fresh).cloned()
    }

    /// Reads which gateways are announced. Returns whether the store can be read; it has logged why not.
    async fn read(&self) -> bool {
        let all = match self.database.available().await {
            Ok(database) => database.replicas(ALIVE).await,
            Err(error) => Err(error),
        };
        all.map(|all| self.take(all)).is_ok()
    }

    fn take(&self, all: Vec<StoredReplica>) {
        let scheme = self.url.scheme();
        let count = all.len();
        let urls = all.into_iter().filter_map(|replica| {
            let url = replica.url.parse::<Uri>().ok().filter(|url| url.scheme() == scheme)?;
            Some((replica.id.parse().ok()?, url))
        });
        let urls: HashMap<_, _> = urls.collect();
        let unusable = count - urls.len();
        let mut known = self.known.lock();
        if unusable > known.unusable {
            warn!(
                unusable,
                "the replica_url of other gateways has another scheme than that of this one"
            );
        }
        *known = Known { urls, read: Some(Instant::now()), unusable };
    }
}

impl SharedLooks {
    /// Looks with `read`, unless a look was begun after a request had `arrived`. Returns whether that look
    /// could read.
    async fn share(&self, arrived: Instant, read: impl Future<Output = bool>) -> bool {
        let mut last = self.0.lock().await;
        if let Some(look) = last.filter(|look| look.began >= arrived) {
            return look.has_read;
        }
        if let Some(look) = *last {
            sleep_until(look.began + LOOK).await;
        }
        let began = Instant::now();
        let has_read = read.await;
        *last = Some(Look { began, has_read });
        has_read
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        ANNOUNCED.store(false, Ordering::Relaxed);
    }
}

fn unknown() -> ApiError {
    let message = "the gateway that has what the request refers to cannot be found, because the store cannot be read; \
                   try again";
    ApiError::unavailable("store_unavailable", message).with_header(RETRY_AFTER, 1.into())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn port_0_stands_for_the_port_of_the_listener() {
        for (url, expected) in [
            ("http://10.0.0.5:0", "http://10.0.0.5:81/"),
            ("https://[::1]:0/", "https://[::1]:81/"),
            ("http://a:80", "http://a:80/"),
            ("http://a", "http://a/"),
        ] {
            assert_eq!(with_port(&url.parse().expect("a URL"), 81).to_string(), expected);
        }
    }

    fn replicas(directory: &tempfile::TempDir) -> Replicas {
        let file = directory.path().join("airlock.db").display().to_string();
        let settings = airlock_store::Settings::at(file.parse().expect("a path"));
        let url = Uri::from_static("http://127.0.0.1:1");
        let tls = ReplicaTls::default();
        Replicas::new(LazyDatabase::new(settings), &url, 1, &tls).expect("the only one")
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_for_a_store_that_does_not_answer_share_its_failure() {
        let looks = SharedLooks::default();
        let count = AtomicUsize::new(0);
        let arrived = Instant::now();
        let found = future::join_all((0..8).map(|_| looks.share(arrived, fail(&count)))).await;
        assert_eq!(found, [false; 8]);
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert!(!looks.share(Instant::now(), fail(&count)).await);
        assert_eq!(count.load(Ordering::Relaxed), 2, "a later request looks again");
    }

    /// Fails after a while, and counts.
    async fn fail(count: &AtomicUsize) -> bool {
        count.fetch_add(1, Ordering::Relaxed);
        sleep(BEAT).await;
        false
    }

    /// A handle of another process.
    fn foreign() -> ReplicaId {
        "0a1b2c3d4e5f".parse().expect("an identifier")
    }

    #[tokio::test]
    async fn those_who_look_for_a_gateway_share_a_look_and_all_find_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let replicas = replicas(&directory);
        let tls = ReplicaTls::default();
        let second = Replicas::new(replicas.database.clone(), &replicas.url, 1, &tls);
        assert!(matches!(second, Err(NoReplicas::Second)), "handles name the process");
        let none = HeaderMap::new();
        assert_eq!(replicas.elsewhere(Some(foreign()), &none).await.expect("read"), None);
        let url = "http://10.0.0.7:8080/".to_owned();
        let other = StoredReplica { id: foreign().to_string(), url: url.clone() };
        let database = replicas.database.open().await.expect("opened");
        database.announce_replica(other, ALIVE).await.expect("written");
        let looks = (0..8).map(|_| replicas.elsewhere(Some(foreign()), &none));
        for found in futures_util::future::join_all(looks).await {
            assert_eq!(found.expect("read").map(|uri| uri.to_string()), Some(url.clone()));
        }
        for own in [None, Some(ReplicaId::current())] {
            assert_eq!(replicas.elsewhere(own, &none).await.expect("it is here"), None);
        }
        let forwarded = HeaderMap::from_iter([(forward::FORWARDED, "x".parse().expect("text"))]);
        assert_eq!(replicas.elsewhere(Some(foreign()), &forwarded).await.expect("here"), None);
        replicas.known.lock().read = None;
        assert_eq!(replicas.fresh(foreign()), None, "what was read long ago does not count");
    }
}
