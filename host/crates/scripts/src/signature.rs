//! Renders a tool as the signature of a Python function, and as an example call.

use serde_json::Value;

use super::{
    literal,
    names::{Namespace, ScriptFunction},
    stub::ShownTool,
    text,
    types::{SchemaField, TypeWriter, Types, alternatives},
};
use airlock_core::script_names;

/// Maximum bytes of the parameters, and of the arguments in an example: a schema of 256 KiB must not
/// produce a line of that length.
const MAX_PARAMETERS: usize = 1_500;
/// Maximum number of arguments in an example, of a tool that requires more. An example shows the
/// form of a call; the parameters are listed beside it.
const MAX_ARGUMENTS: usize = 12;
/// Parameters of a tool whose schema is too large.
pub(super) const UNKNOWN_PARAMETERS: &str = "arguments: dict";
/// Arguments in an example of such a tool.
pub(super) const UNKNOWN_ARGUMENTS: &str = "{...}";

/// Renders `def name(parameters) -> type`.
pub(super) fn signature(function: &ScriptFunction, shown: &ShownTool) -> String {
    let name = &function.identifier;
    let parameters = &shown.stub.parameters;
    super::stub::named(&format!("def {name}({parameters}) -> {}", shown.returns()), function)
}

/// Renders a call with all required arguments, or with the first argument if none is required.
pub(super) fn example(
    namespace: &Namespace,
    function: &ScriptFunction,
    shown: &ShownTool,
) -> String {
    format!("{}.{}({})", namespace.identifier, function.identifier, shown.stub.arguments)
}

/// Renders the text between the parentheses of a `def`. `fields` is `None` if there are too many to
/// read.
pub(super) fn parameters<'a>(
    writer: &mut TypeWriter<'a, '_>,
    schema: &'a Value,
    fields: Option<&[SchemaField<'a>]>,
) -> String {
    let Some(fields) = fields else { return UNKNOWN_PARAMETERS.to_owned() };
    if fields.is_empty() {
        return free_form(writer, schema);
    }
    if takes_dict(fields) {
        let class = writer.class(schema, fields, "");
        return class
            .map_or_else(|| UNKNOWN_PARAMETERS.to_owned(), |class| format!("arguments: {class}"));
    }
    let mut out = String::new();
    for field in fields {
        let parameter = (field.name.len() <= MAX_PARAMETERS).then(|| {
            let kind = writer.text(field.schema, field.name);
            let default = if field.is_required {
                String::new()
            } else {
                format!(" = {}", literal::default(field.schema))
            };
            format!("{}: {kind}{default}", field.name)
        });
        let separator = if out.is_empty() { "" } else { ", " };
        let left = MAX_PARAMETERS.saturating_sub(out.len() + separator.len());
        let Some(parameter) = parameter.filter(|parameter| parameter.len() <= left) else {
            out.extend([separator, &format!("**{}: Any", rest_of(fields))]);
            break;
        };
        out.extend([separator, &parameter]);
    }
    out
}

/// Renders the parameters of a tool whose schema names none.
fn free_form<'a>(writer: &mut TypeWriter<'a, '_>, schema: &'a Value) -> String {
    if alternatives(schema).is_some() {
        return match writer.text(schema, "").as_str() {
            "Any" => UNKNOWN_PARAMETERS.to_owned(),
            kind => format!("arguments: {kind}"),
        };
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(true)) => "**arguments: Any".to_owned(),
        Some(values @ Value::Object(_)) => format!("**arguments: {}", writer.text(values, "")),
        _ => String::new(),
    }
}

/// Returns a name for the parameters that are not shown, which none of them has.
fn rest_of(fields: &[SchemaField<'_>]) -> String {
    let mut name = "others".to_owned();
    while fields.iter().any(|field| field.name == name) {
        name.push('_');
    }
    name
}

/// Renders the text between the parentheses of an example.
pub(super) fn arguments(types: Types<'_>, fields: Option<&[SchemaField<'_>]>) -> String {
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
fn takes_dict(fields: &[SchemaField<'_>]) -> bool {
    !fields.iter().all(|field| script_names::is_identifier(field.name) && field.name != "__debug__")
}
