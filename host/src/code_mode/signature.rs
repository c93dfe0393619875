//! A tool as the head of a Python function, and as a call of it.

use super::{
    language,
    names::{Function, Namespace},
    text,
    types::{Detail, Field, Types, keyed},
};

/// Bytes of the parameters: a schema of 256 KiB must not become a line of that length.
const MAX_PARAMETERS: usize = 1_500;
/// Arguments of an example.
const MAX_ARGUMENTS: usize = 12;

/// `def name(parameters) -> type`.
pub(super) fn signature(function: &Function) -> String {
    format!("def {}({}) -> {}", function.identifier, parameters(function), returned(function, Detail::Fields))
}

/// What a call gives. A tool that does not say what it answers may answer with anything.
pub(super) fn returned(function: &Function, detail: Detail) -> String {
    let schema = function.tool.output_schema.as_ref();
    schema.map_or_else(|| "Any".to_owned(), |schema| Types::new(schema).text(schema, detail))
}

/// A call with all that it needs, or with the first argument if it needs none.
pub(super) fn example(namespace: &Namespace, function: &Function) -> String {
    let types = Types::new(&function.tool.input_schema);
    let fields = types.fields(&function.tool.input_schema);
    let needed = fields.iter().filter(|field| field.is_required).count().clamp(1, MAX_ARGUMENTS);
    let shown = fields.iter().take(needed).map(|field| (field.name, types.placeholder(field.schema)));
    let arguments = if takes_dict(&fields) {
        let pairs: Vec<_> = shown.map(|(name, value)| format!("{}: {value}", text::quoted(name))).collect();
        format!("{{{}}}", pairs.join(", "))
    } else {
        shown.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
    };
    format!("{}.{}({arguments})", namespace.identifier, function.identifier)
}

/// Whether a call must pass one dict, since some name cannot be a keyword argument.
fn takes_dict(fields: &[Field<'_>]) -> bool {
    !fields.iter().all(|field| language::is_identifier(field.name))
}

fn parameters(function: &Function) -> String {
    let types = Types::new(&function.tool.input_schema);
    let fields = types.fields(&function.tool.input_schema);
    let parameters = fields.iter().map(|field| (field, types.text(field.schema, Detail::Fields)));
    if takes_dict(&fields) {
        return format!("arguments: {{{}}}", joined(parameters.map(|(field, kind)| keyed(field, &kind))));
    }
    joined(parameters.map(|(field, kind)| {
        let default = if field.is_required { "" } else { " = None" };
        format!("{}: {kind}{default}", field.name)
    }))
}

/// Parts divided by commas, as far as they fit; `...` stands for the rest.
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
