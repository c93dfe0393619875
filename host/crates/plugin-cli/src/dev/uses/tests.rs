mod kept;

use serde_json::{Value, json};

use super::*;
use airlock_authoring::install::GrantOption;
use airlock_plugin::Manifest;
use airlock_sandbox::{ToolUses, Use};

/// The calls of one build, and the grants that it is called with.
struct UsesFixture {
    document: Value,
    tools: Vec<&'static str>,
    grants: Vec<&'static str>,
    calls: BuildUses,
}

impl UsesFixture {
    /// Returns a build without calls. The plugin has the tools that `tools` lists.
    fn new(tools: Value, requests: Value) -> Self {
        let names = ["sync", "search"].into_iter();
        let names = names.filter(|name| tools.to_string().contains(name)).collect();
        let mut document = json!({
            "schema": airlock_plugin::MANIFEST_SCHEMA, "id": "p", "version": "1.0.0", "contract": "0.1",
        });
        (document["tool"], document["request"]) = (tools, requests);
        Self { document, tools: names, grants: Vec::new(), calls: BuildUses::default() }
    }

    fn granted(mut self, grants: &[&'static str]) -> Self {
        self.grants.extend(grants);
        self
    }

    /// Adds a successful call of a tool with these uses.
    fn called(mut self, tool: &str, uses: &[Use]) -> Self {
        let uses = [(tool.to_owned(), uses.iter().cloned().collect())];
        self.calls.add(tool, true, uses.into());
        self
    }

    fn lines(&self) -> Vec<String> {
        let manifest = Manifest::parse(self.document.to_string().as_bytes());
        let manifest = manifest.unwrap_or_else(|error| panic!("{error}"));
        let typed = self.grants.iter().map(|grant| grant.parse().expect("a grant"));
        let grants: Vec<_> = GrantOption::all(&manifest.request).into_iter().chain(typed).collect();
        let tools = self.tools.iter().copied().collect();
        lines(&self.calls, &TriedBuild { manifest: &manifest, tools, grants: &grants })
    }

    /// Returns the report. Fails unless the plugin.toml that it proposes is valid and as small as it
    /// can be.
    fn report(&mut self) -> String {
        let report = self.lines().join("\n");
        let before = self.document.clone();
        self.apply(&report);
        let again = self.lines().join("\n");
        assert!(!again.contains("could request less"), "{report}\nand then\n{again}");
        self.document = before;
        report
    }

    /// Changes plugin.toml as a report proposes.
    fn apply(&mut self, report: &str) {
        let removed = report.lines().find_map(|line| line.strip_prefix("Remove: "));
        for header in removed.into_iter().flat_map(|line| line.split(", ")) {
            remove(&mut self.document, &parse(header));
        }
        let (_, tables) = report.split_once("Replace:").unwrap_or_default();
        let mut tables = parse(tables);
        for tool in tables["tool"].as_array().into_iter().flatten() {
            let own = self.document["tool"].as_array_mut().expect("tools");
            *own.iter_mut().find(|own| own["name"] == tool["name"]).expect("a known tool") =
                tool.clone();
        }
        for (kind, requests) in tables["request"].as_object_mut().into_iter().flatten() {
            let own = &mut self.document["request"][kind];
            match requests.as_object_mut() {
                Some(requests) if kind != "tools" => {
                    own.as_object_mut().expect("a table").append(requests);
                }
                _ => *own = requests.take(),
            }
        }
    }
}

fn parse(text: &str) -> Value {
    toml::from_str(text).expect("TOML")
}

/// Removes the innermost table that `header` consists of.
fn remove(document: &mut Value, header: &Value) {
    let (name, below) =
        header.as_object().and_then(|members| members.iter().next()).expect("a name");
    let members = document.as_object_mut().expect("a table");
    if below.as_object().is_some_and(|below| !below.is_empty()) {
        remove(&mut members[name], below);
    } else {
        members.remove(name).expect("it is there");
    }
}

fn used(kind: fn(String) -> Use, name: &str) -> Use {
    kind(name.to_owned())
}

fn http(url: &str) -> Value {
    json!({"url": url, "reason": "r"})
}

#[test]
fn what_was_used_and_the_tables_that_would_do_are_listed() {
    let inject = json!({"header": "authorization", "prefix": "Bearer "});
    let mut fixture = UsesFixture::new(
        json!([{"name": "sync", "effects": ["http", "secret", "write_kv", "write_files.data"]}]),
        json!({
            "http": {"api": http("https://a.example"), "old": http("https://b.example")},
            "secret": {
                "token": {"inject": inject, "audience": ["api", "old"], "reveal": true, "reason": "signs \"in\""},
                "spare": {"inject": inject, "audience": ["old"], "reason": "r"},
            },
            "kv": {"notes": {"max_bytes": "1MiB", "reason": "r"}, "cache": {"max_bytes": "1MiB", "reason": "r"}},
            "files": {"data": {"access": "read_write", "max_files": 9, "reason": "reads", "optional": true}},
            "clocks": {"reason": "r"},
        }),
    )
    .granted(&["secret.token=env:T", "secret.spare=env:S", "files.data=/d:rw"])
    .called(
        "sync",
        &[
            used(Use::Http, "api"),
            used(Use::AttachedSecret, "token"),
            used(Use::ReadKv, "notes"),
            used(Use::WriteKv, "notes"),
            used(Use::ReadKv, "cache"),
            used(Use::ReadFiles, "data"),
        ],
    );
    insta::assert_snapshot!(fixture.report(), @r#"
    used so far: http.api, secret.token (attached), kv.cache (read), kv.notes (written), files.data (read)
    never used: http.old, secret.spare, clocks
    plugin.toml could request less, as far as the calls of this build show.
    A tool that only lists the names of its directories uses none of them here.
    Remove: [request.http.old], [request.secret.spare], [request.clocks]
    Replace:
    # methods, paths and sizes are not recorded, so they stay as they are

    [[tool]]
    name = "sync"
    effects = ["read_files.data", "http.api", "secret.token", "read_kv.cache", "write_kv.notes"]

    [request.secret.token]
    inject = { header = "authorization", prefix = "Bearer " }
    audience = ["api"]
    reason = 'signs "in"'

    [request.files.data]
    access = "read_only"
    reason = "reads"
    optional = true
    "#);
}

#[test]
fn one_line_tells_that_everything_was_used() {
    let mut fixture = UsesFixture::new(
        json!([{"name": "sync", "effects": ["http", "write_kv.notes"]}, {"name": "search"}]),
        json!({
            "http": {"api": http("https://a.example")},
            "kv": {"notes": {"max_bytes": "1MiB", "reason": "r"}},
            "clocks": {"reason": "r"},
        }),
    )
    .called("sync", &[used(Use::Http, "api"), used(Use::WriteKv, "notes")])
    .called("search", &[Use::Clocks]);
    insta::assert_snapshot!(fixture.report(), @"the calls of this build used every request and every declared effect (methods, paths and sizes are not recorded): http.api, kv.notes (written), clocks");
    assert_eq!(UsesFixture::new(json!([{"name": "sync"}]), json!({})).lines(), [""; 0]);
}

#[test]
fn a_tool_without_a_successful_call_keeps_its_effects_and_what_they_need() {
    let tools = json!([
        {"name": "sync", "effects": ["http", "write_files"]},
        {"name": "search", "effects": ["http.index", "write_files"]},
    ]);
    let requests = json!({
        "http": {"api": http("https://a.example"), "index": http("https://b.example"), "old": http("https://c.example")},
        "files": {"data": {"access": "read_write", "reason": "r"}},
        "clocks": {"reason": "r"},
    });
    let uses = [used(Use::Http, "api"), used(Use::ReadFiles, "data")];
    let mut fixture =
        UsesFixture::new(tools, requests).granted(&["files.data=/d:rw"]).called("sync", &uses);
    fixture.calls.add("search", false, ToolUses::new());
    insta::assert_snapshot!(fixture.report(), @r#"
    used so far: http.api, files.data (read)
    never used: http.index, http.old, clocks
    tools without a successful call, which keep their effects: search
    plugin.toml could request less, as far as the calls of this build show.
    A tool that only lists the names of its directories uses none of them here.
    Remove: [request.http.old]
    Replace:
    # methods, paths and sizes are not recorded, so they stay as they are

    [[tool]]
    name = "sync"
    effects = ["read_files.data", "http.api"]
    "#);
    let mut fixture = fixture.called("search", &[]);
    insta::assert_snapshot!(fixture.report(), @r#"
    used so far: http.api, files.data (read)
    never used: http.index, http.old, clocks
    plugin.toml could request less, as far as the calls of this build show.
    A tool that only lists the names of its directories uses none of them here.
    Remove: [request.http.index], [request.http.old], [request.clocks]
    Replace:
    # methods, paths and sizes are not recorded, so they stay as they are

    [[tool]]
    name = "sync"
    effects = ["read_files.data", "http.api"]

    [[tool]]
    name = "search"
    effects = []

    [request.files.data]
    access = "read_only"
    reason = "r"
    "#);
}

#[test]
fn a_request_that_was_not_granted_is_not_judged() {
    let mut fixture = UsesFixture::new(
        json!([{"name": "sync", "effects": ["http", "secret", "call_tools", "read_files", "write_files.data"]}]),
        json!({
            "http": {"any": optional(http("*")), "api": http("https://a.example")},
            "secret": {"token": optional(json!({"inject": {"query": "k"}, "audience": ["any", "api"], "reason": "r"}))},
            "slot": {"search": {"reason": "r", "optional": true}},
            "files": {
                "*": optional(json!({"access": "read_only", "reason": "r"})),
                "data": {"access": "read_write", "reason": "r"},
            },
        }),
    )
    .granted(&["files.data=/d"])
    .called("sync", &[used(Use::ReadFiles, "data")]);
    insta::assert_snapshot!(fixture.report(), @r"
    used so far: files.data (read)
    never used: http.api
    not granted here, so not judged: http.any, secret.token, files.*, files.data (writing), slot.search
    ");
    let mut fixture =
        fixture.granted(&["http=https://x.example", "files.other=/o:rw", "slot.search=p-x"]);
    insta::assert_snapshot!(fixture.report(), @r#"
    used so far: files.data (read)
    never used: http.any, http.api, files.*, slot.search
    not granted here, so not judged: secret.token, files.data (writing)
    plugin.toml could request less, as far as the calls of this build show.
    A tool that only lists the names of its directories uses none of them here.
    Remove: [request.files."*"], [request.slot.search]
    Replace:
    # methods, paths and sizes are not recorded, so they stay as they are

    [[tool]]
    name = "sync"
    effects = ["write_files.data", "http.any", "http.api", "secret.token"]
    "#);
}

fn optional(mut request: Value) -> Value {
    request["optional"] = json!(true);
    request
}

#[test]
fn a_value_that_was_only_read_needs_no_injection_and_tools_only_the_names_that_were_called() {
    let mut fixture = UsesFixture::new(
        json!([{"name": "sync", "effects": ["http", "secret", "call_tools"]}]),
        json!({
            "http": {"api": http("https://a.example")},
            "secret": {"token": {"inject": {"query": "k"}, "audience": ["api"], "reveal": true, "reason": "r"}},
            "tools": {"call": ["text-count", "text-sort"], "reason": "r"},
            "slot": {"search": {"reason": "r"}},
        }),
    )
    .granted(&["secret.token=env:T", "slot.search=p-x"])
    .called("sync", &[used(Use::RevealedSecret, "token"), used(Use::Tool, "text-sort")]);
    insta::assert_snapshot!(fixture.report(), @r#"
    used so far: secret.token (revealed), tools (text-sort)
    never used: http.api, slot.search, tools (text-count)
    plugin.toml could request less, as far as the calls of this build show.
    Remove: [request.http.api], [request.slot.search]
    Replace:
    # methods, paths and sizes are not recorded, so they stay as they are

    [[tool]]
    name = "sync"
    effects = ["secret.token", "call_tools"]

    [request.secret.token]
    reveal = true
    reason = "r"

    [request.tools]
    call = ["text-sort"]
    reason = "r"
    "#);
}

#[test]
fn an_attached_secret_keeps_its_audience_if_no_destination_of_it_was_used() {
    let mut fixture = UsesFixture::new(
        json!([{"name": "sync", "effects": ["http.api", "secret.token"]}]),
        json!({
            "http": {"api": http("https://a.example"), "other": http("https://b.example")},
            "secret": {"token": {"inject": {"query": "k"}, "audience": ["other"], "reason": "r"}},
        }),
    )
    .granted(&["secret.token=env:T"])
    .called("sync", &[used(Use::Http, "api"), used(Use::AttachedSecret, "token")]);
    insta::assert_snapshot!(fixture.report(), @r"
    used so far: http.api, secret.token (attached)
    never used: http.other
    [request.http.other] stays: it is in the audience of secret.token
    ");
}

#[test]
fn an_effect_on_every_request_of_its_kind_is_small_enough_if_each_of_them_was_used() {
    let mut fixture = UsesFixture::new(
        json!([{"name": "sync", "effects": ["write_files", "call_tools"]}]),
        json!({
            "files": {
                "in": {"access": "read_only", "reason": "r"},
                "out": {"access": "read_write", "reason": "r"},
            },
            "slot": {"search": {"reason": "r"}},
            "tools": {"call": ["text-count"], "reason": "r"},
        }),
    )
    .granted(&["files.in=/i:rw", "files.out=/o:rw", "slot.search=p-x"])
    .called(
        "sync",
        &[
            used(Use::ReadFiles, "in"),
            used(Use::WriteFiles, "out"),
            used(Use::Slot, "search"),
            used(Use::Tool, "text-count"),
        ],
    );
    let report = fixture.report();
    assert!(report.starts_with("the calls of this build used every request"), "{report}");
}

#[test]
fn uses_of_an_older_build_are_dropped_and_its_stores_are_mentioned() {
    let tools = json!([{"name": "sync", "effects": ["http", "read_kv.notes"]}]);
    let requests = json!({
        "http": {"api": http("https://a.example")},
        "kv": {"notes": {"max_bytes": "1MiB", "reason": "r"}},
    });
    let mut fixture = UsesFixture::new(tools, requests);
    fixture.calls.load("one");
    let mut fixture = fixture.called("sync", &[used(Use::Http, "api")]);
    // The same build keeps its uses.
    fixture.calls.load("one");
    assert!(fixture.lines().contains(&"used so far: http.api".to_owned()));
    fixture.calls.load("two");
    assert_eq!(fixture.lines(), ["no call has run, so the requests of plugin.toml are not judged"]);
    let mut fixture = fixture.called("sync", &[used(Use::ReadKv, "notes")]);
    insta::assert_snapshot!(fixture.report(), @r#"
    used so far: kv.notes (read)
    never used: http.api
    the stores keep what earlier builds wrote, which may hide a use
    plugin.toml could request less, as far as the calls of this build show.
    Remove: [request.http.api]
    Replace:
    # methods, paths and sizes are not recorded, so they stay as they are

    [[tool]]
    name = "sync"
    effects = ["read_kv.notes"]
    "#);
}

#[test]
fn the_configuration_is_listed_and_removed_like_a_request() {
    let mut fixture = UsesFixture::new(json!([{"name": "sync"}]), json!({}));
    fixture.document["config"] = json!({"schema": {"type": "object"}});
    let mut fixture = fixture.called("sync", &[]);
    insta::assert_snapshot!(fixture.report(), @r"
    never used: config
    plugin.toml could request less, as far as the calls of this build show.
    Remove: [config]
    ");
    let mut fixture = fixture.called("sync", &[Use::Config]);
    insta::assert_snapshot!(fixture.report(), @"the calls of this build used every request and every declared effect: config");
}
