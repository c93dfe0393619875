//! Checks on the definitions of tools: that a model can use them, and that a person can trust their
//! descriptions.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::{Check, CheckOutcome, Finding};
use airlock_core::tool::{Annotations, ToolDefinition};
use airlock_plugin::{Manifest, ToolEffects};
use airlock_sandbox::{DeclaredEffect, Effect};
use airlock_strings::visible;

/// Shortest description of a tool without a warning, in characters. A shorter one, such as `Reads a
/// file.`, adds nothing to the name.
const MIN_DESCRIPTION: usize = 20;
const WRITE_DESCRIPTION: &str = "what the tool does, and when a model should choose it: the doc comment in Rust, \
     `description` in JavaScript, the docstring in Python";
const WRITE_PARAMETER: &str = "what the argument is, for the model that fills it in: the doc comment of the parameter in \
     Rust, `description` in the input schema in JavaScript, a line under `Args:` in Python";
const WRITE_READ_ONLY: &str = "true if it changes nothing outside itself, else false: `#[tool(read_only)]` or \
     `#[tool(read_only = false)]` in Rust, `annotations: { readOnly: … }` in JavaScript, `@tool(read_only=…)` in Python";

/// Runs every check on the definitions of tools, and on the manifest's statements about them.
pub(crate) fn checks(tools: &[ToolDefinition], manifest: Option<&Manifest>) -> Vec<Check> {
    let none = Finding::from("it has none").write("a tool: `airlock plugin new` shows one");
    let mut checks = vec![
        Check::unless("it has a tool", CheckOutcome::Fail, tools.is_empty().then_some(none)),
        Check::unless(
            "every tool has a description",
            CheckOutcome::Fail,
            of_each(tools, WRITE_DESCRIPTION, description),
        ),
        Check::unless(
            "every parameter has a description and a type",
            CheckOutcome::Fail,
            of_each(tools, WRITE_PARAMETER, parameters),
        ),
        Check::unless(
            "names are in snake_case",
            CheckOutcome::Warn,
            of_each(tools, "a name such as `get_weather`", names),
        ),
        Check::unless(
            "no text has invisible characters",
            CheckOutcome::Fail,
            of_each(tools, "the text without these characters", hidden),
        ),
        Check::unless(
            "every tool says whether it only reads",
            CheckOutcome::Fail,
            of_each(tools, WRITE_READ_ONLY, annotations),
        ),
        Check::unless(
            "every tool has an output schema",
            CheckOutcome::Warn,
            tools.iter().filter_map(unstructured),
        ),
    ];
    if let Some(manifest) = manifest {
        checks.extend(effects(tools, manifest));
    }
    checks
}

fn of_each(
    tools: &[ToolDefinition],
    write: &str,
    found: fn(&ToolDefinition) -> Vec<String>,
) -> impl Iterator<Item = Finding> {
    tools.iter().flat_map(move |tool| about(tool, write, found(tool)))
}

fn about(tool: &ToolDefinition, write: &str, found: Vec<String>) -> impl Iterator<Item = Finding> {
    found.into_iter().map(move |found| Finding::from(found).at(&tool.name).write(write))
}

fn description(tool: &ToolDefinition) -> Vec<String> {
    let found = tool.description.trim().chars().count();
    let is_short = found < MIN_DESCRIPTION;
    let text = format!("its description has {found} characters; the minimum is {MIN_DESCRIPTION}");
    is_short.then_some(text).into_iter().collect()
}

fn properties(tool: &ToolDefinition) -> Map<String, Value> {
    match tool.input_schema.to_value().unwrap_or_default().get_mut("properties").map(Value::take) {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    }
}

fn parameters(tool: &ToolDefinition) -> Vec<String> {
    let properties = properties(tool);
    let wrong = properties.iter().filter_map(|(name, schema)| {
        let is_described = schema
            .get("description")
            .and_then(Value::as_str)
            .is_some_and(|text| !text.trim().is_empty());
        // A schema may constrain a value by other keywords than `type`.
        let is_typed = ["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"]
            .iter()
            .any(|key| schema.get(key).is_some());
        match (is_described, is_typed) {
            (true, true) => None,
            (false, true) => Some(format!("the parameter {name} has no description")),
            (true, false) => Some(format!("the parameter {name} has no type")),
            (false, false) => {
                Some(format!("the parameter {name} has neither description nor type"))
            }
        }
    });
    wrong.collect()
}

fn names(tool: &ToolDefinition) -> Vec<String> {
    let own = (!is_snake(&tool.name)).then(|| "its name is not in snake_case".to_owned());
    let properties = properties(tool);
    let parameters = properties.keys().filter(|name| !is_snake(name));
    own.into_iter()
        .chain(parameters.map(|name| format!("the parameter {name} is not in snake_case")))
        .collect()
}

fn is_snake(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn hidden(tool: &ToolDefinition) -> Vec<String> {
    let mut found = Vec::new();
    hidden_in(&serde_json::to_value(tool).unwrap_or_default(), &mut found);
    found
}

/// Searches a value and everything in it. It is no deeper than `serde_json` parses, because the
/// definition was parsed.
fn hidden_in(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.extend(invisible(text)),
        Value::Array(elements) => {
            for element in elements {
                hidden_in(element, found);
            }
        }
        Value::Object(members) => {
            found.extend(members.keys().filter_map(|name| invisible(name)));
            for member in members.values() {
                hidden_in(member, found);
            }
        }
        _ => {}
    }
}

fn invisible(text: &str) -> Option<String> {
    let shown = visible(text);
    (shown != text).then(|| format!("found {shown:?}"))
}

fn annotations(tool: &ToolDefinition) -> Vec<String> {
    let Annotations { read_only, destructive, .. } = &tool.annotations;
    let write = match (read_only, destructive) {
        (Some(_), _) => return Vec::new(),
        (None, None) => "it has no annotation `readOnlyHint`",
        (None, Some(true)) => "it is `destructive` without `read_only = false` (`readOnlyHint`)",
        (None, Some(false)) => {
            "`destructive = false` alone does not say whether it changes something: it lacks `read_only` \
             (`readOnlyHint`)"
        }
    };
    vec![write.to_owned()]
}

fn unstructured(tool: &ToolDefinition) -> Option<Finding> {
    let text =
        "it has none, which is right for plain text; scripts need one to use a structured result";
    tool.output_schema
        .is_none()
        .then(|| Finding::from(text).at(&tool.name).write("an output schema, if it returns data"))
}

/// Compares the effects in the manifest with its requests and with the tools.
fn effects(tools: &[ToolDefinition], manifest: &Manifest) -> [Check; 4] {
    let unlisted = tools.iter().filter(|tool| {
        !manifest.tools.is_empty() && !manifest.tools.iter().any(|note| note.name == tool.name)
    });
    let unlisted = unlisted.map(|tool| {
        Finding::from("plugin.toml does not list it, so it has no effects")
            .at(&tool.name)
            .write("a [[tool]] with its name, and `effects = []` if it has none")
    });
    let unused = manifest.unused().into_iter().map(|(request, effect)| {
        Finding::from("no tool may use it").of_key(format!("request.{request}")).write(format!(
            "{:?} in the `effects` of the [[tool]] that uses it",
            effect.to_string()
        ))
    });
    let notes = manifest.tools.iter().enumerate();
    [
        Check::unless("every request has a tool that may use it", CheckOutcome::Fail, unused),
        Check::unless("the manifest lists every tool", CheckOutcome::Warn, unlisted),
        Check::unless(
            "the manifest's effects agree with the annotations",
            CheckOutcome::Fail,
            notes.clone().filter_map(|(index, note)| contradiction(index, note, tools, manifest)),
        ),
        Check::unless(
            "a tool that uses the network says that its world is open",
            CheckOutcome::Warn,
            notes.filter_map(|(index, note)| closed_world(index, note, tools)),
        ),
    ]
}

/// Returns a finding about the effects of a `[[tool]]` by its position.
fn of_effects(index: usize, note: &ToolEffects, found: &str, write: &str) -> Finding {
    Finding::from(format!("{}: {found}", note.name))
        .of_key(format!("tool[{index}].effects"))
        .write(write)
}

fn contradiction(
    index: usize,
    note: &ToolEffects,
    tools: &[ToolDefinition],
    manifest: &Manifest,
) -> Option<Finding> {
    let Some(tool) = tools.iter().find(|tool| tool.name == note.name) else {
        let finding = Finding::from(format!("{}: the plugin has no such tool", note.name));
        let write = "the name of a tool that the plugin has";
        return Some(finding.of_key(format!("tool[{index}].name")).write(write));
    };
    let writes_kv = note
        .effects
        .iter()
        .any(|declared| declared.effect == Effect::WriteKv && !is_on_cache(declared, manifest));
    let writes = note.has(Effect::WriteFiles) || writes_kv;
    (writes && tool.annotations.read_only == Some(true)).then(|| {
        of_effects(
            index,
            note,
            "its effects say that it writes; its annotations say that it only reads",
            &format!(
                "the annotation `read_only = false`, or `effects = [{}]`; for a store that only keeps \
                 what can be obtained again, `cache = true` in its [request.kv.NAME] and no effect on it",
                reading(note).join(", ")
            ),
        )
    })
}

fn is_on_cache(declared: &DeclaredEffect, manifest: &Manifest) -> bool {
    let store = declared.request.as_ref().and_then(|name| manifest.request.kv.get(name));
    store.is_some_and(|store| store.cache)
}

/// Returns the effects of a `[[tool]]` with reading in place of writing, as they are written.
fn reading(note: &ToolEffects) -> Vec<String> {
    let reads = note.effects.iter().map(|declared| {
        let effect = match declared.effect {
            Effect::WriteFiles => Effect::ReadFiles,
            Effect::WriteKv => Effect::ReadKv,
            other => other,
        };
        DeclaredEffect { effect, request: declared.request.clone() }
    });
    let effects: BTreeSet<_> = reads.collect();
    effects.iter().map(|effect| format!("{:?}", effect.to_string())).collect()
}

fn closed_world(index: usize, note: &ToolEffects, tools: &[ToolDefinition]) -> Option<Finding> {
    let tool = tools.iter().find(|tool| tool.name == note.name)?;
    let is_closed = tool.annotations.open_world == Some(false);
    (note.has(Effect::Http) && is_closed).then(|| {
        of_effects(
            index,
            note,
            "it uses the network, and its annotations say that its world is closed",
            "the annotation `open_world = true`",
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest_with;

    fn told(tools: Value, manifest: Option<&Manifest>) -> String {
        let tools: Vec<ToolDefinition> = serde_json::from_value(tools).expect("definitions");
        let checks = checks(&tools, manifest)
            .into_iter()
            .filter(|check| check.outcome != CheckOutcome::Pass);
        let lines = checks.map(|check| {
            let details: Vec<_> = check.details.iter().map(ToString::to_string).collect();
            format!("{:?} {}: {}", check.outcome, check.name, details.join("; "))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_good_tool_passes_every_check() {
        let tool = json!({
            "name": "get_weather",
            "description": "Tells the weather in one city.",
            "inputSchema": {"type": "object", "properties": {"city": {"type": "string", "description": "Which city."}}},
            "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true},
        });
        assert_eq!(told(json!([tool]), None), "");
    }

    #[test]
    fn each_flaw_is_named_with_its_tool() {
        let tool = json!({
            "name": "getWeather",
            "description": "Weather.\u{200b}",
            "inputSchema": {"type": "object", "properties": {"aB": {}, "c": {"type": "string", "description": "x\u{202e}"}}},
        });
        insta::assert_snapshot!(told(json!([tool]), None), @r#"
            Fail every tool has a description: getWeather: its description has 9 characters; the minimum is 20
            Fail every parameter has a description and a type: getWeather: the parameter aB has neither description nor type
            Warn names are in snake_case: getWeather: its name is not in snake_case; getWeather: the parameter aB is not in snake_case
            Fail no text has invisible characters: getWeather: found "Weather.⟨U+200B⟩"; getWeather: found "x⟨U+202E⟩"
            Fail every tool says whether it only reads: getWeather: it has no annotation `readOnlyHint`
            Warn every tool has an output schema: getWeather: it has none, which is right for plain text; scripts need one to use a structured result
            "#);
        insta::assert_snapshot!(told(json!([]), None), @"Fail it has a tool: it has none");
    }

    #[test]
    fn a_tool_that_says_only_whether_it_is_destructive_is_told_what_else_to_write() {
        insta::assert_snapshot!(said(false), @"`destructive = false` alone does not say whether it changes something: it lacks `read_only` (`readOnlyHint`)");
        insta::assert_snapshot!(said(true), @"it is `destructive` without `read_only = false` (`readOnlyHint`)");
    }

    fn said(destructive: bool) -> String {
        let tool = json!({"name": "t", "inputSchema": {}, "annotations": {"destructiveHint": destructive}});
        annotations(&serde_json::from_value(tool).expect("a definition")).join("; ")
    }

    #[test]
    fn a_tool_that_writes_and_only_reads_is_shown_its_effects_without_writing_and_all_others() {
        let note: ToolEffects = serde_json::from_value(json!({
            "name": "put",
            "effects": ["write_kv.notes", "read_kv.notes", "http.api", "write_files", "secret"],
        }))
        .expect("effects");
        let tool = json!({"name": "put", "inputSchema": {}, "annotations": {"readOnlyHint": true}});
        let tools = [serde_json::from_value(tool).expect("a definition")];
        let finding = contradiction(0, &note, &tools, &with_store(false)).expect("it is one");
        insta::assert_snapshot!(finding.lines().join("\n"), @r#"
        plugin.toml: tool[0].effects: put: its effects say that it writes; its annotations say that it only reads
          write: the annotation `read_only = false`, or `effects = ["read_files", "http.api", "secret", "read_kv.notes"]`; for a store that only keeps what can be obtained again, `cache = true` in its [request.kv.NAME] and no effect on it
        "#);
        let remembers = json!({"name": "put", "effects": ["write_kv.notes"]});
        let remembers: ToolEffects = serde_json::from_value(remembers).expect("effects");
        assert!(contradiction(0, &remembers, &tools, &with_store(false)).is_some());
        assert_eq!(contradiction(0, &remembers, &tools, &with_store(true)), None);
    }

    fn with_store(is_cache: bool) -> Manifest {
        let notes = json!({"max_bytes": "1MiB", "cache": is_cache, "reason": "remembers"});
        manifest_with(&json!({"request": {"kv": {"notes": notes}}}))
    }

    #[test]
    fn a_manifest_that_contradicts_the_annotations_is_reported() {
        let manifest = manifest_with(&json!({
            "tool": [{"name": "put", "effects": ["write_kv", "http"]}, {"name": "gone"}],
            "request": {
                "files": {"data": {"access": "read_only", "reason": "reads"}},
                "http": {"api": {"url": "https://api.example.com", "reason": "forecasts"}},
                "kv": {"notes": {"max_bytes": "1MiB", "reason": "remembers"}},
            },
        }));
        let tool = json!({
            "name": "put",
            "description": "Puts something somewhere.",
            "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
        });
        let mut reads = tool.clone();
        reads["name"] = json!("get");
        insta::assert_snapshot!(told(json!([tool, reads]), Some(&manifest)), @"
            Fail every request has a tool that may use it: plugin.toml: request.files.data: no tool may use it
            Warn the manifest lists every tool: get: plugin.toml does not list it, so it has no effects
            Fail the manifest's effects agree with the annotations: plugin.toml: tool[0].effects: put: its effects say that it writes; its annotations say that it only reads; plugin.toml: tool[1].name: gone: the plugin has no such tool
            Warn a tool that uses the network says that its world is open: plugin.toml: tool[0].effects: put: it uses the network, and its annotations say that its world is closed
            ");
    }
}
