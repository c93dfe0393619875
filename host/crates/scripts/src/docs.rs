//! Renders the full documentation of one tool: the result of `getToolDocs`.

use serde_json::Value;

use super::{
    constraints::{self, TEXTS},
    language::LanguageTexts,
    literal::{MAX_PLACEHOLDER, scalar, text_bytes},
    missing,
    names::{Namespace, ScriptFunction},
    signature::{example, signature},
    stub::ShownTool,
    text,
    types::{SchemaField, Types},
};
use airlock_core::tool::Annotations;

/// Maximum bytes of a tool's description, of which a server may send twice as many: about 2,000 tokens, which stay in
/// the conversation.
const MAX_DESCRIPTION: usize = 8 << 10;
/// Maximum bytes of a field's description. One field then takes a sixteenth of [`MAX_FIELDS`] at most.
const MAX_FIELD: usize = 1 << 10;
/// Maximum bytes of the lines of all fields, for the arguments and the result separately: about 4,000
/// tokens each. A schema of 256 KiB could have 60,000.
const MAX_FIELDS: usize = 16 << 10;
/// Maximum nesting of described fields. References can make it endless.
const MAX_DEPTH: usize = 3;

/// Text in place of the fields of a schema that is too large.
pub(super) const LEFT_OUT: &str = "    Not shown: the schema is too large.";

/// Finds a tool. The error is a text for the model that lists the existing tools.
pub(super) fn find<'a>(
    namespaces: &'a [Namespace],
    server: &str,
    tool: &str,
) -> Result<(&'a Namespace, &'a ScriptFunction), String> {
    let namespace = missing::server(namespaces, server)?;
    let function = namespace
        .find(tool)
        .ok_or_else(|| missing::no_tool(namespace, tool, "Available tools are:"))?;
    Ok((namespace, function))
}

/// Renders the documentation of a tool. `is_auto` is true if it runs without an approval.
pub(super) fn page(
    namespace: &Namespace,
    function: &ScriptFunction,
    shown: &ShownTool,
    is_auto: bool,
    language: &LanguageTexts,
) -> String {
    let mut out = banner(namespace, function, shown, is_auto, language);
    out.push(String::new());
    out.extend(shown.classes(function));
    out.push(format!("{}:", signature(function, shown)));
    let docstring = docstring(namespace, function, shown);
    out.extend(
        docstring
            .into_iter()
            .map(|line| if line.is_empty() { line } else { format!("    {line}") }),
    );
    out.push("    ...".to_owned());
    out.join("\n")
}

fn banner(
    namespace: &Namespace,
    function: &ScriptFunction,
    shown: &ShownTool,
    is_auto: bool,
    language: &LanguageTexts,
) -> Vec<String> {
    let full = format!("{}.{}", namespace.identifier, function.identifier);
    let mut lines = vec![format!("# {full}")];
    if function.tool.original != function.identifier {
        let original = text::echo(&function.tool.original);
        lines.push(format!("# The server's own name for it: {original}"));
    }
    if let Some(alias) = &function.alias {
        lines.push(format!("# Also callable as {}.{alias}", namespace.identifier));
    }
    lines.extend([
        format!("# Usage: {}", example(namespace, function, shown)),
        format!("# {}", language.waits),
        format!("# {}", language.fails.replace("TOOL", &full)),
    ]);
    let approval = if is_auto {
        "# Approval: not needed"
    } else {
        "# Approval: needed; a person approves each call before it runs"
    };
    lines.push(approval.to_owned());
    let effect = effect(&function.tool.annotations);
    lines.extend(effect.map(|effect| format!("# Effect, as the server declares it: {effect}")));
    lines
}

/// Describes the declared behaviour of a tool. `None` if it declares none.
fn effect(annotations: &Annotations) -> Option<String> {
    let mut parts = Vec::new();
    match (annotations.read_only, annotations.destructive) {
        (Some(true), _) => parts.push("read-only"),
        (_, Some(true)) => parts.push("destructive: it may delete or overwrite"),
        (_, Some(false)) => parts.push("changes data, but only adds"),
        (Some(false), None) => parts.push("changes data"),
        (None, None) => {}
    }
    // A call that changes nothing may always be repeated.
    if annotations.idempotent == Some(true) && annotations.read_only != Some(true) {
        parts.push("a second call with the same arguments changes nothing more");
    }
    if annotations.open_world == Some(true) {
        parts.push("reaches outside systems");
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn docstring(namespace: &Namespace, function: &ScriptFunction, shown: &ShownTool) -> Vec<String> {
    let tool = &function.tool;
    let mut lines = Vec::new();
    let description = tool.described();
    if !description.trim().is_empty() {
        lines.extend(text::block(&description, MAX_DESCRIPTION));
        lines.push(String::new());
    }
    if !shown.stub.parameter_lines.is_empty() {
        lines.push("Args:".to_owned());
        lines.extend(shown.stub.parameter_lines.lines().map(str::to_owned));
        lines.push(String::new());
    }
    lines.push("Returns:".to_owned());
    if let Some(observed) = &shown.observed {
        lines.push(format!("    Not declared. As observed in {}:", observed.seen));
    }
    match shown.returned() {
        Some(returned) => {
            lines.push(format!("    {}", returned.outline));
            lines.extend(returned.field_lines.lines().map(|line| format!("    {line}")));
        }
        None => lines.push(
            "    Not declared: data if the result is JSON, otherwise a str. Print it once to see."
                .to_owned(),
        ),
    }
    lines.extend([
        String::new(),
        "Example:".to_owned(),
        format!("    result = {}", example(namespace, function, shown)),
    ]);
    let mut lines: Vec<_> = lines.into_iter().map(|line| line.replace(r#"""""#, "'''")).collect();
    // A backslash would begin an escape sequence, which need not be valid.
    let is_raw = lines.iter().any(|line| line.contains('\\'));
    lines.insert(0, if is_raw { r#"r""""# } else { r#"""""# }.to_owned());
    lines.push(r#"""""#.to_owned());
    lines
}

/// Describes the fields of an object, one per line, each followed by its own fields.
pub(super) fn fields<'a>(types: Types<'a>, schema: &'a Value, what: &'a str) -> String {
    let Some(fields) = types.inner_fields(schema) else { return LEFT_OUT.to_owned() };
    let mut listing = FieldListing { types, what, room: MAX_FIELDS, lines: Vec::new() };
    listing.add(fields, 1);
    if listing.room == 0 {
        listing.lines.push("    ...".to_owned());
    }
    listing.lines.join("\n")
}

struct FieldListing<'a> {
    types: Types<'a>,
    what: &'a str,
    room: usize,
    lines: Vec<String>,
}

impl<'a> FieldListing<'a> {
    fn add(&mut self, mut fields: Vec<SchemaField<'a>>, depth: usize) {
        fields.sort_by_key(|field| field.name);
        for field in fields {
            let schema = self.types.resolve(field.schema);
            let texts = read_bytes(&field, schema);
            if !self.types.pay_read(texts + constraints::values_cost(schema)) {
                self.room = 0;
                return;
            }
            let line = format!("{}{}", "    ".repeat(depth), self.line(&field, schema));
            // Hundreds of fields can refer to one text, and one of blanks shows nothing: it takes room for what is read of it.
            self.room = self.room.saturating_sub(line.len().max(texts / text::MAX_READ));
            if self.room == 0 {
                return;
            }
            self.lines.push(line);
            if depth < MAX_DEPTH
                && let Some(fields) = self.types.inner_fields(schema)
            {
                self.add(fields, depth + 1);
            }
        }
    }

    /// Renders one field as `name (type): description (required)`. `schema` is that to which its references lead.
    fn line(&self, field: &SchemaField<'a>, schema: &'a Value) -> String {
        let name = text::echo(field.name);
        let description = match description(field, schema).map(|text| text::line(text, MAX_FIELD)) {
            Some(description) if !description.is_empty() => description,
            _ => format!("{name} {}", self.what),
        };
        let kind = self.types.outline(schema);
        let presence = if field.is_required { "required" } else { "optional" };
        let mut notes = vec![presence.to_owned()];
        let default = default(field, schema)
            .and_then(scalar)
            .filter(|default| default.len() <= MAX_PLACEHOLDER && default != "None");
        notes.extend(default.map(|default| format!("default {default}")));
        let others = ["] | str", "] | int", "] | float", "] | bool", "] | list", "] | dict"];
        let is_cut =
            !kind.starts_with("Literal[") || others.iter().any(|other| kind.contains(other));
        notes.extend(constraints::describe(schema, is_cut));
        format!("{name} ({kind}): {description} ({})", notes.join(", "))
    }
}

/// Returns the bytes of the texts of a field that its line reads, at most.
fn read_bytes(field: &SchemaField<'_>, schema: &Value) -> usize {
    let described = [Some(schema), schema.get("items")].into_iter().flatten();
    let texts = described
        .flat_map(|schema| {
            TEXTS.into_iter().filter_map(move |keyword| schema.get(keyword)?.as_str())
        })
        .chain(description(field, schema))
        .chain([field.name]);
    let texts: usize = texts.map(|text| text.len().min(MAX_FIELD * text::MAX_READ)).sum();
    texts + default(field, schema).map_or(0, text_bytes)
}

fn default<'v>(field: &SchemaField<'v>, schema: &'v Value) -> Option<&'v Value> {
    schema.get("default").or_else(|| field.schema.get("default"))
}

fn description<'v>(field: &SchemaField<'v>, schema: &'v Value) -> Option<&'v str> {
    schema.get("description").or_else(|| field.schema.get("description"))?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::budget::RenderBudget;

    #[test]
    fn texts_and_values_that_a_line_reads_are_paid_for() {
        let blanks = " ".repeat(6_400);
        let least = spent_on_ten(&json!({}));
        for (read, units) in [
            (json!({"description": blanks}), 100),
            (json!({"items": {"format": blanks}}), 100),
            (json!({"default": "x".repeat(320)}), 5),
            // They are read up to 2,000.
            (json!({"examples": vec![json!([]); 3_200]}), 31),
        ] {
            let spent = spent_on_ten(&read);
            assert!(spent >= least + 10 * units, "{spent} units, {units} for each field");
        }
    }

    /// Returns the units that the list of ten fields takes, which refer to one schema.
    fn spent_on_ten(read: &Value) -> usize {
        let fields: Map<_, _> =
            (0..10).map(|n| (format!("p{n}"), json!({"$ref": "#/$defs/read"}))).collect();
        let schema = json!({"$defs": {"read": read}, "properties": fields});
        let budget = RenderBudget::whole();
        let listing = super::fields(Types::new(&schema, &budget), &schema, "parameter");
        assert_eq!(listing.lines().count(), 10, "{listing}");
        budget.spent()
    }

    #[test]
    fn texts_that_show_nothing_take_room_for_what_is_read_of_them() {
        let blanks = " ".repeat(MAX_FIELD * text::MAX_READ);
        for hidden in [json!({"description": blanks}), json!({"items": {"pattern": blanks}})] {
            let fields: Map<_, _> =
                (0..100).map(|n| (format!("p{n}"), json!({"$ref": "#/$defs/hidden"}))).collect();
            let schema = json!({"$defs": {"hidden": hidden}, "properties": fields});
            let budget = RenderBudget::whole();
            let listing = super::fields(Types::new(&schema, &budget), &schema, "parameter");
            // Each field takes a sixteenth of the room, and the last line says that more are left out.
            assert_eq!(listing.lines().count(), MAX_FIELDS / MAX_FIELD, "{listing}");
            assert!(listing.ends_with("    ..."), "{listing}");
        }
    }
}
