use super::*;
use airlock_compile::Compiling;
use airlock_core::tool::GuardHook;
use airlock_guards::Hooks;

fn guards(list: &Value) -> Value {
    json!({"guards": list})
}

#[test]
fn guards_keep_their_order_and_have_small_limits() {
    let config = good(&guards(&json!([
        {"name": "second", "component": "b.wasm", "hooks": ["after"], "limits": {"fuel": 5000, "time": "1s"}},
        {"name": "first", "component": "/opt/a.wasm", "on": {"tools": ["files-*"], "clients": ["files"], "keys": ["ann"], "environments": ["eu"]}},
    ])));
    let [second, first] = &config.guards[..] else { panic!("{:?}", config.guards) };
    assert_eq!(
        (&*second.name, second.hooks.clone()),
        ("second", Hooks::from_iter([GuardHook::After]))
    );
    assert_eq!(second.component, Path::new("/etc/airlock/b.wasm"));
    assert_eq!((second.limits.fuel, second.limits.cpu.as_millis()), (5_000, 1_000));
    assert!(second.scope.tools.is_none() && second.scope.clients.is_none());
    assert_eq!((&first.hooks, first.limits.memory_bytes), (&Hooks::default(), 16 << 20));
    assert_eq!(first.scope.tools.as_ref().map(Vec::len), Some(1));
    assert!(first.scope.keys.as_ref().is_some_and(|keys| keys.contains("ann")));
    assert!(first.scope.environments.as_ref().is_some_and(|names| names.contains("eu")));
    assert!(config.sandbox.guard_instances > 0);
    assert_eq!(good(&json!({})).sandbox.guard_instances, 0);
}

#[test]
fn settings_are_an_object_of_at_most_64_kib_of_json() {
    let config = good(&with_settings(&json!({"b": [1.50], "a": {}})));
    assert_eq!(&*config.guards[0].settings, r#"{"b":[1.5],"a":{}}"#);
    let none = good(&guards(&json!([{"name": "g", "component": "g.wasm"}])));
    assert_eq!(&*none.guards[0].settings, "{}");
    // With 8 bytes around the text.
    let text = "x".repeat((64 << 10) - 8);
    assert_eq!(good(&with_settings(&json!({"a": text}))).guards[0].settings.len(), 64 << 10);
    let refused = error(&with_settings(&json!({"a": text + "x"})));
    assert!(refused.starts_with("guards[0].settings: 65537 bytes of JSON"), "{refused}");
    assert!(error(&with_settings(&json!([]))).starts_with("guards[0].settings"));
}

#[test]
fn a_window_of_streams_has_bounds_and_belongs_to_the_hook_after_the_response() {
    for (window, expected) in [("256B", 256), ("64KiB", 64 << 10)] {
        let guard = json!([{"name": "g", "component": "g.wasm", "stream_window": window}]);
        assert_eq!(good(&guards(&guard)).guards[0].stream_window, Some(expected));
    }
    let none = json!([{"name": "g", "component": "g.wasm"}]);
    assert_eq!(good(&guards(&none)).guards[0].stream_window, None);
    for (key, value) in [
        ("stream_window", json!("255B")),
        ("stream_window", json!("65537B")),
        ("hooks", json!(["before_model"])),
        ("on", json!({"tools": ["*"]})),
        ("on", json!({"clients": ["files"]})),
    ] {
        let mut guard = json!([{"name": "g", "component": "g.wasm", "stream_window": "1KiB"}]);
        guard[0][key] = value;
        let refused = error(&guards(&guard));
        assert!(refused.starts_with("guards[0].stream_window: "), "{key}: {refused}");
    }
}

#[test]
fn no_plugin_may_write_the_component_of_a_guard() {
    let config = good(&guards(&json!([{"name": "g", "component": "g.wasm"}])));
    let own = config.own_files(Path::new("/etc/airlock/gateway.json"));
    assert!(own.unwritable.contains(&Path::new("/etc/airlock/g.wasm").to_owned()));
}

#[test]
fn a_guard_that_would_never_be_asked_is_refused() {
    let list = json!([
        {"name": "a b", "component": "g.wasm", "on": {"tools": [], "clients": [], "keys": [], "environments": []}},
        {"name": "g", "component": "g.wasm", "on": {"tools": ["files"], "clients": ["a-b"]}},
        {"name": "g", "component": "g.wasm"},
        {"name": "h", "component": "g.wasm", "hooks": []},
        {"name": "i", "component": "g.wasm", "hooks": ["before", "definition"], "on": {"keys": ["ann"]}},
        {"name": "j", "component": "g.wasm", "hooks": ["before_model"], "on": {"tools": ["*"]}},
        {"name": "k", "component": "g.wasm", "hooks": ["after_model"], "on": {"clients": ["files"]}},
    ]);
    let problems = error(&guards(&list));
    let found: Vec<_> = problems.lines().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(
        found,
        [
            "guards[0].name",
            "guards[0].on.tools",
            "guards[0].on.clients",
            "guards[0].on.keys",
            "guards[0].on.environments",
            "guards[1].on.tools[0]",
            "guards[1].on.clients[0]",
            "guards[2].name",
            "guards[3].hooks",
            "guards[4].hooks[1]",
            "guards[5].hooks[0]",
            "guards[6].hooks[0]",
        ]
    );
}

#[test]
fn there_are_at_most_sixteen_guards() {
    assert_eq!(good(&many(16)).guards.len(), 16);
    assert!(error(&many(17)).starts_with("guards: 17 guards"));
}

#[tokio::test]
async fn the_component_of_a_guard_must_exist_and_import_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let imports = wat::parse_str(r#"(component (import "run" (func)))"#).expect("a component");
    std::fs::write(home.path().join("bad.wasm"), imports).expect("a file");
    std::fs::write(home.path().join("good.wasm"), wat::parse_str("(component)").expect("one"))
        .expect("a file");
    let file = guards(&json!([
        {"name": "a", "component": "absent.wasm"},
        {"name": "b", "component": "bad.wasm"},
        {"name": "c", "component": "good.wasm"},
    ]));
    let origin = home.path().join("gateway.json").display().to_string();
    let config = Config::parse(&file.to_string(), &origin, &|_| None).expect("a configuration");
    let problems = config.check_named_files().await;
    let keys: Vec<_> = problems.iter().map(|problem| problem.key.to_string()).collect();
    assert_eq!(keys, ["guards[0].component", "guards[1].component"]);
    assert!(problems[1].message.contains("a guard imports nothing"), "{}", problems[1]);
    let problems = config.check_guards(Compiling::IN_PROCESS).await;
    let keys: Vec<_> = problems.iter().map(|problem| problem.key.to_string()).collect();
    assert_eq!(keys, ["guards[2].component"], "it has no hooks");
}

fn with_settings(settings: &Value) -> Value {
    guards(&json!([{"name": "g", "component": "g.wasm", "settings": settings}]))
}

fn many(count: usize) -> Value {
    let list: Value = (0..count)
        .map(|number| json!({"name": format!("g{number}"), "component": "g.wasm"}))
        .collect();
    guards(&list)
}
