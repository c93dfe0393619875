//! `executeToolCode`: runs a script, or resumes one.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    CodeMode,
    language::Language,
    names::{self, Namespace},
    report::{self, Report},
    scope::Scope,
};
use crate::{
    door::{Admitted, Approval, Chain, Origin, ScriptLanguage},
    run::Phase,
    runs::{self, Journal, Outcome, RunCalls, RunToken, Runs},
    sandbox::{Bindings, Script, ScriptError, ScriptResult},
    store::runs::{NewRun, RunError, StoredRun},
    tool::{
        Answers, CallError, ClientName, ErrorKind, InputRequired, OWN_ASKER, Question,
        QuestionKind, Suspension, ToolError, ToolName, ToolOutput,
    },
};

/// Name of the question about the calls of a script.
const QUESTION: &str = "approval";
/// Longest question, in bytes.
const MAX_QUESTION: usize = 16 << 10;

impl CodeMode {
    /// Runs a script from its start.
    pub(super) async fn execute(
        &self,
        call: &Admitted,
        scope: &Scope,
        code: &str,
    ) -> Result<ToolOutput, CallError> {
        let (chain, namespaces) = (call.chain(), &scope.namespaces[..]);
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
        let not_waiting = || CallError::NotWaiting { tool: call.tool().name.clone() };
        let runs = self.runs.as_ref().ok_or_else(not_waiting)?;
        let chain = call.chain();
        let own = runs.own(chain.tenant());
        let token: RunToken = answers.token.parse().map_err(|_| not_waiting())?;
        let id = token.run();
        let stored = own.get(id).await.map_err(|error| match error {
            RunError::Unknown => not_waiting(),
            error => not_resumed(id, &error),
        })?;
        if stored.script != code {
            return Err(not_waiting());
        }
        if let RunToken::Shown { epoch, .. } = token {
            // Nothing but the calls that were shown is decided about.
            let is_as_shown = stored.lease.epoch == epoch && stored.lease.phase == Phase::Suspended;
            if !is_as_shown {
                return Err(not_waiting());
            }
            let approves = match (answers.given.get(QUESTION), can_be_asked(chain)) {
                (Some(answer), true) => approves(id, answer.as_deref())?,
                (None, false) if is_approver(chain) => true,
                _ => return Err(not_waiting()),
            };
            tracing::debug!(run = id, tenant = %chain.tenant(), approves, "calls of a script were decided");
            let decided = own.decide_pending(&stored, approves).await;
            decided.map_err(|error| not_resumed(id, &error))?;
        }
        // It is read again with the lease, and may be large.
        drop(stored);
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
        let language = stored_language(&stored)?;
        let bindings = Arc::new(names::read(&stored.bindings)?);
        self.run(call, namespaces, &journal, language, stored.script, bindings).await
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
        let script = Script {
            name: language.file_name.to_owned(),
            source,
            bindings,
            clock_ms: journal.clock_ms(),
        };
        let calls = RunCalls::new(chain.clone(), journal.clone());
        let ran = tokio::select! {
            ran = runner.run_script(script, chain, calls) => ran,
            stop = journal.hold() => Err(ScriptError::Stopped(stop)),
        };
        let ran = ran.and_then(|value| {
            journal.check_complete().map_err(ScriptError::Stopped).map(|()| value)
        });
        let result = reported(call, namespaces, language, journal, ran);
        match result {
            Err(CallError::Suspended(suspension)) => Err(stopped(chain, *suspension)),
            Err(error) if runs::can_wait(&error) && journal.put_back().await => Err(error),
            result => {
                journal.end(|| Outcome::new(&result, chain)).await;
                result
            }
        }
    }

    /// Replays a stored run: derives its end from its journal alone. `call` is of a caller that may use
    /// no tool.
    pub(crate) async fn replay(&self, call: &Admitted, stored: &StoredRun) -> Outcome {
        let language = stored_language(stored);
        let read = language.and_then(|it| Ok((it, Arc::new(names::read(&stored.bindings)?))));
        let result = match read {
            Ok((language, bindings)) => {
                let (journal, source) = (Journal::replay(stored), stored.script.clone());
                self.run(call, &[], &journal, language, source, bindings).await
            }
            Err(unreadable) => Err(unreadable),
        };
        Outcome::new(&result, call.chain())
    }
}

/// Renders the end of a script for the model.
fn reported(
    call: &Admitted,
    namespaces: &[Namespace],
    language: &'static Language,
    journal: &Journal,
    ran: ScriptResult,
) -> Result<ToolOutput, CallError> {
    let completed = || {
        let made = journal.made().into_iter();
        made.filter_map(|(tool, has_succeeded)| has_succeeded.then_some(tool)).collect()
    };
    let report = || Report::new(call.chain(), namespaces, language, completed());
    match ran {
        Ok(value) => report().success(value).ok_or_else(|| CallError::ResultTooLarge {
            tool: call.tool().name.clone(),
            limit_bytes: report::MAX_RESULT as u64,
        }),
        Err(ScriptError::Failed(failure)) => Err(report().failure(&failure)),
        Err(ScriptError::Stopped(error)) => Err(error),
    }
}

/// Reads the answer to the question about the calls of a run.
fn approves(id: &str, answer: Option<&str>) -> Result<bool, CallError> {
    let answer: Value = answer.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    match answer["action"].as_str() {
        Some("accept") => Ok(true),
        Some("decline") => Ok(false),
        // The user has decided nothing, and the run waits.
        _ => {
            let message = format!("nothing was decided; the run {id} still waits");
            let code = Some("undecided".to_owned());
            Err(CallError::Tool(ToolError { code, ..ToolError::new(ErrorKind::Denied, message) }))
        }
    }
}

/// Returns whether a caller approves the calls that it was shown by sending their state back: it is a
/// person's program, and cannot be asked in another way.
fn is_approver(chain: &Chain) -> bool {
    matches!(chain.starter(), Origin::Caller | Origin::McpClient(Approval::Given))
}

/// Returns whether the caller takes a question about the calls of a script.
fn can_be_asked(chain: &Chain) -> bool {
    matches!(chain.starter(), Origin::McpClient(Approval::Given))
        && chain.heard().questions.has(QuestionKind::Form)
}

/// Returns the end of a script that has stopped for a decision: the question, if the caller can be
/// asked.
fn stopped(chain: &Chain, suspension: Suspension) -> CallError {
    let is_question = !suspension.pending.is_empty() && suspension.in_doubt.is_empty();
    match ClientName::parse(OWN_ASKER) {
        Ok(client) if is_question && can_be_asked(chain) => CallError::InputRequired {
            name: ToolName::own(super::meta::EXECUTE),
            asked: Box::new(InputRequired {
                client,
                questions: vec![question(&suspension)],
                token: suspension.token,
            }),
        },
        _ => CallError::Suspended(Box::new(suspension)),
    }
}

/// Returns the question about the calls of a script: a form without fields. To accept it is to
/// approve the calls, to decline it is to deny them.
fn question(suspension: &Suspension) -> Question {
    let mut message = String::from("The script wants to make these calls. Approve them?\n");
    for call in &suspension.pending {
        let line = format!("{} {}", call.tool, call.arguments);
        message.push_str("\n- ");
        message.push_str(&crate::text::visible(&line));
    }
    let params = json!({
        "mode": "form",
        "message": crate::text::cut(message, MAX_QUESTION),
        "requestedSchema": {
            "type": "object",
            "properties": {},
        },
    });
    Question {
        key: QUESTION.to_owned(),
        kind: QuestionKind::Form,
        params: params.as_object().cloned().unwrap_or_default(),
    }
}

/// Returns the error of a run that cannot be resumed.
fn not_resumed(id: &str, error: &RunError) -> CallError {
    let kind = match error {
        RunError::Unknown | RunError::NoCall(_) => ErrorKind::NotFound,
        RunError::Refused { .. } => ErrorKind::Conflict,
        RunError::Unavailable(_) => ErrorKind::Unavailable,
    };
    let message = format!("the run {id} cannot be resumed: {error}");
    let code = Some(runs::code(error).to_owned());
    CallError::Tool(ToolError { code, ..ToolError::new(kind, message) })
}

/// Returns the language of a stored run. Fails if another version of this program stored it.
fn stored_language(stored: &StoredRun) -> Result<ScriptLanguage, CallError> {
    ScriptLanguage::named(&stored.language).ok_or_else(|| {
        let message =
            format!("the run {} has the unknown language {:?}", stored.id, stored.language);
        CallError::Tool(ToolError {
            code: Some("run_refused".to_owned()),
            ..ToolError::new(ErrorKind::Unsupported, message)
        })
    })
}
