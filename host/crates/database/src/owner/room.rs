//! The room of an owner: how much it stores, beside what all owners store.
//!
//! A change has the lock of its own owner. What belongs to another owner is removed only if no change
//! of that owner is running. Therefore the bound of all owners is exact in `SQLite`; in `PostgreSQL`,
//! changes that run at the same time may exceed it together by what they store.

use super::OwnerId;
use crate::{
    columns::unsigned,
    sql::{Param, Sql, SqlError, SqlFault, SqlResult, Subject, params},
};

/// Owners of one kind of data.
pub struct OwnerTable {
    /// Selects the room of the owner `?1` at the time `?2`, in the order of the fields of
    /// [`OwnerRoom`], its scope left out.
    pub select: &'static str,
    /// Inserts the owner `?1`, which stores nothing.
    pub insert: &'static str,
    /// Returns the subject of an owner's changes.
    pub subject: fn(&[u8]) -> Subject,
    /// Removes what has expired, of any owner, and not too much at once. The second argument is the
    /// owner of the change.
    pub purge: fn(&Sql<'_>, &OwnerId) -> SqlResult<()>,
}

/// The owner of a change, and the room that is taken.
pub struct OwnerRoom {
    /// Number of the owner in the database.
    pub id: i64,
    /// The owner.
    pub scope: OwnerId,
    /// Bytes that the owner stores.
    pub bytes: i64,
    /// Records that the owner stores.
    pub records: i64,
    /// Bytes that all owners store.
    pub total: i64,
    /// True if something has expired, of any owner.
    has_expired: bool,
}

/// An owner of which something is removed.
pub struct FoundOwner {
    /// Number of the owner in the database.
    pub id: i64,
    scope: Vec<u8>,
}

impl OwnerTable {
    /// Removes what has expired, of any owner. Returns the room of an owner after that.
    pub fn purged(&self, sql: &Sql<'_>, own: &OwnerId) -> SqlResult<OwnerRoom> {
        let mut owner = self.find_or_make(sql, own)?;
        if owner.has_expired {
            (self.purge)(sql, own)?;
            self.read_again(sql, &mut owner)?;
        }
        Ok(owner)
    }

    /// Reads the room again, after something was removed.
    pub fn read_again(&self, sql: &Sql<'_>, owner: &mut OwnerRoom) -> SqlResult<()> {
        *owner = self.find_or_make(sql, &owner.scope)?;
        Ok(())
    }

    fn find_or_make(&self, sql: &Sql<'_>, scope: &OwnerId) -> SqlResult<OwnerRoom> {
        if let Some(owner) = self.find(sql, scope)? {
            return Ok(owner);
        }
        sql.run(self.insert, params![scope])?;
        self.find(sql, scope)?.ok_or_else(|| SqlError::new(SqlFault::NoRow))
    }

    fn find(&self, sql: &Sql<'_>, scope: &OwnerId) -> SqlResult<Option<OwnerRoom>> {
        sql.find(self.select, params![scope, sql.now()], |row| {
            Ok(OwnerRoom {
                id: row.get(0)?,
                scope: *scope,
                bytes: row.get(1)?,
                records: row.get(2)?,
                total: row.get(3)?,
                has_expired: row.get(4)?,
            })
        })
    }

    /// Returns whether the change of `own` may touch what belongs to another owner: its own, or one
    /// that no other change has.
    pub fn is_free(&self, sql: &Sql<'_>, own: &OwnerId, owner: &FoundOwner) -> SqlResult<bool> {
        Ok(owner.scope == own || sql.try_lock((self.subject)(&owner.scope))?)
    }

    /// Returns the first of the selected owners that is free.
    pub fn first_free(
        &self,
        sql: &Sql<'_>,
        own: &OwnerId,
        select: &str,
        params: &[Param<'_>],
    ) -> SqlResult<Option<i64>> {
        for owner in owners(sql, select, params)? {
            if self.is_free(sql, own, &owner)? {
                return Ok(Some(owner.id));
            }
        }
        Ok(None)
    }
}

/// Returns the selected owners: their numbers and scopes.
pub fn owners(sql: &Sql<'_>, select: &str, params: &[Param<'_>]) -> SqlResult<Vec<FoundOwner>> {
    sql.all(select, params, |row| Ok(FoundOwner { id: row.get(0)?, scope: row.get(1)? }))
}

/// Returns whether something that costs `cost` has no room beside what is stored.
pub fn exceeds(cost: u64, held: i64, limit: u64) -> bool {
    unsigned(held).saturating_add(cost) > limit
}
