use std::fs;

use proptest::prelude::*;

use super::*;
use crate::{
    Checkpoint, SigningKey,
    testing::{StoredLog, event, open, settings},
    tree::Tree,
};

/// Number of lines of the log of most tests.
const LINES: usize = 10;

fn stored() -> StoredLog {
    StoredLog::new(&[4, 5])
}

/// Returns a log of several files.
fn several_files() -> StoredLog {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let small = crate::AuditSettings { segment_bytes: 1_500, ..settings(&path) };
    let mut log = crate::AuditLog::open(small).expect("it opens");
    for number in 0..20 {
        log.append(&[event(number)]).expect("written");
    }
    drop(log);
    StoredLog::copy(&path)
}

/// Returns a copy of a log with other lines.
fn with_lines(stored: &StoredLog, lines: &[String]) -> StoredLog {
    let copy = StoredLog::copy(&stored.path);
    copy.write_lines(lines);
    copy
}

/// Writes lines anew, with the numbers and hashes that they should have.
fn linked(lines: &[String]) -> Vec<String> {
    let mut previous = crate::event::GENESIS;
    let mut written = Vec::new();
    for (number, line) in (0..).zip(lines) {
        let mut text = String::new();
        let line = EventLine::parse(line.as_bytes()).expect("a line");
        EventLine::write(&mut text, line.event, number, &previous);
        let text = text.trim_end().to_owned();
        previous = leaf_hash(text.as_bytes());
        written.push(text);
    }
    written
}

#[test]
fn a_log_as_it_was_written_has_no_findings() {
    let stored = stored();
    let report = stored.verify();
    assert_eq!((report.size, report.signed, report.checkpoints), (10, 10, 3));
    assert_eq!((&*report.findings, report.incomplete_bytes), (&[][..], 0));
    let evidence =
        Evidence { key: report.keys.first().cloned(), checkpoints: vec![stored.publish()] };
    assert_eq!(verify(&stored.path, &evidence).expect("read").findings, []);
    let file = verify(&stored.current(), &evidence).expect("read");
    assert_eq!((&*file.findings, file.signed), (&[][..], 10));
}

#[test]
fn a_changed_line_is_named() {
    let stored = stored();
    for changed in 1..LINES {
        let mut lines = stored.lines();
        lines[changed] = lines[changed].replace("files-read", "files-reap");
        let found = with_lines(&stored, &lines).found();
        let number = u64::try_from(changed).expect("small");
        if changed == LINES - 1 {
            // No line after it has its hash.
            assert_eq!(found, [("changed", Some(5))]);
        } else {
            assert_eq!(found, [("changed", Some(number))]);
        }
    }
}

#[test]
fn a_removed_line_is_named() {
    let stored = stored();
    for removed in 1..LINES - 1 {
        let mut lines = stored.lines();
        lines.remove(removed);
        let number = u64::try_from(removed).expect("small");
        assert_eq!(with_lines(&stored, &lines).found(), [("removed", Some(number))]);
    }
    let mut lines = stored.lines();
    lines.drain(2..5);
    lines.remove(4);
    let removed = with_lines(&stored, &lines).verify().findings;
    assert_eq!(
        removed,
        [Finding::Removed { first: 2, last: 4 }, Finding::Removed { first: 7, last: 7 }]
    );
}

#[test]
fn a_reordered_pair_is_named() {
    let stored = stored();
    for first in 1..LINES - 1 {
        let mut lines = stored.lines();
        lines.swap(first, first + 1);
        let number = u64::try_from(first).expect("small");
        assert_eq!(with_lines(&stored, &lines).found(), [("reordered", Some(number))]);
    }
}

#[test]
fn an_added_line_is_named() {
    let stored = stored();
    let mut lines = stored.lines();
    lines.insert(6, lines[3].clone());
    assert_eq!(with_lines(&stored, &lines).found(), [("repeated", Some(3))]);
}

#[test]
fn a_cut_tail_is_found_by_the_checkpoints_of_the_log_and_by_one_outside() {
    let stored = stored();
    let published = stored.publish();
    let lines = stored.lines();
    for length in 1..LINES {
        let cut = with_lines(&stored, &lines[..length]);
        assert_eq!(cut.found(), [("cut", Some(length as u64))]);
        // With the checkpoints of the log cut too, as the gateway's own operator could.
        let checkpoints = cut.path.join(files::CHECKPOINTS);
        let text = fs::read_to_string(&checkpoints).expect("a file");
        let first: String = text.split_inclusive("\n\n").take(2).collect();
        fs::write(&checkpoints, first).expect("written");
        assert_eq!(cut.found(), []);
        let findings = cut.verify_against(&published);
        assert!(matches!(&*findings, [Finding::Cut { signed: 10, .. }]), "{findings:?}");
    }
    let bytes = stored.bytes();
    let torn = StoredLog::copy(&stored.path);
    torn.write(&bytes[..bytes.len() - 5]);
    assert_eq!(torn.found(), [("cut", Some(9))]);
    assert!(torn.verify().incomplete_bytes > 5);
}

#[test]
fn lines_that_were_written_anew_are_found_between_two_checkpoints() {
    let stored = stored();
    let mut lines = stored.lines();
    lines[7] = lines[7].replace("files-read", "files-reap");
    let anew = with_lines(&stored, &linked(&lines)).verify();
    assert_eq!(anew.findings, [Finding::ChangedBetween { from: 5, to: 9 }]);
    assert_eq!(anew.signed, 5);
    lines.remove(7);
    let found = with_lines(&stored, &linked(&lines)).found();
    assert_eq!(found, [("cut", Some(9))]);
}

#[test]
fn a_forged_checkpoint_is_found() {
    let stored = stored();
    let origin = stored.checkpoint().origin;
    let mut tree = Tree::default();
    stored.lines().iter().for_each(|line| tree.push(leaf_hash(line.as_bytes())));
    let (key, _) = SigningKey::generate().expect("random bytes");
    let forged = stored.path.with_extension("forged");
    fs::write(&forged, Checkpoint::sign(&origin, &tree, &key).to_string()).expect("written");
    let findings = stored.verify_against(&forged);
    assert!(matches!(&*findings, [Finding::Forged { size: 10, .. }]), "{findings:?}");
    let changed = stored.checkpoint().to_string().replacen("\n10\n", "\n11\n", 1);
    fs::write(&forged, changed).expect("written");
    assert!(matches!(&*stored.verify_against(&forged), [Finding::Forged { size: 11, .. }]));
    fs::write(&forged, "nothing").expect("written");
    let findings = stored.verify_against(&forged);
    assert!(findings.iter().any(|finding| finding.code() == "bad_checkpoint"), "{findings:?}");
    let other = Checkpoint::sign("other/log", &tree, &key).to_string();
    fs::write(&forged, other).expect("written");
    assert!(matches!(&*stored.verify_against(&forged), [Finding::NoCheckpoint { .. }]));
}

#[test]
fn a_fork_is_found() {
    let first = StoredLog::new(&[2]);
    let second = StoredLog::copy(&first.path);
    for (stored, number) in [(&first, 2), (&second, 100)] {
        let mut log = open(&stored.path);
        log.append(&[event(number)]).expect("written");
    }
    assert_eq!((first.found(), second.found()), (vec![], vec![]));
    let findings = first.verify_against(&second.publish());
    assert!(matches!(&*findings, [Finding::Fork { size: 4, .. }]), "{findings:?}");
}

#[test]
fn a_log_of_another_key_is_not_taken_for_the_one_that_is_trusted() {
    let stored = stored();
    let trusted = StoredLog::new(&[]).verify().keys.remove(0);
    let evidence = Evidence { key: Some(trusted), ..Evidence::default() };
    let report = verify(&stored.path, &evidence).expect("read");
    assert!(matches!(&*report.findings, [Finding::OtherKey { .. }]));
}

#[test]
fn a_log_that_nothing_signs_is_not_valid() {
    let stored = stored();
    let report = verify(&stored.current(), &Evidence::default()).expect("read");
    assert_eq!((report.findings, report.signed), (vec![Finding::Unsigned], 0));
}

#[test]
fn a_change_of_the_key_that_one_key_has_not_signed_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let (new, _) = SigningKey::generate().expect("random bytes");
    let (other, _) = SigningKey::generate().expect("random bytes");
    let mut log = open(directory.path());
    let event = crate::rotation::event("gateway/one", 1, &other, &new);
    log.append(&[event]).expect("written");
    drop(log);
    let report = verify(directory.path(), &Evidence::default()).expect("read");
    assert_eq!((report.findings, report.keys.len()), (vec![Finding::Rotation { line: 1 }], 1));
}

#[test]
fn a_file_alone_is_checked_from_its_first_line() {
    let stored = several_files();
    let checkpoints = stored.path.join(files::CHECKPOINTS);
    let evidence = Evidence { checkpoints: vec![checkpoints], ..Evidence::default() };
    let report = verify(&stored.current(), &evidence).expect("read");
    assert_eq!((&*report.findings, report.signed), (&[][..], report.size));
    assert!(report.first > 0);
    // Only the newest checkpoint: nothing shows that the tree before the file is the one that was signed.
    let newest = Evidence { checkpoints: vec![stored.publish()], ..Evidence::default() };
    let report = verify(&stored.current(), &newest).expect("read");
    assert!(matches!(&*report.findings, [Finding::Unanchored { .. }]), "{:?}", report.findings);
}

#[test]
fn checkpoints_of_a_former_key_are_left_out_if_their_lines_are_elsewhere() {
    let stored = StoredLog::new(&[2, 2]);
    let old_key = fs::read_to_string(stored.path.join(files::KEY)).expect("a key");
    let (new_key, _) = SigningKey::generate().expect("random bytes");
    let rotated = crate::AuditSettings {
        key: Some(new_key),
        old_key: Some(SigningKey::parse(&old_key).expect("a key")),
        segment_bytes: 2_000,
        ..settings(&stored.path)
    };
    let mut log = crate::AuditLog::open(rotated).expect("it opens");
    for number in 4..12 {
        log.append(&[event(number)]).expect("written");
    }
    drop(log);
    assert_eq!((stored.verify().findings, stored.verify().keys.len()), (vec![], 2));
    for path in files::full_files(&stored.path).expect("files") {
        fs::remove_file(path).expect("removed");
    }
    let report = stored.verify();
    assert_eq!((report.findings, report.keys.len()), (vec![], 1));
    assert!(report.first > 6);
}

#[test]
fn a_file_with_checkpoints_of_lines_that_are_elsewhere_alone_is_no_evidence() {
    let stored = several_files();
    let checkpoints = fs::read_to_string(stored.path.join(files::CHECKPOINTS)).expect("a file");
    let oldest: String = checkpoints.split_inclusive("\n\n").take(2).collect();
    let outside = stored.path.with_extension("oldest");
    fs::write(&outside, oldest).expect("written");
    assert_eq!(stored.verify_against(&outside), []);
    for path in files::full_files(&stored.path).expect("files") {
        fs::remove_file(path).expect("removed");
    }
    assert_eq!(stored.verify().findings, []);
    let findings = stored.verify_against(&outside);
    assert!(matches!(&*findings, [Finding::NoCheckpoint { .. }]), "{findings:?}");
}

#[test]
fn an_incomplete_line_before_the_newest_file_is_found_and_hides_no_lines_after_it() {
    let stored = several_files();
    let full = files::full_files(&stored.path).expect("files");
    let torn = [&*fs::read(&full[1]).expect("a file"), b"x"].concat();
    fs::write(&full[1], torn).expect("written");
    let report = stored.verify();
    assert!(matches!(&*report.findings, [Finding::Malformed { .. }]), "{:?}", report.findings);
    assert_eq!(report.size, report.signed);
    let mut out = Vec::new();
    let selection = crate::export::Selection::default();
    assert!(crate::export::jsonl(&stored.path, &selection, &mut out).is_err());
}

#[test]
fn a_file_that_is_set_aside_while_the_log_is_read_is_read_once() {
    let stored = several_files();
    let size = stored.verify().size;
    let set_aside = files::full_path(&stored.path, 999);
    // It is listed under both names if it is renamed after it was opened.
    fs::hard_link(stored.current(), &set_aside).expect("linked");
    let report = stored.verify();
    assert_eq!((report.size, &*report.findings), (size, &[][..]));
    let mut listed = files::line_files(&stored.path).expect("files");
    fs::remove_file(stored.current()).expect("renamed");
    stored.write("");
    let mut newest = listed.pop().expect("a file").open().expect("it is open");
    assert!(newest.next_line().expect("read").is_some());
}

#[test]
fn a_copy_with_a_file_without_an_end_is_refused() {
    for name in [files::CURRENT, "log-0000000000000000.jsonl"] {
        let stored = stored();
        let path = stored.path.join(name);
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink("/dev/zero", path).expect("a link");
        let refused = verify(&stored.path, &Evidence::default());
        assert!(matches!(refused, Err(ReadError::File { .. })), "{name}");
    }
}

#[test]
fn the_report_has_the_time_since_which_lines_are_not_signed() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = open(directory.path());
    log.append(&[event(0)]).expect("written");
    log.checkpoint().expect("signed");
    log.append(&[event(120), event(500)]).expect("written");
    let report = StoredLog::copy(directory.path()).verify();
    assert_eq!((report.size, report.signed, &*report.findings), (4, 2, &[][..]));
    assert_eq!(report.unsigned_since.as_deref(), Some("2025-11-28T00:33:20.12Z"));
    drop(log);
    assert_eq!(StoredLog::copy(directory.path()).verify().unsigned_since, None);
}

#[test]
fn every_byte_of_the_log_counts() {
    let stored = StoredLog::new(&[1, 2]);
    let bytes = stored.bytes();
    for position in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[position] ^= 1;
        stored.write(&changed);
        assert_ne!(stored.verify().findings, [], "byte {position}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_change_of_a_byte_is_found_and_named(position in any::<prop::sample::Index>(), value in any::<u8>()) {
        let stored = StoredLog::new(&[3, 3]);
        let published = stored.publish();
        let mut bytes = stored.bytes();
        let position = position.index(bytes.len());
        prop_assume!(bytes[position] != value);
        let line = bytes[..position].split(|byte| *byte == b'\n').count() as u64 - 1;
        bytes[position] = value;
        stored.write(&bytes);
        let findings = stored.verify_against(&published);
        // Of the last line, and of the hash of the one before it in it, only the checkpoints tell.
        let first = findings.iter().filter_map(Finding::line).min();
        prop_assert!(first.is_some_and(|first| first <= line && first + 3 >= line), "{line}: {findings:?}");
    }

    #[test]
    fn hostile_lines_are_read_to_their_end(lines in prop::collection::vec("\\PC{0,80}", 0..20)) {
        let stored = StoredLog::new(&[]);
        stored.write_lines(&[stored.lines(), lines].concat());
        let _ = stored.verify();
    }
}

#[test]
fn a_file_of_checkpoints_that_is_replaced_while_it_is_verified_is_read_to_its_end() {
    let stored = stored();
    let key = open(&stored.path).public_key();
    let mut findings = Vec::new();
    let claims = CheckpointClaims::read(&stored.path, &Evidence::default(), &mut findings)
        .expect("it is read");
    let thinned = stored.path.join("checkpoints.new");
    fs::write(&thinned, format!("{}\n", stored.checkpoint())).expect("written");
    fs::rename(&thinned, crate::read::checkpoints_path(&stored.path)).expect("renamed");
    let signed = claims.signed(&KeyHistory::new(key), 0, &mut findings).expect("it is read again");
    assert_eq!((signed.len(), &*findings), (3, &[][..]));
}
