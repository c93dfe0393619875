//! The page about the format of a plugin: its plugin in WebAssembly text and its program work, its
//! examples are valid, and the JSON Schemas of the sections agree with the gateway.

use std::{fs, path::PathBuf, process::Command};

use airlock::compile::section_anywhere;
use airlock_json::schema::CompiledSchema;
use airlock_plugin::Manifest;
use airlock_tests::{Airlock, Client, Setup, component, guests, peers, root};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::Document;

const MANIFEST: &str = "airlock:manifest";
const TOOLS: &str = "airlock:tools";

fn page() -> Document {
    Document::read(root().join("docs/plugin-format.md"))
}

/// Returns the path of a file beside the page.
fn example(name: &str) -> PathBuf {
    root().join("docs/plugin-format").join(name)
}

/// Returns the plugin in WebAssembly text, without its sections.
fn code() -> Vec<u8> {
    wat::parse_file(example("echo.wat")).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the plugin with both sections, as the page's program writes it.
fn embedded(manifest: PathBuf) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let code_file = directory.path().join("code.wasm");
    let output = directory.path().join("out");
    fs::write(&code_file, code()).expect("a file");
    let mut program = Command::new(peers::python());
    program.args([example("embed.py"), code_file, manifest, example("tools.json"), output.clone()]);
    let ended = program.output().expect("python can be started");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    fs::read(output).expect("it was written")
}

fn section(wasm: &[u8], name: &str) -> Value {
    let content = section_anywhere(wasm, name).expect("a component").expect("it is embedded");
    serde_json::from_slice(content).expect("JSON")
}

/// Writes the complete example of the page, and the schema that it names.
fn complete() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let page = page();
    let example = page.blocks_in("toml").next().expect("the example");
    let manifest = directory.path().join("plugin.toml");
    fs::write(&manifest, example).expect("a file");
    fs::write(directory.path().join("config.schema.json"), r#"{"type": "object"}"#)
        .expect("a file");
    (directory, manifest)
}

fn schema(name: &str) -> Value {
    // The newest version of each.
    let version = if name == "manifest.schema.json" { "0.1.1" } else { "0.1.0" };
    let file = root().join("wit/sections").join(version).join(name);
    serde_json::from_str(&fs::read_to_string(file).expect("UTF-8")).expect("JSON")
}

fn compiled(schema: &Value) -> CompiledSchema {
    CompiledSchema::compile("schema", schema).unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn the_plugin_in_webassembly_text_passes_every_check_and_is_called() {
    let setup = Setup::new();
    let whole = setup.file("echo.wasm", embedded(example("plugin.toml")));
    let bare = setup.file("bare.wasm", code());
    let checked = Airlock::new().arg("plugin").arg("check").arg(&whole).run().await.ok();
    assert!(!checked.stdout.contains("warn  "), "{checked}");
    let setup = setup.client(Client::wasm("echo", whole)).client(Client::wasm("bare", bare));
    let arguments = json!({"hello": "wörld"});
    // The second one has no sections: it is asked for its tools.
    for tool in ["echo-echo", "bare-echo"] {
        let called = setup.call(tool, &arguments).await;
        assert_eq!(called["ok"], true, "{called:#}");
        let text = called["content"][0]["text"].as_str().unwrap_or_default();
        assert_eq!(serde_json::from_str::<Value>(text).ok(), Some(arguments.clone()), "{called:#}");
    }
    let refused = setup.call("echo-echo", &json!({"long": "x".repeat(1000)})).await;
    assert_eq!(refused["ok"], false, "{refused:#}");
    let message = "the arguments have more than 1000 bytes; send less";
    assert_eq!(refused["error"]["message"], message, "{refused:#}");
}

#[test]
fn the_program_of_the_page_appends_both_sections_and_nothing_else() {
    let written = embedded(example("plugin.toml"));
    let manifest = section_anywhere(&written, MANIFEST).expect("a component").expect("embedded");
    let tools = fs::read(example("tools.json")).expect("a file");
    let expected = component::with_section(&code(), MANIFEST, manifest);
    assert_eq!(written, component::with_section(&expected, TOOLS, &tools));
}

#[test]
fn every_quoted_part_of_the_plugin_stands_in_its_file() {
    let text = fs::read_to_string(example("echo.wat")).expect("UTF-8");
    let page = page();
    let quoted: Vec<_> = page.blocks_in("wat").collect();
    assert!(!quoted.is_empty());
    for block in quoted {
        assert!(text.contains(block), "{block}");
    }
}

#[tokio::test]
async fn the_complete_example_is_a_manifest_that_the_gateway_reads() {
    let (_directory, manifest) = complete();
    let setup = Setup::new();
    let file = setup.file("complete.wasm", embedded(manifest));
    let inspected = Airlock::new().arg("plugin").arg("inspect").arg(file).run().await.ok();
    assert!(inspected.stdout.contains("Forecasts, with a history"), "{inspected}");
}

/// Calls `visit` with a copy of the document for each of its objects and members: with an unknown
/// key, without a member, and with a member of no valid type. The text names the change. `metadata`
/// and the schema of the configuration are free.
fn mutate(document: &Value, visit: &mut dyn FnMut(&str, Value)) {
    let mut pointers = vec![String::new()];
    while let Some(pointer) = pointers.pop() {
        match document.pointer(&pointer).expect("it was found") {
            Value::Array(elements) => {
                pointers.extend((0..elements.len()).map(|index| format!("{pointer}/{index}")));
            }
            Value::Object(members) => {
                let mut changed = |change: &str, edit: &dyn Fn(&mut Map<String, Value>)| {
                    let mut copy = document.clone();
                    let object = copy.pointer_mut(&pointer).and_then(Value::as_object_mut);
                    edit(object.expect("the same document"));
                    visit(&format!("{pointer} {change}"), copy);
                };
                changed("with an unknown key", &|object| {
                    object.insert("colour".to_owned(), json!("red"));
                });
                for name in members.keys() {
                    changed(&format!("without {name}"), &|object| {
                        object.remove(name);
                    });
                    let member = format!("{pointer}/{name}");
                    if !["/metadata", "/config/schema"].contains(&member.as_str()) {
                        changed(&format!("with a wrong {name}"), &|object| {
                            object.insert(name.clone(), json!([[]]));
                        });
                        pointers.push(member);
                    }
                }
            }
            _ => {}
        }
    }
}

#[test]
fn the_schema_of_the_manifest_and_the_gateway_refuse_the_same_keys_and_types() {
    let (_directory, manifest) = complete();
    let document = section(&embedded(manifest), MANIFEST);
    let schema = compiled(&schema("manifest.schema.json"));
    let verdicts = |document: &Value| {
        let fits = schema.check(document).map_err(|error| error.to_string());
        let is_read = Manifest::parse(document.to_string().as_bytes()).map(drop);
        (fits, is_read.map_err(|error| error.to_string()))
    };
    assert_eq!(verdicts(&document), (Ok(()), Ok(())));
    let mut seen = 0;
    mutate(&document, &mut |change, document| {
        seen += 1;
        let (fits, is_read) = verdicts(&document);
        // A rule about two keys, such as an audience that must be requested, is in no schema.
        let agree = if change.contains(" without ") {
            fits.is_ok() || is_read.is_err()
        } else {
            fits.is_err() && is_read.is_err()
        };
        assert!(agree, "{change}: schema {fits:?}, gateway {is_read:?}");
    });
    assert!(seen > 150, "{seen} changes");
}

#[test]
fn the_plugin_toml_of_every_plugin_of_the_project_fits_the_schema() {
    let directories = ["plugins", "plugins/examples", "tests/guests"].map(|path| root().join(path));
    let files = directories.iter().flat_map(|directory| super::entries(directory));
    let files: Vec<_> =
        files.map(|path| path.join("plugin.toml")).filter(|path| path.is_file()).collect();
    assert!(files.len() >= 6, "{files:?}");
    let program = "import json, sys, tomllib\n\
                   print(json.dumps([tomllib.load(open(file, 'rb')) for file in sys.argv[1:]]))";
    let ended = Command::new(peers::python()).args(["-c", program]).args(&files).output();
    let ended = ended.expect("python can be started");
    let manifests: Vec<Value> = serde_json::from_slice(&ended.stdout).expect("a list");
    let schema = compiled(&schema("manifest.schema.json"));
    for (file, manifest) in files.iter().zip(manifests) {
        let fits = schema.check(&manifest).map_err(|error| error.to_string());
        assert_eq!(fits, Ok(()), "{}", file.display());
    }
}

#[tokio::test]
async fn the_tools_that_a_build_embeds_fit_the_schema() {
    let schema = compiled(&schema("tools.schema.json"));
    let check =
        |wasm: &[u8]| schema.check(&section(wasm, TOOLS)).map_err(|error| error.to_string());
    assert_eq!(check(&embedded(example("plugin.toml"))), Ok(()));
    assert_eq!(check(&component::with_own_tools(guests::TEXT).await), Ok(()));
    let nameless =
        component::with_tools(guests::TEXT, |tools| tools[0]["name"] = Value::Null).await;
    assert!(check(&nameless).is_err());
}

#[test]
fn every_key_of_both_sections_is_explained() {
    fn keys(schema: &Value, found: &mut Vec<String>) {
        for (name, value) in schema.as_object().into_iter().flatten() {
            if name == "properties" {
                found.extend(value.as_object().into_iter().flatten().map(|(key, _)| key.clone()));
            }
            keys(value, found);
        }
    }
    let page = page();
    let words: Vec<_> = page
        .spans()
        .flat_map(|span| span.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')))
        .collect();
    let mut found = Vec::new();
    keys(&schema("manifest.schema.json"), &mut found);
    keys(&schema("tools.schema.json"), &mut found);
    assert!(found.len() > 60, "{found:?}");
    let missing: Vec<_> = found.iter().filter(|key| !words.contains(&key.as_str())).collect();
    assert!(missing.is_empty(), "docs/plugin-format.md says nothing of {missing:?}");
}
