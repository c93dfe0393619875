use super::*;

/// A build in a directory of its own.
struct Fixture {
    home: tempfile::TempDir,
    metadata: Metadata,
    grants: Vec<GrantOption>,
    settings: Map<String, Value>,
    file: ConfigFile,
}

impl Fixture {
    fn new(request: &Value, grants: &[&str]) -> Self {
        let manifest = json!({
            "schema": airlock_plugin::MANIFEST_SCHEMA, "id": "my-mail", "version": "1.0.0", "contract": "0.1",
            "request": request,
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).expect("a manifest");
        let tools =
            json!([{"name": "send", "inputSchema": {}}, {"name": "read-all", "inputSchema": {}}]);
        let tools = serde_json::from_value(tools).expect("tools");
        let home = tempfile::tempdir().expect("a directory");
        let file = ConfigFile { path: home.path().join("airlock.json") };
        Self {
            metadata: Metadata::new(b"", tools, Some(manifest), Vec::new()),
            grants: grants.iter().map(|grant| grant.parse().expect("a grant")).collect(),
            settings: Map::new(),
            file,
            home,
        }
    }

    fn entry(&self) -> FreshBuild<'_> {
        let metadata = &self.metadata;
        let grants = self.grants.as_slice();
        let settings = &self.settings;
        let state = self.home.path();
        let file = &self.file;
        FreshBuild { component: Path::new("p.wasm"), metadata, grants, settings, state, file }
    }

    /// Returns the error, with the directory of the fixture masked.
    fn refusal(&self) -> String {
        let error = self.entry().config().expect_err("refused").to_string();
        error.replace(&self.home.path().display().to_string(), "HOME")
    }
}

#[test]
fn the_configuration_of_a_call_grants_what_the_plugin_requests_and_what_is_typed() {
    let fixture = Fixture::new(
        &json!({
            "http": {"api": {"url": "https://api.example.com", "reason": "r"}},
            "files": {"data": {"access": "read_only", "reason": "r"}},
            "secret": {
                "value": {"reveal": true, "reason": "r"},
                "token": {"inject": {"query": "k"}, "audience": ["api"], "reason": "r"},
            },
        }),
        // Every environment has a PATH.
        &["files.data=/", "secret.value=env:PATH", "secret.token=env:PATH", "kv.gone"],
    );
    let config = fixture.entry().config().expect("a configuration");
    let name = ClientName::parse("my_mail").expect("a name");
    let grant = &config.plugin(&name).expect("the plugin").grant;
    assert_eq!(grant.http, [airlock_plugin::HttpGrant::Requested("api".to_owned())]);
    assert_eq!(grant.files["data"].path, Path::new("/"));
    assert!(grant.secret["value"].reveal && !grant.secret["token"].reveal, "{grant:?}");
    assert!(grant.kv.is_empty(), "{grant:?}");
}

#[test]
fn everything_that_keeps_the_plugin_from_being_called_is_reported_in_the_words_of_the_options() {
    let request = json!({
        "files": {"data": {"access": "read_write", "reason": "r"}, "in": {"access": "read_only", "reason": "r"}},
        "secret": {"t": {"reveal": true, "reason": "r"}},
        "slot": {"find": {"reason": "r"}},
    });
    let fixture = Fixture::new(
        &request,
        &["files.data=/no/such/directory:rw", "secret.t=env:AIRLOCK_TEST_NONE"],
    );
    insta::assert_snapshot!(fixture.refusal(), @r"
    the plugin cannot be called:
      --grant secret.t: the environment variable AIRLOCK_TEST_NONE is not set, or is not text
      files.in is required and not granted: --grant 'files.in=<DIRECTORY>'
      slot.find is required and not granted: --grant 'slot.find=<CLIENT-TOOL>'
      --grant files.data=/no/such/directory:rw: there is no directory /no/such/directory
    ");
    let fixture = Fixture::new(&request, &["slot.find=send-all", "secret.t=plain-text-value"]);
    let refusal = fixture.refusal();
    assert!(!refusal.contains("plain-text-value"), "{refusal}");
}

#[test]
fn a_slot_is_bound_to_a_tool_of_the_plugin_itself_or_of_a_client_in_the_configuration() {
    for (grant, expected) in [
        ("slot.find=send", ("my_mail-send", "my_mail")),
        ("slot.find=read-all", ("my_mail-read-all", "my_mail")),
        ("slot.find=my_mail-send", ("my_mail-send", "my_mail")),
        // The clients that no call can reach are not started.
        ("slot.find=web-search", ("web-search", "web my_mail")),
    ] {
        let (slot, clients) = bound(grant).expect("bound");
        assert_eq!((slot.as_str(), clients.as_str()), expected);
    }
    insta::assert_snapshot!(unbound("slot.find=my_mail-forget"), @r#"
    the plugin cannot be called:
      --grant slot.find=my_mail-forget: the plugin my_mail has no tool "my_mail-forget"; it has my_mail-read-all, my_mail-send
      tools of this plugin: read-all, send
    "#);
    insta::assert_snapshot!(unbound("slot.find=wep-search"), @r#"
    the plugin cannot be called:
      --grant slot.find=wep-search: "wep-search": no client is named "wep"; configured: other, web
      tools of this plugin: read-all, send
    "#);
    insta::assert_snapshot!(unbound("slot.find=search"), @r#"
    the plugin cannot be called:
      --grant slot.find=search: found "search", expected one tool's full name: CLIENT-TOOL
      tools of this plugin: read-all, send
    "#);
}

/// Returns the tool that a grant binds to the slot, and the clients of the configuration.
fn bound(grant: &str) -> anyhow::Result<(String, String)> {
    let fixture = Fixture::new(&json!({"slot": {"find": {"reason": "r"}}}), &[grant]);
    let clients = json!([
        {"name": "web", "connection_type": "http", "connection_string": "http://127.0.0.1:9/mcp"},
        {"name": "other", "connection_type": "http", "connection_string": "http://127.0.0.1:9/mcp"},
        {"name": "my_mail", "connection_type": "wasm", "wasm_config": {"component": "old.wasm"}},
    ]);
    let text = json!({"mcp": {"client_configs": clients}}).to_string();
    std::fs::write(&fixture.file.path, text).expect("written");
    let config = fixture.entry().config()?;
    let name = ClientName::parse("my_mail").expect("a name");
    let slot = config.plugin(&name).expect("the plugin").grant.slots["find"].clone();
    let clients: Vec<_> = config.clients.iter().map(|client| client.name.as_str()).collect();
    Ok((slot, clients.join(" ")))
}

fn unbound(grant: &str) -> String {
    bound(grant).expect_err("refused").to_string()
}

#[test]
fn a_tool_of_another_client_without_a_configuration_is_refused_with_what_to_do() {
    let fixture =
        Fixture::new(&json!({"slot": {"find": {"reason": "r"}}}), &["slot.find=web-search"]);
    insta::assert_snapshot!(fixture.refusal(), @r#"--grant slot.find=web-search: no client is named "web", because there is no HOME/airlock.json; name the configuration that has it with --config, or bind a tool of this plugin: read-all, send"#);
}
