//! Messages to the service manager that has started the process, by the protocol of `sd_notify`: datagrams to the socket
//! in `NOTIFY_SOCKET`, and one at each half of `WATCHDOG_USEC`.

use std::{
    convert::Infallible,
    future::pending,
    io,
    os::unix::net::UnixDatagram,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use tracing::{debug, warn};

use airlock_config::environment;

/// Looks up a variable of the environment.
type ProcessVariables<'e> = &'e dyn Fn(&str) -> Option<String>;

/// The service manager. Without one, nothing is sent.
pub(super) struct ServiceManager {
    socket: Option<UnixDatagram>,
    /// Time between two signs of life; `None` if the manager waits for none.
    alive: Option<Duration>,
    /// True from the first report that requests are served until that of the end.
    is_ready: AtomicBool,
}

impl ServiceManager {
    /// Connects to the manager that the environment names.
    pub(super) fn from_environment() -> Self {
        Self::new(&environment, std::process::id())
    }

    fn new(environment: ProcessVariables<'_>, process: u32) -> Self {
        let address = environment("NOTIFY_SOCKET");
        let socket = address.as_deref().and_then(|address| {
            connect(address)
                .inspect_err(|error| warn!(%error, "the service manager cannot be notified"))
                .ok()
        });
        let alive = socket.as_ref().and_then(|_| alive(environment, process));
        Self { socket, alive, is_ready: AtomicBool::new(false) }
    }

    /// Reports that requests are served.
    pub(super) fn ready(&self) {
        self.is_ready.store(true, Ordering::Relaxed);
        self.send("READY=1");
    }

    /// Reports that the configuration is read again, if requests are served. [`Self::reloaded`] reports the end of it.
    pub(super) fn reloading(&self) {
        if !self.is_ready.load(Ordering::Relaxed) {
            return;
        }
        let now = clock_gettime(ClockId::Monotonic);
        let microseconds = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
    }

    /// Reports that the configuration was read again, if requests are served. A gateway that starts or stops is not ready
    /// by that.
    pub(super) fn reloaded(&self) {
        if self.is_ready.load(Ordering::Relaxed) {
            self.send("READY=1");
        }
    }

    /// Reports that no further requests are taken.
    pub(super) fn stopping(&self) {
        self.is_ready.store(false, Ordering::Relaxed);
        self.send("STOPPING=1");
    }

    /// Sends a sign of life as often as the manager wants one. Never returns.
    pub(super) async fn keep_alive(&self) -> Infallible {
        let Some(alive) = self.alive else { return pending().await };
        let mut ticks = tokio::time::interval(alive);
        loop {
            ticks.tick().await;
            self.send("WATCHDOG=1");
        }
    }

    fn send(&self, state: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = socket.send(state.as_bytes()) {
            debug!(%error, state, "the service manager was not notified");
        }
    }
}

/// Returns half the time after which the manager ends a process without signs of life; `None` if it does not.
fn alive(environment: ProcessVariables<'_>, process: u32) -> Option<Duration> {
    let is_other = environment("WATCHDOG_PID").is_some_and(|id| id != process.to_string());
    let microseconds: u64 = environment("WATCHDOG_USEC")?.parse().ok()?;
    let half = Duration::from_micros(microseconds / 2);
    (!is_other && !half.is_zero()).then_some(half)
}

/// Connects to the socket of a manager: a path, or a name in the abstract namespace after `@`.
fn connect(address: &str) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match address.strip_prefix('@') {
        Some(name) => connect_abstract(&socket, name)?,
        None => socket.connect(address)?,
    }
    // A manager that does not read delays nothing.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(target_os = "linux")]
fn connect_abstract(socket: &UnixDatagram, name: &str) -> io::Result<()> {
    use std::os::{linux::net::SocketAddrExt as _, unix::net::SocketAddr};

    socket.connect_addr(&SocketAddr::from_abstract_name(name)?)
}

#[cfg(not(target_os = "linux"))]
fn connect_abstract(_: &UnixDatagram, _: &str) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux has abstract names"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: u32 = 7;

    #[test]
    fn states_are_sent_to_a_path_and_to_an_abstract_name() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        assert_sent(&manager, path.to_str().expect("UTF-8"));

        #[cfg(target_os = "linux")]
        {
            use std::os::{linux::net::SocketAddrExt as _, unix::net::SocketAddr};

            let name = format!("airlock-test-{}", std::process::id());
            let address = SocketAddr::from_abstract_name(&name).expect("a name");
            let manager = UnixDatagram::bind_addr(&address).expect("a socket");
            assert_sent(&manager, &format!("@{name}"));
        }
    }

    fn assert_sent(manager: &UnixDatagram, address: &str) {
        let own = ServiceManager::new(
            &|name| (name == "NOTIFY_SOCKET").then(|| address.to_owned()),
            PROCESS,
        );
        own.ready();
        own.reloading();
        own.stopping();
        assert_eq!(received(manager), "READY=1");
        let reloading = received(manager);
        let clock = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect("a clock");
        assert!(clock.parse::<u64>().is_ok_and(|clock| clock > 0), "{reloading}");
        assert_eq!(received(manager), "STOPPING=1");
    }

    fn received(manager: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = manager.recv(&mut buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn a_reload_makes_a_gateway_that_starts_or_stops_not_ready() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        let address = path.to_str().expect("UTF-8");
        let own = ServiceManager::new(
            &|name| (name == "NOTIFY_SOCKET").then(|| address.to_owned()),
            PROCESS,
        );
        own.reloading();
        own.reloaded();
        own.ready();
        own.reloading();
        own.reloaded();
        own.stopping();
        own.reloading();
        own.reloaded();
        assert_eq!(received(&manager), "READY=1", "the first one of its own");
        assert!(received(&manager).starts_with("RELOADING=1\n"));
        assert_eq!(received(&manager), "READY=1");
        assert_eq!(received(&manager), "STOPPING=1");
        manager.set_nonblocking(true).expect("a socket");
        assert!(manager.recv(&mut [0; 8]).is_err(), "there are no more");
    }

    #[test]
    fn a_manager_that_is_not_there_is_sent_nothing() {
        let absent = ServiceManager::new(
            &|name| (name == "NOTIFY_SOCKET").then(|| "/nowhere/notify".to_owned()),
            PROCESS,
        );
        assert!(absent.socket.is_none());
        absent.ready();
    }

    #[test]
    fn signs_of_life_have_half_the_time_of_the_watchdog_of_this_process() {
        for (microseconds, id, expected) in [
            (Some("30000000"), None, Some(Duration::from_secs(15))),
            (Some("30000000"), Some("7"), Some(Duration::from_secs(15))),
            (Some("30000000"), Some("8"), None),
            (Some("0"), None, None),
            (Some("soon"), None, None),
            (None, None, None),
        ] {
            let found = alive(
                &|name| if name == "WATCHDOG_PID" { id } else { microseconds }.map(str::to_owned),
                PROCESS,
            );
            assert_eq!(found, expected, "{microseconds:?} {id:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn signs_of_life_are_sent_again_and_again() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        manager.set_nonblocking(true).expect("a socket");
        let own = ServiceManager {
            socket: Some(connect(path.to_str().expect("UTF-8")).expect("connected")),
            alive: Some(Duration::from_secs(15)),
            is_ready: AtomicBool::new(true),
        };
        let limit = Duration::from_secs(40);
        assert!(tokio::time::timeout(limit, own.keep_alive()).await.is_err());
        for _ in 0..3 {
            assert_eq!(received(&manager), "WATCHDOG=1");
        }
        assert!(manager.recv(&mut [0; 8]).is_err(), "there are no more");
    }
}
