//! Reference servers from PyPI: three of the revision of 2026-07-28, and one that is older.

use std::{fs, path::Path, process::Command};

use airlock_tests::peers;
use serde_json::{Value, json};

use super::{page::Page, server::Server};

/// A page with one sentence.
const HTML: &str = "<html><head><title>Note</title></head><body><h1>Note</h1><p>Please remember the milk.</p></body></html>";

#[tokio::test]
async fn the_git_server_is_the_same_through_the_gateway() {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let directory = temporary.path().join("repository");
    let repository = directory.display().to_string();
    repository_with_a_change(&directory);
    let of = |more: Value| {
        let mut arguments = json!({"repo_path": repository});
        let members = arguments.as_object_mut().expect("written above");
        members.extend(more.as_object().expect("an object is given").clone());
        arguments
    };
    let server = Server::stdio(peers::python_server("git"), ["--repository", repository.as_str()])
        .path()
        .call("git_status", of(json!({})))
        .call("git_log", of(json!({"max_count": 1})))
        .call("git_diff_unstaged", of(json!({})))
        .call("git_add", of(json!({"files": ["note.txt"]})))
        .call("git_diff_staged", of(json!({"context_lines": 1})))
        .call("git_show", of(json!({"revision": "no-such-revision"})));
    let seen = server.compared(|| repository_with_a_change(&directory)).await;
    assert_eq!(seen.names().len(), 12, "{:?}", seen.names());
    assert!(seen.text(0).contains("note.txt"), "{:#}", seen.results[0]);
    assert!(seen.text(4).contains("+and bread"), "{:#}", seen.results[4]);
}

/// Creates a repository with one commit and one change after it, the same in each run.
fn repository_with_a_change(directory: &Path) {
    // It is missing the first time.
    let _ = fs::remove_dir_all(directory);
    fs::create_dir(directory).expect("its parent is a temporary directory");
    fs::write(directory.join("note.txt"), "remember the milk\n").expect("it was created");
    git(directory, &["init", "--quiet", "--initial-branch=main"]);
    git(directory, &["add", "note.txt"]);
    git(directory, &["commit", "--quiet", "--message=note"]);
    fs::write(directory.join("note.txt"), "remember the milk\nand bread\n").expect("as above");
}

fn git(directory: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(directory).args(arguments);
    // Neither the user's configuration nor the time is part of the commit.
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "A").env(format!("GIT_{role}_EMAIL"), "a@b.c");
        command.env(format!("GIT_{role}_DATE"), "2026-01-01T00:00:00Z");
    }
    let status = command.status().expect("git is installed");
    assert!(status.success(), "git {arguments:?}: {status}");
}

#[tokio::test]
async fn the_time_server_is_the_same_through_the_gateway() {
    let kathmandu =
        json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Kathmandu"});
    let server = Server::stdio(peers::python_server("time"), ["--local-timezone", "UTC"])
        .call("convert_time", kathmandu)
        // The other tool returns the time; this call of it is refused.
        .call("get_current_time", json!({"timezone": "Nowhere/Else"}));
    let seen = server.compared(|| ()).await;
    assert_eq!(seen.names(), ["convert_time", "get_current_time"]);
    assert!(seen.text(0).contains("17:45"), "{:#}", seen.results[0]);
    assert_ne!(seen.results[1]["isError"], false, "{:#}", seen.results[1]);
}

#[tokio::test]
async fn the_fetch_server_reads_a_local_page_and_is_the_same_through_the_gateway() {
    let page = Page::start("text/html", HTML).await;
    let fetch = peers::python_server("fetch");
    // It would install packages of Node.js if it found npm.
    let own = fetch.parent().expect("it is in a directory").display().to_string();
    let server = Server::stdio(fetch.clone(), ["--ignore-robots-txt", "--allow-private-ips"])
        .env("PATH", own)
        .env("NO_PROXY", "*")
        .call("fetch", json!({"url": page.url}))
        .call("fetch", json!({"url": page.url, "raw": true, "max_length": 40}))
        .call("fetch", json!({"url": "http://127.0.0.1:9/"}));
    let seen = server.compared(|| ()).await;
    assert_eq!(seen.names(), ["fetch"]);
    assert!(seen.text(0).contains("remember the milk"), "{:#}", seen.results[0]);
    assert_ne!(seen.results[2]["isError"], false, "{:#}", seen.results[2]);
}

#[tokio::test]
async fn the_sqlite_server_is_the_same_through_the_gateway() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let database = directory.path().join("notes.db");
    let file = database.display().to_string();
    let query = |text: &str| json!({"query": text});
    let server = Server::stdio(peers::python_server("sqlite"), ["--db-path", file.as_str()])
        .call("create_table", query("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"))
        .call("write_query", query("INSERT INTO notes (text) VALUES ('remember the milk')"))
        .call("read_query", query("SELECT * FROM notes"))
        .call("describe_table", json!({"table_name": "notes"}))
        .call("read_query", query("DROP TABLE notes"));
    // It is missing the first time.
    let seen = server.compared(|| drop(fs::remove_file(&database))).await;
    assert_eq!(seen.names().len(), 6, "{:?}", seen.names());
    assert!(seen.text(2).contains("remember the milk"), "{:#}", seen.results[2]);
}
