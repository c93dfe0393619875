use airlock_core::run::MAX_REASON_BYTES;
use serde_json::{Value, json};

use super::*;
use crate::{Function, PendingDecision, PendingRun, RunRequest};

fn functions() -> Functions {
    let pay = Function::new("pay", "", json!({}), async |_| Ok(Value::Null));
    Functions::new([pay.needs_approval()]).expect("a function")
}

/// Returns the content of a run that waits for a decision about its second call.
fn content() -> RunContent {
    let request = RunRequest::new(ScriptLanguage::Python, "pay(amount=price)")
        .with_input("price", json!(7))
        .with_functions(functions());
    let mut content = RunContent::new(request).expect("a request");
    content.entries = vec![entry(CallState::Value("[1]".to_owned())), entry(CallState::Pending)];
    content.lines = 1;
    content
}

fn entry(state: CallState) -> JournalEntry {
    JournalEntry { function: "pay".to_owned(), arguments: r#"{"amount":7}"#.to_owned(), state }
}

fn dump() -> RunDump {
    RunDump::new(&content(), "printed", false).expect("it is small")
}

/// Returns the bytes of a dump whose document is changed, with the digest of the changed one.
fn changed(change: impl FnOnce(&mut Value)) -> RunDump {
    let dump = dump();
    let mut document: Value = serde_json::from_str(document_of(&dump)).expect("JSON");
    change(&mut document);
    with_digest(&document.to_string())
}

fn document_of(dump: &RunDump) -> &str {
    let content = super::content(dump.as_bytes()).expect("a dump");
    std::str::from_utf8(&content[65..]).expect("it is text")
}

/// Returns a dump of a document with its digest.
fn with_digest(document: &str) -> RunDump {
    let digest = hex(&Sha256::digest(document));
    let bytes = format!("airlock-run 1\n{digest}\n{document}").into_bytes();
    RunDump::from_bytes(bytes).expect("its digest is right")
}

/// Returns the problem of a dump that is not loaded.
fn problem(dump: &RunDump, functions: Functions) -> BadDump {
    PendingRun::load(dump, functions).expect_err("it is refused")
}

#[test]
fn a_run_is_the_same_after_a_round_trip() {
    let bytes = dump().into_bytes();
    let read = RunDump::from_bytes(bytes.clone()).expect("a dump");
    let run = PendingRun::load(&read, functions()).expect("a run");
    assert_eq!((run.output(), run.calls().len()), ("printed", 1));
    let call = &run.calls()[0];
    assert_eq!((call.id, call.function.as_str()), (2, "pay"));
    assert_eq!(Value::from(call.arguments.clone()), json!({"amount": 7}));
    assert_eq!(run.dump().expect("it is small").as_bytes(), bytes);
}

#[test]
fn decisions_are_kept_and_other_calls_are_not_decided_about() {
    let mut run = PendingRun::load(&dump(), functions()).expect("a run");
    for id in [0, 1, 3, u32::MAX] {
        assert_eq!(run.approve(id), Err(crate::NoSuchCall { id }));
        assert_eq!(run.deny(id, ""), Err(crate::NoSuchCall { id }));
    }
    run.deny(2, &"x".repeat(MAX_REASON_BYTES + 1)).expect("it waits");
    let state = run.clone().into_content().entries[1].state.clone();
    let CallState::Denied(reason) = state else { panic!("{state:?}") };
    assert_eq!(reason.len(), MAX_REASON_BYTES, "the reason is bounded");
    run.deny(2, "too\nmuch").expect("it waits");
    let state = run.clone().into_content().entries[1].state.clone();
    assert_eq!(state, CallState::Denied("too⟨U+000A⟩much".to_owned()));
    let dump = run.dump().expect("it is small");
    let mut again = PendingRun::load(&dump, functions()).expect("a run");
    again.approve(2).expect("a decision may be changed until the run is resumed");
    assert_eq!(again.into_content().entries[1].state, CallState::Approved);
}

#[test]
fn decisions_are_shown_after_loading_and_those_that_were_made_stay_if_all_are_approved() {
    let mut content = content();
    content.entries.push(entry(CallState::Pending));
    let dump = RunDump::new(&content, "", false).expect("it is small");
    let mut run = PendingRun::load(&dump, functions()).expect("a run");
    run.deny(2, "too much").expect("it waits");
    let denied = PendingDecision::Denied { reason: "too much".to_owned() };
    let dump = run.dump().expect("it is small");
    for mut run in [run.clone(), PendingRun::load(&dump, functions()).expect("a run")] {
        assert_eq!(decisions(&run), [Some(denied.clone()), None]);
        run.approve_all();
        assert_eq!(decisions(&run), [Some(denied.clone()), Some(PendingDecision::Approved)]);
        let entries = run.into_content().entries;
        assert_eq!(entries[1].state, CallState::Denied("too much".to_owned()));
        assert_eq!(entries[2].state, CallState::Approved);
    }
}

fn decisions(run: &PendingRun) -> Vec<Option<PendingDecision>> {
    run.calls().iter().map(|call| call.decision.clone()).collect()
}

#[test]
fn bytes_that_were_changed_cut_or_are_no_dump_are_refused() {
    let bytes = dump().into_bytes();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(RunDump::from_bytes(changed).is_err(), "byte {at}");
        assert!(RunDump::from_bytes(bytes[..at].to_vec()).is_err(), "cut at {at}");
    }
    let longer = [&bytes[..], b" "].concat();
    assert!(matches!(RunDump::from_bytes(longer), Err(BadDump::Digest)));
    assert!(matches!(RunDump::from_bytes(b"{}".to_vec()), Err(BadDump::NotADump)));
    let version = bytes.iter().position(|byte| *byte == b'1').expect("the version");
    let mut newer = bytes;
    newer[version] = b'2';
    assert!(matches!(RunDump::from_bytes(newer), Err(BadDump::Version { found }) if found == "2"));
}

#[test]
fn a_run_is_loaded_with_the_functions_that_it_had_alone() {
    let dump = dump();
    let none = problem(&dump, Functions::none());
    assert!(matches!(none, BadDump::MissingFunction { name } if name == "pay"));
    let other = Function::new("pay", "Pays.", json!({}), async |_| Ok(Value::Null));
    let other = Functions::new([other.needs_approval()]).expect("a function");
    assert!(matches!(problem(&dump, other), BadDump::ChangedFunction { name } if name == "pay"));
    let more = Function::new("more", "", json!({}), async |_| Ok(Value::Null));
    let pay = Function::new("pay", "", json!({}), async |_| Ok(Value::Null));
    let more = Functions::new([more, pay.needs_approval()]).expect("functions");
    assert!(PendingRun::load(&dump, more).is_ok(), "further functions do no harm");
}

#[test]
fn content_that_no_run_has_is_refused() {
    for (path, value) in [
        ("/language", json!("cobol")),
        ("/code", json!("x".repeat(MAX_CODE_BYTES + 1))),
        ("/inputs", json!("[]")),
        ("/inputs", json!("{")),
        ("/inputs", json!(r#"{"pay":1}"#)),
        ("/inputs", json!(r#"{"for":1}"#)),
        ("/inputs", json!("[".repeat(10_000))),
        ("/limits/calls", json!(0)),
        ("/limits/memory_bytes", json!(u64::MAX)),
        ("/calls", json!([])),
        ("/calls/0/state", json!({"value": "["})),
        ("/calls/0/state", json!({"value": "[".repeat(10_000)})),
        ("/calls/0/state", json!("unknown")),
        ("/calls/1/arguments", json!("[1]")),
        ("/calls/1/arguments", json!("")),
        ("/lines", json!(-1)),
    ] {
        let dump = changed(|document| {
            *document.pointer_mut(path).expect("a member") = value.clone();
        });
        let refused = problem(&dump, functions());
        assert!(matches!(refused, BadDump::Content(_)), "{path} {value}: {refused}");
    }
    let unknown = changed(|document| document["more"] = json!(1));
    assert!(matches!(problem(&unknown, functions()), BadDump::Content(_)));
    let ended = changed(|document| document["is_finished"] = json!(true));
    assert!(matches!(problem(&ended, functions()), BadDump::Finished));
}

#[test]
fn a_replay_has_the_names_of_the_functions_and_no_odd_ones() {
    let content = dump().replayed().expect("a run");
    assert!(content.is_replay && !content.keeps_calls());
    let odd = changed(|document| document["functions"][0]["name"] = json!("__import__"));
    assert!(matches!(odd.replayed().err(), Some(BadDump::Content(_))));
}

/// Returns JSON text that takes sixty times its bytes in memory.
fn swelling(memory_bytes: usize) -> String {
    let objects = memory_bytes / airlock_json::weight::OBJECT_BYTES;
    format!("[{}0]", r#"{"":0},"#.repeat(objects))
}

#[test]
fn a_document_is_refused_before_it_takes_its_memory() {
    let dump = dump();
    let more = swelling(MAX_DOCUMENT_BYTES);
    assert!(more.len() < MAX_DOCUMENT_BYTES / 16, "the bytes alone are not too many");
    let document = format!(r#"{{"more":{more},{}"#, &document_of(&dump)[1..]);
    let hostile = with_digest(&document);
    for refused in [Some(problem(&hostile, functions())), hostile.replayed().err()] {
        let Some(BadDump::Content(problem)) = refused else { panic!("{refused:?}") };
        assert!(problem.contains("bytes of memory"), "{problem}");
    }
}

#[test]
fn answers_are_refused_if_all_of_them_take_more_memory_than_a_sandbox_has() {
    let answer = swelling(1 << 20);
    let cost = check_json(&answer, usize::MAX).expect("JSON");
    let calls = vec![entry(CallState::Value(answer)); 2];
    assert!(check_answers(&calls, 2 * cost).is_ok());
    let refused = check_answers(&calls, 2 * cost - 1);
    assert!(matches!(&refused, Err(BadDump::Content(_))), "{refused:?}");
}

#[test]
fn a_run_is_dumped_up_to_the_bytes_that_are_loaded_again() {
    let bytes = dump().into_bytes().len();
    let within = RunDump::within(bytes, &content(), "printed", false);
    assert_eq!(within.expect("it has as many"), dump());
    let beyond = RunDump::within(bytes - 1, &content(), "printed", false);
    assert!(matches!(beyond, Err(BadDump::TooLarge { found }) if found == bytes));
}

#[test]
fn bytes_beyond_the_maximum_are_refused_by_their_number() {
    let bytes = vec![0; MAX_DUMP_BYTES + 1];
    let refused = RunDump::from_slice(&bytes);
    assert!(matches!(refused, Err(BadDump::TooLarge { found }) if found == bytes.len()));
    let dump = dump();
    assert_eq!(RunDump::from_slice(dump.as_bytes()).expect("a dump"), dump);
}
