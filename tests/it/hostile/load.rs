//! Components that are refused before anything of them runs, each with a reason that says what is wrong.

use airlock_tests::{
    Client, Embedded, Setup,
    wat::{ONE_TOOL, Text, WELL_BEHAVED},
};

/// Offers components to a gateway and answers why each was refused; the good one beside them has to work.
async fn refusals(components: &[(&str, Vec<u8>)]) -> Vec<String> {
    let mut setup = Setup::new();
    let good = Client::text(&setup, "good", &WELL_BEHAVED);
    setup = setup.client(good);
    for (name, component) in components {
        let file = setup.file(&format!("{name}.wasm"), component);
        setup = setup.client(Client::wasm(name, file).trusted());
    }
    let gateway = Embedded::start(setup).await;
    assert_eq!(gateway.call("good-run", "{}").await.text(), "ok");
    let refusals = components.iter().map(|(name, _)| {
        let reason = gateway.failure(name).unwrap_or_else(|| "it was loaded".to_owned());
        format!("{name}: {reason}")
    });
    let refusals = refusals.collect();
    gateway.emptied().await;
    gateway.stop().await;
    refusals
}

/// Fails where a reason lacks what is expected of it.
async fn refused(components: &[(&str, Vec<u8>, &str)]) {
    let offered: Vec<_> = components.iter().map(|(name, component, _)| (*name, component.clone())).collect();
    let refusals = refusals(&offered).await;
    let wrong: Vec<_> = refusals.iter().zip(components).filter(|(reason, (.., expected))| !reason.contains(expected)).collect();
    assert!(
        wrong.is_empty(),
        "{}",
        wrong.iter().map(|(reason, (.., expected))| format!("{reason}\n  lacks {expected:?}\n")).collect::<Vec<_>>().concat()
    );
}

fn written(text: Text) -> Vec<u8> {
    text.component()
}

fn with_tools(tools: &'static str) -> Vec<u8> {
    written(Text { tools, ..WELL_BEHAVED })
}

#[tokio::test]
async fn descriptors_that_cannot_be_read_are_refused() {
    refused(&[
        ("not_json", with_tools("{"), "the tool descriptors cannot be read"),
        ("no_schema", with_tools("{}"), "missing field `schema`"),
        ("other_form", with_tools(r#"{"schema":"airlock.tools/9","tools":[]}"#), "airlock.tools/9"),
        ("no_list", with_tools(r#"{"schema":"airlock.tools/1","tools":{}}"#), "the tool descriptors cannot be read"),
        ("nameless", with_tools(r#"{"schema":"airlock.tools/1","tools":[{}]}"#), "missing field `name`"),
    ])
    .await;
}

#[tokio::test]
async fn a_plugin_that_misbehaves_while_it_describes_itself_is_refused() {
    let describe = |describe: &'static str| written(Text { tools: "", describe, ..WELL_BEHAVED });
    refused(&[
        ("traps", describe("unreachable"), "describe its tools"),
        ("spins", describe("(loop $again (br $again)) unreachable"), "describe its tools"),
        ("wild", describe("(i32.const -4)"), "describe its tools"),
        // A result that is an error, with a message outside memory.
        ("lies", describe("(i32.store8 (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) (i32.const -4)) (i32.store (i32.const 72) (i32.const 9)) (i32.const 64)"), "describe its tools"),
        // The error `ok`.
        ("declines", describe("(i32.store8 (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) (i32.const 0)) (i32.store (i32.const 72) (i32.const 2)) (i32.const 64)"), "refused to describe its tools: ok"),
    ])
    .await;
}

#[tokio::test]
async fn more_than_a_slot_of_the_pool_holds_is_refused_when_it_is_loaded() {
    let memories = Text {
        component: "(core module $more (memory 1)) (core instance (instantiate $more)) (core instance (instantiate $more))",
        ..WELL_BEHAVED
    };
    let tables = Text {
        component: "(core module $more (table 1 funcref)) (core instance (instantiate $more)) (core instance (instantiate $more))
            (core instance (instantiate $more)) (core instance (instantiate $more)) (core instance (instantiate $more))",
        ..WELL_BEHAVED
    };
    let instances = Text {
        component: "(core module $more) (core instance (instantiate $more)) (core instance (instantiate $more))
            (core instance (instantiate $more)) (core instance (instantiate $more)) (core instance (instantiate $more))
            (core instance (instantiate $more)) (core instance (instantiate $more))",
        ..WELL_BEHAVED
    };
    refused(&[
        ("memories", written(memories), "memories"),
        ("tables", written(tables), "tables"),
        ("instances", written(instances), "instances"),
        ("minimum", written(Text { pages: 16_385, ..WELL_BEHAVED }), "memory"),
    ])
    .await;
}

#[tokio::test]
async fn imports_and_exports_other_than_the_worlds_are_refused() {
    let good = WELL_BEHAVED.text();
    let changed = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        wat::parse_str(good.replace(from, to)).unwrap_or_else(|error| panic!("{error}"))
    };
    refused(&[
        (
            "more_imports",
            written(Text { component: r#"(import "airlock:host/admin@0.1.0" (instance $admin))"#, ..WELL_BEHAVED }),
            "airlock:host/admin@0.1.0",
        ),
        ("other_export", changed(r#"(export "airlock:plugin/tools@0.1.0""#, r#"(export "airlock:plugin/tool@0.1.0""#), "tools"),
        ("later", changed(r#"(export "airlock:plugin/tools@0.1.0""#, r#"(export "airlock:plugin/tools@0.9.0""#), "0.9.0"),
        ("lacks_invoke", changed(r#"(export "invoke" (func $invoke))"#, ""), "invoke"),
        ("lacks_describe", changed(r#"(export "describe" (func $describe))"#, ""), "describe"),
        (
            "other_function",
            changed(
                r#"(param "level" $level) (param "message" string)"#,
                r#"(param "level" $level) (param "message" (list u8))"#,
            ),
            "tool-plugin",
        ),
    ])
    .await;
}

#[tokio::test]
async fn native_code_is_never_loaded_from_where_a_plugin_comes_from() {
    // Made by the very engine that would load it.
    let directory = tempfile::tempdir().expect("a directory");
    let setup = Setup::new();
    let client = Client::text(&setup, "good", &WELL_BEHAVED);
    let cache = directory.path().join("cache");
    let gateway = Embedded::with(setup.client(client), |sandbox| sandbox.cache = Some(cache.clone()), |builder| builder).await;
    gateway.stop().await;
    let native = std::fs::read_dir(&cache).expect("it was made").filter_map(|entry| std::fs::read(entry.ok()?.path()).ok());
    let native = native.max_by_key(Vec::len).expect("something was compiled");
    refused(&[
        ("native", native, "not a WebAssembly component"),
        ("empty", Vec::new(), "component"),
        ("section", ONE_TOOL.into(), "component"),
    ])
    .await;
}
