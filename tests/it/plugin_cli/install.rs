//! A plugin gets a name of its own in the configuration, and is pinned and called.

use std::{fs, path::Path};

use airlock_tests::{component, guests};
use serde_json::{Value, json};

use super::{Workspace, poisoned};

#[tokio::test]
async fn an_installed_plugin_is_pinned_and_can_be_called_at_once() {
    let workspace = Workspace::new();
    let before = "{\n\t\"providers\": {},\n\t\"server\": {\"listen\": \"127.0.0.1:0\"}\n}";
    workspace.write("airlock.json", before);
    let installed = workspace.install(guests::HOSTILE, &["--name", "guest"]).await.ok();
    assert!(installed.stdout.contains("airlock call guest-"), "{installed}");
    let config = workspace.read("airlock.json");
    let positions: Vec<_> = ["\t\"providers\"", "\t\"server\"", "plugins/guest.wasm"]
        .map(|text| config.find(text))
        .to_vec();
    assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{config}");
    assert!(workspace.read("airlock.lock").contains("client = \"guest\""));
    let called = workspace.airlock(&["call", "guest-ok"]).await.ok();
    assert_eq!(called.stdout, "ok\n", "{called}");
    let same = workspace.airlock(&["plugin", "diff"]).await.ok();
    assert!(same.stdout.contains("guest: as it was accepted"), "{same}");
    // A second installation is an update and adds no second entry.
    let _ = workspace.install(guests::HOSTILE, &["--name", "guest"]).await.ok();
    assert_eq!(workspace.read("airlock.json"), config);
}

/// Returns the contents of every file that an installation changes.
fn installed(workspace: &Workspace) -> Vec<Option<Vec<u8>>> {
    ["airlock.json", "airlock.lock", "plugins/github.wasm"]
        .map(|name| fs::read(workspace.path(name)).ok())
        .to_vec()
}

#[tokio::test]
async fn a_taken_name_goes_to_a_changed_build_only_with_replace_and_never_to_another_plugin() {
    let workspace = Workspace::new();
    workspace.write("poisoned.wasm", poisoned().await);
    let file = |name: &str, from: &Path, id: &str| {
        workspace.write(name, component::with_manifest(from, id, &json!({})));
    };
    file("github.wasm", Path::new(guests::HOSTILE), "github");
    file("cool.wasm", &workspace.path("poisoned.wasm"), "github");
    file("stranger.wasm", Path::new(guests::HOSTILE), "stranger");
    let _ = workspace.install("github.wasm", &[]).await.ok();
    let before = installed(&workspace);
    assert!(before.iter().all(Option::is_some));
    let _ = workspace.install("github.wasm", &[]).await.ok();
    assert_eq!(installed(&workspace), before, "the same one changes nothing");

    let unseen = workspace.install("cool.wasm", &[]).await.failed();
    assert!(
        unseen.stdout.contains("    +Takes what it finds.") && unseen.stdout.contains("its code ("),
        "{unseen}"
    );
    assert!(unseen.stderr.contains("  airlock plugin install cool.wasm --replace\n"), "{unseen}");
    for more in [&["--name", "github"][..], &["--name", "github", "--replace"]] {
        let other = workspace.install("stranger.wasm", more).await.failed();
        assert!(
            other
                .stderr
                .contains("the plugin github has that name, and this is the plugin stranger"),
            "{other}"
        );
        assert!(
            other.stderr.contains("  airlock plugin install stranger.wasm --name '<NAME>'\n"),
            "{other}"
        );
    }
    let nameless =
        workspace.install(guests::HOSTILE, &["--name", "github", "--replace"]).await.failed();
    assert!(nameless.stderr.contains("this is a component without a manifest"), "{nameless}");
    assert_eq!(installed(&workspace), before, "what is refused changes nothing");

    let replaced = workspace.install("cool.wasm", &["--replace"]).await.ok();
    assert!(replaced.stdout.contains("    +Takes what it finds."), "{replaced}");
    assert!(workspace.read("airlock.lock").contains("steal"));
    let same = workspace.airlock(&["plugin", "diff"]).await.ok();
    assert!(same.stdout.contains("github: as it was accepted"), "{same}");
}

#[tokio::test]
async fn replace_with_a_name_that_nothing_is_installed_as_proposes_no_second_installation() {
    let workspace = Workspace::new();
    workspace.write_plugin("mine.wasm", "weather", &json!({}));
    let replace = async |more: &[&str]| {
        workspace.install("mine.wasm", &[&["--replace"], more].concat()).await
    };
    let none = replace(&[]).await.failed();
    assert!(
        none.stderr.contains("--replace: nothing is installed as \"weather\"; installed: none\n"),
        "{none}"
    );
    let _ = workspace.install("mine.wasm", &[]).await.ok();
    let before = workspace.read("airlock.json");
    let wrong = replace(&["--name", "wether"]).await.failed();
    assert_eq!(
        wrong.stderr.trim_end(),
        "error: --replace: nothing is installed as \"wether\"; installed: weather; weather is this plugin: --name weather"
    );
    assert_eq!((workspace.read("airlock.json"), wrong.stdout.as_str()), (before, ""));

    let twice = workspace.install("mine.wasm", &["--name", "second"]).await.ok();
    let told = "the plugin weather is installed twice now, as weather and as second";
    assert!(twice.stderr.contains(told), "{twice}");
    let nowhere = workspace.install("mine.wasm", &["--config", "nowhere/a.json"]).await.failed();
    assert!(nowhere.stderr.contains("nowhere/a.json: there is no directory nowhere"), "{nowhere}");
    assert!(!workspace.path("nowhere").exists());
}

#[tokio::test]
async fn a_configured_plugin_that_was_not_accepted_keeps_its_name_too() {
    let workspace = Workspace::new();
    let client = |component: &str| {
        json!({
            "name": "github",
            "connection_type": "wasm",
            "wasm_config": {"component": component, "grants": {"clocks": true}},
            "tools_to_execute": ["*"],
        })
    };
    workspace.write_plugin("mine.wasm", "github", &json!({}));
    workspace.write_plugin("stranger.wasm", "stranger", &json!({}));
    workspace.write(
        "airlock.json",
        json!({"mcp": {"client_configs": [client("mine.wasm")]}}).to_string(),
    );
    let other =
        workspace.install("stranger.wasm", &["--name", "github", "--replace"]).await.failed();
    assert!(other.stderr.contains("the plugin github has that name"), "{other}");
    workspace.write(
        "airlock.json",
        json!({"mcp": {"client_configs": [client("gone.wasm")]}}).to_string(),
    );
    let unknown = workspace.install("stranger.wasm", &["--name", "github"]).await.failed();
    assert!(
        unknown.stderr.contains("airlock plugin install stranger.wasm --name github --replace"),
        "{unknown}"
    );
    assert!(!workspace.path("plugins").exists() && !workspace.path("airlock.lock").exists());
    // Nothing is known of the old one, so that it takes the operator's word.
    let replace = ["--name", "github", "--replace"];
    let unsaid = workspace.install("stranger.wasm", &replace).await.failed();
    assert!(unsaid.stderr.contains("--change-id"), "{unsaid}");
    let _ =
        workspace.install("stranger.wasm", &[&replace[..], &["--change-id"]].concat()).await.ok();
}

#[tokio::test]
async fn an_unreadable_lock_leaves_everything_as_it_was() {
    let workspace = Workspace::new();
    workspace.write("airlock.lock", "this is a text");
    let refused = workspace.install(guests::HOSTILE, &["--name", "github"]).await.failed();
    assert!(refused.stderr.contains("is not a lock file"), "{refused}");
    assert!(!workspace.path("plugins").exists() && !workspace.path("airlock.json").exists());
}

#[tokio::test]
async fn the_call_that_an_installation_prints_succeeds_when_it_is_typed() {
    let workspace = Workspace::new();
    let with_title = async |title: Value| {
        component::with_tools(guests::NOTES, |tools| {
            // A tool that only reads would be proposed before this one.
            for tool in tools.iter_mut() {
                tool["annotations"]["readOnlyHint"] = json!(false);
            }
            let add = tools.iter_mut().find(|tool| tool["name"] == "add_note").expect("a tool");
            let schema = &mut add["inputSchema"];
            schema["required"] = json!(["title", "tags"]);
            schema["properties"]["title"] = title;
            schema["properties"]["tags"] = json!({"$ref": "#/$defs/words"});
            schema["$defs"]["words"] =
                json!({"type": "array", "minItems": 2, "items": {"type": "string", "minLength": 6}});
        })
        .await
    };
    workspace.write("notes.wasm", with_title(json!({"type": "string", "minLength": 9})).await);
    for (component, more) in [("notes.wasm", &["--grant-all"][..]), (guests::TEXT, &[])] {
        let installed = workspace.install(component, more).await.ok();
        let (_, call) = installed.stdout.split_once("\ntry it:\n  airlock ").expect("a call");
        let words = call.trim_end().splitn(3, ' ').map(|word| word.trim_matches('\''));
        let _ = workspace.airlock(&words.collect::<Vec<_>>()).await.ok();
    }
    let pattern = json!({"type": "string", "pattern": "^[0-9]{9}$"});
    workspace.write("strict.wasm", with_title(pattern).await);
    let strict = ["--name", "strict", "--grant-all"];
    let installed = workspace.install("strict.wasm", &strict).await.ok();
    let told = "\ntry it, with values that you know in place of `...`:\n  airlock call strict-add_note '{\"title\": ..., \"tags\": ...}'\n";
    assert!(installed.stdout.ends_with(told), "{installed}");
}

#[tokio::test]
async fn a_plugin_whose_id_is_no_client_name_is_installed_under_a_name_that_is_printed() {
    let workspace = Workspace::new();
    workspace.write_plugin("helper.wasm", "notes-helper", &json!({}));
    let refused = workspace.install("helper.wasm", &["--name", "notes-helper"]).await.failed();
    assert!(refused.stderr.contains("; try --name notes_helper"), "{refused}");
    let installed = workspace.install("helper.wasm", &[]).await.ok();
    assert!(
        installed.stderr.contains("the plugin notes-helper is named notes_helper here"),
        "{installed}"
    );
    assert_eq!(workspace.airlock(&["call", "notes_helper-ok"]).await.ok().stdout, "ok\n");
}
