//! Renders a tool as the signature of a Python function, and as an example call.

use super::{
    language,
    names::{Function, Namespace},
    stub::Stub,
    text,
    types::{Detail, Field, Types, keyed},
};

/// Maximum length of the parameters, in bytes: a schema of 256 KiB must not produce a line of that
/// length.
const MAX_PARAMETERS: usize = 1_500;
/// Maximum number of arguments in an example.
const MAX_ARGUMENTS: usize = 12;
/// Parameters of a tool whose schema is too large.
pub(super) const UNKNOWN_PARAMETERS: &str = "arguments: dict";
/// Arguments in an example of such a tool.
pub(super) const UNKNOWN_ARGUMENTS: &str = "{...}";

/// Renders `def name(parameters) -> type`.
pub(super) fn signature(function: &Function, stub: &Stub) -> String {
    format!("def {}({}) -> {}", function.identifier, stub.parameters, stub.returns)
}

/// Renders a call with all required arguments, or with the first argument if none is required.
pub(super) fn example(namespace: &Namespace, function: &Function, stub: &Stub) -> String {
    format!("{}.{}({})", namespace.identifier, function.identifier, stub.arguments)
}

/// Renders the text between the parentheses of a `def`. `fields` is `None` if there are too many to
/// read.
pub(super) fn parameters(types: Types<'_>, fields: Option<&[Field<'_>]>) -> String {
    let Some(fields) = fields else { return UNKNOWN_PARAMETERS.to_owned() };
    let parameters = fields.iter().map(|field| (field, types.text(field.schema, Detail::Fields)));
    if takes_dict(fields) {
        return format!(
            "arguments: {{{}}}",
            joined(parameters.map(|(field, kind)| keyed(field, &kind)))
        );
    }
    joined(parameters.map(|(field, kind)| {
        let default = if field.is_required { "" } else { " = None" };
        format!("{}: {kind}{default}", field.name)
    }))
}

/// Renders the text between the parentheses of an example.
pub(super) fn arguments(types: Types<'_>, fields: Option<&[Field<'_>]>) -> String {
    let Some(fields) = fields else { return UNKNOWN_ARGUMENTS.to_owned() };
    let needed = fields.iter().filter(|field| field.is_required).count().clamp(1, MAX_ARGUMENTS);
    let shown =
        fields.iter().take(needed).map(|field| (field.name, types.placeholder(field.schema)));
    let arguments = if takes_dict(fields) {
        let pairs: Vec<_> =
            shown.map(|(name, value)| format!("{}: {value}", text::quoted(name))).collect();
        format!("{{{}}}", pairs.join(", "))
    } else {
        shown.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
    };
    if arguments.len() <= MAX_PARAMETERS { arguments } else { UNKNOWN_ARGUMENTS.to_owned() }
}

/// Returns whether a call must pass one dict, because a name is not valid as a keyword argument.
fn takes_dict(fields: &[Field<'_>]) -> bool {
    !fields.iter().all(|field| language::is_identifier(field.name))
}

/// Joins parts with commas, as far as they fit; `...` stands for the rest.
fn joined(parts: impl Iterator<Item = String>) -> String {
    let mut out = String::new();
    for part in parts {
        if !out.is_empty() {
            out.push_str(", ");
        }
        if out.len() + part.len() > MAX_PARAMETERS {
            out.push_str("...");
            break;
        }
        out.push_str(&part);
    }
    out
}
