//! Renders the full documentation of one tool: the result of `getToolDocs`.

use serde_json::Value;

use super::{
    missing,
    names::{self, Found, Function, Namespace},
    signature::{example, signature},
    stub::Stub,
    text,
    types::{Detail, Field, Types, scalar},
};

/// Maximum length of a tool's description, in bytes.
const MAX_DESCRIPTION: usize = 8 << 10;
/// Maximum length of a field's description, in bytes.
const MAX_FIELD: usize = 1 << 10;
/// Maximum length of all fields, in bytes; for the arguments and the result separately.
const MAX_FIELDS: usize = 16 << 10;
/// Maximum depth of described fields.
const MAX_DEPTH: usize = 3;

/// Text in place of the fields of a schema that is too large.
pub(super) const LEFT_OUT: &str = "    Not shown: the schema is too large.";

/// Finds a tool. The error is a text for the model that lists the existing tools.
pub(super) fn find<'a>(
    namespaces: &'a [Namespace],
    server: &str,
    tool: &str,
) -> Result<(&'a Namespace, &'a Function), String> {
    let namespace = match names::find(namespaces, server) {
        Found::One(namespace) => namespace,
        Found::Many(several) => return Err(missing::ambiguous(server, &several)),
        Found::Nothing => return Err(missing::no_server(namespaces, server)),
    };
    let function = namespace
        .find(tool)
        .ok_or_else(|| missing::no_tool(namespace, tool, "Available tools are:"))?;
    Ok((namespace, function))
}

/// Renders the documentation of a tool.
pub(super) fn page(namespace: &Namespace, function: &Function, stub: &Stub) -> String {
    let mut out = banner(namespace, function, stub);
    out.push(String::new());
    out.push(format!("{}:", signature(function, stub)));
    let docstring = docstring(namespace, function, stub);
    out.extend(
        docstring
            .into_iter()
            .map(|line| if line.is_empty() { line } else { format!("    {line}") }),
    );
    out.push("    ...".to_owned());
    out.join("\n")
}

fn banner(namespace: &Namespace, function: &Function, stub: &Stub) -> Vec<String> {
    let full = format!("{}.{}", namespace.identifier, function.identifier);
    let mut lines = vec![format!("# {full}")];
    if function.tool.original != function.identifier {
        lines.push(format!(
            "# The server's own name for it: {}",
            text::line(&function.tool.original, 128)
        ));
    }
    if let Some(alias) = &function.alias {
        lines.push(format!("# Also callable as {}.{alias}", namespace.identifier));
    }
    lines.extend([
        format!("# Usage: {}", example(namespace, function, stub)),
        "# The call waits for the result: no async, no await".to_owned(),
        format!("# If it fails the script ends; attempt({full}, {{...}}) returns .ok, .value and .error instead"),
    ]);
    lines
}

fn docstring(namespace: &Namespace, function: &Function, stub: &Stub) -> Vec<String> {
    let tool = &function.tool;
    let mut lines = vec![r#"""""#.to_owned()];
    let description = tool.described();
    if !description.trim().is_empty() {
        lines.extend(text::block(&description, MAX_DESCRIPTION));
        lines.push(String::new());
    }
    if !stub.parameter_lines.is_empty() {
        lines.push("Args:".to_owned());
        lines.extend(stub.parameter_lines.lines().map(str::to_owned));
        lines.push(String::new());
    }
    lines.push("Returns:".to_owned());
    match &stub.field_lines {
        Some(fields) => {
            lines.push(format!("    {}", stub.returns_outline));
            lines.extend(fields.lines().map(|line| format!("    {line}")));
        }
        None => lines.push(
            "    Not declared: data if the result is JSON, otherwise a str. Print it once to see."
                .to_owned(),
        ),
    }
    lines.extend([
        String::new(),
        "Example:".to_owned(),
        format!("    result = {}", example(namespace, function, stub)),
    ]);
    lines.push(r#"""""#.to_owned());
    lines
}

/// Describes the fields of an object, one per line, each followed by its own fields.
pub(super) fn fields<'a>(types: Types<'a>, schema: &'a Value, what: &'a str) -> String {
    let Some(fields) = types.inner_fields(schema) else { return LEFT_OUT.to_owned() };
    let mut listing = Listing { types, what, room: MAX_FIELDS, lines: Vec::new() };
    listing.add(fields, 1);
    if listing.room == 0 {
        listing.lines.push("    ...".to_owned());
    }
    listing.lines.join("\n")
}

struct Listing<'a> {
    types: Types<'a>,
    what: &'a str,
    room: usize,
    lines: Vec<String>,
}

impl<'a> Listing<'a> {
    fn add(&mut self, mut fields: Vec<Field<'a>>, depth: usize) {
        fields.sort_by_key(|field| field.name);
        for field in fields {
            let line = format!("{}{}", "    ".repeat(depth), self.line(&field));
            self.room = self.room.saturating_sub(line.len());
            if self.room == 0 {
                return;
            }
            self.lines.push(line);
            if depth < MAX_DEPTH
                && let Some(fields) = self.types.inner_fields(field.schema)
            {
                self.add(fields, depth + 1);
            }
        }
    }

    /// Renders one field as `name (type): description (required)`.
    fn line(&self, field: &Field<'_>) -> String {
        let schema = self.types.resolve(field.schema);
        let name = text::line(field.name, 128);
        let description = schema.get("description").or_else(|| field.schema.get("description"));
        let description =
            match description.and_then(Value::as_str).map(|it| text::line(it, MAX_FIELD)) {
                Some(description) if !description.is_empty() => description,
                _ => format!("{name} {}", self.what),
            };
        let default =
            schema.get("default").and_then(scalar).filter(|it| it.len() <= 80 && it != "None");
        let presence = match (field.is_required, default) {
            (true, _) => "required".to_owned(),
            (false, Some(default)) => format!("optional, default {default}"),
            (false, None) => "optional".to_owned(),
        };
        let line = format!(
            "{name} ({}): {description} ({presence})",
            self.types.text(schema, Detail::Outline)
        );
        line.replace(r#"""""#, "'''")
    }
}
