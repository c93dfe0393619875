//! `executeToolCode`: runs a script, or goes on with one.

use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tracing::warn;

use super::{
    CodeMode,
    language::Language,
    names::{self, Namespace},
    report::{self, Report},
};
use crate::{
    door::{Admitted, Approval, Chain, Origin, ScriptLanguage},
    run::Refused,
    runs::{Journal, NotContinued, Outcome, OwnRuns, RunCalls, Runs},
    sandbox::{Binding, Script, ScriptError, ScriptResult},
    store::runs::{NewRun, RunError, StoredRun},
    tool::{
        Answers, CallError, ClientName, ErrorKind, InputRequired, Question, QuestionKind,
        Suspension, ToolError, ToolName, ToolOutput,
    },
};

/// Name of the question about the calls of a script.
const QUESTION: &str = "approval";
/// Longest question, in bytes.
const MAX_QUESTION: usize = 16 << 10;

impl CodeMode {
    /// Runs a script. A caller that executes a suspended script again approves the calls that it was
    /// shown, and goes on with that run.
    pub(super) async fn execute(
        &self,
        call: &Admitted,
        namespaces: &[Namespace],
        code: &str,
    ) -> Result<ToolOutput, CallError> {
        let chain = call.chain();
        let language = self.selected(chain);
        if code.is_empty() {
            let language = self.runner(language).0;
            return reported(call, namespaces, language, &Journal::without_store(), Ok(None));
        }
        let script_digest = digest(language, code);
        if let Some(runs) = self.runs.as_ref().filter(|_| approves_by_repetition(chain)) {
            let own = runs.own(chain.tenant());
            match own.suspended(script_digest).await {
                Ok(Some(id)) => {
                    own.decide_all(&id, true).await.map_err(|error| not_continued(&id, &error))?;
                    return self.go_on(call, namespaces, runs, &id).await;
                }
                Ok(None) => {}
                // The run that begins cannot be stored either, which ends it where it matters.
                Err(error) => warn!(%error, "the runs of a script cannot be read"),
            }
        }
        let bindings = names::bindings(namespaces);
        let journal = match &self.runs {
            None => Journal::without_store(),
            Some(runs) => {
                let bindings = stored_bindings(&bindings);
                let new = NewRun {
                    language: language.name().to_owned(),
                    script: code.to_owned(),
                    script_digest,
                    bindings_digest: Sha256::digest(&bindings).into(),
                    bindings,
                };
                Journal::begin(runs, chain.tenant(), new)
            }
        };
        self.run(call, namespaces, &journal, language, code.to_owned(), bindings).await
    }

    /// Goes on with a run whose calls a person has decided about. `answers` has the decision, or a
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
        let (own, id) = (runs.own(call.chain().tenant()), &answers.token);
        let stored = own.get(id).await.map_err(|error| match error {
            RunError::Unknown => not_waiting(),
            error => not_continued(id, &error),
        })?;
        if stored.script != code {
            return Err(not_waiting());
        }
        if let Some(answer) = answers.given.get(QUESTION) {
            self.decide(call.chain(), &own, id, answer.as_deref()).await?;
        }
        self.go_on(call, namespaces, runs, id).await
    }

    /// Stores the answer to the question about the calls of a run.
    async fn decide(
        &self,
        chain: &Chain,
        own: &OwnRuns<'_>,
        id: &str,
        answer: Option<&str>,
    ) -> Result<(), CallError> {
        let answer: Value =
            answer.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let approves = match answer["action"].as_str() {
            Some("accept") => true,
            Some("decline") => false,
            // The user has decided nothing, and the run waits.
            _ => {
                let message = format!("nothing was decided; the run {id} still waits");
                let code = Some("undecided".to_owned());
                let error = ToolError { code, ..ToolError::new(ErrorKind::Denied, message) };
                return Err(CallError::Tool(error));
            }
        };
        tracing::debug!(run = id, tenant = %chain.tenant(), approves, "calls of a script were decided");
        own.decide_all(id, approves).await.map_err(|error| not_continued(id, &error))
    }

    async fn go_on(
        &self,
        call: &Admitted,
        namespaces: &[Namespace],
        runs: &Runs,
        id: &str,
    ) -> Result<ToolOutput, CallError> {
        let claimed = Journal::claim(runs, call.chain().tenant(), id).await;
        let (journal, stored) = claimed.map_err(|error| match error {
            NotContinued::Store(error) => not_continued(id, &error),
        })?;
        let language = stored_language(&stored)?;
        let bindings = read_bindings(&stored.bindings);
        self.run(call, namespaces, &journal, language, stored.script, bindings).await
    }

    async fn run(
        &self,
        call: &Admitted,
        namespaces: &[Namespace],
        journal: &Arc<Journal>,
        language: ScriptLanguage,
        source: String,
        bindings: Vec<Binding>,
    ) -> Result<ToolOutput, CallError> {
        let chain = call.chain();
        let (language, runner) = self.runner(language);
        let script = Script { name: language.file_name.to_owned(), source, bindings };
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
            result => {
                journal.end(&Outcome::new(&result, chain)).await;
                result
            }
        }
    }

    /// Derives the end of a stored run again, from its journal alone. `call` is of a caller that may
    /// use no tool.
    pub(crate) async fn replay(&self, call: &Admitted, stored: &StoredRun) -> Outcome {
        let result = match stored_language(stored) {
            Ok(language) => {
                let bindings = read_bindings(&stored.bindings);
                let (journal, source) = (Journal::replay(stored), stored.script.clone());
                self.run(call, &[], &journal, language, source, bindings).await
            }
            Err(unknown) => Err(unknown),
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
    let report = || Report::new(call.chain(), namespaces, language, &journal.completed());
    match ran {
        Ok(value) => report().success(value).ok_or_else(|| CallError::ResultTooLarge {
            tool: call.tool().name.clone(),
            limit_bytes: report::MAX_RESULT as u64,
        }),
        Err(ScriptError::Failed(failure)) => Err(report().failure(&failure)),
        Err(ScriptError::Stopped(error)) => Err(error),
    }
}

/// Returns whether a caller approves the calls of a suspended script by executing the script again:
/// the caller is a person's program, and cannot be asked in another way.
fn approves_by_repetition(chain: &Chain) -> bool {
    match chain.starter() {
        Origin::Caller => true,
        Origin::McpClient(Approval::Given) => !can_be_asked(chain),
        _ => false,
    }
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
    match ClientName::parse("airlock") {
        Ok(client) if is_question && can_be_asked(chain) => CallError::InputRequired {
            name: ToolName::own(super::meta::EXECUTE),
            asked: Box::new(InputRequired {
                client,
                questions: vec![question(&suspension)],
                token: suspension.run,
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

/// Returns the error of a run that cannot go on.
fn not_continued(id: &str, error: &RunError) -> CallError {
    let (kind, code) = match error {
        RunError::Unknown | RunError::NoCall(_) => (ErrorKind::NotFound, "run_not_found"),
        RunError::Refused { refused: Refused::Running, .. } => (ErrorKind::Conflict, "run_running"),
        RunError::Refused { refused: Refused::Ended, .. } => (ErrorKind::Conflict, "run_ended"),
        RunError::Refused { .. } => (ErrorKind::Conflict, "run_refused"),
        RunError::Unavailable(_) => (ErrorKind::Unavailable, "journal_unavailable"),
    };
    let message = format!("the run {id} cannot go on: {error}");
    CallError::Tool(ToolError { code: Some(code.to_owned()), ..ToolError::new(kind, message) })
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

fn digest(language: ScriptLanguage, code: &str) -> [u8; 32] {
    Sha256::new()
        .chain_update(language.name())
        .chain_update([0])
        .chain_update(code)
        .finalize()
        .into()
}

/// A binding as it is stored: namespace, name, alias and tool.
type StoredBinding = (String, String, Option<String>, String);

fn stored_bindings(bindings: &[Binding]) -> String {
    let stored: Vec<_> =
        bindings.iter().map(|it| (&it.namespace, &it.name, &it.alias, it.tool.as_str())).collect();
    json!(stored).to_string()
}

fn read_bindings(stored: &str) -> Vec<Binding> {
    let stored: Vec<StoredBinding> = serde_json::from_str(stored).unwrap_or_default();
    let binding = |(namespace, name, alias, tool): StoredBinding| Binding {
        namespace,
        name,
        alias,
        tool: ToolName::alias(&tool),
    };
    stored.into_iter().map(binding).collect()
}
