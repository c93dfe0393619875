//! Operators of gateways, by the digests of their tokens. Their changes are recorded with those of the
//! [entries](crate::entries).

use serde::Serialize;

use crate::{
    database::Database,
    entries::{
        EntryValue,
        record::{self, NewChange},
    },
};
use airlock_database::{
    error::Unavailable,
    revision::ChangeKind,
    seal::Sealer,
    sql::{Row, Sql, SqlResult, Subject, first, params},
};

/// Maximum number of operators. Every gateway reads all of them after each change of one, and they
/// are listed on one page.
pub const MAX_OPERATORS: u32 = 1_000;

/// An operator as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOperator {
    /// Identifier.
    pub id: String,
    /// Name for people; unique.
    pub name: String,
    /// Name of the role.
    pub role: String,
    /// True if it may read arguments and results of calls.
    pub sees_payloads: bool,
    /// SHA-256 of its token. The token itself is not stored.
    pub digest: [u8; 32],
    /// Time of its creation, in milliseconds since 1970.
    pub created_ms: i64,
    /// Time at which its token stops to be valid, in milliseconds since 1970; `None` for never.
    pub expires_ms: Option<i64>,
}

/// Outcome of [`Database::add_operator`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorAdded {
    /// It is stored.
    Done,
    /// Another operator has the name.
    NameTaken,
    /// It was to be the first one, and there is one already.
    NotFirst,
    /// There are as many operators as may be.
    Full,
}

impl Database {
    /// Returns all operators, those whose tokens have expired included, sorted by their names. Fails
    /// if the database cannot be used.
    pub async fn operators(&self) -> Result<Vec<StoredOperator>, Unavailable> {
        self.read(|sql| {
            let select = "SELECT id, name, role, sees_payloads, digest, created_ms, expires_ms \
                          FROM operator ORDER BY name";
            sql.all(select, &[], operator)
        })
        .await
    }

    /// Stores an operator; with `first_only`, only if there is none: of many callers, one succeeds.
    /// `actor` is named in the record of changes. If the future is dropped, the operator is stored
    /// and recorded, or neither. Fails if the database cannot be used, or if another operator has
    /// the identifier.
    pub async fn add_operator(
        &self,
        operator: StoredOperator,
        first_only: bool,
        actor: &str,
    ) -> Result<OperatorAdded, Unavailable> {
        let log = OperatorLog { sealer: self.sealer(), actor: actor.to_owned() };
        self.write(Subject::SETTINGS, move |sql| add(sql, &operator, first_only, &log)).await
    }

    /// Removes the operator with this name. Returns false if there is none. Fails if the database
    /// cannot be used.
    pub async fn remove_operator(&self, name: &str, actor: &str) -> Result<bool, Unavailable> {
        let log = OperatorLog { sealer: self.sealer(), actor: actor.to_owned() };
        let name = name.to_owned();
        self.write(Subject::SETTINGS, move |sql| remove(sql, &name, &log)).await
    }
}

fn add(
    sql: &Sql<'_>,
    operator: &StoredOperator,
    first_only: bool,
    log: &OperatorLog,
) -> SqlResult<OperatorAdded> {
    let count: u32 = sql.one("SELECT count(*) FROM operator", &[], first)?;
    if first_only && count > 0 {
        return Ok(OperatorAdded::NotFirst);
    }
    let StoredOperator { id, name, role, sees_payloads, digest, created_ms, expires_ms } = operator;
    let select = "SELECT count(*) FROM operator WHERE name = ?1";
    if sql.one::<u32>(select, params![name], first)? > 0 {
        return Ok(OperatorAdded::NameTaken);
    }
    if count >= MAX_OPERATORS {
        return Ok(OperatorAdded::Full);
    }
    let insert = "INSERT INTO operator \
                  (id, name, role, sees_payloads, digest, created_ms, expires_ms) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let values = params![id, name, role, *sees_payloads, digest, *created_ms, *expires_ms];
    sql.run(insert, values)?;
    log.record(sql, "operator.add", name, None, Some(operator))?;
    Ok(OperatorAdded::Done)
}

fn remove(sql: &Sql<'_>, name: &str, log: &OperatorLog) -> SqlResult<bool> {
    let delete = "DELETE FROM operator WHERE name = ?1 \
                  RETURNING id, name, role, sees_payloads, digest, created_ms, expires_ms";
    let Some(removed) = sql.find(delete, params![name], operator)? else { return Ok(false) };
    log.record(sql, "operator.remove", name, Some(&removed), None)?;
    Ok(true)
}

fn operator(row: &Row<'_>) -> SqlResult<StoredOperator> {
    Ok(StoredOperator {
        id: row.get(0)?,
        name: row.get(1)?,
        role: row.get(2)?,
        sees_payloads: row.get(3)?,
        digest: row.get(4)?,
        created_ms: row.get(5)?,
        expires_ms: row.get(6)?,
    })
}

/// The record of a change of operators.
struct OperatorLog {
    sealer: Sealer,
    actor: String,
}

impl OperatorLog {
    /// Records a change, and announces it.
    fn record(
        &self,
        sql: &Sql<'_>,
        action: &str,
        name: &str,
        before: Option<&StoredOperator>,
        after: Option<&StoredOperator>,
    ) -> SqlResult<()> {
        let before = before.map(recorded);
        let after = after.map(recorded);
        let change = NewChange {
            actor: &self.actor,
            action,
            kind: None,
            name,
            before: before.as_ref(),
            after: after.as_ref(),
        };
        record::add(sql, &self.sealer, &change)?;
        sql.announce(ChangeKind::Operators)
    }
}

/// The rights of an operator, as they are recorded.
#[derive(Serialize)]
struct RecordedRights<'o> {
    role: &'o str,
    sees_payloads: bool,
    expires_ms: Option<i64>,
}

fn recorded(operator: &StoredOperator) -> EntryValue {
    let StoredOperator { role, sees_payloads, expires_ms, .. } = operator;
    let rights = RecordedRights { role, sees_payloads: *sees_payloads, expires_ms: *expires_ms };
    EntryValue { replaces: None, document: serde_json::to_string(&rights).ok() }
}

#[cfg(test)]
mod tests;
