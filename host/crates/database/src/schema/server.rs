//! Tables of a database on a server, and their migration from older versions.
//!
//! The table `airlock_schema` has a row for each migration that was made. Replicas are upgraded one
//! after the other, so an older program accepts a newer schema whose last migration declares that it
//! is `compatible_from` the version of that program: it only added tables, or columns that may be
//! left out.

use sha2::{Digest as _, Sha256};

use super::VERSION;
use crate::{
    error::OpenError,
    location::ServerUrl,
    sql::{
        Sql, SqlResult, Subject, first, params,
        postgres::{MIGRATION, PgConnection},
    },
};

/// A migration to a version.
struct ServerMigration {
    version: i32,
    /// Oldest version of a program that can use the schema after it.
    compatible_from: i32,
    text: &'static str,
}

/// Migrations, in the order of their versions. A released one is never changed; new ones are appended.
const MIGRATIONS: [ServerMigration; 19] = [
    migration(10, 10, include_str!("postgres/10_begin.sql")),
    // Adds tables only.
    migration(11, 10, include_str!("postgres/11_settings.sql")),
    // Adds a table only.
    migration(12, 10, include_str!("postgres/12_replicas.sql")),
    // Adds tables only.
    migration(13, 10, include_str!("postgres/13_user_logins.sql")),
    // Adds tables only.
    migration(14, 10, include_str!("postgres/14_operator_sessions.sql")),
    // Adds tables only.
    migration(15, 10, include_str!("postgres/15_components.sql")),
    // Adds tables only.
    migration(16, 10, include_str!("postgres/16_limits.sql")),
    // Adds tables, and a column that may be absent.
    migration(17, 10, include_str!("postgres/17_call_log.sql")),
    // Add columns that may be absent.
    migration(18, 10, include_str!("postgres/18_denials.sql")),
    migration(19, 10, include_str!("postgres/19_run_trace.sql")),
    migration(20, 10, include_str!("postgres/20_call_details.sql")),
    // Adds a column that may be left out.
    migration(21, 10, include_str!("postgres/21_guards.sql")),
    // Adds a column that may be left out.
    migration(22, 10, include_str!("postgres/22_tool_tokens.sql")),
    // Adds columns that may be left out.
    migration(23, 10, include_str!("postgres/23_sources.sql")),
    // Replaces indexes. An older version selects the same rows without them.
    migration(24, 10, include_str!("postgres/24_call_indexes.sql")),
    // Adds columns that may be left out.
    migration(25, 10, include_str!("postgres/25_written_arguments.sql")),
    // Adds a column that may be left out.
    migration(26, 10, include_str!("postgres/26_model_guards.sql")),
    // Adds an index only.
    migration(27, 10, include_str!("postgres/27_pending_calls.sql")),
    // Changes nothing.
    migration(28, 10, include_str!("postgres/28_stages.sql")),
];

const fn migration(version: i32, compatible_from: i32, text: &'static str) -> ServerMigration {
    ServerMigration { version, compatible_from, text }
}

const MAKE: &str = "CREATE TABLE airlock_schema (version BIGINT PRIMARY KEY, \
                    compatible_from BIGINT NOT NULL, applied_ms BIGINT NOT NULL, digest BYTEA NOT NULL)";

/// State of a database on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerSchema {
    /// It has no tables.
    Empty,
    /// It has tables, and none of Airlock's.
    Foreign,
    /// It has the schema of a version, which programs from `compatible_from` on can use.
    Version { version: i32, compatible_from: i32 },
    /// A migration of a version was made by a program that has another text for it.
    Altered { version: i32 },
}

/// Migrates a database to [`VERSION`]. Of many processes, one does it, and the others wait.
pub(crate) fn migrate(connection: &mut PgConnection, url: &ServerUrl) -> Result<(), OpenError> {
    let found = connection.read(false, read).map_err(|error| OpenError::new(url, error))?;
    if is_current(found, url)? {
        return Ok(());
    }
    let migrated = connection.change(MIGRATION, None, &[Subject::SCHEMA], |sql| {
        // Read again, because another process may have migrated it meanwhile.
        let found = read(sql)?;
        match is_current(found, url) {
            Err(refused) => Ok(Err(refused)),
            Ok(true) => Ok(Ok(())),
            Ok(false) => apply(sql, found).map(Ok),
        }
    });
    migrated.map_err(|error| OpenError::new(url, error))?
}

/// Returns the version of a database, without changing it; `None` if it is empty.
pub(crate) fn version(
    connection: &mut PgConnection,
    url: &ServerUrl,
) -> Result<Option<i32>, OpenError> {
    let found = connection.read(false, read).map_err(|error| OpenError::new(url, error))?;
    is_current(found, url)?;
    Ok(match found {
        ServerSchema::Version { version, .. } => Some(version),
        _ => None,
    })
}

/// Returns whether a schema can be used as it is. Fails if it must not be touched.
fn is_current(found: ServerSchema, url: &ServerUrl) -> Result<bool, OpenError> {
    let store = url.to_string();
    match found {
        ServerSchema::Empty => Ok(false),
        ServerSchema::Foreign => Err(OpenError::Foreign { store }),
        ServerSchema::Altered { version } => {
            let cause = format!(
                "its schema {version} was made by a build of Airlock whose schema {version} differs from this one's"
            );
            Err(OpenError::unusable(store, cause))
        }
        ServerSchema::Version { version, compatible_from } => {
            if version > VERSION && compatible_from > VERSION {
                return Err(OpenError::Newer { store, found: version, known: VERSION });
            }
            Ok(version >= VERSION)
        }
    }
}

fn apply(sql: &Sql<'_>, found: ServerSchema) -> SqlResult<()> {
    let present = if let ServerSchema::Version { version, .. } = found {
        version
    } else {
        sql.script(MAKE)?;
        0
    };
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > present) {
        sql.script(migration.text)?;
        let insert = "INSERT INTO airlock_schema (version, compatible_from, applied_ms, digest) \
                      VALUES (?1, ?2, ?3, ?4)";
        let version = i64::from(migration.version);
        let compatible_from = i64::from(migration.compatible_from);
        let digest = digest(migration);
        sql.run(insert, params![version, compatible_from, sql.now(), &digest])?;
    }
    Ok(())
}

/// Reads the schema of a database. Tables of other programs are those in the schema that new tables
/// are made in, which is `public` unless the server or the user has another one.
pub(crate) fn read(sql: &Sql<'_>) -> SqlResult<ServerSchema> {
    let count = "SELECT count(*), coalesce(sum(CASE WHEN c.relname = 'airlock_schema' THEN 1 ELSE 0 END), 0) > 0 \
                 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p', 'v', 'm', 'f')";
    let (tables, is_own) =
        sql.one(count, &[], |row| Ok((row.get::<i64>(0)?, row.get::<bool>(1)?)))?;
    if !is_own {
        return Ok(if tables == 0 { ServerSchema::Empty } else { ServerSchema::Foreign });
    }
    let select = "SELECT digest FROM airlock_schema WHERE version = ?1";
    for migration in &MIGRATIONS {
        let version = migration.version;
        let found: Option<Vec<u8>> = sql.find(select, params![i64::from(version)], first)?;
        if found.is_some_and(|found| found != digest(migration)) {
            return Ok(ServerSchema::Altered { version });
        }
    }
    let select =
        "SELECT version, compatible_from FROM airlock_schema ORDER BY version DESC LIMIT 1";
    let newest = sql.find(select, &[], |row| Ok((number(row.get(0)?), number(row.get(1)?))))?;
    Ok(match newest {
        Some((version, compatible_from)) => ServerSchema::Version { version, compatible_from },
        None => ServerSchema::Foreign,
    })
}

fn number(version: i64) -> i32 {
    i32::try_from(version).unwrap_or(i32::MAX)
}

fn digest(migration: &ServerMigration) -> [u8; 32] {
    Sha256::digest(migration.text).into()
}
