//! `GET /api/reports`: the reports of test suites in a directory of the operator.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    App,
    memory::RequestCharge,
    respond::{self, ApiError, Reply},
    work,
};
use airlock_core::unix_time::unix_milliseconds;

/// Maximum number of reports that are shown.
const MAX_REPORTS: usize = 32;
/// Maximum entries of the directory that are looked at.
const MAX_ENTRIES: usize = 1_000;
/// Maximum bytes of a report.
const MAX_BYTES: u64 = 1 << 20;
/// Copies of a report while it is shown: its text, its tree and the response.
const COPIES: usize = 8;

/// Lists the reports with their contents. Fails if the directory cannot be read.
pub(super) async fn list(app: &App, charge: &RequestCharge) -> Result<Reply, ApiError> {
    let Some(directory) = app.settings.management.reports.clone() else {
        return Ok(respond::json(&listed(&[])));
    };
    let listing = work::blocking(charge, move |charge| {
        let paths = paths(&directory).map_err(|_| unreadable(&directory))?;
        let reports: Result<Vec<_>, _> = paths.iter().map(|path| report(path, charge)).collect();
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

/// Describes a report; with the problem of one that cannot be shown. Fails if there is no memory for it.
fn report(path: &Path, charge: &RequestCharge) -> Result<Value, ApiError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Ok((text, modified_ms)) = read(path) else {
        return Ok(json!({"name": name, "problem": "it cannot be read"}));
    };
    let mut report = json!({"name": name, "bytes": text.len(), "modified_at_ms": modified_ms});
    if text.len() as u64 > MAX_BYTES {
        report["bytes"] = Value::Null;
        report["problem"] = format!("it has more than {MAX_BYTES} bytes").into();
        return Ok(report);
    }
    charge.grow(text.len().saturating_mul(COPIES))?;
    match serde_json::from_slice::<Value>(&text) {
        Ok(document) => report["document"] = document,
        Err(error) => report["problem"] = format!("it is not JSON: {error}").into(),
    }
    Ok(report)
}

/// Reads a regular file, which no symbolic link leads to, and a byte more than a report may have.
fn read(path: &Path) -> std::io::Result<(Vec<u8>, i64)> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    let file = File::open(path)?;
    let modified_ms = unix_milliseconds(file.metadata()?.modified()?);
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    Ok((text, modified_ms))
}

fn unreadable(directory: &Path) -> ApiError {
    let message = format!(
        "the directory of `management.reports`, {}, cannot be read; create it, or remove the key",
        directory.display()
    );
    ApiError::new(http::StatusCode::NOT_FOUND, "invalid_request_error", "not_found", message)
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
    }
}
