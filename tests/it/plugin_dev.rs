//! `airlock plugin dev --call`, with a component that is built already in place of a compiler.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Stdio,
    time::Duration,
};

use airlock_tests::{Service, binary, guests};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// Time limit of one round. A round compiles the component for this machine.
const LIMIT: Duration = Duration::from_secs(90);

/// Beginning of every plugin.toml. The output of the compiler is taken as it is if WASI is used.
const HEAD: &str = r#"schema = "airlock.plugin/1"
id = "tested"
version = "1.0.0"
contract = "0.1"

[build]
wasi = true

"#;

/// Makes `component` the output of every compilation of the plugin in `directory`. Returns a `PATH`
/// with the compiler.
fn compiler(directory: &Path, component: &str) -> String {
    let bin = directory.join(".bin");
    fs::create_dir(&bin).expect("a directory");
    let message = json!({"manifest_path": directory.join("Cargo.toml"), "filenames": [component]});
    // `rustc` is asked for its version and for a directory that exists, `cargo` to compile.
    let script = format!("#!/bin/sh\nif [ $1 = rustc ]; then echo '{message}'; else echo /; fi\n");
    fs::write(bin.join("cargo"), script).expect("a file");
    fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).expect("its mode");
    symlink("cargo", bin.join("rustc")).expect("a link");
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default())
}

/// A running `airlock plugin dev`.
struct Dev {
    directory: TempDir,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Dev {
    /// Starts it for a plugin with this component, and with this plugin.toml after [`HEAD`].
    fn start(component: &str, manifest: &str, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().canonicalize().expect("it is there");
        fs::write(path.join("plugin.toml"), format!("{HEAD}{manifest}")).expect("a file");
        fs::write(path.join("Cargo.toml"), "").expect("a file");
        let mut child = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 2>&1"#])
            .arg(binary("airlock-under-test"))
            .args(["plugin", "dev"])
            .args(arguments)
            .env("PATH", compiler(&path, component))
            .current_dir(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it can be started");
        let stdout = child.stdout.take().expect("piped above");
        Self { directory, child, lines: BufReader::new(stdout).lines() }
    }

    /// Changes what follows [`HEAD`] in plugin.toml.
    fn write(&self, manifest: &str) {
        let file = self.directory.path().join("plugin.toml");
        fs::write(file, format!("{HEAD}{manifest}")).expect("a file");
    }

    /// Returns what one round prints.
    async fn round(&mut self) -> String {
        let mut said = String::new();
        let round = async {
            while let Some(line) = self.lines.next_line().await.expect("text") {
                if line.contains("waiting for a change") {
                    return true;
                }
                said.extend([&line, "\n"]);
            }
            false
        };
        let ended = tokio::time::timeout(LIMIT, round).await;
        assert!(matches!(ended, Ok(true)), "the round did not end:\n{said}");
        said
    }

    /// Ends it as its author does.
    async fn stop(mut self) {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        kill_process(pid.expect("it runs"), Signal::INT).expect("it runs");
        let ended = tokio::time::timeout(LIMIT, self.child.wait()).await.expect("it ends");
        assert!(ended.expect("its status").success());
    }
}

#[tokio::test]
async fn dev_lists_the_requests_that_were_used_and_the_smaller_tables_that_would_do() {
    let requests = r#"
[request.kv.notes]
max_bytes = "1MiB"
reason = "keeps the notes"

[request.clocks]
reason = "dates the notes"
"#;
    let wide = r#"
[[tool]]
name = "add_note"
effects = ["write_kv", "http"]

[[tool]]
name = "list_notes"
effects = ["write_kv"]

[request.http.old]
url = "https://api.example.com"
reason = "was replaced"
"#;
    let narrow = r#"
[[tool]]
name = "add_note"
effects = ["write_kv.notes"]

[[tool]]
name = "list_notes"
effects = ["read_kv.notes"]
"#;
    let arguments = ["--call", "add_note", r#"{"title": "Milk"}"#, "--call", "list_notes", "{}"];
    let mut dev = Dev::start(guests::NOTES, &format!("{wide}{requests}"), &arguments);
    let said = dev.round().await;
    let report = "
used so far: kv.notes (written), clocks
never used: http.old
tools without a successful call, which keep their effects: delete_note, read_note, search_notes, update_note
plugin.toml could request less, as far as the calls of this build show.
Remove: [request.http.old]
Replace:
# methods, paths and sizes are not recorded, so they stay as they are
";
    assert!(said.ends_with(&format!("{report}{narrow}")), "{said}");
    assert!(said.contains("tested.dev.wasm\n"), "{said}");
    assert!(!dev.directory.path().join("tested.wasm").exists(), "it is for `build`");
    let results = ["\nadd_note:\n", "\nlist_notes:\n"].map(|name| said.find(name));
    assert!(results.is_sorted() && results[0].is_some(), "{said}");

    dev.write(&format!("{narrow}{requests}"));
    let said = dev.round().await;
    assert!(said.contains("Milk") && !said.contains("error"), "{said}");
    let report = said.split_once("\nused so far: kv.notes (written), clocks\n");
    let (_, report) = report.unwrap_or_else(|| panic!("{said}"));
    assert!(report.starts_with("tools without") && report.lines().count() == 1, "{said}");
    dev.stop().await;
}

#[tokio::test]
async fn dev_sees_the_destinations_and_the_directories_that_a_call_uses() {
    let service = Service::start(|_| (200, json!({"text": "here"}))).await;
    let url = service.base_url();
    let requests = r#"
[[tool]]
name = "fetch"
effects = ["http.web", "http.other"]

[request.http.web]
url = "URL"
private = true
reason = "reads"

[request.http.other]
url = "https://api.example.com"
reason = "reads"
"#;
    let arguments = json!({"url": url, "format": "raw"}).to_string();
    let call = ["--call", "fetch", &arguments];
    let mut dev = Dev::start(guests::FETCH, &requests.replace("URL", url), &call);
    let said = dev.round().await;
    assert!(said.contains("\nused so far: http.web\nnever used: http.other\n"), "{said}");
    assert!(said.ends_with("\neffects = [\"http.web\"]\n"), "{said}");
    dev.stop().await;

    let docs = tempfile::tempdir().expect("a temporary directory");
    fs::write(docs.path().join("a.txt"), "here").expect("a file");
    let requests = r#"
[[tool]]
name = "read_file"
effects = ["read_files"]

[[tool]]
name = "list_directory"
effects = ["read_files"]

[request.files.docs]
access = "read_write"
reason = "reads"
"#;
    let grant = format!("files.docs={}:rw", docs.path().display());
    let read = ["--call", "read_file", r#"{"path": "docs/a.txt"}"#];
    let list = ["--call", "list_directory", r#"{"path": "docs"}"#];
    let call = [&["--grant", &grant][..], &read, &list].concat();
    let mut dev = Dev::start(guests::FILES, requests, &call);
    let said = dev.round().await;
    assert!(said.contains("\nused so far: files.docs (read)\n"), "{said}");
    assert!(said.ends_with("\naccess = \"read_only\"\nreason = \"reads\"\n"), "{said}");
    dev.stop().await;
}

#[tokio::test]
async fn dev_sends_a_secret_in_a_post_to_a_host_that_is_granted_with_the_method() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let component = crate::golden::built(place.path()).await;
    let component = component.to_str().expect("UTF-8");
    let token = place.path().join("token");
    fs::write(&token, "golden-token-0123456789").expect("a file");
    let service = Service::start(|_| (200, json!({}))).await;
    let url = service.base_url();
    let requests = r#"
[[tool]]
name = "fetch"
effects = ["http", "secret"]

[request.http.local]
url = "*"
reason = "sends one request"

[request.secret.token]
inject = { header = "authorization", prefix = "Bearer " }
audience = ["local"]
reveal = true
reason = "authenticates the request"
"#;
    let arguments = json!({"url": url}).to_string();
    let secret = format!("secret.token=file:{}:reveal", token.display());
    let said = async |host: String| {
        let call = ["--call", "fetch", &arguments, "--grant", &secret, "--grant", &host];
        let mut dev = Dev::start(component, requests, &call);
        let said = dev.round().await;
        dev.stop().await;
        assert!(!said.contains("golden-token"), "{said}");
        said
    };
    // Without methods, a host is granted for GET and HEAD.
    let refused = said(format!("http={url}:private")).await;
    assert!(service.asked().is_empty(), "{refused}");
    let sent = said(format!("http={url}:POST:private")).await;
    let asked = service.asked();
    assert_eq!(asked.len(), 1, "{sent}");
    assert_eq!(
        (asked[0].authorization.as_str(), &asked[0].body),
        ("Bearer golden-token-0123456789", &json!({"n": 1})),
        "{sent}"
    );
    assert!(sent.contains("http.local, secret.token ("), "{sent}");
}

#[tokio::test]
async fn what_keeps_a_build_from_being_called_is_said_once_with_the_options_that_mend_it() {
    let requests = r#"
[[tool]]
name = "add_note"
effects = ["write_kv", "call_tools"]

[request.kv.notes]
max_bytes = "1MiB"
reason = "keeps the notes"

[request.clocks]
reason = "dates the notes"

[request.slot.search]
reason = "finds more"
"#;
    let call = ["--call", "add_note", r#"{"title": "Milk"}"#, "--call", "list_notes", "{}"];
    let mut dev = Dev::start(guests::NOTES, requests, &call);
    let said = dev.round().await;
    let told = "slot.search is required and not granted: --grant 'slot.search=<CLIENT-TOOL>'\n";
    assert_eq!(said.matches("the plugin cannot be called").count(), 1, "{said}");
    assert!(said.contains(told) && !said.contains("used") && !said.contains("grants"), "{said}");
    dev.stop().await;

    let call = ["--call", "add_note", r#"{"titel": 1}"#, "--grant", "slot.search=list_notes"];
    let mut dev = Dev::start(guests::NOTES, requests, &call);
    let said = dev.round().await;
    assert!(
        said.ends_with("no call has run, so the requests of plugin.toml are not judged\n"),
        "{said}"
    );
    dev.stop().await;

    let calls = ["--call", "ad_note", "{}", "--call", "list_notes", "{}"];
    let call = [&calls[..], &["--grant", "slot.search=list_notes"]].concat();
    let mut dev = Dev::start(guests::NOTES, requests, &call);
    let said = dev.round().await;
    assert!(
        said.contains("--call ad_note: the plugin has no such tool; it has add_note, ")
            && said.contains("\nlist_notes:\n"),
        "{said}"
    );
    dev.stop().await;

    let call = ["--call", "add_note", "{}", "--grant", "slot.search=web-search"];
    let mut dev = Dev::start(guests::NOTES, requests, &call);
    let said = dev.round().await;
    assert!(said.contains("--grant slot.search=web-search: no client is named \"web\", because there is no airlock.json; name the configuration that has it with --config, or bind a tool of this plugin: add_note, "), "{said}");
    dev.stop().await;
}
