//! The tasks of all tenants, bounded for each of them and in all.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::task::{Task, TaskPhase};
use crate::running::MAX_RUNNING;
use airlock_core::{tenant::Tenant, tool::ANSWER_TIMEOUT};
use airlock_strings::cut;
use airlock_wire::{error::RpcError, message::Params};

/// Time for which the end of a task can be read.
const KEPT_FOR: Duration = Duration::from_mins(5);
/// Maximum number of tasks of all tenants: sixteen tenants with as many as each may have. It bounds
/// their requests to 64 MiB.
const MAX_TASKS: usize = 1_024;
/// Maximum length of the results of one tenant's tasks, in bytes: those of eight calls of the longest
/// result of an upstream server, 1 MiB.
const MAX_RESULT_BYTES: usize = 8 << 20;
/// Maximum length of the results of all tasks, in bytes: eight tenants with all that each may
/// have.
const MAX_ALL_RESULT_BYTES: usize = 64 << 20;

/// The tasks of all tenants.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<HashMap<String, Arc<Task>>>);

impl Tasks {
    /// Adds a task for a call that may take `timeout`. `None` if there is no room for it.
    pub(super) fn create(&self, tenant: Tenant, timeout: Duration) -> Option<Arc<Task>> {
        let mut by_id = self.0.lock();
        let now = Instant::now();
        by_id.retain(|_, task| task.is_kept(now));
        let own = by_id.values().filter(|task| task.tenant == tenant).count();
        // Ended ones included: as many as one client may have running requests, so that tasks are no way
        // around that bound.
        if own >= MAX_RUNNING {
            return None;
        }
        if by_id.len() >= MAX_TASKS {
            let id = evictable(&by_id, own + 1)?;
            by_id.remove(&id).inspect(|task| task.stop());
        }
        // Answers of the client do not count as time of the call.
        let ttl = timeout + ANSWER_TIMEOUT + KEPT_FOR;
        let task = Arc::new(Task::new(tenant, ttl));
        by_id.insert(task.id().to_owned(), task.clone());
        Some(task)
    }

    /// Finds a task of a tenant by the parameters of a request. Fails if there is none, or if it is
    /// another tenant's.
    pub(crate) fn find(&self, params: &Params, tenant: &Tenant) -> Result<Arc<Task>, RpcError> {
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
    pub(crate) fn end(&self, task: &Task, outcome: Result<String, RpcError>) {
        let by_id = self.0.lock();
        let bytes = outcome.as_ref().map_or(0, String::len);
        let mut held = HashMap::<&Tenant, usize>::new();
        for other in by_id.values() {
            *held.entry(&other.tenant).or_default() += other.result_bytes();
        }
        let own = held.entry(&task.tenant).or_default();
        *own += bytes;
        if *own > MAX_RESULT_BYTES {
            return task.set(TaskPhase::too_large());
        }
        let all: usize = held.values().sum();
        let largest = held.iter().max_by_key(|(_, bytes)| **bytes).map(|(tenant, _)| *tenant);
        // The longest results are at least as long as this one, which has room without them.
        if all > MAX_ALL_RESULT_BYTES
            && let Some(largest) = largest
        {
            if *largest == task.tenant {
                return task.set(TaskPhase::too_large());
            }
            let others = by_id.values().filter(|other| other.tenant == *largest);
            others.for_each(|other| other.discard_result());
        }
        task.set(TaskPhase::Ended(Arc::new(outcome)));
    }
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
    Some(oldest.id().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::tests::params;
    use airlock_wire::{error::code, version::Version};

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn of_task(task: &Task) -> Params {
        params(&json!({"taskId": task.id()}).to_string())
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
        for _ in 1..MAX_RUNNING {
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
        let full = MAX_TASKS / MAX_RUNNING;
        let mut ended = Vec::new();
        for number in 0..full {
            for _ in 0..MAX_RUNNING {
                ended.push(tasks.create(tenant(number), TIMEOUT).expect("room"));
                tokio::time::advance(Duration::from_millis(1)).await;
            }
            ended[number * MAX_RUNNING + 5].cancel();
        }
        for created in 1..=MAX_TASKS / (full + 1) {
            assert!(tasks.create(tenant(full), TIMEOUT).is_some(), "others have more");
            let all = tasks.0.lock().len();
            assert_eq!((all, count(&tasks, full)), (MAX_TASKS, created));
        }
        assert!(tasks.create(tenant(full), TIMEOUT).is_none(), "no other one would have more");
        assert!((0..full).all(|number| count(&tasks, number) >= MAX_RUNNING - 5));
        let of_loser = (0..full).find(|number| count(&tasks, *number) < MAX_RUNNING);
        let of_loser = of_loser.expect("one lost");
        let lost = &ended[of_loser * MAX_RUNNING + 5];
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
}
