//! Calls that wait for a person: list, approve, deny, resume.
//!
//! A call that waits is named by its own identifier, and the calls of a script by the run and the state in which it
//! was shown, such as `run_….3`: nothing is decided about calls that were not shown.

use airlock_agent::approvals;
use airlock_core::{
    door::log_failure,
    run::{Phase, Stage, denial_reason},
    tenant::Tenant,
    tool::CallError,
};
use airlock_scripts::runs::{self, Decisions, EXECUTE, Runs};
use airlock_store::{
    approvals::{Approvals, DecisionOutcome},
    runs::{RunError, ShownRun},
};

use super::{CallReply, CallToApprove, GatewayRequest, Operation, PendingApproval, RequestError};

/// Calls that are read from the list at a time.
const PAGE: u32 = 100;
/// Start of the identifier of a run.
const RUN: &str = "run_";

/// A decision of a person.
#[derive(Clone, Copy)]
struct PersonDecision<'d> {
    approves: bool,
    /// Reason of a denial, for the records and for the caller or the script.
    reason: Option<&'d str>,
}

impl GatewayRequest {
    /// Returns the calls that wait for an approval: those of the sender, and of all callers for the operator;
    /// and the calls of the sender's scripts. Calls that are decided about meanwhile may be left out.
    pub async fn pending(&self) -> Result<Vec<PendingApproval>, RequestError> {
        let operation = self.begin()?;
        let mut pending = operation.waiting_calls().await?;
        pending.extend(operation.waiting_scripts().await?);
        Ok(pending)
    }

    /// Approves calls that wait, as [`PendingApproval::id`] names them. Nothing runs: the caller repeats the
    /// call, or [resumes](Self::resume) it. A call that two operators approve waits for the other one then. Fails if they do not wait any more, or if the sender may not decide
    /// about them.
    pub async fn approve(&self, id: &str) -> Result<(), RequestError> {
        self.begin()?.decide(id, PersonDecision { approves: true, reason: None }).await
    }

    /// Denies calls that wait, as [`Self::approve`] approves them. `reason` is in the records of the
    /// gateway, and the caller of the call or the script receives it: on one line, without hidden characters, and cut
    /// to 1,000 bytes.
    pub async fn deny(&self, id: &str, reason: &str) -> Result<(), RequestError> {
        let reason = denial_reason(reason);
        let reason = Some(reason.as_str()).filter(|reason| !reason.is_empty());
        self.begin()?.decide(id, PersonDecision { approves: false, reason }).await
    }

    /// Makes a call of the sender that has waited, or resumes its script, with the decisions that were made
    /// since. Calls without a decision continue to wait. If the future is dropped, a script still runs to its end, so that
    /// approved work is not left half done.
    pub async fn resume(&self, id: &str) -> Result<CallReply, RequestError> {
        let operation = self.begin()?;
        if id.starts_with(RUN) {
            return operation.resume_script(run_of(id)).await;
        }
        let list = operation.gateway.approvals();
        let own = list.database().await?.approvals(operation.tenant().scope());
        let call = own.find(id).await?.ok_or_else(|| RequestError::not_waiting(id))?;
        let tool = approvals::tool_of(&call);
        operation.call(&tool, approvals::arguments_of(&call)).await
    }
}

impl Operation {
    /// Returns the calls about which the sender may decide, or of which it waits for the decision.
    async fn listed(&self) -> Result<Approvals, RequestError> {
        let list = self.gateway.approvals();
        let database = list.database().await?;
        Ok(if self.is_operator {
            database.all_approvals()
        } else {
            database.approvals(self.tenant().scope())
        })
    }

    async fn waiting_calls(&self) -> Result<Vec<PendingApproval>, RequestError> {
        let listed = self.listed().await?;
        let mut pending = Vec::new();
        let mut offset = 0;
        loop {
            let page = listed.list(PAGE, offset).await?;
            offset += u32::try_from(page.calls.len()).unwrap_or(PAGE);
            let undecided = page.calls.iter().filter(|call| call.approved.is_none());
            pending.extend(undecided.map(PendingApproval::of_call));
            if !page.has_more || page.calls.is_empty() {
                return Ok(pending);
            }
        }
    }

    async fn waiting_scripts(&self) -> Result<Vec<PendingApproval>, RequestError> {
        let Some(runs) = &self.parts.runs else { return Ok(Vec::new()) };
        let tenant = self.tenant();
        let mut listed = runs.own(&tenant).list().await?;
        listed.retain(|run| run.lease.phase == Phase::Suspended && run.pending > 0);
        let ids: Vec<_> = listed.into_iter().map(|run| run.id).collect();
        waiting_of(runs, &tenant, &ids).await
    }

    async fn decide(&self, id: &str, decision: PersonDecision<'_>) -> Result<(), RequestError> {
        if id.starts_with(RUN) {
            return self.decide_about_script(id, decision).await;
        }
        let listed = self.listed().await?;
        let call = listed.find(id).await?.ok_or_else(|| RequestError::not_waiting(id))?;
        if !self.is_operator && approvals::is_for_operators(&call) {
            return Err(RequestError::OperatorRequired);
        }
        let actor = self.actor();
        let PersonDecision { approves, reason } = decision;
        let decision = approvals::Decision { approves, actor: &actor, reason };
        let list = self.gateway.approvals();
        match list.decide_and_record(&listed, &call, &decision).await? {
            DecisionOutcome::Decided | DecisionOutcome::First => Ok(()),
            DecisionOutcome::SameActor => Err(RequestError::OperatorRequired),
            DecisionOutcome::NotWaiting => Err(RequestError::not_waiting(id)),
        }
    }

    /// Decides about the calls of a script that were shown as pending.
    async fn decide_about_script(
        &self,
        id: &str,
        PersonDecision { approves, reason }: PersonDecision<'_>,
    ) -> Result<(), RequestError> {
        if approves && !self.is_operator && self.waits_for_operators() {
            return Err(RequestError::OperatorRequired);
        }
        let run = run_of(id);
        let tenant = self.tenant();
        let own = self.runs(id)?.own(&tenant);
        let shown = own.show(run).await.map_err(|error| RequestError::of_run(id, error))?;
        let mut decisions = Decisions::default();
        for call in &shown.calls {
            if matches!(call.call.stage, Stage::Pending { .. }) {
                decisions = if approves {
                    decisions.approve(call.position)
                } else {
                    decisions.deny(call.position, reason)
                };
            }
        }
        let decisions = decisions.shown_in(run, id).filter(|decisions| !decisions.is_empty());
        let decisions = decisions.ok_or_else(|| RequestError::not_waiting(id))?;
        let actor = self.actor();
        let decided = own.decide(run, decisions, &actor).await;
        decided.map_err(|error| RequestError::of_run(id, error))
    }

    /// Resumes a script until it ends or stops again.
    async fn resume_script(self, run: &str) -> Result<CallReply, RequestError> {
        self.check_depth()?;
        let tenant = self.tenant();
        let head = self.runs(run)?.own(&tenant).head(run).await;
        let head = head.map_err(|error| RequestError::of_run(run, error))?;
        let resumed = runs::resume(&self.caller(), run, &head.script)?;
        let running = tokio::spawn(async move {
            let ran = resumed.run().await;
            log_failure(EXECUTE, ran.as_ref().err());
            self.reply(ran)
        });
        running.await.unwrap_or_else(|_| Err(CallError::cancelled().into()))
    }

    /// Returns the stored runs. Fails if none are kept.
    fn runs(&self, id: &str) -> Result<&Runs, RequestError> {
        self.parts.runs.as_ref().ok_or_else(|| RequestError::not_waiting(id))
    }
}

impl PendingApproval {
    /// Describes the pending calls of a run as it is now.
    fn of_run(shown: &ShownRun, caller: String) -> Self {
        let ShownRun { run, calls } = shown;
        let pending = calls.iter().filter(|call| matches!(call.call.stage, Stage::Pending { .. }));
        let calls = pending.map(|shown| runs::run_call(shown.position, &shown.call.called));
        let calls = calls.map(CallToApprove::of_script);
        Self { id: format!("{}.{}", run.id, run.lease.epoch), caller, calls: calls.collect() }
    }
}

/// Returns the calls that wait in these runs of a tenant. A run that was removed or decided about since it was listed
/// is left out.
async fn waiting_of(
    runs: &Runs,
    tenant: &Tenant,
    listed: &[String],
) -> Result<Vec<PendingApproval>, RequestError> {
    let own = runs.own(tenant);
    let mut waiting = Vec::new();
    for id in listed {
        match own.show(id).await {
            Ok(shown) => waiting.push(PendingApproval::of_run(&shown, tenant.to_string())),
            Err(RunError::Unknown) => {}
            Err(error) => return Err(RequestError::of_run(id, error)),
        }
    }
    waiting.retain(|run| !run.calls.is_empty());
    Ok(waiting)
}

/// Returns the identifier of the run that `id` names, with or without the state in which it was shown.
fn run_of(id: &str) -> &str {
    id.split_once('.').map_or(id, |(run, _)| run)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use airlock_core::run::{Called, Position};
    use airlock_scripts::runs::{RunSettings, ScriptApproval};
    use airlock_store::{
        LazyDatabase, Settings,
        runs::{NewRun, RunBounds, RunStep, ScriptTools},
    };

    const SETTINGS: RunSettings = RunSettings {
        journal: true,
        bounds: RunBounds {
            expire_after: Duration::from_hours(1),
            owner_runs: 10,
            owner_bytes: 1 << 20,
            total_bytes: 1 << 20,
            lease: Duration::from_mins(1),
            approval: Duration::from_mins(1),
        },
        cpu_time: Duration::from_secs(1),
        approves_whole_scripts: false,
        clock: false,
        approval: ScriptApproval::Calls,
    };

    /// Returns the steps of a run that stops, at a call that needs an approval if it `asks`.
    fn stopped(asks: bool) -> Vec<RunStep> {
        let new = NewRun {
            language: "starlark".to_owned(),
            script: "s".to_owned(),
            tools: ScriptTools::new(|| ("[]".to_owned(), [0; 32])),
            clock_ms: None,
            trace: None,
            sources: None,
        };
        let called = Called {
            tool: "fs-write".into(),
            arguments: "{}".into(),
            written: None,
            definition: "d".into(),
            is_repeatable: false,
            sources: None,
            asked_by: None,
        };
        let ask = asks.then_some(RunStep::Ask(Position { block: 1, branch: 0 }, called));
        [RunStep::Begin(new)].into_iter().chain(ask).chain([RunStep::Suspend]).collect()
    }

    #[tokio::test]
    async fn a_run_that_was_removed_or_decided_about_since_it_was_listed_is_left_out() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = Settings::new(directory.path().join("airlock.db"));
        let runs = Runs::new(SETTINGS, LazyDatabase::new(store));
        let tenant = Tenant::ANONYMOUS;
        let database = runs.database().await.expect("it opens");
        let stored = database.runs(tenant.scope(), SETTINGS.bounds);
        stored.step("run_waits", 1, stopped(true)).await.expect("stored");
        stored.step("run_decided", 1, stopped(false)).await.expect("stored");
        let listed = ["run_removed", "run_decided", "run_waits"].map(str::to_owned);
        let waiting = waiting_of(&runs, &tenant, &listed).await.expect("the others are read");
        let [one] = &waiting[..] else { panic!("{waiting:?}") };
        assert!(one.id.starts_with("run_waits."), "{}", one.id);
        assert_eq!(one.calls[0].tool, "fs-write");
    }
}
