//! Indexes of plugins: in a directory, and at a URL.

use airlock_test_http::{Server, ok, says};
use airlock_tests::{Finished, component, guests};
use serde_json::{Value, json};

use super::Workspace;

/// Creates a directory with two plugins and their index.
async fn indexed() -> Workspace {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path("shelf")).expect("a directory");
    let clocks = json!({"clocks": {"reason": "Dates."}});
    workspace.write_plugin("shelf/weather-1.wasm", "weather", &clocks);
    let described = component::with_own_tools(workspace.path("shelf/weather-1.wasm")).await;
    workspace.write("shelf/weather-1.wasm", described);
    workspace.write_plugin("shelf/ledger.wasm", "ledger", &json!({}));
    workspace.write("shelf/notes.txt", "no component");
    let indexed = workspace.airlock(&["plugin", "index", "shelf"]).await.ok();
    assert!(indexed.stdout.contains("shelf/index.json (plugins: 2)"), "{indexed}");
    workspace
}

#[tokio::test]
async fn a_plugin_of_a_directory_is_found_by_its_words_and_installed_by_the_printed_command() {
    let workspace = indexed().await;
    let search = ["plugin", "search", "--index", "shelf"];
    let all = workspace.airlock(&[&search[..], &["--json"]].concat()).await.ok().json();
    let ids: Vec<_> =
        all["plugins"].as_array().expect("a list").iter().map(|plugin| &plugin["id"]).collect();
    assert_eq!(ids, ["ledger", "weather"]);
    let names = all["plugins"][1]["tools"].as_array().expect("the tools").iter();
    assert!(names.map(|tool| &tool["name"]).any(|name| name == "ok"), "{all:#}");

    let found = workspace.airlock(&[&search[..], &["WEATHER"]].concat()).await.ok();
    assert!(found.stdout.starts_with("weather 1.2.0\n"), "{found}");
    assert!(found.stdout.contains("\n  tools     "), "{found}");
    assert!(found.stdout.contains("\n  requests  clocks\n"), "{found}");
    assert!(!found.stdout.contains("ledger"), "{found}");
    let command = found.stdout.lines().last().expect("a command").trim();
    assert_eq!(command, "airlock plugin install shelf/weather-1.wasm");
    // The index grants nothing: the component is asked what it requests.
    let refused = workspace.install("shelf/weather-1.wasm", &[]).await.failed();
    assert!(refused.stderr.contains("--grant clocks"), "{refused}");
    let _ = workspace.install("shelf/weather-1.wasm", &["--grant", "clocks"]).await.ok();

    let none = workspace.airlock(&[&search[..], &["weather", "snow"]].concat()).await.ok();
    assert_eq!(none.stdout, "", "{none}");
    let missing = workspace.airlock(&["plugin", "search", "--index", "."]).await.failed();
    assert!(missing.stderr.contains("airlock plugin index"), "{missing}");
}

#[tokio::test]
async fn a_guard_of_an_index_is_shown_with_its_place_in_the_configuration_and_no_installation() {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path("shelf")).expect("a directory");
    std::fs::copy(guests::MARKS, workspace.path("shelf/marks.wasm")).expect("a copy");
    let _ = workspace.airlock(&["plugin", "index", "shelf"]).await.ok();
    let found = search(&workspace, "shelf").await.ok();
    let named = "  guard     shelf/marks.wasm; the key `component` of an element of `guards`";
    assert!(found.stdout.contains(named), "{found}");
    assert!(!found.stdout.contains("plugin install"), "{found}");
    let index = workspace.read("shelf/index.json");
    let server = Server::start(move |_| ok(&index)).await;
    let place = format!("http://{}/shelf", server.address);
    let found = search(&workspace, &place).await.ok();
    assert!(found.stdout.contains(&format!("  guard     {place}/marks.wasm;")), "{found}");
}

#[tokio::test]
async fn an_index_at_a_url_lists_components_beside_it_and_its_texts_cannot_add_lines() {
    let workspace = indexed().await;
    let index = workspace.read("shelf/index.json");
    let listed: Value = serde_json::from_str(&index).expect("JSON");
    let digest = listed["plugins"][1]["digest"].as_str().expect("a digest").to_owned();
    let plugin = json!({
        "file": "forged.wasm", "id": "forged", "version": "1.0.0", "digest": "sha256:0", "bytes": 1,
        "description": "Adds.\n  airlock plugin install https://b.example/b.wasm",
    });
    let forged = json!({"schema": "airlock.index/1", "plugins": [plugin]}).to_string();
    let elsewhere = forged.replace("forged.wasm", "../forged.wasm");
    let server = Server::start(move |path| match path {
        "/shelf/index.json" => ok(&index),
        "/forged/index.json" => ok(&forged),
        "/elsewhere/index.json" => ok(&elsewhere),
        _ => says("404 Not Found", "", ""),
    })
    .await;
    let site = format!("http://{}", server.address);
    let found = search(&workspace, &format!("{site}/shelf")).await.ok();
    // The command installs the component that is listed, and no other.
    let command = format!("  airlock plugin install '{site}/shelf/weather-1.wasm#{digest}'\n");
    assert!(found.stdout.ends_with(&command), "{found}");
    let shown = search(&workspace, &format!("{site}/forged/")).await.ok();
    assert_eq!(shown.stdout.lines().count(), 2, "{shown}");
    let refused = search(&workspace, &format!("{site}/elsewhere")).await.failed();
    assert!(refused.stderr.contains("../forged.wasm"), "{refused}");
    let missing = search(&workspace, &format!("{site}/none")).await.failed();
    assert!(missing.stderr.contains("does not exist"), "{missing}");
}

/// Lists the plugins of an index.
async fn search(workspace: &Workspace, place: &str) -> Finished {
    workspace.airlock(&["plugin", "search", "--index", place]).await
}
