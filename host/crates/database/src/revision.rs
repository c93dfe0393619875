//! Revisions: numbers that count the changes of each kind of data.

use std::collections::BTreeMap;

use crate::sql::{Sql, SqlResult, first, params};

airlock_strings::named_enum! {
    /// A kind of data whose changes are noticed. The names are those in the database.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ChangeKind {
        /// Calls that wait for a decision, and decisions.
        Approvals = "approvals",
        /// The configuration that is kept in the store.
        Config = "config",
        /// Keys of callers.
        Keys = "keys",
        /// Logins at MCP servers.
        Logins = "logins",
        /// Operators.
        Operators = "operators",
        /// Pinned definitions of tools.
        Pins = "pins",
    }
}

/// Revision of each kind that was ever changed.
pub type Revisions = BTreeMap<ChangeKind, i64>;

impl ChangeKind {
    fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Sql<'_> {
    /// Announces a change in its own transaction. Transactions that announce the same kind wait for
    /// each other from here to their ends, so this comes last. Not for what every call changes.
    pub fn announce(&self, kind: ChangeKind) -> SqlResult<()> {
        let raise = "INSERT INTO airlock_revision (kind, revision) VALUES (?1, 1) \
                     ON CONFLICT (kind) DO UPDATE SET revision = airlock_revision.revision + 1 \
                     RETURNING revision";
        let revision: i64 = self.one(raise, params![kind.name()], first)?;
        self.notify(&format!("{} {revision}", kind.name()))
    }
}

/// Reads the revisions. Kinds of newer versions are left out.
pub fn read(sql: &Sql<'_>) -> SqlResult<Revisions> {
    let select = "SELECT kind, revision FROM airlock_revision";
    let found =
        sql.all(select, &[], |row| Ok((ChangeKind::find(row.get(0)?), row.get::<i64>(1)?)))?;
    Ok(found.into_iter().filter_map(|(kind, revision)| Some((kind?, revision))).collect())
}
