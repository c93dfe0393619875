//! Findings that a build and a check of a plugin in Rust report to its author.

use std::fs;

use airlock_tests::{Airlock, languages};

use super::new;

#[tokio::test]
async fn errors_and_warnings_of_rustc_reach_the_author() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let _ = new(place.path(), "faulty", "rust").await.ok();
    let directory = place.path().join("faulty");
    let source = directory.join("src/lib.rs");
    let good = fs::read_to_string(&source).expect("it is there");
    fs::write(&source, good.replace("4.0, Sky::Snow", "4.0, Sky::Sleet")).expect("a file");
    let failed = languages::build(&directory).await.failed().json();
    let output = failed["output"].to_string();
    assert!(output.contains("no variant") && output.contains("src/lib.rs:"), "{failed:#}");
    let shown = languages::build_for_people(&directory).await.failed();
    assert!(shown.stderr.contains("no variant") && shown.stderr.contains("src/lib.rs:"), "{shown}");

    let search = "struct Query {\n    text: String,\n}\n\n/// Searches.\n#[tool]\nfn search(query: Query) -> String {\n    query.text\n}\n\n";
    fs::write(&source, good.replace("plugin!(", &format!("{search}plugin!("))).expect("a file");
    let shown = languages::build_for_people(&directory).await.failed();
    let error = "`Query` cannot be the argument of a tool";
    let first = shown.stderr.split("error[E0277]: ").nth(1).expect("an error of the type");
    assert!(first.starts_with(error), "{shown}");
    assert!(first.contains("write `#[data]` above the definition of each struct"), "{shown}");

    let warns = good.replace("log::info!(", "let unread = 1;\n    log::info!(");
    fs::write(&source, warns).expect("a file");
    let built = languages::build(&directory).await.ok().json();
    assert!(built["output"].to_string().contains("unused variable: `unread`"), "{built:#}");
    let shown = languages::build_for_people(&directory).await.ok();
    assert!(shown.stderr.contains("unused variable: `unread`"), "{shown}");
}

#[tokio::test]
async fn an_import_that_is_not_requested_is_a_finding_of_build_and_check() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let _ = new(place.path(), "eager", "rust").await.ok();
    let directory = place.path().join("eager");
    let source = directory.join("src/lib.rs");
    let good = fs::read_to_string(&source).expect("it is there");
    let asks = "let _ = airlock_guest::http::Request::get(\"https://example.com\").send();\n    log::info!(";
    fs::write(&source, good.replace("log::info!(", asks)).expect("a file");
    let built = languages::build(&directory).await.ok().json();
    let finding = &built["findings"][0];
    assert_eq!(finding["at"], "airlock:host/http@0.1.0", "{built:#}");
    assert!(finding["found"].as_str().is_some_and(|found| found.contains("`send`")), "{built:#}");
    let checked = Airlock::new().arg("plugin").arg("check").current_dir(&directory).run().await;
    let checked = checked.failed();
    assert!(
        checked.stdout.contains("FAIL  it imports only what plugin.toml requests"),
        "{checked}"
    );
    assert!(checked.stdout.contains("write: [request.http.NAME]"), "{checked}");
}
