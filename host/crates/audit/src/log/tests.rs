use std::{os::unix::fs::PermissionsExt as _, path::Path, sync::mpsc};

use super::*;
use crate::{
    key::BadKeyFile,
    testing::{StoredLog, event, events, open, settings},
};

fn refusal(settings: AuditSettings) -> AuditError {
    AuditLog::open(settings).err().expect("it is refused")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

/// Returns the reason why a copy of a log with other lines is not opened.
fn refusal_with_lines(stored: &StoredLog, lines: &[String]) -> AuditError {
    let copy = StoredLog::copy(&stored.path);
    copy.write_lines(lines);
    refusal(settings(&copy.path))
}

/// Settings of a log whose files are soon full.
fn small_files(directory: &Path) -> AuditSettings {
    AuditSettings { segment_bytes: 2_000, ..settings(directory) }
}

/// Settings of a log that another key signs from now on.
fn rotated(directory: &Path, new_key: &str, old_key: &str) -> AuditSettings {
    AuditSettings {
        key: Some(SigningKey::parse(new_key).expect("a key")),
        old_key: Some(SigningKey::parse(old_key).expect("a key")),
        ..settings(directory)
    }
}

#[test]
fn a_new_log_has_a_key_for_its_owner_alone_a_first_line_and_a_checkpoint() {
    let stored = StoredLog::new(&[]);
    let modes = ["key.pem", "log.jsonl", "checkpoints", "."];
    let modes = modes.map(|name| mode(&stored.path.join(name)));
    assert_eq!(modes, [0o600, 0o600, 0o600, 0o700]);
    let report = stored.verify();
    assert_eq!((report.size, report.signed, &*report.findings), (1, 1, &[][..]));
    assert_eq!(report.origin.as_deref(), Some("gateway/one"));
    assert!(stored.lines()[0].starts_with(
        "{\"event\":{\"kind\":\"log_created\",\"log\":\"gateway/one\",\"public_key\":\"gateway/one+"
    ));
}

#[test]
fn a_log_goes_on_where_it_ended() {
    let stored = StoredLog::new(&[3, 0, 2]);
    let mut log = open(&stored.path);
    assert_eq!((log.tree.size(), &*log.origin), (6, "gateway/one"));
    log.append(&events(5..7)).expect("written");
    log.append(&[]).expect("nothing to write");
    drop(log);
    let report = stored.verify();
    assert_eq!((report.size, report.signed, &*report.findings), (8, 8, &[][..]));
    // One for the first line, two batches, and the end.
    assert_eq!(report.checkpoints, 4);
}

#[test]
fn one_process_has_the_log() {
    let stored = StoredLog::new(&[1]);
    let log = open(&stored.path);
    assert!(matches!(refusal(settings(&stored.path)), AuditError::InUse { .. }));
    drop(log);
    open(&stored.path);
}

#[test]
fn a_process_that_is_killed_at_any_byte_of_a_write_loses_nothing_that_was_acknowledged() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = open(directory.path());
    log.append(&[event(0)]).expect("written");
    let acknowledged = fs::metadata(&log.file.path).expect("a file").len();
    // Short ones, because each length is a start of a log.
    let batch = [line("a", [("b", 1.into())]), line("c", [("d", 2.into())])];
    log.append(&batch).expect("written");
    let killed = StoredLog::copy(directory.path());
    let bytes = killed.bytes();
    let begun = usize::try_from(acknowledged).expect("small");
    for length in begun..=bytes.len() {
        let copy = StoredLog::copy(&killed.path);
        copy.write(&bytes[..length]);
        let whole = bytes[..length].split(|byte| *byte == b'\n').count() - 1;
        let is_torn = bytes[length - 1] != b'\n';
        let opened = open(&copy.path);
        assert_eq!(opened.tree.size(), whole as u64 + u64::from(is_torn), "{length}");
        drop(opened);
        let lines = copy.lines();
        assert!(copy.bytes().starts_with(&bytes[..begun]));
        assert_eq!(
            lines[whole - 1].as_bytes(),
            bytes[..length].split(|byte| *byte == b'\n').nth(whole - 1).expect("a line")
        );
        assert_eq!(lines.last().expect("a line").contains("\"kind\":\"log_recovered\""), is_torn);
        assert_eq!(copy.verify().findings, []);
    }
}

#[test]
fn a_machine_that_loses_power_in_a_write_leaves_a_log_that_opens_and_what_is_cut_is_kept() {
    let stored = StoredLog::new(&[2]);
    let whole = stored.bytes();
    // The pages of a write are stored in any order, and those that are not have zeros.
    for damage in [[&[0_u8; 5_000][..], b"x\"}\n"].concat(), vec![0; 200_000]] {
        let copy = StoredLog::copy(&stored.path);
        copy.write([&whole[..], &damage[..]].concat());
        assert_eq!(open(&copy.path).tree.size(), 4);
        assert!(copy.bytes().starts_with(&whole));
        assert!(copy.lines()[3].contains("\"kind\":\"log_recovered\""));
        assert_eq!(copy.verify().findings, []);
        assert_eq!(fs::read(files::damage_path(&copy.path, 3)).expect("a file"), damage);
    }
    let between = StoredLog::copy(&stored.path);
    fs::rename(between.current(), files::full_path(&between.path, 0)).expect("renamed");
    between.write("\0\n");
    assert_eq!(open(&between.path).tree.size(), 5);
    assert_eq!(between.verify().findings, []);
}

#[test]
fn a_process_that_is_killed_while_it_signs_or_makes_the_log_leaves_a_log_that_opens() {
    let stored = StoredLog::new(&[2, 2]);
    let checkpoints = stored.path.join(files::CHECKPOINTS);
    let whole = fs::read(&checkpoints).expect("a file");
    // Each of the three has the same length.
    for length in (whole.len() / 3 * 2..whole.len()).step_by(3) {
        let copy = StoredLog::copy(&stored.path);
        fs::write(copy.path.join(files::CHECKPOINTS), &whole[..length]).expect("written");
        assert_eq!(open(&copy.path).tree.size(), 5, "{length}");
        assert_eq!(copy.verify().signed, 5, "{length}");
    }
    let new = StoredLog::new(&[]);
    let first = new.bytes();
    fs::remove_file(new.path.join(files::CHECKPOINTS)).expect("removed");
    for length in (0..=first.len()).step_by(23) {
        new.write(&first[..length]);
        drop(open(&new.path));
        assert_eq!(new.verify().findings, [], "{length}");
        fs::remove_file(new.path.join(files::CHECKPOINTS)).expect("removed");
    }
}

#[test]
fn a_log_that_was_cut_changed_or_is_not_signed_is_not_opened() {
    let stored = StoredLog::new(&[3, 3]);
    let lines = stored.lines();
    let cut = refusal_with_lines(&stored, &lines[..6]);
    assert!(matches!(cut, AuditError::Cut { found: 6, signed: 7, .. }));
    let empty = refusal_with_lines(&stored, &[]);
    assert!(matches!(empty, AuditError::Cut { found: 0, signed: 7, .. }));
    let mut changed = lines.clone();
    changed[6] = changed[6].replace("files-read", "files-reap");
    assert!(matches!(refusal_with_lines(&stored, &changed), AuditError::Changed { size: 7, .. }));
    changed = lines.clone();
    changed[1] = changed[1].replace("files-read", "files-reap");
    assert!(matches!(
        refusal_with_lines(&stored, &changed),
        AuditError::Line { number: 2, row: 3, .. }
    ));
    changed = lines.clone();
    changed.swap(2, 3);
    assert!(matches!(refusal_with_lines(&stored, &changed), AuditError::Line { number: 2, .. }));
    changed = lines;
    changed[3].push(' ');
    assert!(matches!(refusal_with_lines(&stored, &changed), AuditError::Line { number: 3, .. }));

    let copy = StoredLog::copy(&stored.path);
    fs::remove_file(copy.path.join(files::CHECKPOINTS)).expect("removed");
    assert!(matches!(refusal(settings(&copy.path)), AuditError::Forged { size: 7, .. }));
    let other = StoredLog::new(&[6]);
    fs::copy(other.path.join(files::CHECKPOINTS), copy.path.join(files::CHECKPOINTS))
        .expect("copied");
    assert!(matches!(refusal(settings(&copy.path)), AuditError::Changed { .. }));
}

#[test]
fn checkpoints_that_cannot_be_read_or_are_out_of_order_are_not_removed() {
    let stored = StoredLog::new(&[2, 2]);
    let path = stored.path.join(files::CHECKPOINTS);
    let text = fs::read_to_string(&path).expect("a file");
    let third = text.len() / 3 * 2;
    for changed in [
        text.replacen("\n\n", "\n\n\n", 1),
        text.replacen("\n\n", "\n", 1),
        text.replacen('\u{2014}', "-", 1),
        [&text[third..], &text[..third]].concat(),
        [&text, &text[third..]].concat(),
    ] {
        fs::write(&path, &changed).expect("written");
        let refused = refusal(settings(&stored.path));
        assert!(matches!(refused, AuditError::Checkpoint { .. }), "{refused}");
        assert_eq!(fs::read_to_string(&path).expect("a file"), changed);
    }
    fs::write(&path, [text.as_bytes(), b"\xff\n\n"].concat()).expect("written");
    assert!(matches!(refusal(settings(&stored.path)), AuditError::Checkpoint { .. }));
}

#[test]
fn a_log_belongs_to_its_gateway_and_key() {
    let stored = StoredLog::new(&[1]);
    let other = AuditSettings { replica: Some("two".to_owned()), ..settings(&stored.path) };
    assert!(
        matches!(refusal(other), AuditError::Origin { found, expected, .. } if found == "gateway/one" && expected == "gateway/two")
    );
    let same = AuditSettings { replica: None, ..settings(&stored.path) };
    assert_eq!(AuditLog::open(same).expect("it opens").origin, "gateway/one");
    let (key, _) = SigningKey::generate().expect("random bytes");
    let other = AuditSettings { key: Some(key), ..settings(&stored.path) };
    assert!(matches!(refusal(other), AuditError::OtherKey { .. }));
    let unnamed = AuditSettings::new(stored.path.join("new"), "my gateway");
    assert!(matches!(refusal(unnamed), AuditError::Name { .. }));
    let key = stored.path.join(files::KEY);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).expect("changed");
    let refused = refusal(settings(&stored.path));
    assert!(matches!(refused, AuditError::KeyFile(BadKeyFile::Mode { mode: 0o640, .. })));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("changed");
    fs::write(&key, "no key").expect("written");
    let refused = refusal(settings(&stored.path));
    assert!(matches!(refused, AuditError::KeyFile(BadKeyFile::Content { .. })));
    fs::remove_file(&key).expect("removed");
    assert!(matches!(refusal(settings(&stored.path)), AuditError::NoKey { .. }));
    assert!(!key.exists());
}

#[test]
fn a_replica_without_a_name_keeps_the_one_that_it_got() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = AuditLog::open(AuditSettings::new(directory.path(), "gateway")).expect("it opens");
    let origin = log.origin.clone();
    assert_eq!(origin.len(), "gateway/".len() + 12);
    drop(log);
    let again = AuditLog::open(AuditSettings::new(directory.path(), "gateway"));
    assert_eq!(again.expect("it opens").origin, origin);
}

#[test]
fn another_key_signs_after_both_have_said_so() {
    let stored = StoredLog::new(&[2]);
    let old_public = stored.verify().keys.remove(0);
    let old_key = fs::read_to_string(stored.path.join(files::KEY)).expect("a key");
    let (_, new_key) = SigningKey::generate().expect("random bytes");
    let mut log = AuditLog::open(rotated(&stored.path, &new_key, &old_key)).expect("it opens");
    assert_ne!(log.public_key(), old_public);
    log.append(&events(2..4)).expect("written");
    drop(log);
    // Once it is done, the former key is not needed.
    let done = AuditSettings { old_key: None, ..rotated(&stored.path, &new_key, &old_key) };
    let log = AuditLog::open(done).expect("it opens");
    let new_public = log.public_key();
    drop(log);
    let report = stored.verify();
    assert_eq!((report.keys, report.findings), (vec![old_public, new_public], vec![]));
    assert!(stored.lines()[3].contains("\"kind\":\"key_rotated\""));
}

#[test]
fn files_that_are_full_are_set_aside_and_are_not_needed_to_go_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = AuditLog::open(small_files(directory.path())).expect("it opens");
    for number in 0..40 {
        log.append(&[event(number)]).expect("written");
    }
    drop(log);
    let stored = StoredLog::copy(directory.path());
    let report = stored.verify();
    assert_eq!((&*report.findings, report.first), (&[][..], 0));
    assert_eq!(report.size, report.signed);
    let full = files::full_files(&stored.path).expect("files");
    assert!(full.len() > 3, "{full:?}");
    // Killed between the two names.
    let between = StoredLog::copy(&stored.path);
    fs::rename(between.current(), files::full_path(&between.path, 999)).expect("renamed");
    let log = AuditLog::open(small_files(&between.path));
    assert_eq!(log.expect("it opens").tree.size(), report.size + 1);
    assert_eq!(between.verify().findings, []);
    // Older files are kept elsewhere.
    for path in &full {
        fs::remove_file(path).expect("removed");
    }
    let mut log = open(&stored.path);
    assert_eq!(log.tree.size(), report.size);
    log.append(&[event(40)]).expect("written");
    drop(log);
    let rest = stored.verify();
    assert_eq!((&*rest.findings, rest.size), (&[][..], report.size + 1));
    assert!(rest.first > 30);
}

#[test]
fn a_text_that_is_no_event_is_refused_and_nothing_of_its_batch_is_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = open(directory.path());
    let too_long = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_EVENT_BYTES));
    for text in ["", "[]", "{\n}", "{", "{}\n", &too_long] {
        let refused = log.append(&[event(0), text.to_owned()]);
        assert!(matches!(refused, Err(AuditError::Event { position: 1 })), "{text:.20}");
    }
    assert_eq!(log.tree.size(), 1);
    log.append(&[event(0)]).expect("written");
}

#[test]
fn after_a_failed_write_no_line_is_added() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = open(directory.path());
    log.file.file = File::open(&log.file.path).expect("a file that cannot be written to");
    assert!(matches!(log.append(&[event(0)]), Err(AuditError::File { .. })));
    assert!(matches!(log.append(&[event(0)]), Err(AuditError::Failed { .. })));
    drop(log);
    assert_eq!(open(directory.path()).tree.size(), 1);
}

#[test]
fn checkpoints_that_cannot_be_written_keep_no_line_out_and_the_next_one_covers_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = AuditLog::open(small_files(directory.path())).expect("it opens");
    let path = log.checkpoints.path.clone();
    log.checkpoints.file = File::open(&path).expect("a file that cannot be written to");
    for number in 0..40 {
        log.append(&[event(number)]).expect("written");
    }
    assert!(matches!(log.checkpoint(), Err(AuditError::File { .. })));
    assert!(!log.has_failed);
    let reported = log.checkpoint_reported.expect("it is reported");
    log.checkpoint().expect_err("it fails again");
    assert_eq!(log.checkpoint_reported, Some(reported), "once a minute");
    log.checkpoint_reported = reported.checked_sub(REPORT_INTERVAL);
    log.checkpoint().expect_err("it still fails");
    assert!(log.checkpoint_reported >= Some(reported), "and again after it");
    let full = files::full_files(directory.path()).expect("files");
    assert_eq!(full.len(), 0, "no file is begun that no checkpoint permits");
    let (new, _) = SigningKey::generate().expect("random bytes");
    log.rotate(new).expect("lines need no checkpoint");

    // What a write has left that failed in the middle.
    let torn = [&fs::read(&path).expect("a file")[..], b"gateway/"].concat();
    fs::write(&path, torn).expect("written");
    log.checkpoints.file = files::open_to_append(&path).expect("a file");
    assert_eq!(log.checkpoint().expect("signed").size, 42);
    assert!(log.checkpoint_reported.is_none());
    log.append(&[event(40)]).expect("written");
    drop(log);
    assert_eq!(files::full_files(directory.path()).expect("files").len(), 1);
    let stored = StoredLog::copy(directory.path());
    let report = stored.verify();
    // Another file begins with a line of its own.
    assert_eq!((report.size, report.signed, &*report.findings), (44, 44, &[][..]));
}

#[test]
fn a_file_that_another_program_deletes_or_cuts_takes_no_lines_and_is_not_opened_without_its_own() {
    for is_deleted in [true, false] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut log = open(directory.path());
        let signed = fs::metadata(&log.file.path).expect("a file").len();
        log.append(&events(0..3)).expect("written");
        if is_deleted {
            fs::remove_file(&log.file.path).expect("deleted");
        } else {
            let file = File::options().write(true).open(&log.file.path).expect("a file");
            file.set_len(signed).expect("cut");
        }
        assert!(matches!(log.append(&[event(3)]), Err(AuditError::File { .. })));
        assert!(log.has_failed());
        drop(log);
        let refused = refusal(settings(directory.path()));
        assert!(matches!(refused, AuditError::Cut { signed: 4, .. }), "{refused}");
    }
}

#[test]
fn a_second_writer_without_the_lock_is_noticed_and_its_lines_stay() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut first = open(directory.path());
    first.append(&[event(0)]).expect("written");
    fs::remove_file(directory.path().join(files::LOCK)).expect("deleted");
    let mut second = open(directory.path());
    second.append(&[event(1)]).expect("written");
    assert!(matches!(first.append(&[event(2)]), Err(AuditError::File { .. })));
    drop(first);
    second.append(&[event(3)]).expect("written");
    drop(second);
    let report = StoredLog::copy(directory.path()).verify();
    assert_eq!((report.size, report.signed, &*report.findings), (4, 4, &[][..]));
}

#[test]
fn checkpoints_that_were_deleted_are_missed() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = open(directory.path());
    fs::remove_file(&log.checkpoints.path).expect("deleted");
    log.append(&[event(0)]).expect("lines need no checkpoint");
    assert!(matches!(log.checkpoint(), Err(AuditError::File { .. })));
}

#[test]
fn a_full_file_that_has_failed_is_not_set_aside() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = AuditLog::open(small_files(directory.path())).expect("it opens");
    log.segment_bytes = 1;
    log.has_failed = true;
    assert!(matches!(log.append(&[event(0)]), Err(AuditError::Failed { .. })));
    assert_eq!(files::full_files(directory.path()).expect("files").len(), 0);
}

#[test]
fn a_log_whose_first_line_could_not_be_written_is_not_signed() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = open(directory.path());
    fs::write(&log.file.path, "").expect("emptied");
    fs::write(&log.checkpoints.path, "").expect("emptied");
    log.tree = Tree::default();
    log.last_checkpoint = None;
    drop(log);
    assert_eq!(open(directory.path()).tree.size(), 1);
}

#[test]
fn a_checkpoint_is_published_and_one_without_new_lines_is_not_made() {
    let (sent, published) = mpsc::channel();
    let directory = tempfile::tempdir().expect("a directory");
    let publication = Publication::new("test", move |checkpoint: &str| {
        sent.send(checkpoint.to_owned())?;
        Ok(())
    });
    let publications = vec![publication];
    let mut log = AuditLog::open(AuditSettings { publications, ..settings(directory.path()) })
        .expect("it opens");
    let first = log.checkpoint().expect("signed");
    assert_eq!(first.size, 1);
    assert_eq!(published.recv().expect("published"), first.to_string());
    log.append(&[event(0)]).expect("written");
    let key = log.public_key();
    drop(log);
    let last = Checkpoint::parse(&published.recv().expect("published")).expect("a checkpoint");
    assert_eq!((last.size, last.is_signed_by(&key)), (2, true));
    assert!(published.recv().is_err());
}
