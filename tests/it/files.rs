//! File access of plugins: they reach the directories that the operator granted and nothing else,
//! however they spell a path.

use std::{fs, os::unix::fs::symlink, path::Path};

use airlock_tests::{Client, Embedded, Gateway, Setup, guests};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory with a file, next to one that is not granted.
struct Granted {
    all: TempDir,
}

impl Granted {
    fn new() -> Self {
        let all = tempfile::tempdir().expect("a temporary directory");
        for (file, text) in [("docs/a.txt", "granted"), ("secret/b.txt", "hidden")] {
            let file = all.path().join(file);
            fs::create_dir_all(file.parent().expect("it is in a directory")).expect("a directory");
            fs::write(file, text).expect("a file");
        }
        let granted = Self { all };
        symlink(granted.secret().join("b.txt"), granted.docs().join("link")).expect("a link");
        symlink("../secret", granted.docs().join("link_to_directory")).expect("a link");
        granted
    }

    fn docs(&self) -> std::path::PathBuf {
        self.all.path().join("docs")
    }

    fn secret(&self) -> std::path::PathBuf {
        self.all.path().join("secret")
    }

    /// Starts a gateway with the guest that attempts every operation. The guest may write to `docs`
    /// within a quota.
    async fn gateway_with_quotas(&self, bytes: u64, files: u64) -> Gateway {
        let docs = json!({"path": self.docs(), "access": "read_write", "max_bytes": format!("{bytes}B"), "max_files": files});
        let client = Client::wasm("escape", guests::ESCAPE)
            .set("/wasm_config/grants/files", json!({"docs": docs}));
        Setup::new().client(client).serve_connected().await
    }

    fn secret_is_untouched(&self) {
        let found: Vec<_> = fs::read_dir(self.secret())
            .expect("it is there")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        assert_eq!(found, [self.secret().join("b.txt")]);
        assert_eq!(fs::read_to_string(&found[0]).expect("it is still there"), "hidden");
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

/// Returns the message of a tool that reports its own failure.
async fn refused(gateway: &Gateway, tool: &str, arguments: Value) -> String {
    let answer = gateway.execute(tool, &arguments).await.ok();
    assert_eq!(answer["is_error"], true, "{tool} {arguments}: {answer:#}");
    answer["content"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn a_granted_file_is_read_and_written() {
    let granted = Granted::new();
    let gateway = granted.gateway("read_write").await;
    let read = gateway.execute("files-read_file", &json!({"path": "docs/a.txt"})).await.content();
    assert!(read.contains("granted"), "{read}");
    let _ = gateway
        .execute("files-write_file", &json!({"path": "docs/new.txt", "text": "made"}))
        .await
        .ok();
    assert_eq!(fs::read_to_string(granted.docs().join("new.txt")).expect("it was made"), "made");
    let nested = json!({"path": "docs/a/b"});
    for created in ["true", "false"] {
        let made = gateway.execute("files-create_directory", &nested).await.content();
        assert!(granted.docs().join("a/b").is_dir() && made.contains(created), "{made}");
    }
    let found =
        gateway.execute("files-search_files", &json!({"path": "docs", "content": "grant"})).await;
    assert!(found.text.contains("a.txt"), "{}", found.text);
}

#[tokio::test]
async fn without_a_grant_the_refusal_names_the_operator() {
    let gateway = Setup::new().client(Client::wasm("files", guests::FILES)).serve_connected().await;
    let message = refused(&gateway, "files-read_file", json!({"path": "docs/a.txt"})).await;
    assert_eq!(
        message,
        "no directory is granted to this plugin; the operator of the gateway can grant directories by name"
    );
}

#[tokio::test]
async fn a_read_only_grant_refuses_writes() {
    let granted = Granted::new();
    let gateway = granted.gateway("read_only").await;
    for mode in ["create", "overwrite", "append"] {
        for path in ["docs/a.txt", "docs/new.txt"] {
            let message = refused(
                &gateway,
                "files-write_file",
                json!({"path": path, "text": "x", "mode": mode}),
            )
            .await;
            assert!(
                message.contains("reading only") || message.contains("exists already"),
                "{message}"
            );
        }
    }
    let message =
        refused(&gateway, "files-create_directory", json!({"path": "docs/new/deep"})).await;
    assert!(message.contains("reading only"), "{message}");
    assert!(!granted.docs().join("new").exists());
    refused(&gateway, "hostile-write", json!({"path": "/docs/a.txt", "text": "x"})).await;
    assert_eq!(
        fs::read_to_string(granted.docs().join("a.txt")).expect("it is still there"),
        "granted"
    );
    assert!(!granted.docs().join("new.txt").exists());
    assert_eq!(
        gateway.execute("hostile-read", &json!({"path": "/docs/a.txt"})).await.content(),
        "granted"
    );
}

#[tokio::test]
async fn no_spelling_of_a_path_leads_out_of_a_grant() {
    let granted = Granted::new();
    let gateway = granted.gateway("read_write").await;
    let absolute = granted.secret().join("b.txt");
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
            assert!(
                !message.contains("hidden") && !message.contains("root:"),
                "{tool} {path}: {message}"
            );
        }
        refused(&gateway, "hostile-write", json!({"path": path, "text": "overwritten"})).await;
    }
    for path in ["docs/link_to_directory/new", "docs/../secret/new", "/etc/new"] {
        refused(&gateway, "files-create_directory", json!({"path": path})).await;
    }
    granted.secret_is_untouched();
    assert_eq!(
        fs::read_to_string(granted.secret().join("b.txt")).expect("it is still there"),
        "hidden"
    );
}

#[tokio::test]
async fn no_reply_reveals_the_path_of_a_grant_on_the_host() {
    let granted = Granted::new();
    let gateway = granted.gateway("read_only").await;
    let listed = gateway.execute("files-list_directory", &json!({"path": "docs"})).await;
    assert!(listed.text.contains("a.txt"), "{}", listed.text);
    let elsewhere = refused(&gateway, "files-read_file", json!({"path": "other/a.txt"})).await;
    for text in [&listed.text, &elsewhere] {
        assert!(!text.contains(Path::new(granted.all.path()).to_str().expect("UTF-8")), "{text}");
    }
}

#[tokio::test]
async fn a_missing_directory_fails_only_its_plugin() {
    let missing = tempfile::tempdir().expect("a temporary directory").path().join("gone");
    let gateway = Setup::new()
        .client(Client::wasm("broken", guests::FILES).directory("docs", &missing, "read_only"))
        .client(Client::wasm("hostile", guests::HOSTILE))
        .serve()
        .await;
    gateway.in_state("broken", "error").await;
    assert_eq!(gateway.execute("hostile-ok", &json!({})).await.content(), "ok");
}

async fn escape(gateway: &Gateway, tool: &str, arguments: Value) -> String {
    gateway.execute(&format!("escape-{tool}"), &arguments).await.content()
}

#[tokio::test]
async fn every_operation_on_a_path_that_leads_out_of_a_grant_fails() {
    let granted = Granted::new();
    symlink(granted.secret().join("b.txt"), granted.docs().join("link_by_full_name"))
        .expect("a link");
    let gateway = granted.gateway_with_quotas(1 << 20, 1_000).await;
    let long = format!("/docs/{}", "x".repeat(256));
    let deep = format!("/docs/{}", "x/".repeat(10_000));
    let paths = [
        "/docs/../secret/b.txt",
        "/docs/../secret/new",
        "/docs/../secret",
        "/docs/a/../../secret/b.txt",
        "/docs/link_to_directory/b.txt",
        "/docs/link_to_directory/new",
        "/docs/link_to_directory/../secret/b.txt",
        "/secret/b.txt",
        "/etc/passwd",
        "/proc/self/environ",
        "../../../../etc/passwd",
        &long,
        &deep,
    ];
    for path in paths {
        let nothing = "The tool ran and returned nothing.";
        assert_eq!(escape(&gateway, "attempt", json!({"path": path})).await, nothing, "{path}");
        granted.secret_is_untouched();
    }
    // A link itself belongs to the directory: it may be moved, replaced and removed. Its target may
    // not.
    for path in ["/docs/link", "/docs/link/", "/docs/link_by_full_name", "/docs/link_to_directory/"]
    {
        let worked = escape(&gateway, "attempt", json!({"path": path})).await;
        assert!(
            !["read", "list", "append", "resize", "link"]
                .iter()
                .any(|what| worked.split(", ").any(|one| one == *what)),
            "{path}: {worked}"
        );
        granted.secret_is_untouched();
    }
}

#[tokio::test]
async fn a_plugin_cannot_create_links() {
    let granted = Granted::new();
    let gateway = granted.gateway_with_quotas(1 << 20, 1_000).await;
    let worked = escape(&gateway, "attempt", json!({"path": "/docs/a.txt"})).await;
    assert_eq!(worked, "read, append, resize, rename from, write, rename to, remove");
    assert!(!granted.docs().join("linked").exists() && !granted.docs().join("symlink").exists());
}

#[tokio::test]
async fn a_directory_can_be_filled_to_its_quota_and_no_further() {
    let granted = Granted::new();
    // `a.txt` has 7 bytes, and the links count as files.
    let gateway = granted.gateway_with_quotas(2_007, 5).await;
    let fill = |path: &str, bytes: u64| json!({"path": path, "bytes": bytes});
    assert_eq!(escape(&gateway, "fill", fill("/docs/new", 2_000)).await, "2000");
    // Behind a stream, the guest's own libraries have no error value for an exceeded quota.
    assert!(escape(&gateway, "fill", fill("/docs/new", 1)).await.starts_with("2000, "));
    assert_eq!(escape(&gateway, "fill", fill("/docs/other", 0)).await, "0");
    assert_eq!(escape(&gateway, "fill", fill("/docs/third", 0)).await, "0, QuotaExceeded");
    assert!(!granted.docs().join("third").exists());
    fs::remove_file(granted.docs().join("new")).expect("it is there");
    // The usage is measured again once a second.
    let again = async || escape(&gateway, "fill", fill("/docs/third", 2_000)).await;
    while again().await != "2000" {
        fs::remove_file(granted.docs().join("third")).unwrap_or_default();
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn writes_to_a_stream_are_charged_as_fuel() {
    let grants = json!({"scratch": {"max_bytes": "1MiB", "max_files": 10}});
    let guest = Client::wasm("guest", guests::HOSTILE).set("/wasm_config/grants", grants);
    let gateway = Embedded::start(Setup::new().client(guest)).await;
    let fuel = async |times: u32| {
        let ended = gateway.call("guest-drip", &json!({"times": times}).to_string()).await;
        assert_eq!(ended.text(), "done", "{ended:?}");
        ended.fuel.expect("it ran")
    };
    let none = fuel(0).await;
    let hundred = fuel(100).await;
    // Far more than the exits to the host alone cost.
    assert!(hundred - none > 100 * 10_000, "{none} and {hundred}");
    gateway.stop().await;
}
