//! Every sample configuration in `host/examples` is valid. `documents` has those of the documents.

use std::{
    fs,
    path::{Path, PathBuf},
};

use airlock_tests::{Airlock, root};
use serde_json::Value;

fn samples() -> Vec<PathBuf> {
    let directory = root().join("host/examples");
    let entries =
        fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let files = entries.map(|entry| entry.expect("it can be read").path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "json")).collect()
}

/// Collects every `env.NAME` in a document.
fn variables(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            found.extend(text.split_once("env.").map(|(_, name)| name.to_owned()));
        }
        Value::Array(items) => items.iter().for_each(|item| variables(item, found)),
        Value::Object(members) => members.values().for_each(|member| variables(member, found)),
        _ => {}
    }
}

/// Returns the problems that `airlock check` finds, except missing files.
pub(crate) async fn problems(sample: &Path) -> Vec<Value> {
    let text = fs::read_to_string(sample).expect("it can be read");
    let document: Value = serde_json::from_str(&text).expect("it is JSON");
    let mut run =
        Airlock::new().arg("check").arg("--config").arg(sample).arg("--json").env("HOME", "/");
    let mut names = Vec::new();
    variables(&document, &mut names);
    for name in names {
        // Long and plain enough to be valid as a URL, a key or a token.
        run = run.env(
            &name,
            if name.contains("URL") { "https://example.com/mcp" } else { "sk-bf-0123456789abcdef" },
        );
    }
    let errors = run.run().await.json()["errors"].as_array().cloned().expect("a list");
    let is_absence = |error: &Value| {
        error["message"].as_str().is_some_and(|message| message.starts_with("there is no "))
    };
    errors.into_iter().filter(|error| !is_absence(error)).collect()
}

#[tokio::test]
async fn every_sample_is_valid_except_for_files_that_only_its_reader_has() {
    let samples = samples();
    assert!(!samples.is_empty());
    for sample in samples {
        assert_eq!(problems(&sample).await, Vec::<Value>::new(), "{}", sample.display());
    }
}
