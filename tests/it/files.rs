//! What a plugin may do with files: what its operator granted, and nothing else, however it spells the path.

use std::{fs, os::unix::fs::symlink, path::Path};

use airlock_tests::{Client, Gateway, Setup, guests};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory with a file, and a neighbour that was not granted.
struct Place {
    all: TempDir,
}

impl Place {
    fn new() -> Self {
        let all = tempfile::tempdir().expect("a temporary directory");
        for (file, text) in [("docs/a.txt", "granted"), ("secret/b.txt", "hidden")] {
            let file = all.path().join(file);
            fs::create_dir_all(file.parent().expect("it is in a directory")).expect("a directory");
            fs::write(file, text).expect("a file");
        }
        let place = Self { all };
        symlink(place.secret().join("b.txt"), place.docs().join("link")).expect("a link");
        symlink("../secret", place.docs().join("link_to_directory")).expect("a link");
        place
    }

    fn docs(&self) -> std::path::PathBuf {
        self.all.path().join("docs")
    }

    fn secret(&self) -> std::path::PathBuf {
        self.all.path().join("secret")
    }

    async fn gateway(&self, access: &str) -> Gateway {
        let lend = |client: Client| client.directory("docs", &self.docs(), access);
        Setup::new()
            .client(lend(Client::wasm("files", guests::FILES)))
            .client(lend(Client::wasm("hostile", guests::HOSTILE)))
            .serve_connected()
            .await
    }
}

/// The message of a tool that says that it failed.
async fn refused(gateway: &Gateway, tool: &str, arguments: Value) -> String {
    let answer = gateway.execute(tool, &arguments).await.ok();
    assert_eq!(answer["is_error"], true, "{tool} {arguments}: {answer:#}");
    answer["content"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn a_granted_file_is_read_and_written() {
    let place = Place::new();
    let gateway = place.gateway("read_write").await;
    let read = gateway.execute("files-read_file", &json!({"path": "docs/a.txt"})).await.content();
    assert!(read.contains("granted"), "{read}");
    let _ = gateway.execute("files-write_file", &json!({"path": "docs/new.txt", "text": "made"})).await.ok();
    assert_eq!(fs::read_to_string(place.docs().join("new.txt")).expect("it was made"), "made");
    let found = gateway.execute("files-search_files", &json!({"path": "docs", "content": "grant"})).await;
    assert!(found.text.contains("a.txt"), "{}", found.text);
}

#[tokio::test]
async fn without_a_grant_the_refusal_says_who_can_give_one() {
    let gateway = Setup::new().client(Client::wasm("files", guests::FILES)).serve_connected().await;
    let message = refused(&gateway, "files-read_file", json!({"path": "docs/a.txt"})).await;
    assert_eq!(message, "no directory is granted to this plugin; the operator of the gateway can grant directories by name");
}

#[tokio::test]
async fn a_grant_for_reading_alone_cannot_be_written_to() {
    let place = Place::new();
    let gateway = place.gateway("read_only").await;
    for mode in ["create", "overwrite", "append"] {
        for path in ["docs/a.txt", "docs/new.txt"] {
            let message = refused(&gateway, "files-write_file", json!({"path": path, "text": "x", "mode": mode})).await;
            assert!(message.contains("reading only") || message.contains("exists already"), "{message}");
        }
    }
    refused(&gateway, "hostile-write", json!({"path": "/docs/a.txt", "text": "x"})).await;
    assert_eq!(fs::read_to_string(place.docs().join("a.txt")).expect("it is still there"), "granted");
    assert!(!place.docs().join("new.txt").exists());
    assert_eq!(gateway.execute("hostile-read", &json!({"path": "/docs/a.txt"})).await.content(), "granted");
}

#[tokio::test]
async fn no_spelling_of_a_path_leads_out_of_a_grant() {
    let place = Place::new();
    let gateway = place.gateway("read_write").await;
    let absolute = place.secret().join("b.txt");
    let absolute = absolute.to_str().expect("UTF-8");
    let ways_out = [
        "docs/../secret/b.txt",
        "/docs/../secret/b.txt",
        "docs/link",
        "docs/link_to_directory/b.txt",
        absolute,
        "/etc/passwd",
        "/docs//../../../../../../../../etc/passwd",
        "docs/./../secret/b.txt",
    ];
    for path in ways_out {
        for tool in ["files-read_file", "hostile-read"] {
            let message = refused(&gateway, tool, json!({"path": path})).await;
            assert!(!message.contains("hidden") && !message.contains("root:"), "{tool} {path}: {message}");
        }
        refused(&gateway, "hostile-write", json!({"path": path, "text": "overwritten"})).await;
    }
    assert_eq!(fs::read_to_string(place.secret().join("b.txt")).expect("it is still there"), "hidden");
}

#[tokio::test]
async fn a_grant_is_not_named_by_its_place_on_the_host() {
    let place = Place::new();
    let gateway = place.gateway("read_only").await;
    let listed = gateway.execute("files-list_directory", &json!({"path": "docs"})).await;
    assert!(listed.text.contains("a.txt"), "{}", listed.text);
    let elsewhere = refused(&gateway, "files-read_file", json!({"path": "other/a.txt"})).await;
    for text in [&listed.text, &elsewhere] {
        assert!(!text.contains(Path::new(place.all.path()).to_str().expect("UTF-8")), "{text}");
    }
}

#[tokio::test]
async fn a_directory_that_is_not_there_costs_only_its_plugin() {
    let missing = tempfile::tempdir().expect("a temporary directory").path().join("gone");
    let gateway = Setup::new()
        .client(Client::wasm("broken", guests::FILES).directory("docs", &missing, "read_only"))
        .client(Client::wasm("hostile", guests::HOSTILE))
        .serve()
        .await;
    gateway.in_state("broken", "error").await;
    assert_eq!(gateway.execute("hostile-ok", &json!({})).await.content(), "ok");
}
