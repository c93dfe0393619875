//! Tables of the database, and their migration from older versions. The versions of a file and of a
//! server have the same numbers; a server begins with version 10.

pub(crate) mod server;

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::OpenError;

/// Identifies Airlock's files among those of other programs: `AIRL`.
pub const APPLICATION_ID: i32 = i32::from_be_bytes(*b"AIRL");

/// Migrations from each version to the next; version 0 is an empty file. A released migration is
/// never changed; new ones are appended.
pub const MIGRATIONS: [&str; 28] = [
    include_str!("schema/1_kv.sql"),
    include_str!("schema/2_responses.sql"),
    include_str!("schema/3_upstream_pins.sql"),
    include_str!("schema/4_upstream_logins.sql"),
    include_str!("schema/5_runs.sql"),
    include_str!("schema/6_runs.sql"),
    include_str!("schema/7_recall.sql"),
    include_str!("schema/8_kv_holders.sql"),
    include_str!("schema/9_approvals.sql"),
    include_str!("schema/10_statements.sql"),
    include_str!("schema/11_settings.sql"),
    include_str!("schema/12_replicas.sql"),
    include_str!("schema/13_user_logins.sql"),
    include_str!("schema/14_operator_sessions.sql"),
    include_str!("schema/15_components.sql"),
    include_str!("schema/16_limits.sql"),
    include_str!("schema/17_call_log.sql"),
    include_str!("schema/18_denials.sql"),
    include_str!("schema/19_run_trace.sql"),
    include_str!("schema/20_call_details.sql"),
    include_str!("schema/21_guards.sql"),
    include_str!("schema/22_tool_tokens.sql"),
    include_str!("schema/23_sources.sql"),
    include_str!("schema/24_call_indexes.sql"),
    include_str!("schema/25_written_arguments.sql"),
    include_str!("schema/26_model_guards.sql"),
    include_str!("schema/27_pending_calls.sql"),
    include_str!("schema/28_stages.sql"),
];

/// Version that this program reads and writes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "there are few migrations"
)]
pub const VERSION: i32 = MIGRATIONS.len() as i32;

/// State of the tables of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaState {
    /// Version of the tables; `None` if there are none.
    pub found: Option<i32>,
    /// Version that this program migrates them to.
    pub known: i32,
}

impl SchemaState {
    /// Returns whether the next gateway of this version that opens the database migrates it.
    pub fn needs_migration(&self) -> bool {
        self.found.is_none_or(|found| found < self.known)
    }
}

/// Returns the version of a database. Fails if the version is newer than [`VERSION`] or the
/// database is not Airlock's.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<i32, OpenError> {
    let (application, version, tables) =
        look(connection).map_err(|error| OpenError::new(path.display(), error))?;
    match (application, version) {
        (0, 0) if tables == 0 => Ok(0),
        (APPLICATION_ID, 0..=VERSION) => Ok(version),
        (APPLICATION_ID, _) if version > VERSION => Err(OpenError::Newer {
            store: path.display().to_string(),
            found: version,
            known: VERSION,
        }),
        _ => Err(OpenError::Foreign { store: path.display().to_string() }),
    }
}

fn look(connection: &Connection) -> rusqlite::Result<(i32, i32, i64)> {
    let tables =
        connection.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
    Ok((number(connection, "application_id")?, number(connection, "user_version")?, tables))
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}

/// Migrates a database to [`VERSION`], in one transaction.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    if check(connection, path)? == VERSION {
        return Ok(());
    }
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|error| OpenError::new(path.display(), error))?;
    // Checked again, because another process may have migrated it meanwhile.
    let version = check(&transaction, path)?;
    apply(&transaction, version)
        .and_then(|()| transaction.commit())
        .map_err(|error| OpenError::new(path.display(), error))
}

fn apply(transaction: &Transaction<'_>, version: i32) -> rusqlite::Result<()> {
    for migration in MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or_default()) {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)
}
