//! Blocking threads for work that would keep a worker of the runtime from other requests.
//!
//! A text of some MiB takes tens of milliseconds to be read. On a worker, that is the latency of every
//! other request.

use std::{
    collections::HashMap,
    future::pending,
    panic::resume_unwind,
    pin::pin,
    sync::{Arc, LazyLock, Weak},
    task::{Context, Poll, Waker},
    thread::available_parallelism,
    time::Instant,
};

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{JoinError, JoinSet, spawn_blocking},
};

use crate::{
    door::{Arguments, Caller, Chain, Entry, Origin, View},
    tenant::Tenant,
    tool::{CallError, ToolName, ToolOutput},
};
use airlock_json::schema::{CompiledSchema, Violations};

/// Texts above this size, in bytes, are read on a blocking thread. The worst text of this size
/// occupies a worker for a few milliseconds.
pub const INLINE_BYTES: usize = 32 * 1024;

/// The threads of the process. All work shares them, because it shares the cores.
static THREADS: LazyLock<Threads> =
    LazyLock::new(|| Threads::new(available_parallelism().map_or(1, usize::from)));

/// The decisions of guards in tasks. A guard that yields keeps its instance, so as many decide at a time as there are
/// cores.
static TURNS: LazyLock<Threads> =
    LazyLock::new(|| Threads::new(available_parallelism().map_or(1, usize::from)));

/// Runs work on a blocking thread, when the tenant has one. It runs to its end even if the future is
/// dropped. Panics if the work does.
pub async fn run<T: Send + 'static>(
    tenant: &Tenant,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    THREADS.take(tenant).await.run(work).await
}

/// Runs work that reads `bytes`: here if they are few, else on a blocking thread as [`run`] does.
pub async fn read<T: Send + 'static>(
    tenant: &Tenant,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes <= INLINE_BYTES {
        return work();
    }
    // Boxed: most texts are short, and the future would have room for the wait of a long one.
    Box::pin(run(tenant, work)).await
}

/// Waits for a turn of a tenant, in which guards decide in the task that holds it, as [`decide`] polls it. It ends when
/// the returned value is dropped.
pub async fn turn(tenant: &Tenant) -> impl Sized + use<> {
    TURNS.take(tenant).await
}

/// Runs the decision of guards here if it ends in one slice of work, else in a task of its own, which ends when the future
/// is dropped. A stream whose reader is slow is not polled, and a decision that waited for it would keep its
/// [`turn`] from all others. Panics if the decision does.
pub async fn decide<T: Send + 'static>(deciding: impl Future<Output = T> + Send + 'static) -> T {
    let mut deciding = Box::pin(deciding);
    if let Some(decided) = deciding.as_mut().now_or_never() {
        return decided;
    }
    in_task(deciding).await
}

/// Runs work in a task of its own, which ends when the future is dropped.
async fn in_task<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let mut task = JoinSet::new();
    task.spawn(work);
    let ended = task.join_next().await.expect("the task is not joined before");
    outcome(ended).await
}

/// Polls work that waits for nothing to its end, on this thread. Work that yields is polled again at once; work that waits
/// would keep the thread busy.
pub fn poll_to_end<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
            return done;
        }
    }
}

/// Checks the arguments of a call, and asks the guards about it: here if they are short, where guards yield to other
/// tasks, else on a blocking thread. Returns them as the guards leave them. Fails if all tools are switched off, if the
/// tool does not exist or is hidden, as [`Arguments::parse`] does, or if a guard denies the call or fails.
pub async fn arguments(caller: &Caller, tool: &str, text: &str) -> Result<Arguments, CallError> {
    caller.needs_approval(tool)?;
    let tenant = caller.view().tenant();
    if !caller.view().has_guards() {
        return parse(tenant, tool, text).await;
    }
    decide_about(tenant, text.len(), || {
        let caller = caller.clone();
        let tool = tool.to_owned();
        let text = text.to_owned();
        async move {
            let arguments = Arguments::parse(&tool, &text)?;
            caller.guarded(&tool, arguments).await
        }
    })
    .await
}

/// Asks the guards of a view about a call as [`View::guarded`] does: here if its arguments are short, where guards yield to
/// other tasks, else on a blocking thread.
pub async fn guarded(
    view: &View,
    origin: &Origin,
    entry: &Entry,
    arguments: Arguments,
    deadline: Instant,
) -> Result<Arguments, CallError> {
    if !view.has_guards() {
        return Ok(arguments);
    }
    decide_about(view.tenant(), arguments.as_str().len(), || {
        let view = view.clone();
        let origin = origin.clone();
        let entry = entry.clone();
        async move { view.guarded(&origin, &entry, arguments, deadline).await }
    })
    .await
}

/// Asks the guards about a nested call as [`Chain::guarded`] does: here if its arguments are short, where guards yield to
/// other tasks, else on a blocking thread.
pub async fn guarded_nested(
    chain: &Chain,
    origin: &Origin,
    tool: &str,
    text: &str,
) -> Result<Option<Arguments>, CallError> {
    if !chain.view().has_guards() {
        return Ok(None);
    }
    decide_about(chain.tenant(), text.len(), || {
        let chain = chain.clone();
        let origin = origin.clone();
        let tool = tool.to_owned();
        let text = text.to_owned();
        async move { chain.guarded(&origin, &tool, &text).await }
    })
    .await
}

/// Asks guards about a text of `bytes` bytes: here if it is short, as [`decide`] does, else on a blocking thread. `begin`
/// copies the text. It is called once a thread is free, so that calls that wait for one hold no second copy.
async fn decide_about<T, F>(tenant: &Tenant, bytes: usize, begin: impl FnOnce() -> F) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    if bytes <= INLINE_BYTES {
        return decide(begin()).await;
    }
    let thread = THREADS.take(tenant).await;
    let deciding = begin();
    thread.run(move || Handle::current().block_on(deciding)).await
}

/// Checks the arguments of a call of a tool that exists: here if they are short, else on a blocking thread. Guards are
/// not asked.
pub async fn parse(tenant: &Tenant, tool: &str, text: &str) -> Result<Arguments, CallError> {
    if text.len() <= INLINE_BYTES {
        return Arguments::parse(tool, text);
    }
    let thread = THREADS.take(tenant).await;
    // Copied only now: calls that wait for a thread hold no second copy.
    let tool = tool.to_owned();
    let text = text.to_owned();
    thread.run(move || Arguments::parse(&tool, &text)).await
}

/// Checks a value, and returns it: here if that is quick, else on a blocking thread. With a schema made
/// for it, a check takes 50 ms. While it waits for a thread, the value is text: many calls may wait, and
/// the tree of each may take 150 times as much.
async fn check(
    tenant: &Tenant,
    schema: &Arc<CompiledSchema>,
    value: Value,
) -> (Value, Result<(), Violations>) {
    if schema.fits_quickly(&value) {
        return (value, Ok(()));
    }
    if schema.is_quick(&value) {
        let checked = schema.check(&value);
        return (value, checked);
    }
    let text = value.to_string();
    drop(value);
    let thread = THREADS.take(tenant).await;
    let schema = schema.clone();
    thread
        .run(move || {
            let value = serde_json::from_str(&text).expect("a tree that was written is read");
            let checked = schema.check(&value);
            (value, checked)
        })
        .await
}

/// Checks the structured result of a call of `tool`, which declares one, as [`check`] does. Without a
/// schema, any value passes. The result is the same afterwards. Fails if there is none, or if it does not
/// fit.
pub async fn check_result(
    tenant: &Tenant,
    tool: &ToolName,
    schema: Option<&Arc<CompiledSchema>>,
    output: &mut ToolOutput,
) -> Result<(), CallError> {
    let Some(structured) = output.structured.take() else {
        return Err(CallError::invalid_result(tool.clone(), "", NoStructuredResult));
    };
    let (structured, checked) = match schema {
        Some(schema) => check(tenant, schema, structured).await,
        None => (structured, Ok(())),
    };
    output.structured = Some(structured);
    checked.map_err(|violations| {
        let place =
            violations.reported().first().map_or(String::new(), |first| first.place.clone());
        CallError::invalid_result(tool.clone(), &place, violations)
    })
}

/// Error: a tool with an output schema has to return structured data (MCP 2025-06-18, Structured
/// Content).
#[derive(Debug, thiserror::Error)]
#[error("the structured result is missing; a tool with an output schema must return one")]
struct NoStructuredResult;

/// Checks the arguments of a call by `rule`, which accepts all that fit the schema: here if that is quick, else on a
/// blocking thread. Only there is a tree built of long ones, because calls that wait would hold up to 150 times their
/// text.
pub async fn check_arguments(
    tenant: &Tenant,
    schema: &Arc<CompiledSchema>,
    arguments: &Arguments,
    rule: fn(&CompiledSchema, Value) -> Result<(), Violations>,
) -> Result<(), Violations> {
    if arguments.as_str().len() <= INLINE_BYTES {
        let members = Value::Object(arguments.to_object());
        if schema.fits_quickly(&members) {
            return Ok(());
        }
        return check_unfit(tenant, schema, arguments, members, rule).await;
    }
    check_on_thread(tenant, schema, arguments, rule).await
}

/// Checks arguments with the tree `members`, which [`CompiledSchema::fits_quickly`] has not found to fit, as
/// [`check_arguments`] does. The tree is dropped before a wait for a thread.
pub async fn check_unfit(
    tenant: &Tenant,
    schema: &Arc<CompiledSchema>,
    arguments: &Arguments,
    members: Value,
    rule: fn(&CompiledSchema, Value) -> Result<(), Violations>,
) -> Result<(), Violations> {
    if schema.is_quick(&members) {
        return rule(schema, members);
    }
    drop(members);
    check_on_thread(tenant, schema, arguments, rule).await
}

async fn check_on_thread(
    tenant: &Tenant,
    schema: &Arc<CompiledSchema>,
    arguments: &Arguments,
    rule: fn(&CompiledSchema, Value) -> Result<(), Violations>,
) -> Result<(), Violations> {
    let schema = schema.clone();
    let arguments = arguments.clone();
    run(tenant, move || rule(&schema, arguments.to_object().into())).await
}

/// Takes all threads that a tenant may have, until the returned value is dropped: for tests of work that
/// waits.
#[doc(hidden)]
pub async fn occupy(tenant: &Tenant) -> impl Sized + use<> {
    THREADS.occupy(tenant).await
}

/// Takes all turns that a tenant may have, as [`occupy`] does threads.
#[doc(hidden)]
pub async fn occupy_turns(tenant: &Tenant) -> impl Sized + use<> {
    TURNS.occupy(tenant).await
}

/// Blocking threads, or turns: as many at a time as there are cores, and two at least. One tenant leaves one to
/// the others.
struct Threads {
    all: Arc<Semaphore>,
    /// Threads that one tenant may have.
    of_one: usize,
    by_tenant: Mutex<HashMap<Tenant, Weak<Semaphore>>>,
}

/// A thread that is free for some work.
struct Thread([OwnedSemaphorePermit; 2]);

impl Thread {
    async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let working = spawn_blocking(move || {
            let Self(_permits) = self;
            work()
        });
        outcome(working.await).await
    }
}

/// Returns what a task has returned. Panics if it did.
async fn outcome<T>(ended: Result<T, JoinError>) -> T {
    match ended {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime ends.
            Err(_) => pending().await,
        },
    }
}

impl Threads {
    fn new(cores: usize) -> Self {
        let all = cores.max(2);
        Self { all: Arc::new(Semaphore::new(all)), of_one: all - 1, by_tenant: Mutex::default() }
    }

    async fn occupy(&self, tenant: &Tenant) -> Vec<Thread> {
        // One at a time: two tests that each had a part of the threads would wait for each other.
        static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let _alone = ALONE.lock().await;
        let mut held = Vec::new();
        for _ in 0..self.of_one {
            held.push(self.take(tenant).await);
        }
        held
    }

    /// Waits for a thread: first for one of the tenant's, so that requests of one tenant do not stand
    /// in the queue of all.
    async fn take(&self, tenant: &Tenant) -> Thread {
        let own = take(self.share(tenant)).await;
        Thread([own, take(self.all.clone()).await])
    }

    fn share(&self, tenant: &Tenant) -> Arc<Semaphore> {
        let mut by_tenant = self.by_tenant.lock();
        if let Some(own) = by_tenant.get(tenant).and_then(Weak::upgrade) {
            return own;
        }
        by_tenant.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.of_one));
        by_tenant.insert(tenant.clone(), Arc::downgrade(&own));
        own
    }
}

async fn take(semaphore: Arc<Semaphore>) -> OwnedSemaphorePermit {
    semaphore.acquire_owned().await.expect("the semaphore is never closed")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn short_arguments_are_checked_with_the_tree_that_was_built() {
        let schema = CompiledSchema::compile("inputSchema", &json!({"required": ["a"]}));
        let schema = Arc::new(schema.expect("a good schema"));
        let arguments = Arguments::parse("t", "{}").expect("an object");
        let tenant = Tenant::ANONYMOUS;
        let built = json!({"built": true});
        let checked = check_unfit(&tenant, &schema, &arguments, built, |_, members| {
            assert_eq!(members, json!({"built": true}));
            Ok(())
        });
        assert!(checked.now_or_never().is_some_and(|checked| checked.is_ok()));
    }

    #[tokio::test]
    async fn short_work_is_done_here_and_long_work_waits_for_a_thread() {
        let ann = Tenant::of_key([1; 32], "ann");
        let held = occupy(&ann).await;
        assert_eq!(read(&ann, INLINE_BYTES, || 7).now_or_never(), Some(7));
        assert_eq!(read(&ann, INLINE_BYTES + 1, || 7).now_or_never(), None);
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(INLINE_BYTES));
        assert!(parse(&ann, "t", &long).now_or_never().is_none());
        assert!(parse(&ann, "t", "{}").now_or_never().is_some_and(|parsed| parsed.is_ok()));
        drop(held);
        assert_eq!(parse(&ann, "t", &long).await.expect("an object").as_str(), long);
        assert!(parse(&ann, "t", &long.replace('}', "")).await.is_err());
    }

    #[tokio::test]
    async fn one_tenant_leaves_a_thread_to_the_others() {
        for (cores, of_one) in [(1, 1), (2, 1), (8, 7)] {
            let threads = Threads::new(cores);
            let ann = Tenant::of_key([1; 32], "ann");
            let bob = Tenant::of_key([2; 32], "bob");
            let held: Vec<_> = (0..9).map_while(|_| threads.take(&ann).now_or_never()).collect();
            assert_eq!(held.len(), of_one, "{cores}");
            let waiting = threads.take(&ann);
            drop(threads.take(&bob).now_or_never().expect("a thread is left"));
            drop(held);
            drop(waiting.now_or_never().expect("they are free again"));
            threads.share(&bob);
            assert_eq!(threads.by_tenant.lock().len(), 1);
        }
    }

    #[tokio::test]
    #[should_panic(expected = "as it is tested")]
    async fn a_panic_of_the_work_is_passed_on() {
        run(&Tenant::ANONYMOUS, || panic!("as it is tested")).await;
    }
}
