//! Scripts that are stopped because their futures are dropped.

use std::{
    future::pending,
    sync::{Arc, Mutex},
};

use serde_json::json;
use tokio::sync::oneshot;

use crate::{RUNNER, finished, in_each, python};
use airlock_runner::{Function, Functions, RunLimits, RunRequest, Runner, RunnerSettings};

/// Sends a message when it is dropped.
struct Dropped(Option<oneshot::Sender<()>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            // The test may have ended.
            let _ = sender.send(());
        }
    }
}

/// A function that never ends. The receivers learn when its first call begins, and when that is dropped.
fn endless() -> (Functions, oneshot::Receiver<()>, oneshot::Receiver<()>) {
    let (sender, begun) = oneshot::channel();
    let (stop, stopped) = oneshot::channel();
    let first = Arc::new(Mutex::new(Some((sender, Dropped(Some(stop))))));
    let wait = Function::new("wait", "", json!({}), move |_| {
        let first = first.lock().expect("no panic").take();
        async move {
            let _dropped = first.map(|(sender, dropped)| {
                sender.send(()).expect("the test waits for it");
                dropped
            });
            pending().await
        }
    });
    (Functions::new([wait]).expect("a function"), begun, stopped)
}

#[tokio::test]
async fn dropping_a_run_drops_the_calls_that_it_waits_for() {
    let parallel = python("import asyncio\nawait asyncio.gather(wait(), wait())");
    for request in in_each("wait()").into_iter().chain([parallel]) {
        let (functions, begun, stopped) = endless();
        let running = RUNNER.run(request.with_functions(functions));
        tokio::select! {
            ended = running => panic!("it never ends: {ended:?}"),
            begun = begun => begun.expect("the call has begun"),
        }
        stopped.await.expect("the call was dropped");
    }
}

#[tokio::test]
async fn dropping_a_run_frees_its_instance() {
    let settings = RunnerSettings { concurrent: 1, ..RunnerSettings::default() };
    let runner = Runner::new(settings).expect("a sandbox");
    for request in in_each("wait()") {
        let language = request.language;
        let (functions, begun, _stopped) = endless();
        {
            let running = runner.run(request.with_functions(functions));
            tokio::select! {
                ended = running => panic!("it never ends: {ended:?}"),
                begun = begun => begun.expect("the call has begun"),
            }
        }
        let next = runner.run(RunRequest::new(language, "1")).await;
        assert!(next.is_ok(), "{next:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_is_stopped_when_its_task_is_aborted() {
    for request in in_each("print('begun')\nwhile True:\n    pass") {
        let (sender, begun) = oneshot::channel();
        let first = Mutex::new(Some(sender));
        let request = request.with_limits(RunLimits::MAX).with_on_print(move |_| {
            if let Some(sender) = first.lock().expect("no panic").take() {
                sender.send(()).expect("the test waits for it");
            }
        });
        let running = tokio::spawn(RUNNER.run(request));
        begun.await.expect("it runs");
        running.abort();
        assert!(running.await.expect_err("it never ends").is_cancelled());
    }
    assert_eq!(finished(python("1")).await.value, Some(json!(1)));
}
