//! `GET /api/reports`: the reports of test suites in a directory of the operator.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};

use super::{OperatorApi, operator::RequestOperator};
use airlock_core::{request_memory::RequestCharge, unix_time::unix_milliseconds};
use airlock_http::{
    respond::{self, ApiError, Reply},
    work,
};
use airlock_json::{self as json, Caps};

/// Maximum number of reports that are shown: each is read into memory, and has its place in one response. The longest
/// are charged with 96 MiB of texts, and with their trees.
const MAX_REPORTS: usize = 32;
/// Maximum entries of the directory that are looked at, so that a path to another directory by mistake takes no time.
const MAX_ENTRIES: usize = 1_000;
/// Maximum bytes of a report, which is read into memory and parsed.
const MAX_BYTES: u64 = 1 << 20;
/// Limits of the document of a report. The numbers of a row are at depth 5, those of its aims at 7.
const CAPS: Caps = Caps { nodes: 200_000, depth: 8, tree_bytes: 32 << 20 };
/// Copies of the text of a report while it is shown: as read, and as a part of the response.
const TEXTS: usize = 3;
/// Problem of a document that has another form.
const NO_REPORT: &str = "it is not the report of a test suite: expected an object with `heading`, `tables`, `checks` and `good`, as the suites write it with `--json`";
/// Problem of every document for an operator who does not see contents.
const HIDDEN: &str =
    "this operator does not see the contents of reports: `sees_payloads` is a right of its own";

/// Lists the reports with their contents; without them for operators who do not see contents. Fails if the
/// directory cannot be read.
pub(super) async fn list(
    api: &OperatorApi,
    actor: &RequestOperator,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let Some(directory) = api.settings.reports.clone() else {
        return Ok(respond::json(&listed(&[])));
    };
    let sees_payloads = actor.operator.sees_payloads;
    let listing = work::blocking(charge, move |charge| {
        let paths = paths(&directory).map_err(|_| unreadable(&directory))?;
        let reports: Result<Vec<_>, _> = paths
            .iter()
            .map(|path| if sees_payloads { report(path, charge) } else { Ok(hidden(path)) })
            .collect();
        Ok(respond::json(&listed(&reports?)))
    });
    listing.await
}

fn listed(reports: &[Value]) -> Value {
    json!({"object": "list", "data": reports})
}

/// Returns the files of the directory that are reports, by their names.
fn paths(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)?.take(MAX_ENTRIES) {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "json") {
            found.push(path);
        }
    }
    found.sort();
    found.truncate(MAX_REPORTS);
    Ok(found)
}

/// Describes a report for an operator who does not see contents. The file is not opened.
fn hidden(path: &Path) -> Value {
    json!({"name": name(path), "problem": HIDDEN})
}

/// Describes a report; with the problem of one that cannot be shown. Fails if there is no memory for it.
fn report(path: &Path, charge: &RequestCharge) -> Result<Value, ApiError> {
    let name = name(path);
    let Ok((text, modified_ms)) = read(path) else {
        return Ok(json!({"name": name, "problem": "it cannot be read"}));
    };
    let mut report = json!({"name": name, "bytes": text.len(), "modified_at_ms": modified_ms});
    if text.len() as u64 > MAX_BYTES {
        report["bytes"] = Value::Null;
        report["problem"] = format!("it has more than {MAX_BYTES} bytes").into();
        return Ok(report);
    }
    charge.grow(text.len().saturating_mul(TEXTS))?;
    let cost = match json::check(&text, &CAPS) {
        Ok(cost) => cost,
        Err(error) if error.is_cap() => {
            report["problem"] = error.to_string().into();
            return Ok(report);
        }
        Err(error) => {
            report["problem"] = format!("it is not JSON: {error}").into();
            return Ok(report);
        }
    };
    // The tree, and the list that it becomes a part of.
    charge.grow(cost.tree_bytes.saturating_mul(2))?;
    match serde_json::from_slice::<Value>(&text) {
        Ok(document) if is_report(&document) => report["document"] = document,
        _ => report["problem"] = NO_REPORT.into(),
    }
    Ok(report)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns whether a document has the form in which the test suites write their reports.
fn is_report(document: &Value) -> bool {
    document["heading"].is_string()
        && document["good"].is_boolean()
        && is_list_of(&document["tables"], is_table)
        && is_list_of(&document["checks"], is_check)
}

fn is_table(table: &Value) -> bool {
    table["title"].is_string() && is_list_of(&table["rows"], Value::is_object)
}

fn is_check(check: &Value) -> bool {
    check["what"].is_string() && check["holds"].is_boolean()
}

fn is_list_of(list: &Value, is_element: fn(&Value) -> bool) -> bool {
    list.as_array().is_some_and(|elements| elements.iter().all(is_element))
}

/// Reads a regular file, and a byte more than a report may have. A symbolic link is not followed.
fn read(path: &Path) -> io::Result<(Vec<u8>, i64)> {
    // A pipe would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let modified_ms = unix_milliseconds(metadata.modified()?);
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    Ok((text, modified_ms))
}

fn unreadable(directory: &Path) -> ApiError {
    let message = format!(
        "the directory of `management.reports`, {}, cannot be read; create it, or remove the key",
        directory.display()
    );
    ApiError::not_found("not_found", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_with_the_right_end_are_reports_and_their_number_is_bounded() {
        let directory = tempfile::tempdir().expect("a directory");
        for number in 0..=MAX_REPORTS {
            let path = directory.path().join(format!("{number:02}.json"));
            fs::write(path, "{}").expect("written");
        }
        fs::write(directory.path().join("00.txt"), "{}").expect("written");
        let found = paths(directory.path()).expect("it is read");
        assert_eq!(found.len(), MAX_REPORTS);
        assert!(found.iter().all(|path| path.extension().is_some_and(|end| end == "json")));
        assert!(paths(&directory.path().join("none")).is_err());
    }

    #[test]
    fn a_file_is_read_to_a_byte_beyond_the_bound_and_a_directory_not_at_all() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.json");
        let most = usize::try_from(MAX_BYTES).expect("it fits");
        fs::write(&path, vec![b' '; most + 7]).expect("written");
        assert_eq!(read(&path).expect("it is read").0.len(), most + 1);
        assert!(read(directory.path()).is_err());
        let link = directory.path().join("b.json");
        std::os::unix::fs::symlink(&path, &link).expect("it is made");
        assert!(read(&link).is_err(), "a link is not followed");
    }

    #[test]
    fn a_document_of_another_form_is_no_report() {
        let report = json!({
            "heading": "h", "cores": 2, "load": "", "notes": [], "good": true,
            "tables": [{"title": "t", "rows": [{"name": "a", "aims": [{"of": "p", "met": true}]}]}],
            "checks": [{"what": "w", "holds": true}],
        });
        assert!(is_report(&report));
        assert!(json::check(report.to_string().as_bytes(), &CAPS).is_ok());
        for (member, other) in [
            ("heading", json!(1)),
            ("good", Value::Null),
            ("tables", json!([{"title": "t", "rows": [1]}])),
            ("tables", json!({})),
            ("checks", json!([{"what": "w"}])),
        ] {
            let mut changed = report.clone();
            changed[member] = other;
            assert!(!is_report(&changed), "{member}");
        }
        for other in [json!({"ok": true}), json!([]), json!("text")] {
            assert!(!is_report(&other), "{other}");
        }
    }
}
