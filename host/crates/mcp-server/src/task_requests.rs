//! Requests about tasks, and calls of clients that take a task for the result.

use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::{
    answers::{self, GivenAnswers},
    call,
    exchange::Outlet,
    meta::TASKS,
    result::{SERVER_INFO, server_info},
    service::Incoming,
    tasks::{Deferral, MAX_INPUT_BYTES, OpenQuestions, Task, TaskPhase},
};
use airlock_json::raw;
use airlock_telemetry::{Span, TraceFuture as _};
use airlock_wire::{
    error::{RpcError, code},
    method,
    version::Version,
};

/// Key of the metadata of a legacy result or question that names its task.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Handles a call of a client that takes a task for a result. Fails as [`call::run`] does.
pub(super) async fn call(incoming: Incoming) -> Result<String, RpcError> {
    let version = incoming.client.peer.version;
    // A task keeps the request, and no charge covers its memory once the response is sent.
    let bytes = incoming.request.params.message_bytes();
    if bytes > MAX_INPUT_BYTES {
        // A legacy client asks for a task, and takes nothing else for the result.
        if !version.is_modern() {
            return Err(RpcError::invalid_params(format!(
                "the request has {bytes} bytes; the limit for a task is {MAX_INPUT_BYTES}"
            )));
        }
        return call::run(incoming, None).await;
    }
    let service = incoming.service.clone();
    let tenant = incoming.client.selection.tenant();
    let timeout = incoming.client.timeout;
    let (deferral, mut deferred) =
        Deferral::new(service.tasks().clone(), tenant, timeout, !version.is_modern());
    let task = deferred.task;
    let work = async move {
        let outcome = call::run(incoming, Some(deferral)).await;
        match task.get() {
            None => Some(outcome),
            Some(task) => {
                service.tasks().end(task, outcome);
                None
            }
        }
    };
    let mut work = AbortOnDropHandle::new(tokio::spawn(work.in_span(&Span::current())));
    tokio::select! {
        biased;
        Ok(task) = &mut deferred.became => {
            task.keep(work);
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
        method::TASKS_GET | method::TASKS_CANCEL => version >= Version::V2025_11_25,
        method::TASKS_UPDATE => version.is_modern(),
        method::TASKS_RESULT => version == Version::V2025_11_25,
        _ => false,
    }
}

/// Handles a request about a task. Fails if the client has no such task, or if it does not declare
/// the extension.
pub(super) async fn run(
    Incoming { service, client, request, outlet }: Incoming,
) -> Result<String, RpcError> {
    let version = client.peer.version;
    if !client.peer.takes_tasks {
        let required = json!({"requiredCapabilities": {"extensions": {TASKS: {}}}});
        let message = format!("the client does not declare the extension {TASKS}");
        let error = RpcError::new(code::MISSING_CAPABILITY, message);
        return Err(RpcError { data: Some(required), ..error });
    }
    let task = service.tasks().find(&request.params, &client.selection.tenant())?;
    match request.method.as_str() {
        method::TASKS_RESULT => result(&task, &outlet).await,
        method::TASKS_UPDATE => {
            if task
                .answer(answers::parse(request.params.get("inputResponses").unwrap_or_default())?)
            {
                return Ok(done());
            }
            Err(RpcError::invalid_params(format!(
                "the answers to the questions of a task may have {MAX_INPUT_BYTES} bytes together"
            )))
        }
        method::TASKS_CANCEL if version.is_modern() => {
            task.cancel();
            Ok(done())
        }
        method::TASKS_CANCEL => {
            if task.has_ended() {
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

/// Waits for the end of a task of a legacy client, and asks the client meanwhile what the task asks.
async fn result(task: &Task, outlet: &Outlet) -> Result<String, RpcError> {
    let mut changes = task.changes();
    loop {
        let phase = changes.borrow_and_update().phase.clone();
        match phase {
            TaskPhase::Ended(ended) => {
                return (*ended).clone().map(|text| related(&text, task.id()));
            }
            TaskPhase::Cancelled => {
                return Err(RpcError::invalid_params("the task was cancelled"));
            }
            TaskPhase::InputRequired(asked) if !asked.open.is_empty() => {
                let answers = ask(outlet, &asked, task.id());
                tokio::select! {
                    // What is too long is not taken, and times out as unanswered.
                    answers = answers => drop(task.answer(answers)),
                    _ = changes.changed() => {}
                }
            }
            // The sender is in the task.
            TaskPhase::Working | TaskPhase::InputRequired(_) => drop(changes.changed().await),
        }
    }
}

/// Sends the open questions of a task to a legacy client.
async fn ask(outlet: &Outlet, asked: &OpenQuestions, id: &str) -> GivenAnswers {
    let asking = asked.open.iter().map(|(key, request)| async move {
        let mut params = request["params"].clone();
        params["_meta"][RELATED] = json!({"taskId": id});
        let method = request["method"].as_str().unwrap_or_default();
        let answer = outlet.ask(method, &params).await;
        (key.clone(), answer.filter(|answer| answer.starts_with('{')))
    });
    futures_util::future::join_all(asking).await.into_iter().collect()
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
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::{
        meta::Peer,
        service::{McpService, Requester},
        settings::Settings,
        toolbox::{Selection, ToolboxScope},
    };
    use airlock_catalog::Catalog;
    use airlock_core::{
        door::{Budget, Filter},
        tool::QuestionKinds,
    };
    use airlock_json::Caps;
    use airlock_wire::message::{Message, Request};

    /// Returns a call of a tool that does not exist, as a task, in a message of so many bytes.
    fn request(bytes: usize) -> Request {
        let before = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"none","task":{},"_meta":{"x":""#;
        let after = r#""}}}"#;
        let text = format!("{before}{}{after}", "x".repeat(bytes - before.len() - after.len()));
        match Message::read(text.into(), &Caps::memory(1 << 20)) {
            Ok(Message::Request(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_request_that_is_longer_than_a_task_keeps_becomes_none() {
        let budget = Budget {
            deadline: Duration::from_secs(1),
            script: Duration::from_secs(1),
            nested_calls: 1,
            depth: 1,
            in_flight: 1,
        };
        let service = McpService::new(Catalog::new(), budget, Settings::default(), None);
        for (bytes, is_refused) in [(MAX_INPUT_BYTES, false), (MAX_INPUT_BYTES + 1, true)] {
            let selection =
                Selection { key: None, filter: Filter::none(), scope: ToolboxScope::All };
            let peer = Peer {
                version: Version::V2025_11_25,
                questions: QuestionKinds::NONE,
                log_level: None,
                takes_tasks: true,
            };
            let client = Requester::new(selection, peer, budget.deadline);
            let answer = service.begin(request(bytes), client).response().await;
            let text = answer.expect("a response").text;
            assert_eq!(text.contains("the limit for a task is 65536"), is_refused, "{text:.200}");
        }
    }

    #[test]
    fn a_result_names_its_task_and_stays_as_it_was_written() {
        let related = related(r#"{"content":[],"n":1.10,"_meta":{"a":1}}"#, "t");
        assert!(related.starts_with(r#"{"content":[],"n":1.10,"_meta":{"a":1,""#), "{related}");
        assert!(serde_json::from_str::<Value>(&related).is_ok(), "{related}");
    }
}
