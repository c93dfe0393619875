//! Tasks: calls whose results a server returns later.
//!
//! A legacy server (2025-11-25) makes a task of a call that asks for one, which the gateway does for
//! tools with `taskSupport: required`. A modern server makes one whenever it likes, because each
//! call declares the extension for tasks. The task is polled until it ends, within the deadline of
//! the call, and cancelled at the server if the call is abandoned.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::questions::TASK;
use crate::limits::{TASK_POLL, TASK_POLL_MILLIS};
use airlock_core::tool::{QuestionKinds, Tool};
use airlock_json::raw;
use airlock_mcp_client::{AskError, Capability, Link, Party, Request, Taker};
use airlock_wire::{
    error::{RpcError, code},
    id::MAX_ID_BYTES,
    method,
};

/// A task at a server.
#[derive(Debug, PartialEq, Eq)]
struct Task {
    id: String,
    status: TaskStatus,
    poll: Duration,
}

/// Status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskStatus {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

/// Conditions of a call that may become a task.
pub(super) struct Conditions {
    pub(super) caller: Party,
    /// Questions that may be passed on to the caller.
    pub(super) permitted: QuestionKinds,
    /// Takes the questions of a legacy server.
    pub(super) taker: Option<Taker>,
}

/// Returns the parameter `task` of a call, as JSON text; `None` if the call asks for no task.
pub(super) fn parameter(link: &Link, tool: &Tool, time_left: Duration) -> Option<String> {
    let has_tasks = link.agreed().is_some_and(|agreed| agreed.has(Capability::ToolTasks));
    let execution = raw::member(tool.extra.as_ref()?.as_str(), "execution")?;
    let is_required =
        raw::member(execution, "taskSupport").and_then(raw::string).as_deref() == Some("required");
    let ttl = u64::try_from(time_left.as_millis()).unwrap_or(u64::MAX);
    (has_tasks && is_required && !link.is_modern()).then(|| json!({"ttl": ttl}).to_string())
}

/// Returns the result of a call: `result` itself, or that of the task that it is, once the task has
/// ended or a modern server asks the caller.
pub(super) async fn settled(
    link: &Link,
    result: Value,
    conditions: &Conditions,
) -> Result<Value, AskError> {
    let created = match result.get("task") {
        Some(task) if !link.is_modern() => task,
        None if is_task(&result) => &result,
        _ => return Ok(result),
    };
    let mut task = Task::read(created)?;
    if link.is_modern() {
        // Its state says more than its status.
        task.status = TaskStatus::Working;
    }
    drop(result);
    follow(link, task, &BTreeSet::new(), conditions).await
}

/// Sends the answers of the caller to a task of a modern server, and returns its result.
/// `parameters` are those of [`TASK`].
pub(super) async fn resume(
    link: &Link,
    id: String,
    parameters: &[(&'static str, String)],
    conditions: &Conditions,
) -> Result<Value, AskError> {
    let mut request = request(method::TASKS_UPDATE, &id, conditions);
    let mut answered = BTreeSet::new();
    for (name, json) in parameters.iter().filter(|(name, _)| *name != TASK) {
        let members = raw::members(json).into_iter().flatten();
        answered.extend(members.map(|(key, _)| key.into_owned()));
        request = request.with(name, json.as_str());
    }
    let guard = CancelOnDrop { link, id: Some(id.clone()) };
    link.ask(request).result().await?;
    guard.disarm();
    let task = Task { id, status: TaskStatus::Working, poll: TASK_POLL };
    follow(link, task, &answered, conditions).await
}

/// Returns whether the result of a call is a task.
pub(super) fn is_created(link: &Link, result: &Value) -> bool {
    if link.is_modern() { is_task(result) } else { result.get("task").is_some() }
}

/// Returns whether a result of a modern server is a task.
fn is_task(result: &Value) -> bool {
    result.get("resultType").and_then(Value::as_str) == Some("task")
}

/// Polls a task until it has a result, or a modern server asks something that is not `answered` yet.
async fn follow(
    link: &Link,
    mut task: Task,
    answered: &BTreeSet<String>,
    conditions: &Conditions,
) -> Result<Value, AskError> {
    let guard = CancelOnDrop { link, id: Some(task.id.clone()) };
    let mut state = Value::Null;
    loop {
        let ended = match task.status {
            TaskStatus::Working => None,
            TaskStatus::InputRequired if link.is_modern() => asked(&mut state, answered, &task.id),
            // The questions of a legacy server come while the result is awaited.
            TaskStatus::InputRequired => Some(result(link, &task.id, conditions).await),
            TaskStatus::Completed | TaskStatus::Failed if !link.is_modern() => {
                Some(result(link, &task.id, conditions).await)
            }
            TaskStatus::Completed => Some(Ok(state["result"].take())),
            TaskStatus::Failed => Some(Err(failure(&mut state))),
            TaskStatus::Cancelled => Some(Err(cancelled(&state))),
        };
        if let Some(ended) = ended {
            guard.disarm();
            return ended;
        }
        // Before the wait: the state may take as much memory as any message, and the server decides for how long the call
        // waits.
        drop(std::mem::take(&mut state));
        sleep(task.poll).await;
        state = link.ask(request(method::TASKS_GET, &task.id, conditions)).result().await?;
        let next = Task::read(&state)?;
        task = Task { id: task.id, ..next };
    }
}

/// Asks a legacy server for the result of a task. The response comes when the task has ended.
async fn result(link: &Link, id: &str, conditions: &Conditions) -> Result<Value, AskError> {
    let request = request(method::TASKS_RESULT, id, conditions);
    link.ask(request.asking(conditions.permitted, conditions.taker.clone())).result().await
}

fn request(method: &'static str, id: &str, conditions: &Conditions) -> Request {
    Request::new(method)
        .about("taskId", id)
        .with_caller(conditions.caller.clone())
        .asking(conditions.permitted, None)
        .taking_tasks()
}

/// Returns the open questions of a task as the result of a call that asks; `None` if all of them are
/// answered, and the server has not noticed yet.
fn asked(
    state: &mut Value,
    answered: &BTreeSet<String>,
    id: &str,
) -> Option<Result<Value, AskError>> {
    let requests = match state.get_mut("inputRequests").map(Value::take) {
        Some(Value::Object(requests)) => requests,
        _ => Map::new(),
    };
    let open: Map<_, _> = requests.into_iter().filter(|(key, _)| !answered.contains(key)).collect();
    (!open.is_empty())
        .then(|| Ok(json!({"resultType": "input_required", "inputRequests": open, TASK: id})))
}

/// Returns the JSON-RPC error with which a task of a modern server failed.
fn failure(state: &mut Value) -> AskError {
    let error = state.get_mut("error").map(Value::take).unwrap_or_default();
    let message = error["message"].as_str().or(state["statusMessage"].as_str());
    AskError::Refused(RpcError {
        code: error["code"].as_i64().unwrap_or(code::INTERNAL),
        message: message.unwrap_or_default().to_owned(),
        data: error.get("data").cloned(),
    })
}

fn cancelled(state: &Value) -> AskError {
    let reason = state["statusMessage"].as_str().unwrap_or("the server cancelled the task");
    AskError::Refused(RpcError::new(code::INTERNAL, reason))
}

impl Task {
    /// Reads a task. Fails if it is not a task of MCP.
    fn read(task: &Value) -> Result<Self, AskError> {
        let id = task["taskId"].as_str().filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES);
        let status = match task["status"].as_str() {
            Some("working") => TaskStatus::Working,
            Some("input_required") => TaskStatus::InputRequired,
            Some("completed") => TaskStatus::Completed,
            Some("failed") => TaskStatus::Failed,
            Some("cancelled") => TaskStatus::Cancelled,
            _ => return Err(malformed()),
        };
        // The legacy era has `pollInterval`, in milliseconds too.
        let poll = task["pollIntervalMs"].as_u64().or(task["pollInterval"].as_u64());
        let poll = poll.map_or(TASK_POLL, |millis| {
            Duration::from_millis(millis.clamp(*TASK_POLL_MILLIS.start(), *TASK_POLL_MILLIS.end()))
        });
        Ok(Self { id: id.ok_or_else(malformed)?.to_owned(), status, poll })
    }
}

/// Cancels a task at the server when it is dropped before the task has ended.
struct CancelOnDrop<'a> {
    link: &'a Link,
    id: Option<String>,
}

impl CancelOnDrop<'_> {
    /// Leaves the task as it is.
    fn disarm(mut self) {
        self.id = None;
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.link.abandon_task(id);
        }
    }
}

fn malformed() -> AskError {
    AskError::Unreadable("its response is not a valid task of MCP")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pipe::{Rest, Server, complete, connect};
    use airlock_mcp_client::Handshake;

    #[test]
    fn a_task_is_read_with_its_interval_within_bounds() {
        for (status, poll, expected) in [
            ("working", json!(700), (TaskStatus::Working, 700)),
            ("completed", json!(0), (TaskStatus::Completed, 50)),
            ("failed", json!(1_000_000_000_000_u64), (TaskStatus::Failed, 30_000)),
            ("cancelled", json!("soon"), (TaskStatus::Cancelled, 1_000)),
        ] {
            let task = json!({"taskId": "t", "status": status, "pollIntervalMs": poll});
            assert_eq!(read_task(&task), Some(expected), "{task}");
        }
        let legacy = json!({"taskId": "t", "status": "input_required", "pollInterval": 90});
        assert_eq!(read_task(&legacy), Some((TaskStatus::InputRequired, 90)));
        for bad in [
            json!({"taskId": "", "status": "working"}),
            json!({"taskId": 7, "status": "working"}),
            json!({"taskId": "x".repeat(MAX_ID_BYTES + 1), "status": "working"}),
            json!({"taskId": "t", "status": "novel"}),
            json!([]),
        ] {
            assert_eq!(read_task(&bad), None, "{bad}");
        }
    }

    /// Returns the status of a task and its interval in milliseconds.
    fn read_task(task: &Value) -> Option<(TaskStatus, u128)> {
        Task::read(task).ok().map(|task| (task.status, task.poll.as_millis()))
    }

    const CONDITIONS: Conditions = Conditions {
        caller: Party { tenant: airlock_core::tenant::Tenant::ANONYMOUS, session: None },
        permitted: QuestionKinds::NONE,
        taker: None,
    };

    async fn modern() -> (Arc<Link>, Server, Rest) {
        let (link, mut server, rest) = connect(1 << 16);
        let serving = async {
            let probe = server.read().await;
            let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}});
            server.respond(&probe, result).await;
        };
        let (completed, ()) = tokio::join!(complete(&link, Handshake::ModernFirst), serving);
        completed.expect("agreed");
        (link, server, rest)
    }

    async fn legacy() -> (Arc<Link>, Server, Rest) {
        let (link, mut server, rest) = connect(1 << 16);
        let serving = async {
            let initialize = server.read().await;
            let capabilities = json!({"tasks": {"requests": {"tools": {"call": {}}}}});
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}});
            server.respond(&initialize, result).await;
            server.read().await;
        };
        let (completed, ()) = tokio::join!(complete(&link, Handshake::Legacy), serving);
        completed.expect("agreed");
        (link, server, rest)
    }

    /// Responds to the next requests, whose methods must be these, and returns the last one.
    async fn serve(server: &mut Server, responses: &[(&str, Value)]) -> Value {
        let mut last = Value::Null;
        for (method, response) in responses {
            last = server.read().await;
            assert_eq!(last["method"], *method);
            assert_eq!(last["params"]["taskId"], "t");
            server.respond(&last, response.clone()).await;
        }
        last
    }

    fn state(status: &str) -> Value {
        json!({"taskId": "t", "status": status, "ttl": null, "pollInterval": 50, "pollIntervalMs": 50})
    }

    fn with(mut state: Value, name: &str, value: Value) -> Value {
        state[name] = value;
        state
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_of_a_legacy_server_is_polled_and_its_result_is_fetched() {
        let (link, mut server, _rest) = legacy().await;
        let result = json!({"content": []});
        let responses = [
            ("tasks/get", state("working")),
            ("tasks/get", state("completed")),
            ("tasks/result", result.clone()),
        ];
        let created = json!({"task": state("working")});
        let (settled, _) =
            tokio::join!(settled(&link, created, &CONDITIONS), serve(&mut server, &responses));
        assert_eq!(settled.expect("a result"), result);
        let plain = json!({"content": [], "task": "no task"});
        assert!(super::settled(&link, plain, &CONDITIONS).await.is_err(), "it is malformed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_of_a_modern_server_has_its_result_or_its_error_in_its_state() {
        let (link, mut server, _rest) = modern().await;
        let result = json!({"content": [], "isError": true});
        let responses = [
            ("tasks/get", state("working")),
            ("tasks/get", with(state("completed"), "result", result.clone())),
        ];
        let (ended, asked) =
            tokio::join!(settled(&link, created(), &CONDITIONS), serve(&mut server, &responses));
        assert_eq!(ended.expect("a result"), result);
        let capabilities = &asked["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert!(capabilities["extensions"]["io.modelcontextprotocol/tasks"].is_object());
        let error = json!({"code": -32_603, "message": "broken"});
        let responses = [("tasks/get", with(state("failed"), "error", error))];
        let (ended, _) =
            tokio::join!(settled(&link, created(), &CONDITIONS), serve(&mut server, &responses));
        let Err(AskError::Refused(error)) = ended else { panic!("it has failed: {ended:?}") };
        assert_eq!((error.code, &*error.message), (-32_603, "broken"));
    }

    fn created() -> Value {
        with(state("working"), "resultType", json!("task"))
    }

    #[tokio::test(start_paused = true)]
    async fn answers_resume_a_task_whose_server_may_notice_them_late() {
        let (link, mut server, _rest) = modern().await;
        let asks = with(state("input_required"), "inputRequests", json!({"q": {"method": "m"}}));
        let created = with(asks.clone(), "resultType", json!("task"));
        let responses = [("tasks/get", asks.clone())];
        let (asked, _) =
            tokio::join!(settled(&link, created, &CONDITIONS), serve(&mut server, &responses));
        let asked = asked.expect("it asks");
        assert_eq!((&asked["resultType"], &asked[TASK]), (&json!("input_required"), &json!("t")));
        let result = json!({"content": []});
        let responses = [
            ("tasks/update", json!({})),
            ("tasks/get", asks),
            ("tasks/get", with(state("completed"), "result", result.clone())),
        ];
        let parameters =
            [("inputResponses", r#"{"q":{"action":"accept"}}"#.to_owned()), (TASK, "\"t\"".into())];
        let (ended, _) = tokio::join!(
            resume(&link, "t".into(), &parameters, &CONDITIONS),
            serve(&mut server, &responses)
        );
        assert_eq!(ended.expect("a result"), result);
    }

    #[tokio::test(start_paused = true)]
    async fn an_abandoned_task_is_cancelled_at_its_server() {
        let (link, mut server, rest) = legacy().await;
        let created = json!({"task": state("working")});
        {
            let following = settled(&link, created, &CONDITIONS);
            let responses = [("tasks/get", state("working"))];
            tokio::select! {
                _ = following => panic!("it works on"),
                _ = serve(&mut server, &responses) => {}
            }
        }
        let cancelled = async {
            loop {
                let message = server.read().await;
                // The last request for its state may have been abandoned too.
                if message["method"] != "notifications/cancelled" {
                    return message;
                }
            }
        };
        tokio::select! {
            () = link.cancel_abandoned(rest.abandoned) => panic!("the queue is open"),
            message = cancelled => {
                assert_eq!((&message["method"], &message["params"]["taskId"]), (&json!("tasks/cancel"), &json!("t")));
            }
        }
    }

    #[test]
    fn a_question_is_asked_once() {
        let both =
            json!({"resultType": "input_required", "inputRequests": {"a": {}, "b": {}}, TASK: "t"});
        assert_eq!(asked_beside(&[]), Some(both));
        let open = asked_beside(&["a"]).expect("one is open");
        assert_eq!(open["inputRequests"], json!({"b": {}}));
        assert_eq!(asked_beside(&["a", "b"]), None);
    }

    /// Returns the open questions of a task with two, after answers to some.
    fn asked_beside(answered: &[&str]) -> Option<Value> {
        let mut state = json!({"inputRequests": {"a": {}, "b": {}}});
        let answered: BTreeSet<String> = answered.iter().map(|key| (*key).to_owned()).collect();
        asked(&mut state, &answered, "t").map(|questions| questions.expect("asks"))
    }
}
