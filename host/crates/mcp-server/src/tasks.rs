//! Calls that clients follow as tasks: of the legacy era (2025-11-25, section "Tasks"), and of the
//! modern extension for tasks.
//!
//! A modern client declares the extension, and a call of it becomes a task where the source makes a
//! task of it. A legacy client asks for a task with the call. The call continues in the background,
//! within its ordinary limits, and the client polls for its state:
//!
//! ```text
//! Working ─┬─► InputRequired ─► Working …     the client answers with `tasks/update`, or is asked
//!          │                                  while it waits in `tasks/result`
//!          ├─► Ended                          with the result of the call, or its error
//!          └─► Cancelled                      by the client
//! ```
//!
//! A task belongs to a tenant; for every other one it does not exist. Its identifier cannot be
//! guessed. Tasks and their results are in memory, bounded for each tenant and in all.

use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use serde_json::{Map, Value, json};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    call,
    exchange::Outlet,
    questions::Given,
    result::{SERVER_INFO, server_info},
    service::{Client, Service},
};
use airlock_core::{
    tenant::Tenant,
    tool::{ANSWER_TIMEOUT, InputRequired},
};
use airlock_json::raw;
use airlock_strings::cut;
use airlock_wire::{
    error::{RpcError, code},
    message::{Params, Request},
    version::Version,
};

/// Name of the modern extension.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Key of the metadata of a legacy result or question that names its task.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Time for which the end of a task can be read.
const KEPT_FOR: Duration = Duration::from_mins(5);
/// Interval at which a client should poll.
const POLL: Duration = Duration::from_secs(1);
/// Maximum number of tasks of one tenant, ended ones included.
const MAX_OF_TENANT: usize = 64;
/// Maximum number of tasks of all tenants.
const MAX_TASKS: usize = 1_024;
/// Maximum bytes of the results of one tenant's tasks.
const MAX_RESULT_BYTES: usize = 8 << 20;
/// Maximum bytes of the results of all tasks.
const MAX_ALL_RESULT_BYTES: usize = 64 << 20;
/// Longest arguments of a call that becomes a task. Those of all tasks take as much as all results.
const MAX_ARGUMENT_BYTES: usize = MAX_ALL_RESULT_BYTES / MAX_TASKS;
/// Maximum bytes of all answers to one task that are kept until the call goes on.
const MAX_ANSWER_BYTES: usize = MAX_ARGUMENT_BYTES;

/// The tasks of all tenants.
#[derive(Default)]
pub(super) struct Tasks(Mutex<HashMap<String, Arc<Task>>>);

/// A call that runs in the background.
pub(super) struct Task {
    id: String,
    tenant: Tenant,
    created: SystemTime,
    ttl: Duration,
    expires: Instant,
    state: watch::Sender<TaskState>,
    work: Mutex<Option<Work>>,
}

/// The running call. Its outcome is `None` if the task has it.
type Work = AbortOnDropHandle<Option<Result<String, RpcError>>>;

#[derive(Clone)]
struct TaskState {
    phase: Phase,
    updated: SystemTime,
}

#[derive(Clone)]
enum Phase {
    Working,
    /// Waits for answers of the client.
    InputRequired(Asked),
    /// The call has ended: the text of its result, or its error.
    Ended(Arc<Result<String, RpcError>>),
    Cancelled,
}

/// Questions of a task, and the answers so far.
#[derive(Clone, Default)]
struct Asked {
    /// MCP's `inputRequests` that are not answered yet.
    open: Map<String, Value>,
    given: Given,
}

impl Tasks {
    /// Adds a task for a call that may take `timeout`. `None` if there is no room for it.
    fn create(&self, tenant: Tenant, timeout: Duration) -> Option<Arc<Task>> {
        let mut by_id = self.0.lock();
        let now = Instant::now();
        by_id.retain(|_, task| task.is_kept(now));
        let own = by_id.values().filter(|task| task.tenant == tenant).count();
        if own >= MAX_OF_TENANT {
            return None;
        }
        if by_id.len() >= MAX_TASKS {
            let id = evictable(&by_id, own + 1)?;
            by_id.remove(&id).inspect(|task| task.stop());
        }
        // Answers of the client do not count as time of the call.
        let ttl = timeout + ANSWER_TIMEOUT + KEPT_FOR;
        let state = TaskState { phase: Phase::Working, updated: SystemTime::now() };
        let task = Arc::new(Task {
            // 122 random bits from the system.
            id: uuid::Uuid::new_v4().to_string(),
            tenant,
            created: state.updated,
            ttl,
            expires: now + ttl,
            state: watch::Sender::new(state),
            work: Mutex::default(),
        });
        by_id.insert(task.id.clone(), task.clone());
        Some(task)
    }

    /// Finds a task of a tenant by the parameters of a request. Fails if there is none, or if it is
    /// another tenant's.
    fn find(&self, params: &Params, tenant: &Tenant) -> Result<Arc<Task>, RpcError> {
        let id = params.string("taskId");
        let id = id.ok_or_else(|| RpcError::invalid_params("`taskId` must be a string"))?;
        let task = self.0.lock().get(&*id).filter(|task| task.tenant == *tenant).cloned();
        task.filter(|task| task.is_kept(Instant::now())).ok_or_else(|| {
            let id = cut(id.into_owned(), 64);
            RpcError::invalid_params(format!("the task {id:?} does not exist or has expired"))
        })
    }

    /// Stores the outcome of a task. If the results of all tasks have no room for it, the tenant with
    /// the longest results loses all of them.
    fn end(&self, task: &Task, outcome: Result<String, RpcError>) {
        let by_id = self.0.lock();
        let bytes = outcome.as_ref().map_or(0, String::len);
        let mut held = HashMap::<&Tenant, usize>::new();
        for other in by_id.values() {
            *held.entry(&other.tenant).or_default() += other.result_bytes();
        }
        let own = held.entry(&task.tenant).or_default();
        *own += bytes;
        if *own > MAX_RESULT_BYTES {
            return task.set(Phase::Ended(Arc::new(Err(too_large()))));
        }
        let all: usize = held.values().sum();
        let largest = held.iter().max_by_key(|(_, bytes)| **bytes).map(|(tenant, _)| *tenant);
        // The longest results are at least as long as this one, which has room without them.
        if all > MAX_ALL_RESULT_BYTES
            && let Some(largest) = largest
        {
            if *largest == task.tenant {
                return task.set(Phase::Ended(Arc::new(Err(too_large()))));
            }
            let others = by_id.values().filter(|other| other.tenant == *largest);
            others.for_each(|other| other.discard_result());
        }
        task.set(Phase::Ended(Arc::new(outcome)));
    }
}

fn too_large() -> RpcError {
    let message = "the results of this caller's tasks take too much memory; the call has run";
    RpcError::new(code::REFUSED, message)
}

/// Returns the task that gives its place to one of a tenant that will have `own` tasks: of the tenant
/// with most, the oldest that has ended, or else the oldest. `None` if no tenant has more than `own`.
fn evictable(by_id: &HashMap<String, Arc<Task>>, own: usize) -> Option<String> {
    let mut counts = HashMap::<&Tenant, usize>::new();
    for task in by_id.values() {
        *counts.entry(&task.tenant).or_default() += 1;
    }
    let (tenant, _) =
        counts.into_iter().filter(|(_, count)| *count > own).max_by_key(|(_, count)| *count)?;
    let tasks = by_id.values().filter(|task| task.tenant == *tenant);
    let oldest = tasks.min_by_key(|task| (!task.has_ended(), task.expires))?;
    Some(oldest.id.clone())
}

impl Task {
    fn has_ended(&self) -> bool {
        matches!(self.state.borrow().phase, Phase::Ended(_) | Phase::Cancelled)
    }

    fn is_kept(&self, now: Instant) -> bool {
        let is_kept = now < self.expires;
        if !is_kept {
            self.stop();
        }
        is_kept
    }

    /// Returns the bytes of the result.
    fn result_bytes(&self) -> usize {
        match &self.state.borrow().phase {
            Phase::Ended(ended) => ended.as_ref().as_ref().map_or(0, String::len),
            _ => 0,
        }
    }

    /// Replaces the result with an error.
    fn discard_result(&self) {
        self.state.send_if_modified(|state| {
            let has_result = matches!(&state.phase, Phase::Ended(ended) if ended.is_ok());
            if has_result {
                let phase = Phase::Ended(Arc::new(Err(too_large())));
                *state = TaskState { phase, updated: SystemTime::now() };
            }
            has_result
        });
    }

    /// Changes the phase, unless the task has ended.
    fn set(&self, phase: Phase) {
        self.state.send_if_modified(|state| {
            let has_ended = matches!(state.phase, Phase::Ended(_) | Phase::Cancelled);
            if !has_ended {
                *state = TaskState { phase, updated: SystemTime::now() };
            }
            !has_ended
        });
    }

    /// Stops the call.
    fn stop(&self) {
        self.work.lock().take();
    }

    fn cancel(&self) {
        self.set(Phase::Cancelled);
        self.stop();
    }

    /// Asks the client. Returns its answers; what it has not answered in time counts as refused.
    pub(super) async fn ask(&self, asked: &InputRequired) -> Given {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let open = asked.to_requests();
        self.set(Phase::InputRequired(Asked { open, given: Given::new() }));
        let mut changes = self.state.subscribe();
        let answered = changes.wait_for(|state| match &state.phase {
            Phase::InputRequired(asked) => asked.open.is_empty(),
            _ => true,
        });
        let _ = timeout_at(deadline, answered).await;
        let mut given = match &self.state.borrow().phase {
            Phase::InputRequired(asked) => asked.given.clone(),
            _ => Given::new(),
        };
        for question in &asked.questions {
            given.entry(question.key.clone()).or_insert(None);
        }
        self.set(Phase::Working);
        given
    }

    /// Takes answers to open questions. Others are ignored. Returns false, and takes none, if there are
    /// too many bytes of them.
    fn answer(&self, answers: impl IntoIterator<Item = (String, Option<String>)>) -> bool {
        let mut has_room = true;
        self.state.send_if_modified(|state| {
            let Phase::InputRequired(asked) = &mut state.phase else { return false };
            let answers = answers.into_iter();
            let answers: Vec<_> = answers.filter(|(key, _)| asked.open.contains_key(key)).collect();
            let new = answers.iter().map(|(_, answer)| answer);
            let bytes: usize = asked.given.values().chain(new).flatten().map(String::len).sum();
            has_room = bytes <= MAX_ANSWER_BYTES;
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
            Phase::Working => "working",
            Phase::InputRequired(_) => "input_required",
            Phase::Cancelled => "cancelled",
            // Before 2026-07-28, a tool that failed is a task that failed.
            Phase::Ended(ended) => match &**ended {
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
    fn created(&self, version: Version) -> String {
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
    fn shown(&self, version: Version) -> String {
        let state = self.state.borrow().clone();
        let mut task = self.describe(&state, version);
        if !version.is_modern() {
            return Value::from(task).to_string();
        }
        task.insert("resultType".to_owned(), json!("complete"));
        task.insert("_meta".to_owned(), json!({SERVER_INFO: server_info()}));
        let mut result = String::new();
        match &state.phase {
            Phase::InputRequired(asked) => {
                task.insert("inputRequests".to_owned(), json!(asked.open));
            }
            Phase::Ended(ended) => match &**ended {
                // As it is: a number that was read would not be exact.
                Ok(text) => result = format!(",\"result\":{text}"),
                Err(error) => drop(task.insert("error".to_owned(), json!(error))),
            },
            Phase::Working | Phase::Cancelled => {}
        }
        let task = Value::from(task).to_string();
        format!("{}{result}}}", &task[..task.len() - 1])
    }
}

/// Returns whether the text of a `CallToolResult` is that of a failure.
fn is_error(text: &str) -> bool {
    raw::member(text, "isError") == Some("true")
}

/// A call that may become a task.
pub(super) struct Deferral {
    service: Arc<Service>,
    tenant: Tenant,
    timeout: Duration,
    /// True if the client asks for a task.
    pub(super) is_requested: bool,
    task: Arc<OnceLock<Arc<Task>>>,
    deferred: Option<oneshot::Sender<Arc<Task>>>,
}

impl Deferral {
    /// Makes a task of the call, unless it is one. Without room for a task, the call stays as it is.
    pub(super) fn defer(&mut self) {
        let Some(deferred) = self.deferred.take() else { return };
        let created = self.service.tasks().create(self.tenant.clone(), self.timeout);
        if let Some(task) = created
            && self.task.set(task.clone()).is_ok()
        {
            // The client may be gone; its call is cancelled then.
            let _ = deferred.send(task);
        }
    }

    /// The task; `None` if the call is none.
    pub(super) fn task(&self) -> Option<&Arc<Task>> {
        self.task.get()
    }
}

/// Handles a call of a client that takes a task for a result. Fails as [`call::run`] does.
pub(super) async fn call(
    service: Arc<Service>,
    client: Client,
    request: Request,
    outlet: Outlet,
) -> Result<String, RpcError> {
    let version = client.peer.version;
    let arguments = request.params.get("arguments").map_or(0, str::len);
    if arguments > MAX_ARGUMENT_BYTES {
        // A legacy client asks for a task, and takes nothing else for the result.
        if !version.is_modern() {
            return Err(RpcError::invalid_params(format!(
                "`arguments` have {arguments} bytes; the limit for a task is {MAX_ARGUMENT_BYTES}"
            )));
        }
        return call::run(service, client, request, outlet, None).await;
    }
    let (deferred, mut is_deferred) = oneshot::channel();
    let task = Arc::new(OnceLock::new());
    let deferral = Deferral {
        service: service.clone(),
        tenant: client.selection.tenant(),
        timeout: client.timeout,
        is_requested: !version.is_modern(),
        task: task.clone(),
        deferred: Some(deferred),
    };
    let mut work = AbortOnDropHandle::new(tokio::spawn(async move {
        let outcome = call::run(service.clone(), client, request, outlet, Some(deferral)).await;
        match task.get() {
            None => Some(outcome),
            Some(task) => {
                service.tasks().end(task, outcome);
                None
            }
        }
    }));
    tokio::select! {
        biased;
        Ok(task) = &mut is_deferred => {
            *task.work.lock() = Some(work);
            Ok(task.created(version))
        }
        outcome = &mut work => outcome.ok().flatten().unwrap_or_else(|| {
            Err(RpcError::new(code::INTERNAL, "the gateway failed; its log has the reason"))
        }),
    }
}

/// Returns whether a method is one of tasks in a revision.
pub(super) fn handles(method: &str, version: Version) -> bool {
    match method {
        "tasks/get" | "tasks/cancel" => version >= Version::V2025_11_25,
        "tasks/update" => version.is_modern(),
        "tasks/result" => version == Version::V2025_11_25,
        _ => false,
    }
}

/// Handles a request about a task. Fails if the client has no such task, or if it does not declare
/// the extension.
pub(super) async fn run(
    service: Arc<Service>,
    client: Client,
    request: Request,
    outlet: Outlet,
) -> Result<String, RpcError> {
    let version = client.peer.version;
    if !client.peer.takes_tasks {
        let required = json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}});
        let message = format!("the client does not declare the extension {EXTENSION}");
        let error = RpcError::new(code::MISSING_CAPABILITY, message);
        return Err(RpcError { data: Some(required), ..error });
    }
    let task = service.tasks().find(&request.params, &client.selection.tenant())?;
    match request.method.as_str() {
        "tasks/result" => result(&task, &outlet).await,
        "tasks/update" => {
            if task.answer(answers(request.params.get("inputResponses"))?) {
                return Ok(done());
            }
            Err(RpcError::invalid_params(format!(
                "the answers to the questions of a task may have {MAX_ANSWER_BYTES} bytes together"
            )))
        }
        "tasks/cancel" if version.is_modern() => {
            task.cancel();
            Ok(done())
        }
        "tasks/cancel" => {
            if matches!(task.state.borrow().phase, Phase::Ended(_) | Phase::Cancelled) {
                return Err(RpcError::invalid_params("the task has ended"));
            }
            task.cancel();
            Ok(task.shown(version))
        }
        _ => Ok(task.shown(version)),
    }
}

fn done() -> String {
    json!({"resultType": "complete", "_meta": {SERVER_INFO: server_info()}}).to_string()
}

/// Reads the answers of `tasks/update`: the JSON text of `inputResponses`.
fn answers(answers: Option<&str>) -> Result<Vec<(String, Option<String>)>, RpcError> {
    let answers = answers.and_then(raw::members).and_then(|members| {
        members
            .map(|(key, text)| {
                text.starts_with('{').then(|| (key.into_owned(), Some(text.to_owned())))
            })
            .collect()
    });
    answers.ok_or_else(|| RpcError::invalid_params("`inputResponses` must be an object of objects"))
}

/// Waits for the end of a task of a legacy client, and asks the client meanwhile what the task asks.
async fn result(task: &Task, outlet: &Outlet) -> Result<String, RpcError> {
    let mut changes = task.state.subscribe();
    loop {
        let phase = changes.borrow_and_update().phase.clone();
        match phase {
            Phase::Ended(ended) => {
                return (*ended).clone().map(|text| related(&text, &task.id));
            }
            Phase::Cancelled => {
                return Err(RpcError::invalid_params("the task was cancelled"));
            }
            Phase::InputRequired(asked) if !asked.open.is_empty() => {
                let answers = ask(outlet, &asked, &task.id);
                tokio::select! {
                    // What is too long is not taken, and times out as unanswered.
                    answers = answers => drop(task.answer(answers)),
                    _ = changes.changed() => {}
                }
            }
            // The sender is in the task.
            Phase::Working | Phase::InputRequired(_) => drop(changes.changed().await),
        }
    }
}

/// Sends the open questions of a task to a legacy client.
async fn ask(outlet: &Outlet, asked: &Asked, id: &str) -> BTreeMap<String, Option<String>> {
    let asking = asked.open.iter().map(|(key, request)| async move {
        let mut params = request["params"].clone();
        params["_meta"][RELATED] = json!({"taskId": id});
        let method = request["method"].as_str().unwrap_or_default();
        let answer = outlet.ask(method, &params).await;
        (key.clone(), answer.filter(|answer| answer.starts_with('{')))
    });
    futures_util::future::join_all(asking).await.into_iter().collect()
}

fn timestamp(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Adds the name of the task to the metadata of a result. The rest stays as it is.
fn related(text: &str, id: &str) -> String {
    let members = raw::members(text).into_iter().flatten();
    let (meta, rest): (Vec<_>, Vec<_>) = members.partition(|(name, _)| name == "_meta");
    let own = meta.iter().flat_map(|(_, meta)| raw::members(meta).into_iter().flatten());
    let own = own.map(|(name, value)| format!("{}:{value},", json!(name)));
    let meta = format!("{{{}\"{RELATED}\":{}}}", own.collect::<String>(), json!({"taskId": id}));
    let rest = rest.iter().map(|(name, value)| format!("{}:{value},", json!(name)));
    format!("{{{}\"_meta\":{meta}}}", rest.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::params;
    use airlock_core::tool::{ClientName, Question, QuestionKind};

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn of_task(task: &Task) -> Params {
        params(&json!({"taskId": task.id}).to_string())
    }

    fn shown(task: &Task, version: Version) -> Value {
        serde_json::from_str(&task.shown(version)).expect("JSON")
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_belongs_to_a_tenant_and_expires_and_their_number_is_bounded() {
        let tasks = Tasks::default();
        let ann = Tenant::of_key([1; 32], "ann");
        let task = tasks.create(ann.clone(), TIMEOUT).expect("room");
        assert!(tasks.find(&of_task(&task), &ann).is_ok());
        for (params, tenant) in [
            (of_task(&task), Tenant::ANONYMOUS),
            (params(r#"{"taskId":"other"}"#), ann.clone()),
            (params("{}"), ann.clone()),
        ] {
            assert_eq!(tasks.find(&params, &tenant).map(drop).expect_err("none").code, -32602);
        }
        for _ in 1..MAX_OF_TENANT {
            assert!(tasks.create(ann.clone(), TIMEOUT).is_some());
        }
        assert!(tasks.create(ann.clone(), TIMEOUT).is_none());
        assert!(tasks.create(Tenant::ANONYMOUS, TIMEOUT).is_some());
        tokio::time::advance(task.ttl).await;
        assert!(tasks.find(&of_task(&task), &ann).is_err());
        assert!(tasks.create(ann, TIMEOUT).is_some(), "the others have expired too");
    }

    #[tokio::test(start_paused = true)]
    async fn tenants_share_the_tasks_that_there_may_be() {
        let tasks = Tasks::default();
        let full = MAX_TASKS / MAX_OF_TENANT;
        let mut ended = Vec::new();
        for number in 0..full {
            for _ in 0..MAX_OF_TENANT {
                ended.push(tasks.create(tenant(number), TIMEOUT).expect("room"));
                tokio::time::advance(Duration::from_millis(1)).await;
            }
            ended[number * MAX_OF_TENANT + 5].cancel();
        }
        for created in 1..=MAX_TASKS / (full + 1) {
            assert!(tasks.create(tenant(full), TIMEOUT).is_some(), "others have more");
            let all = tasks.0.lock().len();
            assert_eq!((all, count(&tasks, full)), (MAX_TASKS, created));
        }
        assert!(tasks.create(tenant(full), TIMEOUT).is_none(), "no other one would have more");
        assert!((0..full).all(|number| count(&tasks, number) >= MAX_OF_TENANT - 5));
        let of_loser = (0..full).find(|number| count(&tasks, *number) < MAX_OF_TENANT);
        let of_loser = of_loser.expect("one lost");
        let lost = &ended[of_loser * MAX_OF_TENANT + 5];
        assert!(tasks.find(&of_task(lost), &lost.tenant).is_err(), "what has ended goes first");
    }

    fn tenant(number: usize) -> Tenant {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        Tenant::of_key(digest, "name")
    }

    fn count(tasks: &Tasks, number: usize) -> usize {
        tasks.0.lock().values().filter(|task| task.tenant == tenant(number)).count()
    }

    #[tokio::test]
    async fn the_end_of_a_task_is_shown_by_the_era() {
        let tasks = Tasks::default();
        let modern = Version::V2026_07_28;
        let legacy = Version::V2025_11_25;
        let good = ended(
            &tasks,
            Tenant::ANONYMOUS,
            Ok(r#"{"content":[],"n":1.10,"_meta":{"a":1}}"#.to_owned()),
        );
        assert!(good.shown(modern).contains(r#""n":1.10"#));
        assert_eq!(shown(&good, modern)["status"], "completed");
        assert_eq!(shown(&good, legacy).get("result"), None);
        let bad =
            ended(&tasks, Tenant::ANONYMOUS, Ok(r#"{"content":[],"isError":true}"#.to_owned()));
        assert_eq!(shown(&bad, modern)["status"], "completed");
        assert_eq!(shown(&bad, legacy)["status"], "failed");
        let failed = ended(&tasks, Tenant::ANONYMOUS, Err(RpcError::new(code::INTERNAL, "no")));
        assert_eq!(shown(&failed, modern)["error"], json!({"code": -32603, "message": "no"}));
        assert_eq!(shown(&failed, modern).get("result"), None);
        good.cancel();
        assert_eq!(shown(&good, modern)["status"], "completed", "it has ended");
        let large = ended(&tasks, Tenant::ANONYMOUS, Ok("x".repeat(MAX_RESULT_BYTES)));
        assert_eq!(shown(&large, modern)["status"], "failed");
        let related = related(r#"{"content":[],"n":1.10,"_meta":{"a":1}}"#, "t");
        assert!(related.starts_with(r#"{"content":[],"n":1.10,"_meta":{"a":1,""#), "{related}");
        assert!(serde_json::from_str::<Value>(&related).is_ok(), "{related}");
    }

    #[tokio::test]
    async fn the_tenant_with_the_longest_results_loses_them_for_those_of_others() {
        let tasks = Tasks::default();
        let large: Vec<_> = (0..8)
            .map(|number| ended(&tasks, tenant(number), Ok("x".repeat(MAX_RESULT_BYTES - 1))))
            .collect();
        let largest = ended(&tasks, tenant(0), Ok("x".to_owned()));
        assert!(large.iter().all(|task| has_result(task)) && has_result(&largest), "they fit");
        let other = ended(&tasks, tenant(9), Ok("x".repeat(8)));
        assert!(has_result(&other) && !has_result(&large[0]) && !has_result(&largest));
        assert!(large[1..].iter().all(|task| has_result(task)));
        assert_eq!(shown(&largest, Version::V2026_07_28)["error"]["code"], code::REFUSED);
    }

    /// Returns a task that has ended.
    fn ended(tasks: &Tasks, tenant: Tenant, outcome: Result<String, RpcError>) -> Arc<Task> {
        let task = tasks.create(tenant, TIMEOUT).expect("room");
        tasks.end(&task, outcome);
        task
    }

    fn has_result(task: &Task) -> bool {
        task.result_bytes() > 0
    }

    #[test]
    fn answers_are_an_object_of_objects() {
        assert_eq!(answers(Some(r#"{"a":{}}"#)).expect("good").len(), 1);
        for refused in [Some("[]"), Some(r#"{"a":7}"#), None] {
            assert_eq!(answers(refused).expect_err("refused").code, code::INVALID_PARAMS);
        }
    }

    #[tokio::test]
    async fn questions_stay_open_until_each_is_answered() {
        let task = Tasks::default().create(Tenant::ANONYMOUS, TIMEOUT).expect("room");
        let client = ClientName::parse("up").expect("a good name");
        let questions = vec![question("a"), question("b")];
        let asked = InputRequired { client, questions, token: "t".to_owned() };
        let short = Some("x".repeat(MAX_ANSWER_BYTES - 1));
        let long = Some("x".repeat(MAX_ANSWER_BYTES + 1));
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
        assert_eq!(shown(&task, Version::V2026_07_28)["status"], "working");
    }

    fn question(key: &str) -> Question {
        Question { key: key.to_owned(), kind: QuestionKind::Form, params: Map::new() }
    }

    /// Returns the keys of the questions of a task that are open.
    fn open(task: &Task) -> Vec<String> {
        let shown = shown(task, Version::V2026_07_28);
        let open = shown["inputRequests"].as_object().cloned().unwrap_or_default();
        open.into_iter().map(|(key, _)| key).collect()
    }
}
