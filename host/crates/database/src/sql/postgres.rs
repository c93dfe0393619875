//! Statements on a server of `PostgreSQL`, and the connection of a lane.
//!
//! Each connection has a small runtime of its own, which runs only while an operation waits for the
//! server, on the blocking thread of that operation. So a statement costs no change of threads, and
//! each wait ends at the deadline of the operation: a server that is stopped, or whose network is
//! cut, delays an operation by [`OPERATION`] and no longer. The connection is then replaced.
//!
//! | Module | Content |
//! |---|---|
//! | `server` | the server: connecting to it, its clock |
//! | `session` | one connection: prepared statements, transactions, deadlines |
//! | `tls` | the settings of TLS |
//! | `value`, `fault` | values of parameters and columns; errors of the client |

mod fault;
mod server;
mod session;
mod tls;
mod value;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

pub(super) use self::value::{PgRow, value};
pub(crate) use self::{fault::ServerFault, server::PgServer, session::PgSession};
use super::{Sql, error::SqlResult, subject::Subject};

/// Longest time of one operation, from its turn to its end, connecting included.
pub const OPERATION: Duration = Duration::from_secs(6);
/// Longest time of a migration, with the wait for another process that migrates.
pub(crate) const MIGRATION: Duration = Duration::from_mins(2);

/// A connection of a lane. It is made when it is first needed, and made anew when it is lost.
pub struct PgConnection {
    server: Arc<PgServer>,
    session: Option<PgSession>,
}

impl PgConnection {
    /// Creates a connection that is not made yet.
    pub(crate) fn new(server: Arc<PgServer>) -> Self {
        Self { server, session: None }
    }

    /// Runs a read. Each statement sees the changes before it; with `is_snapshot`, all see those
    /// before the first one.
    pub(crate) fn read<T>(
        &mut self,
        is_snapshot: bool,
        job: impl FnOnce(&Sql<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        self.read_within(OPERATION, is_snapshot, job)
    }

    /// Runs a read as [`Self::read`], for as long as `time`; longer than usual only as a snapshot.
    pub(crate) fn read_within<T>(
        &mut self,
        time: Duration,
        is_snapshot: bool,
        job: impl FnOnce(&Sql<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let server = self.server.clone();
        self.with_session(time, |session| {
            let now = server.read_clock(session)?;
            if !is_snapshot {
                return job(&Sql::on_postgres(session, now));
            }
            session.begin_snapshot((time > OPERATION).then_some(time))?;
            let done = job(&Sql::on_postgres(session, now));
            drop(session.finish(true));
            done
        })
    }

    /// Runs a change of `subjects` in one transaction, for as long as `time`. An error or a refusal of
    /// `job` rolls it back. With `lock_wait`, waits for each subject at most for so long; the time of the change is
    /// that after the wait.
    pub(crate) fn change<T, E>(
        &mut self,
        time: Duration,
        lock_wait: Option<Duration>,
        subjects: &[Subject],
        job: impl FnOnce(&Sql<'_>) -> SqlResult<Result<T, E>>,
    ) -> SqlResult<Result<T, E>> {
        let server = self.server.clone();
        self.with_session(time, |session| {
            let patience = (time > OPERATION).then_some(time);
            let now = match session.begin(subjects, patience, lock_wait) {
                Ok(clock_ms) => server.time_of_change(clock_ms),
                Err(error) => {
                    drop(session.finish(false));
                    return Err(error);
                }
            };
            let done = job(&Sql::on_postgres(session, now));
            match done {
                Ok(Ok(_)) => session.finish(true)?,
                // The reason is worth more than a failure to roll back, which closes the connection.
                _ => drop(session.finish(false)),
            }
            done
        })
    }

    /// Makes the connection receive notifications, within `time`.
    pub(crate) fn listen(&mut self, time: Duration) -> SqlResult<()> {
        self.with_session(time, PgSession::listen)
    }

    /// Waits for a notification or the end of the connection, at most for `time`. Returns whether
    /// `stop` has come. Returns `stop` if there is no connection.
    pub(crate) fn wait_for_notification<F: Future>(
        &self,
        stop: F,
        time: Duration,
    ) -> Result<bool, F> {
        match &self.session {
            Some(session) => Ok(session.wait_for_notification(stop, time)),
            None => Err(stop),
        }
    }

    /// Runs `job` on a connection that is open, within `time`. Closes a connection that cannot be
    /// used after it.
    fn with_session<T>(
        &mut self,
        time: Duration,
        job: impl FnOnce(&PgSession) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let deadline = Instant::now() + time;
        // Taken out, so that a panic of `job` closes it, and the server rolls its transaction back.
        let kept = self.session.take().filter(PgSession::is_usable);
        let session = match kept {
            Some(session) => session,
            None => self.server.connect(deadline)?,
        };
        session.set_deadline(deadline);
        let done = job(&session);
        self.session = Some(session).filter(PgSession::is_usable);
        done
    }
}
