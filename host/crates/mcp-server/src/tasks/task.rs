//! One task: its phases, and how clients see it.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    answers::GivenAnswers,
    result::{SERVER_INFO, server_info},
};
use airlock_core::{
    replica::ReplicaId,
    tenant::Tenant,
    tool::{ANSWER_TIMEOUT, InputRequired},
};
use airlock_json::raw;
use airlock_wire::{
    error::{RpcError, code},
    version::Version,
};

/// Interval at which a client should poll.
const POLL: Duration = Duration::from_secs(1);
/// Maximum length of the request of a call that becomes a task, and that of all answers to it which are kept until it
/// resumes, in bytes. The requests of all tasks take as much memory as all results, 64 MiB, and so do the answers.
pub(crate) const MAX_INPUT_BYTES: usize = 64 << 10;

/// A call that runs in the background.
pub(crate) struct Task {
    id: String,
    pub(super) tenant: Tenant,
    created: SystemTime,
    pub(super) ttl: Duration,
    pub(super) expires: Instant,
    state: watch::Sender<TaskState>,
    work: Mutex<Option<Work>>,
}

/// The running call. Its outcome is `None` if the task has it.
pub(crate) type Work = AbortOnDropHandle<Option<Result<String, RpcError>>>;

/// The phase of a task, and the time at which it changed last.
#[derive(Clone)]
pub(crate) struct TaskState {
    pub(crate) phase: TaskPhase,
    updated: SystemTime,
}

#[derive(Clone)]
pub(crate) enum TaskPhase {
    /// The call runs.
    Working,
    /// Waits for answers of the client.
    InputRequired(OpenQuestions),
    /// The call has ended: the text of its result, or its error.
    Ended(Arc<Result<String, RpcError>>),
    /// The client has cancelled the call.
    Cancelled,
}

/// Questions of a task, and the answers so far.
#[derive(Clone)]
pub(crate) struct OpenQuestions {
    /// MCP's `inputRequests` that are not answered yet.
    pub(crate) open: Map<String, Value>,
    given: GivenAnswers,
}

impl TaskPhase {
    /// The call has ended, with a result that there is no room for.
    pub(super) fn too_large() -> Self {
        let message = "the results of this caller's tasks take too much memory; the call has run";
        Self::Ended(Arc::new(Err(RpcError::new(code::REFUSED, message))))
    }

    fn has_ended(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Cancelled)
    }
}

impl Task {
    /// Creates a task that is kept for `ttl`.
    pub(super) fn new(tenant: Tenant, ttl: Duration) -> Self {
        let state = TaskState { phase: TaskPhase::Working, updated: SystemTime::now() };
        Self {
            id: ReplicaId::handle().to_string(),
            tenant,
            created: state.updated,
            ttl,
            expires: Instant::now() + ttl,
            state: watch::Sender::new(state),
            work: Mutex::default(),
        }
    }

    /// Returns the identifier that clients name the task by.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Keeps the running call until it is stopped.
    pub(crate) fn keep(&self, work: Work) {
        *self.work.lock() = Some(work);
    }

    /// Returns a receiver of each change.
    pub(crate) fn changes(&self) -> watch::Receiver<TaskState> {
        self.state.subscribe()
    }

    /// Returns whether the call has ended or was cancelled.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.borrow().phase.has_ended()
    }

    /// Returns whether the task has not expired. Stops the call if it has.
    pub(super) fn is_kept(&self, now: Instant) -> bool {
        let is_kept = now < self.expires;
        if !is_kept {
            self.stop();
        }
        is_kept
    }

    /// Returns the bytes of the result.
    pub(super) fn result_bytes(&self) -> usize {
        match &self.state.borrow().phase {
            TaskPhase::Ended(ended) => ended.as_ref().as_ref().map_or(0, String::len),
            _ => 0,
        }
    }

    /// Replaces the result with an error.
    pub(super) fn discard_result(&self) {
        self.state.send_if_modified(|state| {
            let has_result = matches!(&state.phase, TaskPhase::Ended(ended) if ended.is_ok());
            if has_result {
                *state = TaskState { phase: TaskPhase::too_large(), updated: SystemTime::now() };
            }
            has_result
        });
    }

    /// Changes the phase, unless the task has ended.
    pub(super) fn set(&self, phase: TaskPhase) {
        self.state.send_if_modified(|state| {
            let has_ended = state.phase.has_ended();
            if !has_ended {
                *state = TaskState { phase, updated: SystemTime::now() };
            }
            !has_ended
        });
    }

    /// Stops the call.
    pub(super) fn stop(&self) {
        self.work.lock().take();
    }

    /// Stops the call, unless the task has ended.
    pub(crate) fn cancel(&self) {
        self.set(TaskPhase::Cancelled);
        self.stop();
    }

    /// Asks the client. Returns its answers; what it has not answered in time counts as refused.
    pub(crate) async fn ask(&self, asked: &InputRequired) -> GivenAnswers {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let open = asked.to_requests();
        self.set(TaskPhase::InputRequired(OpenQuestions { open, given: GivenAnswers::new() }));
        let mut changes = self.state.subscribe();
        let answered = changes.wait_for(|state| match &state.phase {
            TaskPhase::InputRequired(asked) => asked.open.is_empty(),
            _ => true,
        });
        let _ = timeout_at(deadline, answered).await;
        let mut given = match &self.state.borrow().phase {
            TaskPhase::InputRequired(asked) => asked.given.clone(),
            _ => GivenAnswers::new(),
        };
        for question in &asked.questions {
            given.entry(question.key.clone()).or_insert(None);
        }
        self.set(TaskPhase::Working);
        given
    }

    /// Takes answers to open questions. Others are ignored. Returns false, and takes none, if there are
    /// too many bytes of them.
    pub(crate) fn answer(
        &self,
        answers: impl IntoIterator<Item = (String, Option<String>)>,
    ) -> bool {
        let mut has_room = true;
        self.state.send_if_modified(|state| {
            let TaskPhase::InputRequired(asked) = &mut state.phase else { return false };
            let answers = answers.into_iter();
            let answers: Vec<_> = answers.filter(|(key, _)| asked.open.contains_key(key)).collect();
            let new = answers.iter().map(|(_, answer)| answer);
            let bytes: usize = asked.given.values().chain(new).flatten().map(String::len).sum();
            has_room = bytes <= MAX_INPUT_BYTES;
            if !has_room || answers.is_empty() {
                return false;
            }
            for (key, answer) in answers {
                asked.open.shift_remove(&key);
                asked.given.insert(key, answer);
            }
            state.updated = SystemTime::now();
            true
        });
        has_room
    }

    /// Returns MCP's `Task` in a revision.
    fn describe(&self, state: &TaskState, version: Version) -> Map<String, Value> {
        let status = match &state.phase {
            TaskPhase::Working => "working",
            TaskPhase::InputRequired(_) => "input_required",
            TaskPhase::Cancelled => "cancelled",
            // Before 2026-07-28, a tool that failed is a task that failed.
            TaskPhase::Ended(ended) => match &**ended {
                Ok(text) if version.is_modern() || !is_error(text) => "completed",
                _ => "failed",
            },
        };
        let [ttl, poll] =
            if version.is_modern() { ["ttlMs", "pollIntervalMs"] } else { ["ttl", "pollInterval"] };
        Map::from_iter([
            ("taskId".to_owned(), json!(self.id)),
            ("status".to_owned(), json!(status)),
            ("createdAt".to_owned(), json!(timestamp(self.created))),
            ("lastUpdatedAt".to_owned(), json!(timestamp(state.updated))),
            (ttl.to_owned(), json!(millis(self.ttl))),
            (poll.to_owned(), json!(millis(POLL))),
        ])
    }

    /// Returns the result of the call that the task is made of.
    pub(crate) fn created(&self, version: Version) -> String {
        let task = self.describe(&self.state.borrow(), version);
        if !version.is_modern() {
            return json!({"task": task}).to_string();
        }
        let mut result = Map::from_iter([("resultType".to_owned(), json!("task"))]);
        result.extend(task);
        result.insert("_meta".to_owned(), json!({SERVER_INFO: server_info()}));
        Value::from(result).to_string()
    }

    /// Returns the result of `tasks/get`.
    pub(crate) fn shown(&self, version: Version) -> String {
        let state = self.state.borrow().clone();
        let mut task = self.describe(&state, version);
        if !version.is_modern() {
            return Value::from(task).to_string();
        }
        task.insert("resultType".to_owned(), json!("complete"));
        task.insert("_meta".to_owned(), json!({SERVER_INFO: server_info()}));
        let mut result = String::new();
        match &state.phase {
            TaskPhase::InputRequired(asked) => {
                task.insert("inputRequests".to_owned(), json!(asked.open));
            }
            TaskPhase::Ended(ended) => match &**ended {
                // As it is: a number that was read would not be exact.
                Ok(text) => result = format!(",\"result\":{text}"),
                Err(error) => drop(task.insert("error".to_owned(), json!(error))),
            },
            TaskPhase::Working | TaskPhase::Cancelled => {}
        }
        let task = Value::from(task).to_string();
        format!("{}{result}}}", &task[..task.len() - 1])
    }
}

/// Returns whether the text of a `CallToolResult` is that of a failure.
fn is_error(text: &str) -> bool {
    raw::member(text, "isError") == Some("true")
}

fn timestamp(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::tool::{ClientName, Question, QuestionKind};

    fn shown(task: &Task) -> Value {
        serde_json::from_str(&task.shown(Version::V2026_07_28)).expect("JSON")
    }

    #[tokio::test]
    async fn questions_stay_open_until_each_is_answered() {
        let task = Task::new(Tenant::ANONYMOUS, Duration::from_mins(1));
        let client = ClientName::parse("up").expect("a good name");
        let questions = vec![question("a"), question("b")];
        let asked = InputRequired { client, questions, token: "t".to_owned() };
        let short = Some("x".repeat(MAX_INPUT_BYTES - 1));
        let long = Some("x".repeat(MAX_INPUT_BYTES + 1));
        let answering = async {
            tokio::task::yield_now().await;
            assert_eq!(open(&task), ["a", "b"]);
            assert!(task.answer([("x".to_owned(), long.clone())]), "it is not open");
            assert!(!task.answer([("a".to_owned(), long)]));
            assert!(task.answer([("x".to_owned(), None), ("a".to_owned(), Some("{}".to_owned()))]));
            tokio::task::yield_now().await;
            assert_eq!(open(&task), ["b"]);
            assert!(!task.answer([("b".to_owned(), short)]), "with the other");
            assert!(task.answer([("b".to_owned(), None)]));
        };
        let (given, ()) = tokio::join!(task.ask(&asked), answering);
        assert_eq!(given, [("a".to_owned(), Some("{}".to_owned())), ("b".to_owned(), None)].into());
        assert_eq!(shown(&task)["status"], "working");
    }

    fn question(key: &str) -> Question {
        Question { key: key.to_owned(), kind: QuestionKind::Form, params: Map::new() }
    }

    /// Returns the keys of the questions of a task that are open.
    fn open(task: &Task) -> Vec<String> {
        let shown = shown(task);
        let open = shown["inputRequests"].as_object().cloned().unwrap_or_default();
        open.into_iter().map(|(key, _)| key).collect()
    }
}
