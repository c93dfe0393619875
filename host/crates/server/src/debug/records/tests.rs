//! Bounds on what is recorded, and what is shown of it.

use std::time::SystemTime;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::*;
use crate::debug::recorder::ExchangeRecorder;
use airlock_agent::RequestObserver as _;
use airlock_json::object;
use airlock_model::{ExchangeObserver as _, Redaction, SentRequest};

static LARGE: [u8; 1 << 20] = [b'x'; 1 << 20];
const SETTINGS: DebugSettings = DebugSettings { max: 3, max_bytes: 64 << 10 };

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn records() -> Arc<DebugRecords> {
    Arc::new(DebugRecords::new(SETTINGS))
}

fn ann() -> Tenant {
    Tenant::of_key([1; 32], "ann")
}

/// Returns what records a request.
fn recorder(records: &Arc<DebugRecords>, number: u128, tenant: Tenant) -> ExchangeRecorder {
    let path = "/v1/messages".to_owned();
    let head = RequestHead { id: id(number), path, tenant, begun: SystemTime::UNIX_EPOCH };
    ExchangeRecorder::new(records.clone(), head)
}

fn send(recorder: &ExchangeRecorder, body: &'static [u8]) {
    let body = Bytes::from_static(body);
    let redaction = Redaction::default();
    let url = "https://api.test/v1".to_owned();
    recorder.begun();
    recorder.sent(SentRequest { provider: "fake", url, body: &body, redaction });
}

fn is_recorded(records: &DebugRecords, number: u128) -> bool {
    records.find(id(number)).is_some()
}

fn shown(records: &DebugRecords, number: u128) -> Value {
    records.find(id(number)).expect("it is recorded").lock().to_json("req_1")
}

fn exchange(body: &str, response: &Value, error: &Value) -> Value {
    json!({
        "provider": "fake",
        "url": "https://api.test/v1",
        "request": {"body": body, "bytes": body.len()},
        "response": response,
        "error": error,
    })
}

#[test]
fn the_exchanges_of_a_request_are_shown_in_order_with_its_calls_and_its_end() {
    let records = records();
    let recorder = recorder(&records, 1, ann());
    send(&recorder, b"first");
    recorder.failed("fake", "refused");
    send(&recorder, b"second");
    recorder.answered(StatusCode::OK);
    for part in [&b"an"[..], b"swer"] {
        recorder.received(part);
    }
    assert_eq!(shown(&records, 1)["state"], "running");
    let airlock = object(json!({"rounds": 1}));
    recorder.ended(Some(&airlock), None);
    drop(recorder);
    let unanswered = json!({"status": null, "body": "", "bytes": 0});
    let answered = json!({"status": 200, "body": "answer", "bytes": 6});
    let expected = json!({
        "id": "req_1",
        "path": "/v1/messages",
        "caller": ann().to_string(),
        "begun_at": 0,
        "state": "completed",
        "error": null,
        "is_truncated": false,
        "exchanges": [
            exchange("first", &unanswered, &"refused".into()),
            exchange("second", &answered, &Value::Null),
        ],
        "airlock": {"rounds": 1},
    });
    assert_eq!(shown(&records, 1), expected);
}

#[test]
fn a_failure_before_a_request_is_sent_is_an_exchange_of_its_own() {
    let records = records();
    let recorder = recorder(&records, 1, ann());
    recorder.begun();
    recorder.failed("first", "no token");
    send(&recorder, b"body");
    recorder.answered(StatusCode::OK);
    // The next round of the same request.
    recorder.begun();
    recorder.failed("second", "no token");
    let document = shown(&records, 1);
    let exchanges = document["exchanges"].as_array().expect("a list");
    let found = exchanges.iter().map(|one| {
        json!([one["provider"], one["request"]["body"], one["response"]["status"], one["error"]])
    });
    let expected = [
        json!(["first", null, null, "no token"]),
        json!(["fake", "body", 200, null]),
        json!(["second", null, null, "no token"]),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn the_failure_of_a_request_without_room_is_not_that_of_another() {
    let records = records();
    let recorder = recorder(&records, 1, ann());
    send(&recorder, &LARGE);
    recorder.answered(StatusCode::OK);
    send(&recorder, b"body");
    recorder.answered(StatusCode::BAD_GATEWAY);
    recorder.received(b"bad");
    recorder.failed("fake", "refused");
    let document = shown(&records, 1);
    assert_eq!(document["is_truncated"], true);
    let exchanges = document["exchanges"].as_array().expect("a list");
    assert_eq!(exchanges.len(), 1);
    assert_eq!(exchanges[0]["response"], json!({"status": 200, "body": "", "bytes": 0}));
    assert_eq!(exchanges[0]["error"], Value::Null);
}

#[test]
fn a_request_that_sends_nothing_and_has_no_end_is_not_recorded() {
    let records = records();
    drop(recorder(&records, 1, ann()));
    let begun = recorder(&records, 2, ann());
    begun.begun();
    assert!(!is_recorded(&records, 1) && !is_recorded(&records, 2));
    send(&begun, b"body");
    drop(begun);
    assert_eq!(shown(&records, 2)["state"], "cancelled");
    recorder(&records, 3, ann()).ended(None, Some("no such model"));
    assert_eq!(shown(&records, 3)["state"], "failed");
}

#[test]
fn the_oldest_requests_are_evicted_beyond_the_number_and_the_bytes() {
    let records = records();
    let recorders: Vec<_> =
        (1..=4).map(|number| recorder(&records, number, Tenant::ANONYMOUS)).collect();
    for recorder in &recorders {
        send(recorder, b"body");
    }
    assert!(!is_recorded(&records, 1));
    // What happens in a request that was evicted is not recorded, and takes no memory.
    send(&recorders[0], &LARGE);
    assert!(!is_recorded(&records, 1));
    for (number, recorder) in (1..).zip(&recorders).skip(1) {
        send(recorder, &LARGE);
        let document = shown(&records, number);
        assert_eq!(
            (&document["is_truncated"], &document["exchanges"][1]["request"]["bytes"]),
            (&json!(true), &json!(1 << 20))
        );
    }
    send(&recorder(&records, 5, Tenant::ANONYMOUS), &LARGE);
    let table = records.table.lock();
    assert!(table.bytes <= SETTINGS.max_bytes && table.by_id.len() == SETTINGS.max);
    assert_eq!(table.bytes, table.by_id.values().map(|entry| entry.bytes).sum::<usize>());
    assert_eq!(table.bytes, table.by_tenant.values().map(|records| records.bytes).sum::<usize>());
    for entry in table.by_id.values() {
        assert_eq!(entry.bytes, entry.record.lock().bytes());
    }
}

#[test]
fn a_caller_evicts_its_own_requests_and_not_those_of_others() {
    let records = records();
    send(&recorder(&records, 1, ann()), b"of ann");
    for number in 2..100 {
        send(&recorder(&records, number, Tenant::ANONYMOUS), &LARGE);
    }
    assert!(is_recorded(&records, 1) && is_recorded(&records, 99));
    let found = records.find(id(99)).expect("it is recorded");
    let table = records.table.lock();
    assert_eq!((table.by_id.len(), table.by_tenant.len()), (SETTINGS.max, 2));
    assert!(!found.lock().is_evicted());
}

#[test]
fn no_part_of_a_response_follows_one_that_had_no_room() {
    let records = records();
    let recorder = recorder(&records, 1, ann());
    send(&recorder, b"body");
    let large = vec![b'a'; 32 << 10];
    recorder.received(&large);
    recorder.received(b"b");
    let document = shown(&records, 1);
    let response = &document["exchanges"][0]["response"];
    assert!(!response["body"].as_str().expect("a text").contains('b'), "{response}");
    assert_eq!(response["bytes"], (32 << 10) + 1);
}
