//! `airlock audit` over logs on disk, the verifier in Python that was written from the page about the format, and
//! programs of others over what the command exports.

use std::{
    fs,
    ops::RangeInclusive,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use airlock_audit::{AuditLog, AuditSettings, SigningKey, line};
use airlock_tests::{Airlock, Finished, peers, root};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt as _, process::Command};

/// A log on disk that no gateway has open.
struct StoredLog {
    directory: TempDir,
}

fn settings(path: PathBuf) -> AuditSettings {
    AuditSettings { replica: Some("one".to_owned()), ..AuditSettings::new(path, "gateway") }
}

fn events(numbers: RangeInclusive<u64>) -> Vec<String> {
    let calls = numbers.flat_map(|number| {
        let common = [
            ("call", json!(format!("call-{number}"))),
            ("time_ms", json!(1_764_290_000_000_u64 + number)),
            ("tool", json!("files-read <&> \u{2028}ä")),
        ];
        let admitted = common.clone().into_iter().chain([("effects", json!(number % 2 == 0))]);
        let ended = common.into_iter().chain([("run", json!(format!("run_{}", number % 2)))]);
        [line("call_admitted", admitted), line("call_ended", ended)]
    });
    calls.collect()
}

impl StoredLog {
    /// Writes a log of 11 lines with checkpoints of 1, 5 and 11 lines.
    fn new() -> Self {
        let stored = Self { directory: tempfile::tempdir().expect("a directory") };
        let mut log = AuditLog::open(settings(stored.path())).expect("it opens");
        log.append(&events(0..=1)).expect("written");
        log.checkpoint().expect("signed");
        log.append(&events(2..=4)).expect("written");
        drop(log);
        stored
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("audit")
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path().join("log.jsonl")).expect("a log");
        text.lines().map(str::to_owned).collect()
    }

    fn write(&self, lines: &[String]) {
        let text = format!("{}\n", lines.join("\n"));
        fs::write(self.path().join("log.jsonl"), text).expect("written");
    }

    /// A run of `airlock audit` on the directory.
    fn audit(&self, command: &str) -> Airlock {
        Airlock::new().arg("audit").arg(command).arg(self.path())
    }

    async fn key(&self) -> String {
        self.audit("key").run().await.ok().stdout.trim().to_owned()
    }

    /// Returns the codes and lines that `verify` finds.
    async fn found(&self) -> Vec<(String, Option<u64>)> {
        let report = self.audit("verify").arg("--json").run().await;
        let document = report.json();
        let findings = document["findings"].as_array().expect("a list");
        assert_eq!(report.code, Some(i32::from(!findings.is_empty())), "{report}");
        assert_eq!(document["ok"], findings.is_empty(), "{report}");
        let found = findings.iter().map(|finding| {
            (finding["code"].as_str().expect("a code").to_owned(), finding["line"].as_u64())
        });
        found.collect()
    }

    /// Runs the verifier in Python. Returns whether it finds nothing, and its output.
    async fn python(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(peers::audit_python());
        command.args(["-I", "-B"]).arg(root().join("docs/audit/verify.py")).arg(self.path());
        let output = command.args(arguments).kill_on_drop(true).output().await.expect("it runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }
}

/// Moves files to a directory, which is made if there is none.
fn move_files(files: impl Iterator<Item = PathBuf>, directory: &Path) {
    fs::create_dir_all(directory).expect("a directory");
    for path in files {
        let name = path.file_name().expect("a name");
        fs::rename(&path, directory.join(name)).expect("moved");
    }
}

/// Runs a program of the fixtures with this input. Returns what it prints, or its error.
async fn outside(arguments: &[&str], input: &str) -> Result<String, String> {
    let mut command = Command::new(peers::audit_python());
    command.args(["-I", "-B"]).arg(root().join("tests/fixtures/audit/outside.py")).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).await.expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().await.expect("it ends");
    let [printed, failure] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if output.status.success() { Ok(printed) } else { Err(failure) }
}

/// Runs `pipelock-verify` over receipts in a file.
async fn pipelock(path: &Path) -> (bool, String) {
    let mut command = Command::new(peers::audit_python());
    command.args(["-I", "-B", "-m", "pipelock_verify"]).arg(path).kill_on_drop(true);
    let output = command.output().await.expect("it runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test]
async fn a_log_that_was_tampered_with_is_found_by_the_command_and_by_the_verifier_of_the_page() {
    let stored = StoredLog::new();
    let whole = stored.lines();
    assert_eq!(stored.found().await, []);
    let (is_valid, printed) = stored.python(&["--key", &stored.key().await]).await;
    assert!(is_valid, "{printed}");
    let mut changed = whole.clone();
    changed[3] = changed[3].replacen("call-1", "call-9", 1);
    let mut removed = whole.clone();
    removed.remove(6);
    let mut reordered = whole.clone();
    reordered.swap(7, 8);
    let cut = whole[..10].to_vec();
    for (lines, code, line, of_python) in [
        (changed, "changed", 3, "line 3 was changed"),
        (removed, "removed", 6, "where line 6 should be, there is line 7"),
        (reordered, "reordered", 7, "where line 7 should be, there is line 8"),
        (cut, "cut", 10, "lines are missing at the end: 11 were signed, and there are 10"),
    ] {
        stored.write(&lines);
        assert_eq!(stored.found().await, [(code.to_owned(), Some(line))]);
        let (is_valid, printed) = stored.python(&[]).await;
        assert!(!is_valid && printed.contains(of_python), "{printed}");
    }
}

#[tokio::test]
async fn a_published_checkpoint_shows_a_log_that_was_cut_off_with_its_checkpoints_or_written_anew()
{
    let stored = StoredLog::new();
    let published = stored.beside("published");
    let printed = stored.audit("checkpoint").run().await.ok().stdout;
    assert!(printed.starts_with("gateway/one\n11\n"), "{printed}");
    fs::write(&published, printed).expect("written");
    let key = stored.beside("key");
    fs::write(&key, stored.key().await).expect("written");
    let verify = async || -> Finished {
        let verify = stored.audit("verify").arg("--key").arg(&key);
        verify.arg("--checkpoint").arg(&published).run().await
    };
    let valid = verify().await.ok();
    let expected = "the log gateway/one is as it was signed: lines 0 to 10, valid checkpoints: 4\n";
    assert_eq!((valid.stdout.as_str(), valid.stderr.as_str()), (expected, ""));

    let lines = stored.lines();
    let checkpoints = fs::read_to_string(stored.path().join("checkpoints")).expect("a file");
    let second = checkpoints.match_indices("\n\n").nth(3).expect("two checkpoints").0 + 2;
    fs::write(stored.path().join("checkpoints"), &checkpoints[..second]).expect("written");
    stored.write(&lines[..5]);
    assert_eq!(stored.found().await, []);
    let cut = verify().await.failed();
    assert!(cut.stdout.starts_with("lines 5 to 10 are missing: a checkpoint in "), "{cut}");
    let published_text = published.to_string_lossy().into_owned();
    let (is_valid, printed) = stored.python(&["--checkpoint", &published_text]).await;
    assert!(!is_valid && printed.contains("11 were signed, and there are 5"), "{printed}");

    fs::remove_dir_all(stored.path()).expect("removed");
    let mut log = AuditLog::open(settings(stored.path())).expect("it opens");
    log.append(&events(0..=4)).expect("written");
    drop(log);
    assert_eq!(stored.found().await, []);
    let anew = verify().await.failed();
    for found in ["is not signed by the key", "is forged"] {
        assert!(anew.stdout.contains(found), "{anew}");
    }
    let key = fs::read_to_string(&key).expect("a key");
    let (is_valid, printed) = stored.python(&["--key", &key]).await;
    assert!(!is_valid && printed.contains("not signed by the trusted key"), "{printed}");
}

#[tokio::test]
async fn a_log_of_several_files_and_keys_is_verified_as_a_whole_and_without_the_old_files() {
    let stored = StoredLog::new();
    let old_key = fs::read_to_string(stored.path().join("key.pem")).expect("a key");
    // RFC 8410, section 10.3.
    let new_key = "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC";
    let rotated = AuditSettings {
        key: Some(SigningKey::parse(new_key).expect("a key")),
        old_key: Some(SigningKey::parse(&old_key).expect("a key")),
        segment_bytes: 2_000,
        ..settings(stored.path())
    };
    let mut log = AuditLog::open(rotated).expect("it opens");
    for number in 5..20 {
        log.append(&events(number..=number)).expect("written");
    }
    drop(log);
    assert_eq!(stored.found().await, []);
    let keys = stored.key().await;
    assert_eq!(keys.lines().count(), 2, "{keys}");
    for key in keys.lines() {
        let (is_valid, printed) = stored.python(&["--key", key]).await;
        assert!(is_valid, "{printed}");
    }
    let entries = fs::read_dir(stored.path())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path());
    let full = entries.filter(|path| path.to_string_lossy().contains("/log-"));
    let archive = stored.beside("archive");
    move_files(full, &archive);
    assert_eq!(stored.found().await, []);
    let (is_valid, printed) = stored.python(&[]).await;
    assert!(is_valid, "{printed}");
    // Of the lines that were moved alone.
    let checkpoints = fs::read_to_string(stored.path().join("checkpoints")).expect("a file");
    let oldest: String = checkpoints.split_inclusive("\n\n").take(2).collect();
    let published = stored.beside("oldest");
    fs::write(&published, oldest).expect("written");
    let verify = stored.audit("verify").arg("--json").arg("--checkpoint").arg(&published);
    let report = verify.run().await.json();
    assert_eq!(report["findings"][0]["code"], "no_checkpoint", "{report}");
    let (is_valid, printed) = stored.python(&["--checkpoint", &published.to_string_lossy()]).await;
    assert!(!is_valid && printed.contains("can be compared"), "{printed}");
    let refused = stored.audit("prove").arg("--line").arg("3").run().await.failed();
    assert!(refused.stderr.contains("no line 3"), "{refused}");
    let archived = fs::read_dir(&archive).expect("a directory");
    move_files(archived.map(|entry| entry.expect("an entry").path()), &stored.path());
    assert_eq!(stored.found().await, []);
    let (is_valid, printed) = stored.python(&[]).await;
    assert!(is_valid, "{printed}");
    let _ = stored.audit("prove").arg("--line").arg("3").run().await.ok();
}

#[tokio::test]
async fn proofs_and_statements_are_accepted_by_programs_of_others() {
    let stored = StoredLog::new();
    let key = stored.key().await;
    let proven = stored.audit("prove").arg("--call").arg("call-3").run().await.ok();
    let printed = outside(&["inclusion", &key], &proven.stdout).await.expect("accepted");
    assert_eq!(printed, "7\n8\n");
    let mut other: Value = proven.json();
    other["proofs"][0]["line"] = json!(6);
    let refused = outside(&["inclusion", &key], &other.to_string()).await.expect_err("refused");
    assert!(refused.contains("VerificationError"), "{refused}");
    let forged = proven.stdout.replacen("gateway/one\\n11\\n", "gateway/one\\n12\\n", 1);
    let refused = outside(&["inclusion", &key], &forged).await.expect_err("refused");
    assert!(refused.contains("invalid signature"), "{refused}");

    let grown = stored.audit("prove").arg("--from").arg("5").run().await.ok().json();
    assert_eq!((&grown["old"]["size"], &grown["new"]["size"]), (&json!(5), &json!(11)));
    assert_eq!(grown["proof"].as_array().map(Vec::len), Some(5), "{grown}");

    let export = stored.audit("export").arg("--format").arg("dsse").arg("--run").arg("run_1");
    let envelope = export.run().await.ok();
    let printed = outside(&["statement", &key], &envelope.stdout).await.expect("accepted");
    assert_eq!(printed, "run_1\n");
    let mut changed = envelope.json();
    changed["payload"] = json!(changed["payload"].as_str().expect("a text").replacen('e', "f", 1));
    outside(&["statement", &key], &changed.to_string()).await.expect_err("refused");
}

#[tokio::test]
async fn receipts_are_accepted_by_pipelock_and_a_changed_one_is_not() {
    let stored = StoredLog::new();
    let exported = stored.audit("export").arg("--format").arg("pipelock").run().await.ok().stdout;
    let path = stored.beside("receipts.jsonl");
    fs::write(&path, &exported).expect("written");
    let (is_valid, printed) = pipelock(&path).await;
    assert!(is_valid && printed.contains("Receipts:  11"), "{printed}");
    fs::write(&path, exported.replacen("\"read\"", "\"write\"", 1)).expect("written");
    let (is_valid, printed) = pipelock(&path).await;
    assert!(!is_valid && printed.contains("CHAIN BROKEN"), "{printed}");
    let run = stored.audit("export").arg("--format").arg("jsonl").arg("--run").arg("run_1");
    let lines = run.run().await.ok().stdout;
    // Two lines of each of its two calls.
    assert_eq!(lines.lines().count(), 4, "{lines}");
}

#[tokio::test]
async fn mistakes_are_told_to_people() {
    let stored = StoredLog::new();
    let missing = Airlock::new().arg("audit").arg("verify").arg(stored.beside("none")).run().await;
    assert!(missing.failed().stderr.contains("none cannot be read"));
    let empty = Airlock::new().arg("audit").arg("verify").arg(stored.directory.path()).run().await;
    assert!(empty.failed().stderr.contains("there is no log.jsonl"));
    let no_key = stored.audit("verify").arg("--key").arg("hunter2").run().await.failed();
    assert!(no_key.stderr.contains("--key is neither a key nor a file"), "{no_key}");
    let no_target = stored.audit("prove").run().await;
    assert_eq!(no_target.code, Some(2), "{no_target}");
    let other_key = stored.beside("other.pem");
    let pem = "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC";
    fs::write(&other_key, pem).expect("written");
    let source = format!("file:{}", other_key.display());
    for (mode, found) in [(0o640, "chmod 600"), (0o600, "is not the one that signs the log")] {
        fs::set_permissions(&other_key, fs::Permissions::from_mode(mode)).expect("changed");
        let export = stored.audit("export").arg("--format").arg("pipelock");
        let refused = export.arg("--signing-key").arg(&source).run().await.failed();
        assert!(refused.stderr.contains(found), "{refused}");
        assert!(!refused.stderr.contains(pem), "{refused}");
    }
    let no_run = stored.audit("export").arg("--format").arg("dsse").run().await.failed();
    assert!(no_run.stderr.contains("name it by --run"), "{no_run}");
    let mut lines = stored.lines();
    lines.remove(2);
    stored.write(&lines);
    let refused = stored.audit("export").arg("--format").arg("jsonl").run().await.failed();
    assert!(refused.stderr.contains("line 2 is missing"), "{refused}");
    assert_eq!(refused.stdout, "");
}
