//! A server of `PostgreSQL`, and what all connections of a gateway to it share.

use std::{
    future::poll_fn,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::{self, Runtime},
    sync::Notify,
    time::timeout_at,
};
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, NoTls, Socket, tls::MakeTlsConnect,
};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::{info, warn};

use super::{
    fault::ServerFault,
    session::{PgSession, READ_CLOCK},
};
use crate::{
    columns::{milliseconds, milliseconds_since_1970},
    location::ServerUrl,
    outage::Outage,
    settings::{Clock, SYSTEM, Settings},
    sql::error::{SqlError, SqlResult},
};

/// Longest time of one attempt to connect, unless the URL has `connect_timeout`.
const CONNECT: Duration = Duration::from_secs(2);
/// Longest time of one statement. Shorter than an operation, so that the server ends the statement
/// before the gateway leaves the connection.
const STATEMENT: Duration = Duration::from_secs(5);
/// Makes a commit wait until it survives a crash of the server, if the server is set up otherwise: of a
/// call that was noted as made before a crash and is not afterwards, another gateway would make a second
/// one. A stricter setting, which waits for other servers too, stays.
///
/// `$1` is whether it holds for the transaction alone.
const COMMIT_DURABLY: &str = "SELECT set_config('synchronous_commit', 'on', $1) \
                              WHERE current_setting('synchronous_commit') = 'off'";
/// Time after which the server ends a transaction whose gateway sends nothing: one that is stopped
/// keeps no locks for longer.
const IDLE_TRANSACTION: Duration = Duration::from_secs(10);
/// Time after which a network that confirms nothing counts as cut.
const UNCONFIRMED: Duration = Duration::from_secs(10);
/// Time after which a connection that is idle is probed.
const PROBED_AFTER: Duration = Duration::from_secs(30);
/// Time for which reads use a value of the server's clock, to which they add the time since. The two
/// clocks do not drift apart by a millisecond in it.
const CLOCK_AGE: Duration = Duration::from_secs(5);

/// A server.
pub(crate) struct PgServer {
    url: ServerUrl,
    tls: Option<MakeRustlsConnect>,
    lock_timeout: Duration,
    /// Clock of a test, instead of the server's.
    clock: Option<Clock>,
    sampled: Mutex<Option<ClockSample>>,
    outage: Mutex<Outage>,
}

/// A value of the server's clock, in milliseconds since 1970, and the time at which it was received.
#[derive(Debug, Clone, Copy)]
struct ClockSample {
    received: Instant,
    clock_ms: i64,
}

impl PgServer {
    /// Creates a server without connecting to it. Fails if the certificates of TLS cannot be read.
    pub(crate) fn new(url: ServerUrl, settings: &Settings) -> std::io::Result<Self> {
        Ok(Self {
            tls: super::tls::connector(&url)?,
            url,
            lock_timeout: settings.busy_timeout,
            clock: injected_clock(settings),
            sampled: Mutex::default(),
            outage: Mutex::default(),
        })
    }

    /// Connects. Fails at once while the pause after a failure lasts.
    pub(super) fn connect(&self, deadline: Instant) -> SqlResult<PgSession> {
        self.check_outage()?;
        let time = self.url.config().get_connect_timeout().copied().unwrap_or(CONNECT);
        let connected = self.try_connect(deadline.min(Instant::now() + time));
        self.note(&connected);
        // The code of a refusal, for example of a password, says nothing about the operation.
        connected.map_err(|error| ServerFault::Disconnected(error.to_string()).into())
    }

    fn check_outage(&self) -> SqlResult<()> {
        if !self.outage.lock().is_pausing(Instant::now()) {
            return Ok(());
        }
        let reason = "the last attempt to connect failed a moment ago";
        Err(ServerFault::Disconnected(reason.to_owned()).into())
    }

    fn note(&self, connected: &SqlResult<PgSession>) {
        let mut outage = self.outage.lock();
        match connected {
            Ok(_) if outage.end() => {
                info!(server = %self.url, "the database server can be reached again");
            }
            Ok(_) => {}
            Err(error) => {
                outage.fail(Instant::now());
                let error = error.to_string();
                if outage.reports(&error) {
                    warn!(server = %self.url, error, "the database server cannot be reached");
                }
            }
        }
    }

    fn try_connect(&self, deadline: Instant) -> SqlResult<PgSession> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| ServerFault::Disconnected(error.to_string()))?;
        let connecting = async {
            match &self.tls {
                Some(tls) => self.open(tls.clone()).await,
                None => self.open(NoTls).await,
            }
        };
        let (runtime, client) = run_until(deadline, runtime, connecting)?;
        // What is set for a session behind a pooler holds for another one, and not for this one.
        let is_pooled = self.url.is_pooled();
        let preamble = is_pooled.then(|| self.limits(true));
        let session = PgSession::new(client, runtime, deadline, preamble);
        let limits = if is_pooled { String::new() } else { self.limits(false) };
        let clock_ms = session.script(&format!("{limits}; {READ_CLOCK}"))?;
        self.sample(clock_ms);
        Ok(session)
    }

    /// Connects. Returns also what is woken by notifications, and by the end of the connection.
    async fn open<T>(&self, tls: T) -> Result<(Client, Arc<Notify>), tokio_postgres::Error>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
    {
        let (client, connection) = with_limits(self.url.config().clone()).connect(tls).await?;
        let notified = Arc::new(Notify::new());
        tokio::spawn(receive(connection, notified.clone()));
        Ok((client, notified))
    }

    /// Returns the statements that limit a session, or the transaction in which they are executed.
    fn limits(&self, is_local: bool) -> String {
        let set = if is_local { "SET LOCAL" } else { "SET" };
        format!(
            "{set} statement_timeout = {}; {set} lock_timeout = {}; \
             {set} idle_in_transaction_session_timeout = {}; {}",
            milliseconds(STATEMENT),
            // 0 would be no limit.
            milliseconds(self.lock_timeout).max(1),
            milliseconds(IDLE_TRANSACTION),
            COMMIT_DURABLY.replace("$1", if is_local { "true" } else { "false" }),
        )
    }

    /// Returns the time of a read, in milliseconds since 1970.
    pub(super) fn read_clock(&self, session: &PgSession) -> SqlResult<i64> {
        if let Some(clock) = &self.clock {
            return Ok(milliseconds_since_1970(clock));
        }
        if let Some(ClockSample { received, clock_ms }) = *self.sampled.lock()
            && received.elapsed() < CLOCK_AGE
        {
            return Ok(clock_ms.saturating_add(milliseconds(received.elapsed())));
        }
        let clock_ms = session.script(READ_CLOCK)?;
        self.sample(clock_ms);
        Ok(clock_ms.unwrap_or_default())
    }

    /// Returns the time of a change that began when the server's clock showed `clock_ms`.
    pub(super) fn time_of_change(&self, clock_ms: Option<i64>) -> i64 {
        self.sample(clock_ms);
        match &self.clock {
            Some(clock) => milliseconds_since_1970(clock),
            None => clock_ms.unwrap_or_default(),
        }
    }

    fn sample(&self, clock_ms: Option<i64>) {
        if let Some(clock_ms) = clock_ms {
            *self.sampled.lock() = Some(ClockSample { received: Instant::now(), clock_ms });
        }
    }
}

/// Returns the clock of the settings if it is another one than that of [`Settings::new`].
fn injected_clock(settings: &Settings) -> Option<Clock> {
    let is_system = std::ptr::addr_eq(Arc::as_ptr(&settings.clock), Arc::as_ptr(&SYSTEM));
    (!is_system).then(|| settings.clock.clone())
}

/// Runs `work` until it ends, at most until `deadline`. Returns the runtime too. If `work` fails, the
/// runtime ends in the background: its thread that resolves a name cannot be stopped, and the
/// resolver of the operating system has no limit that the gateway knows.
fn run_until<T>(
    deadline: Instant,
    runtime: Runtime,
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> SqlResult<(Runtime, T)> {
    let done = match runtime.block_on(async { timeout_at(deadline.into(), work).await }) {
        Ok(done) => done.map_err(SqlError::from),
        Err(_) => Err(ServerFault::Late.into()),
    };
    match done {
        Ok(done) => Ok((runtime, done)),
        Err(error) => {
            runtime.shutdown_background();
            Err(error)
        }
    }
}

/// Adds the limits that the URL leaves open.
fn with_limits(mut config: Config) -> Config {
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNCONFIRMED);
    }
    if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
        config.keepalives_idle(PROBED_AFTER);
    }
    if config.get_connect_timeout().is_none() {
        // Of several hosts, one that is away leaves time for the others.
        let hosts = config.get_hosts().len().max(config.get_hostaddrs().len()).max(1);
        config.connect_timeout(CONNECT / u32::try_from(hosts).unwrap_or(u32::MAX));
    }
    config
}

/// Receives what the server sends, until the connection ends. Errors reach the operation that waits
/// for it.
async fn receive<S, T>(mut connection: Connection<S, T>, notified: Arc<Notify>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if matches!(message, AsyncMessage::Notification(_)) {
            notified.notify_one();
        }
    }
    notified.notify_one();
}

#[cfg(test)]
mod tests;
