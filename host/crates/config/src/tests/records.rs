//! `records`.

use super::*;
use airlock_records::{
    CallLogSettings, CheckpointPlace, OnFailure, RecordSettings, SigningKeySource,
};
use std::time::Duration;

fn records(records: &Value) -> RecordSettings {
    good(&json!({"records": records})).records
}

#[test]
fn the_call_log_is_on_if_the_file_has_a_store_and_says_nothing_else() {
    assert!(!records(&json!({})).is_on());
    let with_store = good(&json!({"store": "kept.db"})).records;
    let month = Duration::from_hours(30 * 24);
    let log = CallLogSettings { retention: month, contents: false };
    assert_eq!(with_store.call_log, Some(log));
    assert_eq!(with_store.on_failure, OnFailure::Count);
    let off = json!({"store": "kept.db", "records": {"call_log": {"enabled": false}}});
    assert_eq!(good(&off).records.call_log, None);
    let wanted = json!({"call_log": {"enabled": true, "retention": "1h", "contents": true}});
    let log = CallLogSettings { retention: Duration::from_hours(1), contents: true };
    assert_eq!(records(&wanted).call_log, Some(log));
}

#[test]
fn with_an_audit_log_calls_are_refused_if_they_cannot_be_recorded() {
    assert_eq!(records(&json!({"audit": {"dir": "x"}})).audit, None, "it is not enabled");
    let audited = records(&json!({"audit": {"enabled": true}}));
    assert_eq!(audited.on_failure, OnFailure::Refuse);
    let audit = audited.audit.expect("it is enabled");
    assert_eq!(audit.directory, Path::new("/etc/airlock/audit"));
    assert_eq!((audit.name.as_str(), audit.key), ("airlock", None));
    let counted = json!({"audit": {"enabled": true}, "on_failure": "count"});
    assert_eq!(records(&counted).on_failure, OnFailure::Count);
    let places = json!({
        "enabled": true,
        "key": {"file": "audit.pem"},
        "publish": ["published", "https://witness.test/log?token=hunter2"],
    });
    let audit = records(&json!({"audit": places})).audit.expect("it is enabled");
    assert_eq!(audit.key, Some(SigningKeySource::File("/etc/airlock/audit.pem".into())));
    assert!(!format!("{audit:?}").contains("hunter2"));
    let [CheckpointPlace::File(file), CheckpointPlace::Url { host, .. }] = &audit.publish[..]
    else {
        panic!("a file and a URL")
    };
    assert_eq!(
        (file.as_path(), host.as_str()),
        (Path::new("/etc/airlock/published"), "witness.test")
    );
}

#[test]
fn records_that_cannot_be_are_refused() {
    for (wanted, key, words) in [
        (json!({"on_failure": "refuse"}), "records.on_failure", "there is no log"),
        (json!({"audit": {"name": "a b"}}), "records.audit.name", "letters"),
        (json!({"audit": {"old_key": "env.GOOD"}}), "records.audit.old_key", "`key`"),
        (
            json!({"audit": {"publish": ["http://hunter2.test"]}}),
            "records.audit.publish[0]",
            "https://",
        ),
        (json!({"audit": {"key": "MC4CAQAw"}}), "records.audit.key", "never written here"),
        (json!({"call_log": {"retention": "1m"}}), "records.call_log.retention", "1h"),
    ] {
        let problem = error(&json!({"records": wanted}));
        assert!(problem.starts_with(key) && problem.contains(words), "{problem}");
        assert!(!problem.contains("hunter2") && !problem.contains("MC4"), "{problem}");
    }
}
