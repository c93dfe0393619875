//! Makes room in tables whose rows expire and belong to owners.

use crate::sql::{Param, Sql, SqlResult, first, params};

/// Maximum number of expired rows that one change removes, so that it stays quick.
const PURGED_AT_ONCE: u32 = 100;

/// A table with the columns `id` and `expires_ms`.
pub struct ExpiringTable {
    /// Name of the table.
    pub name: &'static str,
    /// Condition of the rows of one owner, with the parameters from `?1` on.
    pub of_owner: &'static str,
    /// Column with the greatest values in the rows of an owner that are kept.
    pub order: &'static str,
}

impl ExpiringTable {
    /// Removes rows that have expired, and of the owner's those beyond the number that is `kept`.
    pub fn make_room(&self, sql: &Sql<'_>, owner: &[Param<'_>], kept: u32) -> SqlResult<()> {
        let Self { name, of_owner, order } = self;
        let expired = format!(
            "DELETE FROM {name} WHERE id IN \
             (SELECT id FROM {name} WHERE expires_ms <= ?1 ORDER BY expires_ms LIMIT ?2)"
        );
        sql.run(&expired, params![sql.now(), PURGED_AT_ONCE])?;
        let mut values = owner.to_vec();
        values.push(kept.into());
        let beyond = format!(
            "DELETE FROM {name} WHERE {of_owner} AND id NOT IN \
             (SELECT id FROM {name} WHERE {of_owner} ORDER BY {order} DESC, id LIMIT ?{})",
            values.len()
        );
        sql.run(&beyond, &values).map(drop)
    }

    /// Returns the number of rows that have to be removed for one more, if there may be `max`.
    pub fn surplus(&self, sql: &Sql<'_>, max: u32) -> SqlResult<u32> {
        let count: u32 = sql.one(&format!("SELECT count(*) FROM {}", self.name), &[], first)?;
        Ok((count + 1).saturating_sub(max))
    }
}
