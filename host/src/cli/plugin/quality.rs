//! Checks on the definitions of tools: that a model can use them, and that a person can trust their
//! descriptions.

use serde_json::{Map, Value};

use super::check::{Check, Outcome};
use crate::{
    plugin::{Effect, Manifest, ToolEffects},
    text::visible,
    tool::ToolDefinition,
};

/// Minimum length of a description, in characters. A shorter one adds nothing to the name.
const MIN_DESCRIPTION: usize = 20;
/// Depth to which texts of a schema are searched; `serde_json` reads no deeper than this.
const MAX_DEPTH: u32 = 128;

/// Runs every check on the definitions of tools, and on the manifest's statements about them.
pub(super) fn checks(tools: &[ToolDefinition], manifest: Option<&Manifest>) -> Vec<Check> {
    let fail = |check, found: fn(&ToolDefinition) -> Vec<String>| {
        Check::unless(check, Outcome::Fail, tools.iter().flat_map(|tool| about(tool, found(tool))))
    };
    let mut checks = vec![
        Check::unless(
            "it has a tool",
            Outcome::Fail,
            tools.is_empty().then(|| "it has none".to_owned()),
        ),
        fail("every tool has a description", description),
        fail("every parameter has a description and a type", parameters),
        fail("names are in snake_case", names),
        fail("no text has invisible characters", hidden),
        fail("every tool says whether it only reads", annotations),
        Check::unless(
            "every tool has an output schema",
            Outcome::Warn,
            tools.iter().filter_map(unstructured),
        ),
    ];
    if let Some(manifest) = manifest {
        checks.extend(effects(tools, manifest));
    }
    checks
}

fn about(tool: &ToolDefinition, found: Vec<String>) -> impl Iterator<Item = String> {
    let name = tool.name.clone();
    found.into_iter().map(move |found| format!("{name}: {found}"))
}

fn description(tool: &ToolDefinition) -> Vec<String> {
    let found = tool.description.trim().chars().count();
    let is_short = found < MIN_DESCRIPTION;
    let text = format!("its description has {found} characters; write at least {MIN_DESCRIPTION}");
    is_short.then_some(text).into_iter().collect()
}

fn properties(tool: &ToolDefinition) -> Map<String, Value> {
    match tool.input_schema.to_value().unwrap_or_default().get_mut("properties").map(Value::take) {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    }
}

fn parameters(tool: &ToolDefinition) -> Vec<String> {
    let wrong = |(name, schema): (&String, &Value)| {
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
    };
    properties(tool).iter().filter_map(wrong).collect()
}

fn names(tool: &ToolDefinition) -> Vec<String> {
    let is_snake = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let own = (!is_snake(&tool.name)).then(|| "its name is not in snake_case".to_owned());
    let properties = properties(tool);
    let parameters = properties.keys().filter(|name| !is_snake(name));
    own.into_iter()
        .chain(parameters.map(|name| format!("the parameter {name} is not in snake_case")))
        .collect()
}

fn hidden(tool: &ToolDefinition) -> Vec<String> {
    let mut found = Vec::new();
    hidden_in(&serde_json::to_value(tool).unwrap_or_default(), 0, &mut found);
    found
}

fn hidden_in(value: &Value, depth: u32, found: &mut Vec<String>) {
    let mut look = |text: &str| {
        let shown = visible(text);
        if shown != text {
            found.push(format!("found {shown:?}"));
        }
    };
    match value {
        Value::String(text) => look(text),
        Value::Object(members) => members.keys().for_each(|name| look(name)),
        _ => {}
    }
    if depth == MAX_DEPTH {
        return;
    }
    match value {
        Value::Array(elements) => {
            for element in elements {
                hidden_in(element, depth + 1, found);
            }
        }
        Value::Object(members) => {
            for member in members.values() {
                hidden_in(member, depth + 1, found);
            }
        }
        _ => {}
    }
}

fn annotations(tool: &ToolDefinition) -> Vec<String> {
    let said = tool.annotations.read_only;
    said.is_none().then(|| "it has no annotation `readOnlyHint`".to_owned()).into_iter().collect()
}

fn unstructured(tool: &ToolDefinition) -> Option<String> {
    let text =
        "it has none, which is right for plain text; scripts need one to use a structured result";
    tool.output_schema.is_none().then(|| format!("{}: {text}", tool.name))
}

/// Compares the effects in the manifest with its requests and with the tools.
fn effects(tools: &[ToolDefinition], manifest: &Manifest) -> [Check; 4] {
    let listed = |tool: &&ToolDefinition| manifest.tools.iter().any(|note| note.name == tool.name);
    let unlisted = tools.iter().filter(|tool| !manifest.tools.is_empty() && !listed(tool)).map(|tool| {
        format!(
            "{}: plugin.toml does not list it, so it has no effects; list it as a [[tool]], with `effects = []` if it has none",
            tool.name
        )
    });
    let unused = manifest.unused().into_iter().map(|(request, effect)| {
        let effect = effect.name();
        format!("request.{request}: no tool may use it; add {effect:?} to the `effects` of the [[tool]] that does")
    });
    [
        Check::unless("every request has a tool that may use it", Outcome::Fail, unused),
        Check::unless("the manifest lists every tool", Outcome::Warn, unlisted),
        Check::unless(
            "the manifest's effects agree with the annotations",
            Outcome::Fail,
            manifest.tools.iter().filter_map(|note| contradiction(note, tools)),
        ),
        Check::unless(
            "a tool that uses the network says that its world is open",
            Outcome::Warn,
            manifest.tools.iter().filter_map(|note| closed_world(note, tools)),
        ),
    ]
}

fn contradiction(note: &ToolEffects, tools: &[ToolDefinition]) -> Option<String> {
    let name = &note.name;
    let Some(tool) = tools.iter().find(|tool| tool.name == *name) else {
        return Some(format!("{name}: the manifest has effects of a tool that is not there"));
    };
    let writes =
        [Effect::WriteFiles, Effect::Store].into_iter().find(|it| note.effects.contains(it));
    let effect = writes.filter(|_| tool.annotations.read_only == Some(true))?.name();
    Some(format!(
        "{name}: the manifest declares {effect:?}, so it writes; its annotations say that it only reads; \
         to read alone, declare \"read-files\" or \"read-store\""
    ))
}

fn closed_world(note: &ToolEffects, tools: &[ToolDefinition]) -> Option<String> {
    let tool = tools.iter().find(|tool| tool.name == note.name)?;
    let is_closed = tool.annotations.open_world == Some(false);
    let text = "it uses the network, and its annotations say that its world is closed";
    (note.effects.contains(&Effect::Network) && is_closed).then(|| format!("{}: {text}", note.name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(tools: Value, manifest: Option<&Manifest>) -> String {
        let tools: Vec<ToolDefinition> = serde_json::from_value(tools).expect("definitions");
        let checks =
            checks(&tools, manifest).into_iter().filter(|check| check.outcome != Outcome::Pass);
        let lines = checks.map(|check| {
            format!("{:?} {}: {}", check.outcome, check.check, check.details.join("; "))
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
            Fail every tool has a description: getWeather: its description has 9 characters; write at least 20
            Fail every parameter has a description and a type: getWeather: the parameter aB has neither description nor type
            Fail names are in snake_case: getWeather: its name is not in snake_case; getWeather: the parameter aB is not in snake_case
            Fail no text has invisible characters: getWeather: found "Weather.⟨U+200B⟩"; getWeather: found "x⟨U+202E⟩"
            Fail every tool says whether it only reads: getWeather: it has no annotation `readOnlyHint`
            Warn every tool has an output schema: getWeather: it has none, which is right for plain text; scripts need one to use a structured result
            "#);
        insta::assert_snapshot!(told(json!([]), None), @"Fail it has a tool: it has none");
    }

    #[test]
    fn a_manifest_that_contradicts_the_annotations_is_reported() {
        let manifest = json!({
            "schema": crate::plugin::MANIFEST_SCHEMA, "id": "p", "version": "1.0.0", "contract": "0.1",
            "tool": [{"name": "put", "effects": ["store", "network"]}, {"name": "gone"}],
            "request": {
                "files": {"data": {"access": "read-only", "reason": "reads"}},
                "http": {"api": {"url": "https://api.example.com", "reason": "forecasts"}},
                "kv": {"notes": {"max_bytes": "1MiB", "reason": "remembers"}},
            },
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).expect("a manifest");
        let tool = json!({
            "name": "put",
            "description": "Puts something somewhere.",
            "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
        });
        let mut reads = tool.clone();
        reads["name"] = json!("get");
        insta::assert_snapshot!(told(json!([tool, reads]), Some(&manifest)), @r#"
            Fail every request has a tool that may use it: request.files.data: no tool may use it; add "read-files" to the `effects` of the [[tool]] that does
            Warn the manifest lists every tool: get: plugin.toml does not list it, so it has no effects; list it as a [[tool]], with `effects = []` if it has none
            Fail the manifest's effects agree with the annotations: put: the manifest declares "store", so it writes; its annotations say that it only reads; to read alone, declare "read-files" or "read-store"; gone: the manifest has effects of a tool that is not there
            Warn a tool that uses the network says that its world is open: put: it uses the network, and its annotations say that its world is closed
            "#);
    }
}
