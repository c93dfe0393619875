//! Selection of exports as tools, their names, and the reasons for the others.

use super::*;

/// Returns a component with these functions, each without parameters and results. A function is
/// written as `name` or `interface#name`.
fn exporting(functions: &[&str]) -> String {
    let core = core(r#"(func (export "f"))"#);
    let mut interfaces: std::collections::BTreeMap<&str, Vec<String>> =
        std::collections::BTreeMap::new();
    let mut exports = String::new();
    for function in functions {
        match function.split_once('#') {
            Some((interface, name)) => {
                interfaces.entry(interface).or_default().push(exported(name));
            }
            None => exports.push_str(&exported(function)),
        }
    }
    for (at, (interface, functions)) in interfaces.iter().enumerate() {
        exports.extend([format!(
            r#"(instance $i{at} {}) (export "{interface}" (instance $i{at}))"#,
            functions.concat()
        )]);
    }
    format!("(component {core} (func $f {}) {exports})", lift("f"))
}

fn exported(name: &str) -> String {
    format!(r#"(export "{name}" (func $f))"#)
}

fn wasm(wat: &str, docs: &str) -> Vec<u8> {
    let mut wasm = wat::parse_str(wat).unwrap_or_else(|error| panic!("{error}\n{wat}"));
    wasm.extend(custom_section("package-docs", &[&[1], docs.as_bytes()].concat()));
    wasm
}

fn refused(wat: &str) -> String {
    load(wat).err().expect("it is refused").to_string()
}

fn left_out(plain: &Plain) -> Vec<String> {
    plain.left_out.iter().map(ToString::to_string).collect()
}

const FUNCTIONS: [&str; 4] = [
    "now",
    "weather:station/api@1.0.0#get-weather",
    "weather:station/api@1.0.0#reset-URL",
    "inline#list-all",
];
const DOCS: &str = r#"{
    "worlds": {"w": {"func_exports": {"now": {"docs": "Tells the time."}},
                     "interface_exports": {"inline": {"funcs": {"list-all": {"docs": "Lists everything."}}}}}},
    "interfaces": {"api": {"funcs": {"get-weather": {"docs": "Tells the weather.\n"}}}}}"#;

fn described(plain: &Plain) -> Vec<(String, String)> {
    plain.definitions().into_iter().map(|tool| (tool.name, tool.description)).collect()
}

#[test]
fn tools_are_named_by_interface_and_function_and_described_by_their_documentation() {
    let plain = load_wasm(&wasm(&exporting(&FUNCTIONS), DOCS)).expect("a usable component");
    let expected = [
        ("api_get_weather", "Tells the weather."),
        ("api_reset_URL", ""),
        ("inline_list_all", "Lists everything."),
        ("now", "Tells the time."),
    ];
    assert_eq!(
        described(&plain),
        expected.map(|(name, description)| (name.to_owned(), description.to_owned()))
    );
    assert!(plain.left_out.is_empty());
}

#[test]
fn unreadable_documentation_is_left_out_with_the_reason() {
    let plain = load_wasm(&wasm(&exporting(&["now"]), "{")).expect("a usable component");
    assert_eq!(described(&plain), [("now".to_owned(), String::new())]);
    assert!(
        left_out(&plain)[0].starts_with("the section package-docs: it is not the JSON of"),
        "{:?}",
        plain.left_out
    );
}

#[tokio::test]
async fn tools_are_described_without_running_the_component() {
    let component = format!(
        r"(component (core module $m (func $f unreachable) (start $f)) (core instance (instantiate $m)) {})",
        &{
            let rest = exporting(&["now"]);
            rest["(component".len()..rest.len() - 1].to_owned()
        }
    );
    let plain = load(&component).expect("a usable component");
    let told = run(Limits::PLUGIN, async |store| plain.describe(store).await)
        .await
        .expect("it ends")
        .expect("an answer");
    assert_eq!(told, plain.definitions());
    for (tool, code) in [("now", HostCode::Trap), ("then", HostCode::ToolError)] {
        let error = call(&plain, tool, &json!({})).await.expect_err("it traps, or does not exist");
        assert_eq!(error.code(), code);
    }
}

#[test]
fn two_functions_with_the_same_tool_name_are_refused_with_both_names() {
    let component = exporting(&["a:one/api#get", "b:two/api@2.0.0#get"]);
    let message = "its exports a:one/api#get and b:two/api@2.0.0#get would both be the tool \"api_get\"; rename one of them";
    assert_eq!(refused(&component), message);
    let component = exporting(&["api-get", "a:one/api#get"]);
    assert!(refused(&component).contains("both be the tool \"api_get\""));
}

#[test]
fn a_name_may_have_64_characters_and_no_more() {
    let fits = "a".repeat(64);
    assert!(load(&exporting(&[&fits])).is_ok());
    let long = "a".repeat(65);
    assert!(
        refused(&exporting(&[&long])).starts_with(&format!("its export {long} would be the tool"))
    );
    let interface = "i".repeat(32);
    let name = "f".repeat(32);
    let export = format!("a:b/{interface}#{name}");
    assert!(refused(&exporting(&[&export])).starts_with(&format!("its export {export} would be")));
}

#[test]
fn functions_that_json_cannot_call_are_left_out_with_the_reason() {
    let core = core(
        r#"(func (export "f") (param i32)) (func (export "g") (result i32) (i32.const 0)) (func (export "ok"))"#,
    );
    let f = lift("f");
    let g = lift("g");
    let ok = lift("ok");
    let component = format!(
        r#"(component {core}
            (type $internal (resource (rep i32))) (export $thing "thing" (type $internal))
            (func $new (result (own $thing)) {g})
            (export "[static]thing.make" (func $new))
            (export "take-over" (func $new))
            (func (export "lend") (param "thing" (borrow $thing)) {f})
            (func (export "twice") (result (option (option bool))) {g})
            (func (export "inside") (result (list (tuple (own $thing)))) {g})
            (export "a-module" (core module $module))
            (func (export "fine") {ok}))"#
    );
    let plain = load(&component).expect("a usable component");
    let mut reasons = left_out(&plain);
    reasons.sort();
    assert_eq!(
        reasons,
        [
            "[static]thing.make: it belongs to a resource",
            "a-module: it is not a function",
            "inside: it takes or returns a resource",
            "lend: it takes or returns a resource",
            "take-over: it takes or returns a resource",
            "twice: it has an option of an option, which JSON cannot tell apart",
        ]
    );
    assert_eq!(plain.definitions().len(), 1);
}

#[test]
fn types_that_this_engine_does_not_support_do_not_compile() {
    // The reasons for which such functions would be left out therefore have no tests.
    for ty in ["(stream u8)", "(future u8)", "(map string u8)", "(list u8 4)", "error-context"] {
        let component = format!(
            r#"(component (type $t (func (param "a" {ty}))) (import "f" (func (type $t))))"#
        );
        let wasm = wat::parse_str(&component).unwrap_or_else(|error| panic!("{error}"));
        assert!(Component::new(&ENGINE, wasm).is_err(), "{ty}");
    }
}

#[test]
fn a_component_that_exports_only_wasi_is_refused_as_a_program() {
    let message = "it exports only wasi:cli/run@0.2.0 and wasi:http/incoming-handler@0.2.0, \
                   which is to be run by a host rather than called as a tool; this release cannot run it";
    let exports = ["wasi:cli/run@0.2.0#run", "wasi:http/incoming-handler@0.2.0#handle"];
    assert_eq!(refused(&exporting(&exports)), message);
    let plain = load(&exporting(&["wasi:cli/run@0.2.0#run", "now"])).expect("a usable component");
    assert_eq!(plain.definitions().len(), 1);
    assert!(
        left_out(&plain)[0]
            .starts_with("wasi:cli/run@0.2.0#run: it is for a host that runs programs")
    );
}

#[test]
fn a_component_without_tools_is_refused_with_what_it_exports() {
    let none = "it exports neither airlock:plugin/tools nor a function that can be a tool";
    assert_eq!(refused("(component)"), format!("{none}: it exports nothing"));
    let contract = exporting(&["prepare", "airlock:plugin/executor@0.1.0#run"]);
    let reason = "it exports airlock:plugin/executor@0.1.0, which is not the contract of plugins; plugins export airlock:plugin/tools";
    assert_eq!(refused(&contract), reason);
    let modules: Vec<_> =
        (0..30).map(|number| format!(r#"(export "m{number}" (core module $m))"#)).collect();
    let error = refused(&format!("(component (core module $m) {})", modules.concat()));
    assert!(
        error.contains("m0: it is not a function") && error.ends_with("; and 10 more"),
        "{error}"
    );
}
