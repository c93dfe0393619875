//! `executeToolCode`: runs a script, or resumes one.

use std::sync::Arc;

use super::{
    CodeMode, Runner, advice,
    ask::{QUESTION, approves, can_be_asked, is_approver, stopped},
    language::LanguageTexts,
    names::{self, Namespace},
    report::{self, ScriptReport},
    scope::ScriptScope,
};
use crate::runs::{self, CarriedDecision, Journal, RunCalls, RunOutcome, RunToken, Runs};
use airlock_core::{
    act::Actor,
    door::{Admitted, ScriptLanguage, View},
    run::Phase,
    tool::{Answers, CallError, ErrorKind, SourceSet, ToolError, ToolOutput},
};
use airlock_sandbox::{Bindings, Script, ScriptError, ScriptResult};
use airlock_store::runs::{NewRun, RunError, StoredRun};
use airlock_telemetry::{Span, TraceContext, TraceFuture as _, names::AIRLOCK_RUN_ID};

impl CodeMode {
    /// Runs a script from its start.
    pub(super) async fn execute(
        &self,
        call: &Admitted,
        scope: &ScriptScope,
        code: &str,
    ) -> Result<ToolOutput, CallError> {
        let chain = call.chain();
        let namespaces = &scope.namespaces[..];
        let language = self.selected(chain);
        if code.is_empty() {
            let language = self.runner(language).0;
            return reported(call, namespaces, language, &Journal::without_store(), Ok(None));
        }
        let journal = match &self.runs {
            None => Journal::without_store(),
            Some(runs) => {
                let new = NewRun {
                    language: language.name().to_owned(),
                    script: code.to_owned(),
                    tools: scope.stored(),
                    clock_ms: runs.settings().clock.then(|| runs.now_ms()),
                    trace: Span::current().trace_context().map(String::from),
                    sources: chain.context().to_json(),
                };
                Journal::begin(runs, chain.tenant(), new)
            }
        };
        self.run(call, namespaces, &journal, language, code.to_owned(), scope.bindings()).await
    }

    /// Resumes a run whose calls a person has decided about. `answers` has the decision, or a
    /// decision was stored before.
    pub(super) async fn resume(
        &self,
        call: &Admitted,
        namespaces: &[Namespace],
        code: &str,
        answers: &Answers,
    ) -> Result<ToolOutput, CallError> {
        let runs = self.runs.as_ref().ok_or_else(|| not_waiting(call))?;
        let chain = call.chain();
        let own = runs.own(chain.tenant());
        let token = RunToken::parse(&answers.token).ok_or_else(|| not_waiting(call))?;
        let id = token.run();
        let head = own.head(id).await.map_err(|error| match error {
            RunError::Unknown => not_waiting(call),
            error => not_resumed(id, &error),
        })?;
        if head.script != code {
            return Err(not_waiting(call));
        }
        // Before a decision: the run is then as it was.
        let _memory = runs.hold(chain.tenant(), head.bytes).ok_or_else(CallError::busy)?;
        if let RunToken::Shown { epoch, .. } = token {
            // Nothing but the calls that were shown is decided about.
            let is_as_shown = head.lease.epoch == epoch && head.lease.phase == Phase::Suspended;
            if !is_as_shown {
                return Err(not_waiting(call));
            }
            let carried = match (answers.given.get(QUESTION), can_be_asked(chain)) {
                (Some(answer), true) => {
                    CarriedDecision::OfUser { approves: approves(id, answer.as_deref())? }
                }
                (None, false) if is_approver(chain) => CarriedDecision::OfCaller,
                _ => return Err(not_waiting(call)),
            };
            let actor = Actor::from(chain.tenant());
            let decided = own.decide_pending(id, epoch, carried, &actor).await;
            decided.map_err(|error| not_resumed(id, &error))?;
        }
        self.resume_run(call, namespaces, runs, id).await
    }

    async fn resume_run(
        &self,
        call: &Admitted,
        namespaces: &[Namespace],
        runs: &Runs,
        id: &str,
    ) -> Result<ToolOutput, CallError> {
        let claimed = Journal::claim(runs, call.chain().tenant(), id).await;
        let (journal, stored) = claimed.map_err(|error| not_resumed(id, &error))?;
        let bindings = names::read(&stored.bindings).map(Arc::new);
        // What the author of the script had read.
        call.chain().receive(&SourceSet::from_json(stored.sources.as_deref()));
        match stored_language(&stored).and_then(|language| Ok((language, bindings?))) {
            Ok((language, bindings)) => {
                let span = resumption(id, stored.trace);
                let running =
                    self.run(call, namespaces, &journal, language, stored.script, bindings);
                let result = running.in_span(&span).await;
                span.end();
                result
            }
            Err(unreadable) => {
                // The version that stored it can still resume it.
                journal.put_back().await;
                Err(unreadable)
            }
        }
    }

    async fn run(
        &self,
        call: &Admitted,
        namespaces: &[Namespace],
        journal: &Arc<Journal>,
        language: ScriptLanguage,
        source: String,
        bindings: Arc<Bindings>,
    ) -> Result<ToolOutput, CallError> {
        let chain = call.chain();
        if let Some(id) = journal.id() {
            chain.reporter().set_run(id);
        }
        let (language, runner) = self.runner(language);
        let follows_values =
            journal.followed_values().unwrap_or_else(|| chain.view().follows_arguments());
        let script = Script {
            name: language.file_name.to_owned(),
            source,
            bindings,
            clock_ms: journal.clock_ms(),
            inputs: None,
            last_expression: false,
            follows_values,
        };
        let calls = RunCalls::new(chain.clone(), journal.clone());
        let ran = tokio::select! {
            ran = self.run_held(&calls, journal, runner, script) => ran,
            stop = journal.hold() => Err(ScriptError::Stopped(stop)),
        };
        let ran = ran.and_then(|value| {
            journal.check_complete().map_err(ScriptError::Stopped).map(|()| value)
        });
        let ran = self.advised(chain.view(), namespaces, ran).await;
        let result = reported(call, namespaces, language, journal, ran);
        if let Some(suspension) = result.as_ref().err().and_then(CallError::suspension) {
            return Err(stopped(chain, suspension.clone()));
        }
        match result {
            Err(error) if runs::can_wait(&error) && journal.put_back().await => Err(error),
            result => {
                journal
                    .end(|| {
                        let ended = RunOutcome::new(&result, chain);
                        RunOutcome { wrong_calls: calls.wrong(), follows_values, ..ended }
                    })
                    .await;
                result
            }
        }
    }

    /// Runs a script, whose calls are held to its manifest if it has one.
    async fn run_held(
        &self,
        calls: &Arc<RunCalls>,
        journal: &Arc<Journal>,
        runner: &dyn Runner,
        script: Script,
    ) -> ScriptResult {
        let held = self.hold_to_manifest(calls, journal, runner, &script).await;
        held.map_err(ScriptError::Stopped)?;
        runner.run_script(script, calls.chain(), calls.clone()).await
    }

    /// Completes the failure of a script that called a tool wrongly.
    async fn advised(
        &self,
        view: &View,
        namespaces: &[Namespace],
        ran: ScriptResult,
    ) -> ScriptResult {
        let mut failure = match ran {
            Err(ScriptError::Failed(failure)) => failure,
            other => return other,
        };
        if let Some((namespace, function)) = advice::called(&failure, namespaces) {
            for shown in self.shown(view, std::slice::from_ref(&function.tool)).await {
                advice::complete(&mut failure, namespace, function, &shown);
            }
        }
        Err(ScriptError::Failed(failure))
    }

    /// Replays a stored run: derives its end from its journal alone. `call` is of a caller that may use
    /// no tool.
    pub async fn replay(&self, call: &Admitted, stored: &StoredRun) -> RunOutcome {
        let language = stored_language(stored);
        let read =
            language.and_then(|language| Ok((language, Arc::new(names::read(&stored.bindings)?))));
        let result = match read {
            Ok((language, bindings)) => {
                let journal = Journal::replay(stored);
                let source = stored.script.clone();
                self.run(call, &[], &journal, language, source, bindings).await
            }
            Err(unreadable) => Err(unreadable),
        };
        RunOutcome::new(&result, call.chain())
    }
}

/// Renders the end of a script for the model.
fn reported(
    call: &Admitted,
    namespaces: &[Namespace],
    language: &'static LanguageTexts,
    journal: &Journal,
    ran: ScriptResult,
) -> Result<ToolOutput, CallError> {
    let succeeded = journal.completed();
    let failed = journal.failed();
    let report = ScriptReport::new(call.chain(), namespaces, language, succeeded, failed);
    match ran {
        Ok(value) => report.success(value).ok_or_else(|| {
            let tool = call.tool().name.clone();
            report.limit(CallError::result_too_large(tool, report::MAX_RESULT))
        }),
        Err(ScriptError::Failed(failure)) => Err(report.failure(&failure)),
        Err(ScriptError::Stopped(error)) if error.limit().is_some() => Err(report.limit(error)),
        Err(ScriptError::Stopped(error)) if runs::can_wait(&error) => Err(error),
        Err(ScriptError::Stopped(error)) => {
            Err(error.into_tool_error().map_or_else(|error| error, |own| report.stopped(own)))
        }
    }
}

/// Starts the span of a run that is resumed, with a link to the request that began it.
fn resumption(id: &str, began: Option<String>) -> Span {
    let resumed = Span::internal(|| "resume_run".to_owned());
    let span = match began.and_then(|began| TraceContext::try_from(began).ok()) {
        Some(began) => resumed.link(&began).start(),
        None => resumed.start(),
    };
    span.set(AIRLOCK_RUN_ID, id);
    span
}

/// Returns the error of a call that decides about a run that does not wait.
fn not_waiting(call: &Admitted) -> CallError {
    CallError::not_waiting(call.tool().name.clone())
}

/// Returns the error of a run that cannot be resumed.
fn not_resumed(id: &str, error: &RunError) -> CallError {
    let kind = match error {
        RunError::Unknown | RunError::NoCall(_) => ErrorKind::NotFound,
        RunError::Refused { .. } => ErrorKind::Conflict,
        RunError::Unavailable(_) => ErrorKind::Unavailable,
    };
    let message = format!("the run {id} cannot be resumed: {error}");
    ToolError::new(kind, message).with_code(runs::code(error)).into()
}

/// Returns the language of a stored run. Fails if another version of this program stored it.
fn stored_language(stored: &StoredRun) -> Result<ScriptLanguage, CallError> {
    ScriptLanguage::named(&stored.language).ok_or_else(|| {
        let message =
            format!("the run {} has the unknown language {:?}", stored.id, stored.language);
        ToolError::new(ErrorKind::Unsupported, message).with_code("run_refused").into()
    })
}
