//! Runs of scripts and their journals.
//!
//! A run belongs to one owner; for any other owner it does not exist. Its steps are those of
//! [`airlock_core::run`]: each is made in a transaction, on the state that the transaction reads, so
//! that of several processes only one makes it. Tools, answers and outcomes are JSON, which this
//! module does not parse.
//!
//! | Module | Content |
//! |---|---|
//! | `stored` | runs and calls as they are stored, and the steps and decisions that change them |
//! | `tools` | the tools of a script, as runs store them |
//! | `pending` | the calls that wait for an approval, of all owners |
//! | `show` | a run as people see it: without the answers of its calls |
//! | `sql` | steps and decisions; below it `tx` (a transaction), `row` (a run), `call` (a call), `read`, `room` (what is removed), and `removal` |

mod pending;
mod show;
mod sql;
mod stored;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::BTreeMap;

use airlock_core::run::{Called, Cancelled, Position};

pub use self::{
    pending::PendingRunCall,
    show::{ShownAnswer, ShownCall, ShownRun},
    stored::{NewRun, RunBounds, RunDecision, RunError, RunStep, StoredCall, StoredRun},
    tools::ScriptTools,
};
use crate::database::Database;
use airlock_database::{
    error::Unavailable,
    owner::OwnerId,
    sql::{Subject, params},
};

/// Of so many runs that stop in this process, the stop of one removes runs beyond the bound of all
/// owners.
const SWEPT_EVERY: u32 = 16;

/// The runs of one owner. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Runs {
    database: Database,
    scope: OwnerId,
    bounds: RunBounds,
}

impl Database {
    /// Returns the runs of an owner. Nothing is read or written yet.
    pub fn runs(&self, scope: OwnerId, bounds: RunBounds) -> Runs {
        Runs { database: self.of_party(scope), scope, bounds }
    }
}

impl Runs {
    /// Makes steps of one run, as the process of `epoch`, in one transaction: all of them or none.
    /// A step that sends a call may be followed by the call only after this has returned. If the
    /// future is dropped, the steps are made or not made.
    pub async fn step(&self, id: &str, epoch: i64, steps: Vec<RunStep>) -> Result<(), RunError> {
        let id = id.to_owned();
        let sweeps = self.database.sweeps(&steps);
        self.change(move |tx| tx.steps(&id, epoch, steps, sweeps)).await
    }

    /// Takes a run over to continue it. Returns the run after that.
    pub async fn claim(&self, id: &str) -> Result<StoredRun, RunError> {
        let id = id.to_owned();
        self.change(move |tx| tx.claim(&id)).await
    }

    /// Makes decisions about calls, all of them or none. Returns the calls in this order.
    /// Refused if the run has another epoch than `shown`, which is the one in which the calls were shown to
    /// the person who decides.
    pub async fn decide(
        &self,
        id: &str,
        shown: Option<i64>,
        decisions: Vec<(Position, RunDecision)>,
    ) -> Result<Vec<Called>, RunError> {
        let id = id.to_owned();
        self.change(move |tx| tx.decide(&id, shown, decisions)).await
    }

    /// Ends a run, or requests that from the process that runs its script.
    pub async fn cancel(&self, id: &str, outcome: &str) -> Result<Cancelled, RunError> {
        let id = id.to_owned();
        let outcome = outcome.to_owned();
        self.change(move |tx| tx.cancel(&id, &outcome)).await
    }

    /// Reads a run with its calls and their answers. To show or to resume a run, [`Self::show`] and
    /// [`Self::head`] read less.
    pub async fn get(&self, id: &str) -> Result<StoredRun, RunError> {
        let scope = self.scope;
        let id = id.to_owned();
        self.database
            .read_snapshot(move |sql| sql::read::get(sql, Some(&scope), &id))
            .await?
            .ok_or(RunError::Unknown)
    }

    /// Reads a run without its tools, calls and outcome. Cheap, whatever the run holds.
    pub async fn head(&self, id: &str) -> Result<StoredRun, RunError> {
        let scope = self.scope;
        let id = id.to_owned();
        self.database
            .read(move |sql| sql::read::head(sql, Some(&scope), &id))
            .await?
            .ok_or(RunError::Unknown)
    }

    /// Reads a run as people see it, without the answers of its calls.
    pub async fn show(&self, id: &str) -> Result<ShownRun, RunError> {
        let scope = self.scope;
        let id = id.to_owned();
        self.database
            .read_snapshot(move |sql| show::show(sql, Some(&scope), &id))
            .await?
            .ok_or(RunError::Unknown)
    }

    /// Reads a run like [`Self::show`]. `admit` is called with the size of its texts in bytes, and some
    /// for each call, before they are copied. Returns the reason of `admit` if it fails.
    pub async fn show_within<E: Send + 'static>(
        &self,
        id: &str,
        admit: impl FnOnce(u64) -> Result<(), E> + Send + 'static,
    ) -> Result<Result<ShownRun, E>, RunError> {
        let scope = self.scope;
        let id = id.to_owned();
        self.database
            .read_snapshot(move |sql| show::show_within(sql, &scope, &id, admit))
            .await?
            .ok_or(RunError::Unknown)
    }

    /// Reads the latest runs without their scripts, tools and calls, the newest first. Of the outcome
    /// they have the member `status` alone.
    pub async fn list(&self, limit: u32) -> Result<Vec<StoredRun>, Unavailable> {
        let scope = self.scope;
        self.database.read(move |sql| sql::read::list(sql, Some(&scope), limit)).await
    }

    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&sql::Tx<'_>) -> Result<T, sql::ChangeFailure> + Send + 'static,
    ) -> Result<T, RunError> {
        let scope = self.scope;
        let bounds = self.bounds;
        self.database
            .attempt(vec![Subject::runs(&scope)], move |sql| {
                match change(&sql::Tx::new(sql, &scope, &bounds)) {
                    Ok(changed) => Ok(Ok(changed)),
                    Err(sql::ChangeFailure::Refused(refused)) => Ok(Err(refused)),
                    Err(sql::ChangeFailure::Database(error)) => Err(error),
                }
            })
            .await?
    }
}

impl Database {
    /// Reads a run of any owner, for the operator.
    pub async fn any_run(&self, id: &str) -> Result<StoredRun, RunError> {
        let id = id.to_owned();
        self.read_snapshot(move |sql| sql::read::get(sql, None, &id))
            .await?
            .ok_or(RunError::Unknown)
    }

    /// Reads a run of any owner as [`Runs::show`], for the operator.
    pub async fn show_any_run(&self, id: &str) -> Result<ShownRun, RunError> {
        let id = id.to_owned();
        self.read_snapshot(move |sql| show::show(sql, None, &id)).await?.ok_or(RunError::Unknown)
    }

    /// Reads the latest runs of all owners, as [`Runs::list`], for the operator.
    pub async fn any_runs(&self, limit: u32) -> Result<Vec<StoredRun>, Unavailable> {
        self.read(move |sql| sql::read::list(sql, None, limit)).await
    }

    /// Returns the owners of the latest runs, by the identifiers of the runs, for the operator.
    pub async fn run_owners(&self, limit: u32) -> Result<BTreeMap<String, OwnerId>, Unavailable> {
        let reading = self.read(move |sql| {
            let select = "SELECT id, scope FROM run ORDER BY number DESC LIMIT ?1";
            sql.all(select, params![limit], |row| {
                Ok((row.get::<String>(0)?, row.get::<OwnerId>(1)?))
            })
        });
        Ok(reading.await?.into_iter().collect())
    }

    /// Returns whether these steps look after the bound of all owners: those of one in
    /// [`SWEPT_EVERY`] runs that stop, because the sum of all owners is costly.
    fn sweeps(&self, steps: &[RunStep]) -> bool {
        let is_stop = steps.iter().any(|step| matches!(step, RunStep::Suspend | RunStep::End(_)));
        is_stop && self.count_stopped_run().is_multiple_of(SWEPT_EVERY)
    }
}
