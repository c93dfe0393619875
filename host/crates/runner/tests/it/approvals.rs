//! Calls that need an approval: the run stops, is kept as bytes, and is resumed.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{RUNNER, failure, finished, in_each, pending, python, waiting};
use airlock_runner::{
    BadDump, Function, Functions, PendingRun, RunDump, RunError, RunLimits, RunState, Runner,
    RunnerSettings, ScriptLanguage,
};

/// Functions that count their calls: `look` needs no approval, and `pay` does.
#[derive(Clone, Default)]
struct Bank {
    looks: Arc<AtomicU32>,
    paid: Arc<Mutex<Vec<Value>>>,
}

impl Bank {
    fn functions(&self) -> Functions {
        let looks = self.looks.clone();
        let look = Function::new("look", "Returns the balance.", json!({}), move |_| {
            let looked = looks.fetch_add(1, Ordering::Relaxed);
            async move { Ok(json!(100 + looked)) }
        });
        let schema = json!({"properties": {"amount": {"type": "integer"}}, "required": ["amount"]});
        let paid = self.paid.clone();
        let pay = Function::new("pay", "Pays.", schema, move |call| {
            let amount = call.arguments()["amount"].clone();
            paid.lock().expect("no panic").push(amount);
            async { Ok(json!("paid")) }
        });
        Functions::new([look.read_only(), pay.needs_approval()]).expect("functions")
    }

    fn looks(&self) -> u32 {
        self.looks.load(Ordering::Relaxed)
    }

    fn paid(&self) -> Vec<Value> {
        self.paid.lock().expect("no panic").clone()
    }
}

async fn resumed(run: PendingRun) -> RunState {
    RUNNER.resume(run).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Resumes a run that ends, and returns its value.
async fn value(run: PendingRun) -> Option<Value> {
    match resumed(run).await {
        RunState::Finished(run) => run.value,
        RunState::Pending(run) => panic!("{run:?}"),
    }
}

#[tokio::test]
async fn a_run_stops_at_a_call_that_needs_an_approval_and_goes_on_after_it() {
    for request in in_each("balance = look()\nprint(balance)\n[balance, pay(balance // 2)]") {
        let bank = Bank::default();
        let mut run = pending(request.with_functions(bank.functions())).await;
        assert_eq!((run.output(), bank.looks(), bank.paid()), ("100", 1, Vec::new()));
        let [call] = run.calls() else { panic!("{run:?}") };
        assert_eq!((call.id, &*call.function), (2, "pay"));
        assert_eq!(call.arguments["amount"], 50);
        run.approve(2).expect("it waits");
        let RunState::Finished(run) = resumed(run).await else { panic!("it waits again") };
        assert_eq!((run.value, run.calls), (Some(json!([100, "paid"])), 2));
        assert_eq!(run.output, "100", "it is printed once");
        assert_eq!((bank.looks(), bank.paid()), (1, vec![json!(50)]), "each call is made once");
    }
}

#[tokio::test]
async fn a_denied_call_is_not_made_and_the_script_can_handle_it() {
    let bank = Bank::default();
    let code = "\
try:
    pay(1)
except ToolError as error:
    result = [error.kind, error.code, 'too much' in error.message]";
    let mut run = pending(python(code).with_functions(bank.functions())).await;
    run.deny(1, "too much").expect("it waits");
    assert_eq!(value(run).await, Some(json!(["denied", "airlock.approval_denied", true])));
    let mut run = pending(python("pay(1)").with_functions(bank.functions())).await;
    run.deny(1, "").expect("it waits");
    let error = RUNNER.resume(run).await.expect_err("the script does not handle it");
    let RunError::Script(failure) = error else { panic!("{error:?}") };
    let function = failure.function.expect("it has failed");
    assert_eq!((&*function.name, function.call), ("pay", None));
    assert_eq!(function.code.as_deref(), Some("airlock.approval_denied"));
    assert_eq!(bank.paid(), Vec::<Value>::new());
}

#[tokio::test]
async fn arguments_that_cannot_be_paid_are_a_failure_and_nobody_is_asked() {
    let bank = Bank::default();
    let request = python("pay('a')").with_functions(bank.functions());
    assert!(matches!(failure(request).await, RunError::Script(_)));
    let code = "\
try:
    pay()
except ToolError:
    result = pay(3)";
    let mut run = pending(python(code).with_functions(bank.functions())).await;
    let [call] = run.calls() else { panic!("{run:?}") };
    assert_eq!(call.id, 2);
    run.approve_all();
    assert_eq!(value(run).await, Some(json!("paid")));
    assert_eq!(bank.paid(), [json!(3)]);
}

#[tokio::test]
async fn no_call_of_a_block_is_made_before_all_are_decided() {
    for (language, code) in [
        (ScriptLanguage::Python, "import asyncio\nawait asyncio.gather(pay(1), look(), pay(2))"),
        (
            ScriptLanguage::Starlark,
            "gather([(pay, {'amount': 1}), (look, {}), (pay, {'amount': 2})])",
        ),
    ] {
        let bank = Bank::default();
        let request = airlock_runner::RunRequest::new(language, code);
        let mut run = pending(request.with_functions(bank.functions())).await;
        let ids: Vec<_> = run.calls().iter().map(|call| call.id).collect();
        assert_eq!((ids, bank.looks()), (vec![1, 3], 0));
        run.approve(1).expect("it waits");
        let mut run = waiting(RUNNER.resume(run).await);
        assert_eq!((bank.looks(), bank.paid()), (0, Vec::new()), "one call waits on");
        run.approve(3).expect("it waits");
        assert_eq!(value(run).await, Some(json!(["paid", 100, "paid"])));
        assert_eq!((bank.looks(), bank.paid().len()), (1, 2));
    }
}

#[tokio::test]
async fn each_stop_has_its_own_decisions() {
    let bank = Bank::default();
    let code = "for n in range(3):\n    pay(n)\nlook()";
    for request in in_each(code) {
        let bank = Bank { paid: Arc::default(), ..bank.clone() };
        let mut run = pending(request.with_functions(bank.functions())).await;
        for id in 1..=3 {
            let ids: Vec<_> = run.calls().iter().map(|call| call.id).collect();
            assert_eq!(ids, [id], "calls that were made are not shown again");
            run.approve(id).expect("it waits");
            match resumed(run).await {
                RunState::Pending(next) => run = next,
                RunState::Finished(ended) => {
                    assert_eq!((id, ended.calls), (3, 4));
                    break;
                }
            }
        }
        assert_eq!(bank.paid(), [json!(0), json!(1), json!(2)]);
    }
}

#[tokio::test]
async fn a_run_is_resumed_by_another_runner_from_its_bytes() {
    let bank = Bank::default();
    let code = "print('a')\nbalance = look()\nprint('b', start)\npay(balance + start)";
    for request in in_each(code) {
        let request = request.with_functions(bank.functions()).with_input("start", 5);
        let run = pending(request).await;
        let bytes = run.dump().expect("a dump").into_bytes();
        drop(run);

        let other = Runner::new(RunnerSettings { concurrent: 1, ..RunnerSettings::default() });
        let dump = RunDump::from_bytes(bytes).expect("a dump");
        let bank = Bank { paid: Arc::default(), looks: Arc::default() };
        let mut run =
            PendingRun::load(&dump, bank.functions()).expect("the functions are the same");
        assert_eq!(run.output(), "a\nb 5");
        run.approve_all();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let kept = heard.clone();
        let run =
            run.with_on_print(move |line| kept.lock().expect("no panic").push(line.to_owned()));
        let ended = other.expect("a runner").resume(run).await.expect("it ends");
        let RunState::Finished(ended) = ended else { panic!("{ended:?}") };
        assert_eq!((ended.value, ended.output), (Some(json!("paid")), "a\nb 5".to_owned()));
        assert!(heard.lock().expect("no panic").is_empty(), "lines are not repeated");
        assert_eq!(bank.looks(), 0, "its answer was in the journal");
        assert_eq!(bank.paid().len(), 1);
    }
}

#[tokio::test]
async fn a_run_that_waits_drops_its_context_and_is_resumed_with_another() {
    let whose = Function::new("whose", "", json!({}), async |call| {
        Ok(json!(call.context::<String>().map(|name| (*name).clone())))
    });
    let functions = Functions::new([whose.needs_approval()]).expect("a function");
    let ann = Arc::new("ann".to_owned());
    let request = python("[whose()]").with_functions(functions).with_context(ann.clone());
    let mut run = pending(request).await;
    assert_eq!(Arc::strong_count(&ann), 1);
    run.approve_all();
    assert_eq!(value(run.clone()).await, Some(json!([null])));
    let bob = run.with_context(Arc::new("bob".to_owned()));
    assert_eq!(value(bob).await, Some(json!(["bob"])));
}

#[tokio::test]
async fn a_run_is_not_loaded_with_functions_that_were_declared_otherwise() {
    let bank = Bank::default();
    let run = pending(python("pay(1)").with_functions(bank.functions())).await;
    let dump = run.dump().expect("a dump");
    let refused = PendingRun::load(&dump, Functions::none()).expect_err("no function");
    assert!(matches!(refused, BadDump::MissingFunction { .. }));
    let look = Function::new("look", "Returns the balance.", json!({}), async |_| Ok(json!(1)));
    let schema = json!({"properties": {"amount": {"type": "number"}}, "required": ["amount"]});
    let pay = Function::new("pay", "Pays.", schema, async |_| Ok(json!("paid")));
    let changed = Functions::new([look.read_only(), pay.needs_approval()]).expect("functions");
    let refused = PendingRun::load(&dump, changed).expect_err("another schema");
    assert!(matches!(refused, BadDump::ChangedFunction { name } if name == "pay"));
    let mut bytes = dump.into_bytes();
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    assert!(matches!(RunDump::from_bytes(bytes), Err(BadDump::Digest)));
}

#[tokio::test]
async fn a_script_that_does_not_agree_with_its_journal_ends() {
    let bank = Bank::default();
    let run = pending(python("look()\npay(1)").with_functions(bank.functions())).await;
    let bytes = run.dump().expect("a dump").into_bytes();
    let text = String::from_utf8(bytes).expect("a dump is text");
    for (from, to) in [
        // Another call at the place of the first, other arguments, and fewer calls.
        (r"look()\npay(1)", r"pay(2)\npay(1)"),
        (r"look()\npay(1)", r"look()\npay(2)"),
        (r"look()\npay(1)", "look()"),
        (r"look()\npay(1)", ""),
    ] {
        let dump = with_digest(&text.replace(from, to));
        let mut run = PendingRun::load(&dump, bank.functions()).expect("a run");
        run.approve_all();
        let error = RUNNER.resume(run).await.expect_err("it diverges");
        assert!(matches!(error, RunError::Diverged { .. }), "{to}: {error}");
    }
    assert_eq!(bank.paid(), Vec::<Value>::new());
}

/// Returns a dump of this text with the right digest.
fn with_digest(text: &str) -> RunDump {
    let mut parts = text.splitn(3, '\n');
    let version = parts.next().expect("a version");
    let document = parts.nth(1).expect("a document");
    let digest = Sha256::digest(document);
    let digest = airlock_strings::hex(&digest);
    RunDump::from_bytes(format!("{version}\n{digest}\n{document}").into_bytes()).expect("a dump")
}

#[tokio::test]
async fn a_run_that_waits_has_no_end_to_replay() {
    let bank = Bank::default();
    let mut run = pending(python("look()\npay(1)").with_functions(bank.functions())).await;
    run.approve_all();
    let dump = run.dump().expect("a dump");
    let error = RUNNER.replay(&dump).await.expect_err("it waits");
    assert!(matches!(error, RunError::Pending { function } if function == "pay"));
    assert_eq!((bank.looks(), bank.paid()), (1, Vec::new()), "nothing was called");
}

#[tokio::test]
async fn a_run_with_approvals_is_replayed_once_it_has_ended() {
    let bank = Bank::default();
    let request = python("[look(), pay(1)]").with_functions(bank.functions()).with_journal(true);
    let mut run = pending(request).await;
    run.approve_all();
    let RunState::Finished(ended) = resumed(run).await else { panic!("it waits again") };
    let journal = ended.journal.expect("it was requested");
    let replayed = RUNNER.replay(&journal).await.expect("it has ended");
    assert_eq!(replayed.value, ended.value);
    assert_eq!((bank.looks(), bank.paid().len()), (1, 1));
    let refused = PendingRun::load(&journal, bank.functions()).expect_err("it has ended");
    assert!(matches!(refused, BadDump::Finished));
}

#[tokio::test]
async fn calls_that_were_answered_count_again_when_a_run_is_resumed() {
    let bank = Bank::default();
    let request = python("look()\nlook()\npay(1)").with_functions(bank.functions());
    let limits = RunLimits { calls: 3, ..RunLimits::default() };
    let mut run = pending(request.with_limits(limits)).await;
    run.approve_all();
    assert_eq!(value(run).await, Some(json!("paid")));
    let request = python("look()\nlook()\npay(1)\nlook()").with_functions(bank.functions());
    let mut run = pending(request.with_limits(limits)).await;
    run.approve_all();
    let error = RUNNER.resume(run).await.expect_err("the fourth call is beyond the limit");
    assert_eq!(crate::limit_of(&error), "calls");
}

#[tokio::test]
async fn a_finished_run_has_a_journal_only_if_it_was_requested() {
    let bank = Bank::default();
    let run = finished(python("look()").with_functions(bank.functions())).await;
    assert!(run.journal.is_none());
}

#[tokio::test]
async fn an_approved_call_is_made_even_if_it_has_filled_the_journal() {
    let made = Arc::new(AtomicU32::new(0));
    let schema = json!({"properties": {"value": {"type": "string"}}});
    let take = Function::new("take", "", schema.clone(), async |_| Ok(Value::Null));
    let counts = made.clone();
    let keep = Function::new("keep", "", schema, move |_| {
        counts.fetch_add(1, Ordering::Relaxed);
        async { Ok(json!("kept")) }
    });
    let functions = Functions::new([take, keep.needs_approval()]).expect("functions");
    // A journal keeps 33,554,432 bytes: the first 33 calls fit, and the last one is beyond it.
    let code = "x = 'x' * 1000000\nfor _ in range(33):\n    take(x)\nkeep(x)";
    let mut run = pending(python(code).with_functions(functions.clone())).await;
    run.approve_all();
    let dump = run.dump().expect("a dump");
    let run = PendingRun::load(&dump, functions).expect("it is read");
    assert_eq!(value(run).await, Some(json!("kept")));
    assert_eq!(made.load(Ordering::Relaxed), 1);
}
