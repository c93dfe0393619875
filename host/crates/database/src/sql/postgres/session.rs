//! One connection to a server.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    ops::ControlFlow,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{TryStreamExt as _, future::try_join_all};
use tokio::{
    runtime::Runtime,
    sync::Notify,
    task::yield_now,
    time::{sleep, timeout_at},
};
use tokio_postgres::{
    Client, SimpleQueryMessage, Statement,
    types::{ToSql, Type},
};

use super::fault::ServerFault;
use crate::sql::{
    FaultKind, Param, Row, Subject,
    error::{SqlError, SqlResult},
    insert::InsertPart,
};

/// Most statements that a connection keeps prepared: more than gateways use. The texts of queries of the call log are
/// many, since they depend on the filters that an operator chooses, and each takes memory of the server.
const PREPARED: usize = 256;
/// Channel of the notifications of a server.
const CHANNEL: &str = "airlock";

/// Reads the clock of the server, in milliseconds since 1970.
pub(super) const READ_CLOCK: &str =
    "SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)";

/// An open connection.
pub(crate) struct PgSession {
    client: Client,
    /// Runs the connection while an operation waits. `None` only while it is dropped.
    runtime: Option<Runtime>,
    /// Prepared statements by their texts; `None` behind a pooler, whose next connection does not have
    /// them.
    statements: Option<RefCell<HashMap<String, Statement>>>,
    /// Statements that each transaction begins with, for what a session would keep; empty unless there
    /// is a pooler.
    preamble: String,
    /// Woken by notifications, and by the end of the connection.
    notified: Arc<Notify>,
    is_listening: Cell<bool>,
    /// End of the operation.
    deadline: Cell<Instant>,
    state: Cell<SessionState>,
    /// Number of requests, each of which takes a round trip to the server.
    requests: Cell<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionState {
    /// No transaction.
    Idle,
    /// In a transaction.
    Open,
    /// In a transaction in which a statement has failed.
    Failed,
    /// Not to be used again.
    Broken,
}

impl PgSession {
    pub(super) fn new(
        (client, notified): (Client, Arc<Notify>),
        runtime: Runtime,
        deadline: Instant,
        preamble: Option<String>,
    ) -> Self {
        Self {
            statements: preamble.is_none().then(RefCell::default),
            preamble: preamble.unwrap_or_default(),
            client,
            notified,
            is_listening: Cell::new(false),
            runtime: Some(runtime),
            deadline: Cell::new(deadline),
            state: Cell::new(SessionState::Idle),
            requests: Cell::new(0),
        }
    }

    pub(super) fn set_deadline(&self, deadline: Instant) {
        self.deadline.set(deadline);
    }

    /// Returns whether the connection can run another operation. Notices a server that has closed it
    /// since the last one.
    pub(super) fn is_usable(&self) -> bool {
        if let Some(runtime) = &self.runtime {
            // The runtime looks at its sockets when the task yields.
            runtime.block_on(async {
                yield_now().await;
                yield_now().await;
            });
        }
        self.state.get() == SessionState::Idle && !self.client.is_closed()
    }

    /// Begins a transaction that changes `subjects`, and waits for those who change them; with
    /// `patience`, for so long, instead of as long as operations do, and with `lock_wait`, for each at most
    /// for so long. Returns the clock of the server after that.
    pub(super) fn begin(
        &self,
        subjects: &[Subject],
        patience: Option<Duration>,
        lock_wait: Option<Duration>,
    ) -> SqlResult<Option<i64>> {
        // In this isolation level, a statement sees what was committed before it began: after the
        // locks are held. In a higher one, all would see the state before the wait for the locks.
        let mut statements =
            vec!["BEGIN ISOLATION LEVEL READ COMMITTED".to_owned(), self.preamble.clone()];
        statements.extend(patience.map(limits));
        statements.extend(
            lock_wait.map(|wait| format!("SET LOCAL lock_timeout = {}", wait.as_millis().max(1))),
        );
        let mut subjects = subjects.to_vec();
        // Two changes of the same two subjects wait for the same one first.
        subjects.sort_unstable();
        statements.extend(subjects.iter().map(|Subject { class, hash }| {
            format!("SELECT pg_advisory_xact_lock({class}, {hash})")
        }));
        statements.push(READ_CLOCK.to_owned());
        let text = statements.join(";");
        self.state.set(SessionState::Open);
        self.script(&text)
    }

    /// Begins a transaction that reads, and sees one state of the database; with `patience`, one whose
    /// statements take so long.
    pub(super) fn begin_snapshot(&self, patience: Option<Duration>) -> SqlResult<()> {
        self.state.set(SessionState::Open);
        let limits = patience.map(limits).unwrap_or_default();
        let preamble = &self.preamble;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.script(&format!("{begin}; {preamble}; {limits}")).map(drop)
    }

    /// Ends the transaction: commits it, or rolls it back. Fails if a statement of a transaction
    /// that is committed has failed.
    pub(super) fn finish(&self, commits: bool) -> SqlResult<()> {
        let state = self.state.get();
        if state == SessionState::Broken {
            return if commits { Err(ServerFault::Aborted.into()) } else { Ok(()) };
        }
        let is_kept = commits && state == SessionState::Open;
        self.state.set(SessionState::Open);
        let ended = self.script(if is_kept { "COMMIT" } else { "ROLLBACK" });
        match ended {
            Ok(_) => self.state.set(SessionState::Idle),
            Err(_) => self.state.set(SessionState::Broken),
        }
        match ended {
            Err(error) if commits => Err(error),
            _ if commits && !is_kept => Err(ServerFault::Aborted.into()),
            _ => Ok(()),
        }
    }

    /// Executes statements without parameters. Returns the number in the last row, if there is one.
    pub(crate) fn script(&self, text: &str) -> SqlResult<Option<i64>> {
        self.count();
        let messages = self.wait(self.client.simple_query(text))?;
        let last = messages.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        Ok(last.and_then(|number| number.parse().ok()))
    }

    pub(crate) fn run(&self, text: &str, params: &[Param<'_>]) -> SqlResult<u64> {
        let Some(statement) = self.prepare(text)? else {
            self.count();
            return self.wait(self.client.execute_typed(&numbered(text), &typed_values(params)));
        };
        self.count();
        self.wait(self.client.execute_raw(&statement, values(params)))
    }

    /// Executes a statement for each of these rows of parameters, without waiting between them.
    pub(crate) fn run_each(&self, text: &str, rows: &[Vec<Param<'_>>]) -> SqlResult<Vec<u64>> {
        let Some(statement) = self.prepare(text)? else {
            self.count();
            let text = numbered(text);
            let rows: Vec<_> = rows.iter().map(|row| typed_values(row)).collect();
            let executed = rows.iter().map(|row| self.client.execute_typed(&text, row));
            return self.wait(try_join_all(executed));
        };
        self.count();
        let executed = rows.iter().map(|row| self.client.execute_raw(&statement, values(row)));
        self.wait(try_join_all(executed))
    }

    /// Executes the statements of an insertion, without waiting between them.
    pub(crate) fn insert(&self, parts: &[InsertPart<'_, '_>]) -> SqlResult<()> {
        let statements = parts.iter().map(|part| self.prepare(part.text));
        let statements = statements.collect::<Result<Vec<_>, _>>()?;
        self.count();
        // Of a connection, either all statements are prepared or none is.
        let Some(statements) = statements.into_iter().collect::<Option<Vec<_>>>() else {
            let texts: Vec<_> = parts.iter().map(|part| numbered(part.text)).collect();
            let rows = parts.iter().zip(&texts).flat_map(|(part, text)| {
                part.executions().map(move |row| (text.as_str(), typed_values(row)))
            });
            let rows: Vec<_> = rows.collect();
            let executed = rows.iter().map(|(text, row)| self.client.execute_typed(text, row));
            return self.wait(try_join_all(executed)).map(drop);
        };
        let executed = parts.iter().zip(&statements).flat_map(|(part, statement)| {
            part.executions().map(move |row| self.client.execute_raw(statement, values(row)))
        });
        self.wait(try_join_all(executed)).map(drop)
    }

    pub(crate) fn each<B>(
        &self,
        text: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&Row<'_>) -> SqlResult<ControlFlow<B>>,
    ) -> SqlResult<Option<B>> {
        let statement = self.prepare(text)?;
        self.count();
        let rows = if let Some(statement) = &statement {
            self.wait(self.client.query_raw(statement, values(params)))?
        } else {
            let text = numbered(text);
            self.wait(self.client.query_typed_raw(&text, typed_values(params)))?
        };
        let mut rows = pin!(rows);
        while let Some(row) = self.wait(rows.try_next())? {
            if let ControlFlow::Break(value) = read(&Row::Postgres(&row))? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    pub(crate) fn try_lock(&self, subject: Subject) -> SqlResult<bool> {
        let Subject { class, hash } = subject;
        let text = "SELECT pg_try_advisory_xact_lock(CAST(?1 AS INTEGER), CAST(?2 AS INTEGER))";
        let locked =
            self.each(text, &[i64::from(class).into(), i64::from(hash).into()], |row| {
                Ok(ControlFlow::Break(row.get::<bool>(0)?))
            })?;
        Ok(locked.unwrap_or_default())
    }

    pub(crate) fn share_lock(&self, subject: Subject) -> SqlResult<()> {
        let Subject { class, hash } = subject;
        let text = "SELECT pg_advisory_xact_lock_shared(CAST(?1 AS INTEGER), CAST(?2 AS INTEGER))";
        self.run(text, &[i64::from(class).into(), i64::from(hash).into()]).map(drop)
    }

    /// Makes the server send notifications on this connection.
    pub(super) fn listen(&self) -> SqlResult<()> {
        if !self.is_listening.get() {
            self.script(&format!("LISTEN {CHANNEL}"))?;
            self.is_listening.set(true);
        }
        Ok(())
    }

    /// Notifies those that listen, once the transaction is committed.
    pub(crate) fn notify(&self, message: &str) -> SqlResult<()> {
        self.run("SELECT pg_notify(?1, ?2)", &[CHANNEL.into(), message.into()]).map(drop)
    }

    /// Waits for a notification or the end of the connection, at most for `time`. Returns whether
    /// `stop` has come.
    pub(super) fn wait_for_notification(&self, stop: impl Future, time: Duration) -> bool {
        let Some(runtime) = &self.runtime else { return true };
        runtime.block_on(async {
            tokio::select! {
                _ = stop => true,
                () = self.notified.notified() => false,
                () = sleep(time) => false,
            }
        })
    }

    /// Returns the prepared statement of a text; `None` behind a pooler, where a statement is parsed,
    /// bound and executed in one request.
    fn prepare(&self, text: &str) -> SqlResult<Option<Statement>> {
        let Some(statements) = &self.statements else { return Ok(None) };
        if let Some(statement) = statements.borrow().get(text) {
            return Ok(Some(statement.clone()));
        }
        self.count();
        let statement = self.wait(self.client.prepare(&numbered(text)))?;
        let mut statements = statements.borrow_mut();
        if statements.len() >= PREPARED {
            // Closes those that no operation uses.
            statements.clear();
        }
        statements.insert(text.to_owned(), statement.clone());
        Ok(Some(statement))
    }

    /// Waits for the server, at most until the operation ends.
    fn wait<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> SqlResult<T> {
        let Some(runtime) = &self.runtime else { return Err(ServerFault::Late.into()) };
        let deadline = self.deadline.get().into();
        let done = match runtime.block_on(async { timeout_at(deadline, work).await }) {
            Ok(done) => done.map_err(SqlError::from),
            Err(_) => Err(ServerFault::Late.into()),
        };
        if let Err(error) = &done {
            self.failed(error);
        }
        done
    }

    /// Returns the number of requests so far.
    pub(crate) fn requests(&self) -> u32 {
        self.requests.get()
    }

    fn count(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    fn failed(&self, error: &SqlError) {
        if error.kind() == FaultKind::Unreachable {
            self.state.set(SessionState::Broken);
        } else if self.state.get() == SessionState::Open {
            self.state.set(SessionState::Failed);
        }
    }
}

impl Drop for PgSession {
    fn drop(&mut self) {
        // Dropping a runtime waits for its threads, which a worker of another runtime may not do.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns statements that set the limits of a transaction that takes longer than others.
fn limits(patience: Duration) -> String {
    let patience = patience.as_millis();
    format!(
        "SET LOCAL lock_timeout = {patience}; SET LOCAL statement_timeout = {patience}; \
         SET LOCAL idle_in_transaction_session_timeout = {patience}"
    )
}

/// Returns a text with its parameters as `PostgreSQL` names them. The texts have no other question mark.
fn numbered(text: &str) -> String {
    text.replace('?', "$")
}

fn typed_values<'p>(params: &'p [Param<'_>]) -> Vec<(&'p (dyn ToSql + Sync), Type)> {
    params.iter().map(|param| (param as &(dyn ToSql + Sync), param.declared_type())).collect()
}

fn values<'p>(
    params: &'p [Param<'_>],
) -> impl ExactSizeIterator<Item = &'p (dyn ToSql + Sync)> + 'p {
    params.iter().map(|param| param as &(dyn ToSql + Sync))
}
