//! Advice about a call of a tool that a script wrote wrongly. It needs the names of the tool's
//! parameters, which no executor knows.

use std::fmt::Write as _;

use super::{
    names::{Namespace, ScriptFunction},
    signature::example,
    stub::ShownTool,
};
use airlock_core::tool::Tool;
use airlock_sandbox::{FailureKind, ScriptFailure};

/// End of the call that an executor shows, in place of the names of the parameters.
const UNKNOWN: &str = "(name = …)`";

/// Returns the tool whose call has failed; `None` if the failure is about no call.
pub(super) fn called<'a>(
    failure: &ScriptFailure,
    namespaces: &'a [Namespace],
) -> Option<(&'a Namespace, &'a ScriptFunction)> {
    let message = failure.message.strip_prefix("TypeError: ").unwrap_or(&failure.message);
    let (namespace, name) = message.split([' ', ':']).next()?.split_once('.')?;
    let namespace = namespaces.iter().find(|known| known.identifier == namespace)?;
    let function = namespace.functions.iter().find(|function| function.identifier == name)?;
    Some((namespace, function))
}

/// Completes the text of a failed call of `function`, if the names of its parameters are missing in it.
/// The message stays, because a replay must fail with the same one.
pub(super) fn complete(
    failure: &mut ScriptFailure,
    namespace: &Namespace,
    function: &ScriptFunction,
    shown: &ShownTool,
) {
    let call = example(namespace, function, shown);
    let text = &mut failure.rendered;
    if let Some(at) = text.find(UNKNOWN) {
        if let Some(start) = text[..at].rfind('`') {
            text.replace_range(start..at + UNKNOWN.len(), &format!("`{call}`"));
        }
    } else if failure.kind == FailureKind::Tool
        && let Some(parameter) = object_parameter(&function.tool)
        && is_missing(&parameter, text)
    {
        text.truncate(text.trim_end().len());
        let _ = write!(
            text,
            "\nhint: one dict is taken as all arguments, by their names; to give it as `{parameter}`, write `{call}`\n"
        );
    }
}

/// Returns the name of the only required parameter, if it is an object.
fn object_parameter(tool: &Tool) -> Option<String> {
    let schema = tool.input_schema.to_value().ok()?;
    let [required] = &schema.get("required")?.as_array()?[..] else { return None };
    let name = required.as_str()?;
    let parameter = schema.get("properties")?.get(name)?;
    (parameter.get("type")? == "object").then(|| name.to_owned())
}

/// Returns whether a message of the gateway or of a server says that a parameter is missing.
fn is_missing(parameter: &str, text: &str) -> bool {
    let says_so = ["missing", "Missing", "required"].iter().any(|word| text.contains(word));
    let mut places = text.match_indices(parameter);
    says_so
        && places.any(|(at, _)| {
            let after = &text[at + parameter.len()..];
            !text[..at].ends_with(is_word) && !after.starts_with(is_word)
        })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_missing_if_the_message_names_it_as_a_word() {
        for (text, expected) in [
            ("the argument `id` is missing", true),
            ("'id' is a required property", true),
            ("id: Missing", true),
            ("an invalid value was provided; required: name", false),
            ("the argument `id_of` is missing", false),
            ("`id` is odd", false),
        ] {
            assert_eq!(is_missing("id", text), expected, "{text}");
        }
    }
}
