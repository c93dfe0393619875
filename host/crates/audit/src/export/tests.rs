use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::*;
use crate::{SigningKey, event::time, testing::StoredLog};

fn key(log: &Path) -> SigningKey {
    let text = std::fs::read_to_string(log.join("key.pem")).expect("a key");
    SigningKey::parse(&text).expect("a key")
}

/// Exports a log as receipts.
fn receipts(log: &Path, name: &str) -> String {
    let mut out = Vec::new();
    pipelock(log, &Selection::default(), &key(log), name, &mut out).expect("exported");
    String::from_utf8(out).expect("text")
}

/// Returns the texts between `before` and `after`, one of each receipt but the first.
fn between<'t>(receipts: &'t str, before: &str, after: &str) -> Vec<&'t str> {
    let receipts = receipts.lines().skip(1);
    let found = receipts.filter_map(|receipt| receipt.split_once(before)?.1.split_once(after));
    found.map(|(text, _)| text).collect()
}

#[test]
fn lines_are_exported_as_they_are() {
    let stored = StoredLog::new(&[4]);
    let mut out = Vec::new();
    jsonl(&stored.path, &Selection::default(), &mut out).expect("exported");
    assert_eq!(out, stored.bytes());
    let mut out = Vec::new();
    let run = Selection { run: Some("run-0".to_owned()) };
    jsonl(&stored.path, &run, &mut out).expect("exported");
    let lines = stored.lines();
    assert_eq!(String::from_utf8(out).expect("text"), format!("{}\n{}\n", lines[1], lines[4]));
}

#[test]
fn receipts_have_the_bytes_of_go() {
    let stored = StoredLog::new(&[1]);
    let text = receipts(&stored.path, "gateway/one");
    let receipts: Vec<_> = text.lines().collect();
    let record = receipts[1].split_once("\"action_record\":").expect("a record").1;
    let record = record.split_once(",\"signature\"").expect("a signature").0;
    let previous = airlock_strings::hex(&<sha2::Sha256 as sha2::Digest>::digest(receipts[0]));
    let expected = format!(
        r#"{{"version":1,"action_id":"gateway/one/1","action_type":"unclassified","timestamp":"2025-11-28T00:33:20Z","principal":"unknown","actor":"gateway","delegation_chain":[],"target":"files-read","side_effect_class":"unknown","reversibility":"unknown","policy_hash":"","verdict":"allow","decision_phase":"call_admitted","session_id":"run-0","transport":"airlock","request_id":"call-0","chain_prev_hash":"{previous}","chain_seq":1}}"#
    );
    assert_eq!(record, expected);
}

#[test]
fn a_hostile_text_is_escaped_as_go_escapes_it_and_leaves_no_member_empty() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = crate::testing::open(directory.path());
    for tool in ["<a>&\u{2028}\u{85}\"\\\u{7}b", " \n\u{2029}"] {
        log.append(&[crate::line("call_refused", [("tool", json!(tool))])]).expect("written");
    }
    drop(log);
    let text = receipts(directory.path(), "a/b");
    let targets = between(&text, "\"target\":", ",\"side_effect");
    let expected = ["\"\\u003ca\\u003e\\u0026 \\\"\\\\\u{fffd}b\"", "\"call_refused\""];
    assert_eq!(targets, expected);
    assert!(text.lines().skip(1).all(|receipt| receipt.contains("\"verdict\":\"block\"")));
}

#[test]
fn what_a_guard_has_denied_is_blocked_and_what_it_has_rewritten_is_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = crate::testing::open(directory.path());
    for verdict in ["rewrite", "deny", "fail"] {
        let definition = [("object", json!("a-b")), ("verdict", json!(verdict))];
        let model = [("model", json!("p/m")), ("guards", json!([{"verdict": verdict}]))];
        let lines =
            [crate::line("definition_guarded", definition), crate::line("model_ended", model)];
        log.append(&lines).expect("written");
    }
    drop(log);
    let text = receipts(directory.path(), "a/b");
    assert_eq!(
        between(&text, "\"verdict\":\"", "\""),
        ["allow", "allow", "block", "block", "block", "block"]
    );
}

#[test]
fn counted_refusals_are_blocked_and_counted_questions_are_asked() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = crate::testing::open(directory.path());
    for events in [json!("refusals"), json!("approvals"), Value::Null] {
        log.append(&[crate::line("events_counted", [("events", events)])]).expect("written");
    }
    drop(log);
    let text = receipts(directory.path(), "a/b");
    assert_eq!(between(&text, "\"verdict\":\"", "\""), ["block", "ask", "block"]);
}

#[test]
fn times_are_written_as_go_writes_them() {
    for (time_ms, expected) in [
        (json!(1_764_290_000_000_u64), "2025-11-28T00:33:20Z"),
        (json!(1_764_290_000_120_u64), "2025-11-28T00:33:20.12Z"),
        (json!(1_764_290_010_123_u64), "2025-11-28T00:33:30.123Z"),
        (json!(0), "1970-01-01T00:00:00Z"),
        (json!(u64::MAX), "9999-12-31T23:59:59Z"),
        (json!("x"), "1970-01-01T00:00:00Z"),
    ] {
        let Value::Object(event) = json!({"time_ms": time_ms}) else { panic!("an object") };
        assert_eq!(time(&event), expected);
    }
}

#[test]
fn a_run_is_exported_as_a_signed_statement() {
    let stored = StoredLog::new(&[4]);
    let key = key(&stored.path);
    let public = key.public("gateway/one");
    let envelope = dsse(&stored.path, "run-0", &key, &public).expect("exported");
    let payload = envelope["payload"].as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
    let payload = String::from_utf8(payload.expect("Base64")).expect("text");
    let signature = envelope["signatures"][0]["sig"].as_str();
    let signature = BASE64_STANDARD.decode(signature.expect("a text")).expect("Base64");
    let signed = format!("DSSEv1 28 application/vnd.in-toto+json {} {payload}", payload.len());
    assert!(public.has_signed(signed.as_bytes(), &signature));
    let statement: Value = serde_json::from_str(&payload).expect("JSON");
    let lines = stored.lines();
    assert_eq!(
        statement["predicate"]["lines"],
        json!([{"n": 1, "text": lines[1]}, {"n": 4, "text": lines[4]}])
    );
    let none = dsse(&stored.path, "run-9", &key, &public);
    assert!(matches!(none, Err(ExportError::NoRun(_))));
}
