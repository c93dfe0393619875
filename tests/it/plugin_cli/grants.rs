//! The grants of an installation: refused with the options that it needs, proposed, and removed.

use std::fs;

use airlock_tests::{component, guests};
use serde_json::{Value, json};

use super::{Workspace, proposed, write_sender};

#[tokio::test]
async fn a_missing_required_grant_is_refused_with_the_command_that_works() {
    let workspace = Workspace::new();
    let request = json!({
        "clocks": {"reason": "Dates what it writes."},
        "slot": {"search": {"reason": "Finds more.", "optional": true}},
        "files": {"data": {"access": "read_write", "reason": "Keeps\u{202e} its notes."}},
    });
    workspace.write_plugin("asking.wasm", "asking", &request);
    let refused = workspace.install("asking.wasm", &[]).await.failed();
    assert!(
        refused.stdout.contains("Dates what it writes.")
            && refused.stdout.contains("Keeps⟨U+202E⟩ its notes."),
        "{refused}"
    );
    let command =
        "airlock plugin install asking.wasm --grant 'files.data=<DIRECTORY>:rw' --grant clocks";
    assert!(refused.stderr.contains(command), "{refused}");
    let typed = ["--grant", "files.data=<DIRECTORY>:rw", "--grant", "clocks"];
    let typed = workspace.install("asking.wasm", &typed).await.failed();
    assert!(
        typed.stderr.contains("write a value of yours in place of <DIRECTORY>, such as /srv/notes"),
        "{typed}"
    );
    let command = command.replace("'files.data=<DIRECTORY>:rw'", "files.data=DIRECTORY:rw");
    assert!(
        !workspace.path("airlock.json").exists()
            && !workspace.path("plugins").exists()
            && !workspace.path("airlock.lock").exists()
    );
    fs::create_dir(workspace.path("DIRECTORY")).expect("a directory");
    let arguments: Vec<_> = command.split(' ').skip(1).collect();
    let installed = workspace.airlock(&arguments).await.ok();
    assert!(
        installed.stderr.contains("slot.search is not granted, and the plugin can do without"),
        "{installed}"
    );
    let grants = workspace.grants();
    assert_eq!(
        (&grants["clocks"], &grants["files"]["data"]["access"]),
        (&json!(true), &json!("read_write")),
        "{grants:#}"
    );
    assert_eq!(workspace.airlock(&["call", "asking-ok"]).await.ok().stdout, "ok\n");
}

#[tokio::test]
async fn an_installation_that_could_not_be_loaded_is_refused_in_the_words_of_its_options() {
    let workspace = Workspace::new();
    let request = json!({
        "clocks": {"reason": "Dates."},
        "slot": {"search": {"reason": "Finds."}},
        "files": {"data": {"access": "read_write", "reason": "Keeps."}},
    });
    workspace.write_plugin("asking.wasm", "asking", &request);
    // Its build embeds its tools, so that they are known without running it.
    workspace.write("text.wasm", component::with_own_tools(guests::TEXT).await);
    let _ = workspace.install("text.wasm", &[]).await.ok();
    let config = workspace.read("airlock.json");
    let install = async |grants: &[&str]| {
        let grants = grants.iter().flat_map(|grant| ["--grant", grant]);
        workspace.install("asking.wasm", &grants.collect::<Vec<_>>()).await
    };

    let asked = install(&[]).await.failed();
    let command = proposed(&asked);
    assert!(asked.stderr.contains("with your values in place of `<…>`:"), "{asked}");
    let typed: Vec<_> = command.iter().map(|word| word.trim_matches('\'')).collect();
    let refused = workspace.airlock(&typed).await.failed();
    assert!(refused.stderr.contains("write a value of yours in place of <"), "{refused}");
    let several =
        ["files.data=nowhere", "slot.search=web-search", "http=https://example.com", "kv.notes"];
    let refused = install(&several).await.failed();
    for told in [
        "\n  --grant slot.search=web-search: \"web-search\": no client is named \"web\"; configured: text\n",
        "\n  --grant files.data=nowhere: there is no directory ",
        "\n  --grant kv.notes: the plugin does not request it; ",
        "\n  clocks is required and not granted\n",
        "\ntools of installed plugins: text-",
    ] {
        assert!(refused.stderr.contains(told), "{told}: {refused}");
    }
    assert!(!refused.stderr.contains("slot.search is required"), "{refused}");

    for (data, slot, told) in [
        ("nowhere", "text-word_count", "--grant files.data=nowhere: there is no directory "),
        (
            ".",
            "text-nothing",
            "--grant slot.search=text-nothing: the plugin text has no tool \"text-nothing\"; it has text-",
        ),
        (
            ".",
            "asking-nothing",
            "--grant slot.search=asking-nothing: the plugin asking has no tool",
        ),
        (
            ".",
            "word_count",
            "--grant slot.search=word_count: found \"word_count\", expected one tool's full name",
        ),
    ] {
        let data = format!("files.data={data}");
        let slot = format!("slot.search={slot}");
        let refused = install(&[&data, &slot, "clocks"]).await.failed();
        assert!(refused.stderr.contains(told), "{refused}");
        assert!(!refused.stderr.contains("wasm_config"), "{refused}");
    }
    let good = ["files.data=.", "slot.search=text-word_count", "clocks"];
    for unrequested in ["kv.notes", "slot.find=text-word_count", "http=https://example.com"] {
        let refused = install(&[&good[..], &[unrequested]].concat()).await.failed();
        let told = format!(
            "--grant {unrequested}: the plugin does not request it; its requests are files.data, slot.search, clocks\n"
        );
        assert!(refused.stderr.contains(&told), "{refused}");
    }
    let regrant = ["--regrant", "http.api"];
    let refused = workspace.install("asking.wasm", &regrant).await.failed();
    assert!(refused.stderr.contains("clocks is required and not granted"), "{refused}");
    let told = "--regrant http.api: the plugin does not request it; its requests are files.data, slot.search, clocks";
    assert!(refused.stderr.contains(told), "{refused}");
    assert_eq!(workspace.read("airlock.json"), config, "what is refused changes nothing");
    assert!(!workspace.path("plugins/asking.wasm").exists());

    let _ = install(&["files.data=.", "slot.search=asking-ok", "clocks"]).await.ok();
    let _ = workspace.airlock(&["check"]).await.ok();
}

#[tokio::test]
async fn grants_that_a_new_build_does_not_request_are_removed_with_replace_and_named() {
    let workspace = Workspace::new();
    let store = json!({"max_bytes": "1KiB", "reason": "r"});
    let api = json!({"url": "https://api.example.com", "reason": "r"});
    let build = |file: &str, request: Value| {
        workspace.write_plugin(file, "keeper", &request);
    };
    build("one.wasm", json!({"kv": {"notes": store, "cache": store}, "http": {"api": api}}));
    build("two.wasm", json!({"kv": {"notes": store}}));
    let _ = workspace.install("one.wasm", &["--grant-all"]).await.ok();
    let replaced = workspace.install("two.wasm", &["--replace"]).await.ok();
    assert!(!replaced.stderr.contains("added"), "{replaced}");
    let told =
        "removed from the grants, because this build does not request it: http.api, kv.cache";
    assert!(replaced.stderr.contains(told), "{replaced}");
    let grants = workspace.grants();
    assert_eq!(grants, json!({"kv": {"notes": {}}}));
    let again = workspace.install("two.wasm", &["--replace"]).await.ok();
    assert!(!again.stderr.contains("removed"), "{again}");
    // The earlier build gets its grants again only if they are named.
    let _ = workspace.install("one.wasm", &["--replace"]).await.failed();
    let replaced = workspace.install("one.wasm", &["--replace", "--grant-all"]).await.ok();
    assert!(replaced.stderr.contains("added to the grants: kv.cache, http.api\n"), "{replaced}");
}

#[tokio::test]
async fn what_only_an_operator_can_decide_is_proposed_with_the_options_that_it_needs() {
    let workspace = Workspace::new();
    let request = json!({
        "http": {"any": {"url": "*", "reason": "Reads."}},
        "secret": {"token": {"reveal": true, "reason": "Signs."}},
        "slot": {"search": {"reason": "Finds.", "optional": true}},
    });
    workspace.write_plugin("asking.wasm", "asking", &request);
    let secret = ["--grant", "secret.token=hush-hush", "--set", "days", "--describe", "ok"];
    let refused = workspace.install("asking.wasm", &secret).await.failed();
    for told in ["--grant secret.token: ", "--set days: expected", "--describe ok: expected"] {
        assert!(refused.stderr.contains(&format!("\n  {told}")), "{told}: {refused}");
    }
    assert!(refused.stderr.contains("http.any (hosts of your choice) is required"), "{refused}");
    assert!(!refused.stderr.contains("hush-hush"), "{refused}");
    let grants = ["http=https://127.0.0.1:9", "slot.search=web-search", "secret.token=env:PATH"];
    let grants = grants.iter().flat_map(|grant| ["--grant", grant]);
    let refused = workspace.install("asking.wasm", &grants.collect::<Vec<_>>()).await.failed();
    for told in [
        "\n  --grant http=https://127.0.0.1:9: found the private address 127.0.0.1, ",
        "\n  --grant slot.search=web-search: \"web-search\": no client is named \"web\"; no other client is configured\n",
        "\nwhat these grants need in turn:\n  --grant http=https://127.0.0.1:9:private is granted, but the profile untrusted does not open private networks\n",
    ] {
        assert!(refused.stderr.contains(told), "{told}: {refused}");
    }
    let command = proposed(&refused);
    let local =
        "--profile trusted --grant http=https://127.0.0.1:9:private --grant secret.token=env:PATH";
    assert_eq!(command.join(" "), format!("plugin install asking.wasm {local}"));
    let _ = workspace.airlock(&command).await.ok();
    let revealed = workspace.install("asking.wasm", &["--grant", "secret.token=env:PATH:reveal"]);
    let revealed = revealed.await.ok();
    assert!(revealed.stderr.contains("changed in the grants: secret.token\n"), "{revealed}");
    let grants = workspace.grants();
    let expected = json!({
        "http": [{"url": "https://127.0.0.1:9", "private": true}],
        "secret": {"token": {"from": "env:PATH", "reveal": true}},
    });
    assert_eq!(grants, expected);
}

#[tokio::test]
async fn a_proposed_installation_installs_and_each_reason_is_printed_once() {
    let workspace = Workspace::new();
    let private = json!({"url": "http://127.0.0.1:9", "private": true});
    write_sender(&workspace, "local.wasm", "local", &private);
    let refused = workspace.install("local.wasm", &["--grant", "http.api"]).await.failed();
    assert!(
        refused.stderr.contains(
            "http.api is granted, but the profile untrusted does not open private networks"
        ) && refused.stderr.contains("secret.token is required and not granted")
            && !refused.stderr.contains("grants")
            && !refused.stderr.contains("http.api is required"),
        "{refused}"
    );
    for reason in ["Reads forecasts.", "Signs in."] {
        let printed = format!("{}{}", refused.stdout, refused.stderr);
        assert_eq!(printed.matches(reason).count(), 1, "{refused}");
    }
    for run in [refused, workspace.install("local.wasm", &[]).await.failed()] {
        let command = proposed(&run);
        assert!(command.ends_with(&["--grant".into(), "secret.token=env:LOCAL_TOKEN".into()]));
        let _ = workspace.airlock(&command).await.ok();
        for file in ["airlock.json", "airlock.lock"] {
            fs::remove_file(workspace.path(file)).expect("it was installed");
        }
    }
    let config = workspace.airlock(&["plugin", "install", "local.wasm", "--set", "a=1"]).await;
    let config = config.failed();
    assert!(
        config.stderr.contains("--set: the plugin takes no configuration")
            && config.stderr.contains("once you have resolved what is left"),
        "{config}"
    );
}

#[tokio::test]
async fn a_build_whose_granted_request_became_wider_is_installed_only_if_it_is_named_again() {
    let workspace = Workspace::new();
    let sender = |file: &str, place: Value| write_sender(&workspace, file, "sender", &place);
    sender("one.wasm", json!({"url": "https://api.example.com"}));
    sender("moved.wasm", json!({"url": "https://api.example.com:8443"}));
    sender("narrow.wasm", json!({"url": "https://api.example.com:8443/v1"}));
    let grants = ["--grant", "http.api", "--grant", "secret.token=env:AIRLOCK_TEST_TOKEN"];
    let _ = workspace.install("one.wasm", &grants).await.ok();
    let state = || {
        ["airlock.json", "airlock.lock", "plugins/sender.wasm"]
            .map(|name| fs::read(workspace.path(name)).expect("it is installed"))
    };
    let before = state();

    let told = "http.api https://api.example.com:8443 GET,HEAD /** (granted, with secret.token)";
    let refused = workspace.install("moved.wasm", &["--replace"]).await.failed();
    assert!(refused.stderr.contains(told) && refused.stdout.contains(told), "{refused}");
    assert_eq!(state(), before, "what is refused changes nothing");
    let unseen = workspace.install("moved.wasm", &[]).await.failed();
    assert_eq!(
        proposed(&unseen),
        ["plugin", "install", "moved.wasm", "--regrant", "http.api", "--replace"]
    );
    for more in [&["--regrant", "http.other"][..], &["--grant", "clocks"], &["--grant-all"]] {
        let _ = workspace.install("moved.wasm", &[&["--replace"], more].concat()).await.failed();
    }
    assert_eq!(state(), before, "what is refused changes nothing");
    let _ = workspace.airlock(&proposed(&refused)).await.ok();
    assert!(workspace.read("airlock.lock").contains("8443"));

    let narrower = workspace.install("narrow.wasm", &["--replace"]).await.ok();
    assert!(!narrower.stdout.contains("(granted"), "{narrower}");
    let named = [&["--replace"], &grants[..2]].concat();
    let _ = workspace.install("one.wasm", &named).await.ok();
}
