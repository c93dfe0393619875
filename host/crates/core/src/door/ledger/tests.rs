use super::*;
use crate::{
    door::Reporter,
    tool::{ErrorKind, ToolError, client},
};

/// Opens a record and returns it with the report of its call.
fn open(ledger: &Ledger, arguments: &str) -> (OpenRecord, Arc<Report>) {
    let id = CallId::next();
    let report = Report::new();
    let name = ToolName::new(&client("desk"), "t");
    let open = ledger.open((id, None), name, None, arguments.into(), report.clone());
    (open.expect("the request may make more calls"), report)
}

/// Records a call that fails with a message of `bytes`. Returns the message in the record.
fn fail(ledger: &Ledger, bytes: usize) -> String {
    let error = CallError::from(ToolError::new(ErrorKind::Internal, "x".repeat(bytes)));
    open(ledger, "").0.close(&Err(error));
    match ledger.records().pop().map(|record| record.outcome) {
        Some(Outcome::Error { failure: _, message }) => message,
        other => panic!("{other:?}"),
    }
}

/// Records a call that emits a text of `bytes`. Returns the number of parts in the record.
fn emit(ledger: &Ledger, bytes: usize) -> usize {
    let (open, report) = open(ledger, "");
    Reporter::new(CallId::next(), &report, None).emit(Content::text("x".repeat(bytes)));
    drop(open);
    ledger.records().pop().map_or(0, |record| record.emitted.len())
}

/// Records a call that reports progress with a message of `bytes`. Returns the length of the message in the record; `None`
/// if it was left out.
fn report_progress(ledger: &Ledger, bytes: usize) -> Option<usize> {
    let (open, report) = open(ledger, "");
    let progress = Progress { done: 1.0, total: None, message: Some("x".repeat(bytes)) };
    Reporter::new(CallId::next(), &report, None).progress(progress);
    drop(open);
    let progress = ledger.records().pop().and_then(|record| record.progress);
    progress.expect("its amount is kept").message.map(|message| message.len())
}

#[test]
fn a_request_makes_a_bounded_number_of_calls() {
    let ledger = Ledger::default();
    for _ in 0..MAX_CALLS {
        drop(open(&ledger, ""));
    }
    let name = ToolName::new(&client("desk"), "t");
    let refused = ledger.open((CallId::next(), None), name, None, "".into(), Report::new());
    let refused = refused.map(|_| ()).expect_err("one call too many").to_string();
    assert_eq!(refused, "the call reached its limit of 20000 tool calls of one request");
    assert_eq!(ledger.records().len(), MAX_CALLS);
}

#[test]
fn arguments_are_cut_beyond_the_limit_of_one_record() {
    let ledger = Ledger::default();
    for bytes in [MAX_ARGUMENT_BYTES, MAX_ARGUMENT_BYTES + 1] {
        drop(open(&ledger, &"x".repeat(bytes)));
    }
    let records = ledger.records();
    assert_eq!(*records[0].arguments, *"x".repeat(MAX_ARGUMENT_BYTES));
    let shortened = &records[1].arguments;
    assert_eq!((shortened.len(), shortened.ends_with('…')), (MAX_ARGUMENT_BYTES, true));
}

#[test]
fn a_message_beyond_the_quota_is_shortened_and_leaves_the_quota_to_others() {
    let ledger = Ledger::default();
    assert_eq!(fail(&ledger, MAX_TEXT_BYTES - 300).len(), MAX_TEXT_BYTES - 300);
    let shortened = fail(&ledger, 301);
    assert_eq!((shortened.len(), shortened.ends_with('…')), (MAX_SHORT_MESSAGE, true));
    assert_eq!(fail(&ledger, 300).len(), 300, "the shortened message took nothing");
    assert_eq!(fail(&ledger, MAX_SHORT_MESSAGE + 1).len(), MAX_SHORT_MESSAGE);
}

#[test]
fn arguments_and_messages_share_one_quota() {
    let ledger = Ledger::default();
    assert_eq!(fail(&ledger, MAX_TEXT_BYTES - 2).len(), MAX_TEXT_BYTES - 2);
    for arguments in ["{}", "{}"] {
        drop(open(&ledger, arguments));
    }
    let kept: Vec<_> =
        ledger.records()[1..].iter().map(|record| record.arguments.to_string()).collect();
    assert_eq!(kept, ["{}", NOT_KEPT]);
}

#[test]
fn the_message_of_progress_beyond_the_quota_is_left_out() {
    let ledger = Ledger::default();
    assert_eq!(fail(&ledger, MAX_TEXT_BYTES - 10).len(), MAX_TEXT_BYTES - 10);
    assert_eq!(report_progress(&ledger, 11), None);
    assert_eq!(
        report_progress(&ledger, 10),
        Some(10),
        "the message that was left out took nothing"
    );
    assert_eq!(report_progress(&ledger, 1), None);
}

#[test]
fn emitted_content_beyond_the_quota_is_left_out() {
    let ledger = Ledger::default();
    // Each part takes its frame too, so that empty ones are not free.
    let frame = Content::FRAME;
    assert_eq!(emit(&ledger, MAX_EMITTED_BYTES - 2 * frame - 10), 1);
    assert_eq!(emit(&ledger, 11), 0, "a part of ten bytes is left");
    assert_eq!(emit(&ledger, 10), 1, "content that was left out took nothing");
    assert_eq!(emit(&ledger, 0), 0);
}

#[test]
fn the_servers_of_a_call_are_its_own_and_those_of_the_calls_below_it() {
    let ledger = Ledger::default();
    let script = record(&ledger, None, None);
    let plugin = record(&ledger, Some(script), None);
    record(&ledger, Some(plugin), Some("deep"));
    record(&ledger, Some(script), Some("near"));
    let other = record(&ledger, None, Some("other"));
    record(&ledger, Some(other), None);
    assert_eq!(
        (names(&ledger, script), names(&ledger, plugin)),
        (vec!["deep".into(), "near".into()], vec!["deep".into()])
    );
    assert_eq!(
        (names(&ledger, other), names(&ledger, CallId::next())),
        (vec!["other".to_owned()], vec![])
    );
}

fn record(ledger: &Ledger, parent: Option<CallId>, untrusted: Option<&str>) -> CallId {
    let id = CallId::next();
    let name = ToolName::new(&client("x"), "t");
    let open = ledger.open((id, parent), name, untrusted.map(client), "".into(), Report::new());
    drop(open.expect("the request may make more calls"));
    id
}

fn names(ledger: &Ledger, call: CallId) -> Vec<String> {
    ledger.untrusted_within(call).iter().map(|name| name.as_str().to_owned()).collect()
}

#[test]
fn results_of_scripts_count_with_their_texts_or_else_their_structured_data() {
    let ledger = Ledger::default();
    let structured = Some(serde_json::json!({"a": 1}));
    let both = ToolOutput { structured: structured.clone(), ..ToolOutput::text("four") };
    let data = ToolOutput { structured, ..ToolOutput::default() };
    for (output, expected) in [(both, 4), (data, 4 + 7), (ToolOutput::default(), 11)] {
        let (open, _) = open(&ledger, "");
        open.count_script_result(&output);
        open.close(&Ok(output));
        assert_eq!(ledger.script_result_bytes(), expected);
    }
}
