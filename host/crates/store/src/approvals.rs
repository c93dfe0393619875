//! Calls that wait for the decision of a person.
//!
//! A call belongs to one owner; for any other owner it does not exist. It is found by a digest of
//! what would run, so that a client that repeats the call finds the decision about it. A decision
//! counts once: the call that uses it removes it. What is shown to the person is a text that this
//! module does not read.

use std::time::Duration;

use crate::{database::Database, page::count_fitting};
use airlock_database::{
    columns::milliseconds,
    error::Unavailable,
    owner::OwnerId,
    revision::ChangeKind,
    sql::{Row, Sql, SqlResult, Subject, first, params},
};

/// Maximum number of calls of one owner that wait or have an unused decision. A model that repeats
/// its call with other arguments must not fill the list that a person reads; each has up to 64 KiB.
pub const MAX_CALLS: u32 = 64;
/// Maximum number of expired calls that one change removes, so that it stays quick.
const PURGED_AT_ONCE: u32 = 100;

/// Digest of a call.
pub type CallDigest = [u8; 32];

/// State of a call whose client has asked for a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallVerdict {
    /// The call is undecided. The identifier of the call.
    Waiting(String),
    /// The call may run, once. The decision is used.
    Approved(UsedDecision),
    /// The call may not run. The decision is used.
    Denied(UsedDecision),
    /// The owner has [`MAX_CALLS`] calls that wait.
    Full,
}

/// A decision about a call that was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedDecision {
    /// Identifier of the call.
    pub id: String,
    /// The operator or the key that has decided, or the two operators who have approved, on a line each; `None` if a gateway of an
    /// earlier version has stored it.
    pub decided_by: Option<String>,
    /// Reason of the denial, for the model; `None` if none was given.
    pub reason: Option<String>,
}

/// A decision about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDecision {
    /// True to approve the call.
    pub approves: bool,
    /// The operator or the key that decides.
    pub actor: String,
    /// Reason of a denial, for the model.
    pub reason: Option<String>,
    /// True if two actors have to approve the call.
    pub needs_two: bool,
}

/// Outcome of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionOutcome {
    /// The call is decided.
    Decided,
    /// The first of two approvals is stored; the call still waits.
    First,
    /// The actor has approved the call already, and another one has to.
    SameActor,
    /// No such call waits.
    NotWaiting,
}

/// Outcome of a request for a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedApproval {
    /// State of the call.
    pub verdict: CallVerdict,
    /// Calls that have expired, and were removed.
    pub expired: Vec<WaitingCall>,
}

/// A call that waits, or whose decision is unused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingCall {
    /// Its identifier.
    pub id: String,
    /// Time of the first request for it, in milliseconds since 1970.
    pub asked_ms: i64,
    /// Time at which it expires, in milliseconds since 1970.
    pub expires_ms: i64,
    /// The decision; `None` while there is none.
    pub approved: Option<bool>,
    /// The operator or the key that has decided, or the operators who have approved so far, on a line each.
    pub decided_by: Option<String>,
    /// Reason of the denial; `None` if none was given.
    pub reason: Option<String>,
    /// The text that the person reads.
    pub text: String,
}

/// Part of the list of calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallPage {
    /// The calls.
    pub calls: Vec<WaitingCall>,
    /// True if the list goes on after them.
    pub has_more: bool,
}

/// The calls of one owner, or of all owners for an operator. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Approvals {
    database: Database,
    /// `None` for all owners.
    scope: Option<OwnerId>,
}

impl Database {
    /// Returns the waiting calls of one owner. Nothing is read or written yet.
    pub fn approvals(&self, scope: OwnerId) -> Approvals {
        Approvals { database: self.of_party(scope), scope: Some(scope) }
    }

    /// Returns the waiting calls of all owners, for an operator.
    pub fn all_approvals(&self) -> Approvals {
        Approvals { database: self.clone(), scope: None }
    }

    /// Asks for a decision about a call of an owner, and uses a decision that is there. A call that
    /// waits already stays the same one, and expires `life` after the last request for it. `id` and
    /// `text` are those of a new call. Fails if the database cannot be used.
    pub async fn ask_approval(
        &self,
        scope: OwnerId,
        call: CallDigest,
        id: String,
        text: String,
        life: Duration,
    ) -> Result<AskedApproval, Unavailable> {
        let new = NewCall { scope, call, id, text, life };
        self.of_party(scope).write(Subject::APPROVALS, move |sql| ask(sql, &new)).await
    }

    /// Removes calls that have expired, at most 100, and returns them: each to one caller. Fails if the database
    /// cannot be used.
    pub async fn remove_expired_approvals(&self) -> Result<Vec<WaitingCall>, Unavailable> {
        self.write(Subject::APPROVALS, purge).await
    }
}

impl Approvals {
    /// Returns the calls after the first `offset`: at most `limit`, and as many as have texts of 8 MiB
    /// together. The owners take turns, so that one with many calls does not hide those of others: first the
    /// oldest call of each, then the second of each. Of each turn, the oldest is first. Fails if the
    /// database cannot be used.
    pub async fn list(&self, limit: u32, offset: u32) -> Result<CallPage, Unavailable> {
        let scope = self.scope;
        self.database.read_snapshot(move |sql| list(sql, scope.as_ref(), limit, offset)).await
    }

    /// Returns one call; `None` if there is none. Fails if the database cannot be used.
    pub async fn find(&self, id: &str) -> Result<Option<WaitingCall>, Unavailable> {
        let id = id.to_owned();
        let scope = self.scope;
        let reading = self.database.read(move |sql| {
            let select = "SELECT id, asked, expires, approved, text, decided_by, reason FROM approval \
                          WHERE id = ?1 AND (scope = ?2 OR ?2 IS NULL) AND expires > ?3";
            sql.find(select, params![&id, scope.as_ref(), sql.now()], waiting_call)
        });
        reading.await
    }

    /// Returns whether a call has no decision yet. False for one that does not exist. Fails if the
    /// database cannot be used.
    pub async fn is_waiting(&self, id: &str) -> Result<bool, Unavailable> {
        let id = id.to_owned();
        let scope = self.scope;
        let reading = self.database.read(move |sql| {
            let select = "SELECT expires FROM approval WHERE id = ?1 AND (scope = ?2 OR ?2 IS NULL) \
                          AND approved IS NULL AND expires > ?3";
            let found = sql.find(select, params![&id, scope.as_ref(), sql.now()], first::<i64>)?;
            Ok(found.is_some())
        });
        reading.await
    }

    /// Decides about a call, as one actor. Of two actors who decide at the same time, one is first. Fails if the
    /// database cannot be used.
    pub async fn decide(
        &self,
        id: &str,
        decision: NewDecision,
    ) -> Result<DecisionOutcome, Unavailable> {
        let id = id.to_owned();
        let scope = self.scope;
        let deciding = self
            .database
            .write(Subject::APPROVALS, move |sql| decide(sql, scope.as_ref(), &id, &decision));
        deciding.await
    }

    /// Returns the number of calls without a decision. Fails if the database cannot be used.
    pub async fn waiting_count(&self) -> Result<u32, Unavailable> {
        self.counted("AND approved IS NULL").await
    }

    /// Returns the number of calls. Fails if the database cannot be used.
    pub async fn count(&self) -> Result<u32, Unavailable> {
        self.counted("").await
    }

    async fn counted(&self, condition: &str) -> Result<u32, Unavailable> {
        let scope = self.scope;
        let select = format!(
            "SELECT count(*) FROM approval WHERE (scope = ?1 OR ?1 IS NULL) AND expires > ?2 {condition}"
        );
        let counting = self
            .database
            .read(move |sql| sql.one(&select, params![scope.as_ref(), sql.now()], first));
        counting.await
    }
}

fn decide(
    sql: &Sql<'_>,
    scope: Option<&OwnerId>,
    id: &str,
    decision: &NewDecision,
) -> SqlResult<DecisionOutcome> {
    let NewDecision { approves, actor, reason, needs_two } = decision;
    let select = "SELECT decided_by FROM approval WHERE id = ?1 AND (scope = ?2 OR ?2 IS NULL) \
                  AND approved IS NULL AND expires > ?3";
    let found = sql.find(select, params![id, scope, sql.now()], first::<Option<String>>)?;
    let Some(before) = found else { return Ok(DecisionOutcome::NotWaiting) };
    let before = before.filter(|_| *approves && *needs_two);
    if before.as_ref() == Some(actor) {
        return Ok(DecisionOutcome::SameActor);
    }
    let is_first = *approves && *needs_two && before.is_none();
    let actors = before.map_or_else(|| actor.clone(), |before| format!("{before}\n{actor}"));
    if is_first {
        let update = "UPDATE approval SET decided_by = ?2 WHERE id = ?1";
        sql.run(update, params![id, &actors])?;
    } else {
        let update =
            "UPDATE approval SET approved = ?2, decided_by = ?3, reason = ?4 WHERE id = ?1";
        sql.run(update, params![id, *approves, &actors, reason.as_deref()])?;
    }
    sql.announce(ChangeKind::Approvals)?;
    Ok(if is_first { DecisionOutcome::First } else { DecisionOutcome::Decided })
}

/// A call whose client asks for a decision.
struct NewCall {
    scope: OwnerId,
    call: CallDigest,
    id: String,
    text: String,
    life: Duration,
}

fn ask(sql: &Sql<'_>, new: &NewCall) -> SqlResult<AskedApproval> {
    let mut expired = purge(sql)?;
    // One that has expired counts no more, also if it is not among those just removed.
    let own = "DELETE FROM approval WHERE scope = ?1 AND expires <= ?2 \
               RETURNING id, asked, expires, approved, text, decided_by, reason";
    expired.extend(sql.all(own, params![&new.scope, sql.now()], waiting_call)?);
    Ok(AskedApproval { verdict: ask_purged(sql, new)?, expired })
}

fn ask_purged(sql: &Sql<'_>, new: &NewCall) -> SqlResult<CallVerdict> {
    let NewCall { scope, call, id, text, life } = new;
    let now = sql.now();
    let expires = now.saturating_add(milliseconds(*life));
    let select =
        "SELECT id, approved, decided_by, reason FROM approval WHERE scope = ?1 AND call = ?2";
    let found = sql.find(select, params![scope, call], |row| {
        let decision =
            UsedDecision { id: row.get(0)?, decided_by: row.get(2)?, reason: row.get(3)? };
        Ok((decision, row.get::<Option<bool>>(1)?))
    })?;
    if let Some((decision, approved)) = found {
        let id = &decision.id;
        let Some(is_approved) = approved else {
            sql.run("UPDATE approval SET expires = ?2 WHERE id = ?1", params![id, expires])?;
            return Ok(CallVerdict::Waiting(decision.id));
        };
        sql.run("DELETE FROM approval WHERE id = ?1", params![id])?;
        return Ok(if is_approved {
            CallVerdict::Approved(decision)
        } else {
            CallVerdict::Denied(decision)
        });
    }
    let count = "SELECT count(*) FROM approval WHERE scope = ?1";
    if sql.one::<u32>(count, params![scope], first)? >= MAX_CALLS {
        return Ok(CallVerdict::Full);
    }
    let insert = "INSERT INTO approval (id, scope, call, asked, expires, text) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    sql.run(insert, params![id, scope, call, now, expires, text])?;
    sql.announce(ChangeKind::Approvals)?;
    Ok(CallVerdict::Waiting(id.clone()))
}

/// Part of the list, without texts.
const PART: &str = "SELECT id, asked, octet_length(text) AS bytes, \
                    row_number() OVER (PARTITION BY scope ORDER BY asked, id) AS turn FROM approval \
                    WHERE (scope = ?1 OR ?1 IS NULL) AND expires > ?2 \
                    ORDER BY turn, asked, id LIMIT ?3 OFFSET ?4";

fn list(sql: &Sql<'_>, scope: Option<&OwnerId>, limit: u32, offset: u32) -> SqlResult<CallPage> {
    let now = sql.now();
    let wanted = params![scope, now, limit.saturating_add(1), offset];
    let (count, has_more) = count_fitting(sql, PART, wanted, 2, limit)?;
    let select = format!(
        "SELECT approval.id, approval.asked, expires, approved, text, decided_by, reason FROM ({PART}) AS part \
         JOIN approval ON approval.id = part.id ORDER BY turn, part.asked, part.id"
    );
    let calls = sql.all(&select, params![scope, now, count, offset], waiting_call)?;
    Ok(CallPage { calls, has_more })
}

fn waiting_call(row: &Row<'_>) -> SqlResult<WaitingCall> {
    Ok(WaitingCall {
        id: row.get(0)?,
        asked_ms: row.get(1)?,
        expires_ms: row.get(2)?,
        approved: row.get(3)?,
        text: row.get(4)?,
        decided_by: row.get(5)?,
        reason: row.get(6)?,
    })
}

/// Removes calls that have expired, and returns them.
fn purge(sql: &Sql<'_>) -> SqlResult<Vec<WaitingCall>> {
    let expired = "DELETE FROM approval WHERE id IN \
                   (SELECT id FROM approval WHERE expires <= ?1 LIMIT ?2) \
                   RETURNING id, asked, expires, approved, text, decided_by, reason";
    sql.all(expired, params![sql.now(), PURGED_AT_ONCE], waiting_call)
}

#[cfg(test)]
mod tests;
