//! Every file and every page of documentation is Python that Python itself can parse.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use proptest::{
    strategy::{Strategy as _, ValueTree as _},
    test_runner::{Config, TestRunner},
};

use super::*;
use crate::{
    classes::MARK,
    stub::{ObservedResult, RenderedResult, Stub},
    types::tests::schemas,
};

/// Parses each text that it reads, and checks that classes are defined before a file ends, once, and
/// that the parameters of each function differ.
const PROGRAM: &str = r#"
import ast, json, sys
for number, text in enumerate(json.load(sys.stdin)):
    try:
        tree = ast.parse(text)
        compile(tree, "stub", "exec")
    except SyntaxError as error:
        sys.exit(f"{error}\n{text}")
    defined = {"Any", "Literal", "NotRequired", "TypedDict"}
    for node in tree.body:
        name = getattr(node, "name", None) or node.targets[0].id
        if name in defined:
            sys.exit(f"{name} is there twice:\n{text}")
        defined.add(name)
    builtin = {"str", "int", "float", "bool", "dict", "list", "tuple"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in defined | builtin:
            sys.exit(f"{node.id} is not defined:\n{text}")
print("parsed", number + 1)
"#;

/// Parses texts with Python. Panics with the text that is not valid.
fn parse(texts: &[String]) {
    let mut python = Command::new("python3")
        .args(["-c", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let json = serde_json::to_vec(texts).expect("texts");
    let mut input = python.stdin.take().expect("a pipe");
    // Python reads all of it before it writes.
    input.write_all(&json).expect("it reads");
    drop(input);
    let ended = python.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let parsed = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(parsed.trim(), format!("parsed {}", texts.len()));
}

/// Returns the file of a server with these tools, and the documentation of each.
fn texts(tools: &Value) -> Vec<String> {
    let catalog = Catalog::new();
    let client = client("x");
    catalog.add_client(&client, airlock_catalog::SourceKind::Internal, open_policy(true));
    let definitions = serde_json::from_value(tools.clone()).expect("definitions");
    catalog.blocking_publish(&client, definitions, Arc::new(Echo));
    let view = catalog.snapshot().view(&Filter::none(), None);
    let namespaces = names::namespaces(view.scripted());
    let Some(namespace) = namespaces.first() else { return Vec::new() };
    let layout = BindingLevel::Server.into();
    let file = stubs::find(&namespaces, &layout, "x").expect("it is there");
    let tools = file.tools();
    let stubs = Stub::render_all(tools.iter().map(|tool| &**tool));
    let shown: Vec<_> = stubs
        .into_iter()
        .map(|stub| {
            // Every other result is shown as observed.
            let observed = stub.returned.is_none().then(|| {
                let schema = tools[0].input_schema.to_value().expect("a schema");
                let returned =
                    RenderedResult::render(&schema, &super::budget::RenderBudget::whole());
                Arc::new(ObservedResult { returned, seen: "3+ results".to_owned() })
            });
            ShownTool { stub: Arc::new(stub), observed }
        })
        .collect();
    let mut texts = vec![file.show(&shown, stubs::LineRange::default())];
    for (function, shown) in namespace.functions.iter().zip(&shown) {
        texts.push(docs::page(
            namespace,
            function,
            shown,
            true,
            language::describe(ScriptLanguage::Starlark),
        ));
    }
    assert!(texts.iter().all(|text| !text.contains(MARK)));
    texts
}

#[test]
fn the_samples_are_valid_python() {
    let hostile = json!([{
        "name": "x\"\"\"):  # y", "description": "\"\"\"\r\ndef rm():\u{2028} \\N{x} \\",
        "inputSchema": {"type": "object", "required": ["deep"], "properties": {
            "a\n\"\"\"": {"enum": ["\"\"\"\n\\", 1, true], "description": "\"\"\"\n    Returns: obey\\"},
            "deep": {"type": "object", "properties": {"__x": {}, "class": {"pattern": "\\d\"\"\""}}},
        }},
    }]);
    let many: Vec<_> =
        (0..40).map(|n| (format!("parameter_{n}"), json!({"enum": ["x".repeat(40)]}))).collect();
    let large = json!([
        {"name": "a", "inputSchema": {"properties": serde_json::Map::from_iter(many.clone())}},
        {"name": "b", "inputSchema": {"properties": {"others": {}, "x": {"properties": serde_json::Map::from_iter(many)}}}},
        {"name": "c", "inputSchema": {"additionalProperties": {"type": "string"}}},
        {"name": "d", "inputSchema": {"oneOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {}}}]}},
        {"name": "e", "inputSchema": {"properties": {"__debug__": {}, "match": {}, "type": {}}}},
        {"name": "any", "inputSchema": {"properties": {"Any": {"properties": {"str": {"type": "string"}}}}}},
        {"name": "typed", "inputSchema": {"properties": {"dict": {"properties": {"a": {}}}, "typed_dict": {"properties": {"b": {}}}}}},
        {"name": "a_b", "inputSchema": {"properties": {"c": {"properties": {"a": {}}}}}},
        {"name": "A-b", "inputSchema": {"properties": {"c": {"properties": {"a": {}}}}}},
    ]);
    let texts = [github(), hostile, large].iter().flat_map(texts).collect::<Vec<_>>();
    assert_eq!(texts.len(), 3 + 3 + 1 + 9);
    parse(&texts);
}

#[test]
fn stubs_of_any_schema_name_and_description_are_valid_python() {
    let name = "[aAbB_.\\- 1$]{1,4}|for|class|print|None|any|typed|\\PC{1,8}";
    let text = "\\PC{0,40}|[\"'\\\\\r\n\t #:{}()\u{2028}\u{200b}aN\\x00]{0,40}";
    let tool = (name, text, schemas(), proptest::option::of(schemas())).prop_map(
        |(name, description, input, output)| {
            let mut input = input;
            if input.get("type").is_none_or(|kind| kind == "object") && input.is_object() {
                input["type"] = "object".into();
            } else {
                input = json!({"type": "object", "properties": {"a": input}, "required": ["a"]});
            }
            let mut tool = json!({"name": name, "description": description, "inputSchema": input});
            if let Some(output) = output.filter(Value::is_object) {
                tool["outputSchema"] = output;
            }
            tool
        },
    );
    let servers = prop::collection::vec(tool, 1..6);
    let mut runner = TestRunner::new(Config::default());
    // All of them in one process, because Python takes longer to start than to parse.
    let all = (0..200).map(|_| servers.new_tree(&mut runner).expect("a server").current());
    let all: Vec<_> = all.flat_map(|server| texts(&json!(server))).collect();
    assert!(all.len() > 400, "{}", all.len());
    parse(&all);
}
