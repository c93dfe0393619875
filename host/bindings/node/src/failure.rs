//! Failures as text for JavaScript. `lib/errors.js` makes the errors of the package from it.

use airlock_binding::{BindingFailure, FailedScript, NameStyle};
use serde_json::{Map, Value, json};

use crate::convert::to_text;

/// Describes a failure as a text of an object: the class of its error, the message, and the properties of the class.
pub(crate) fn described(failure: &BindingFailure) -> String {
    let mut details = Map::new();
    details.insert("class".into(), failure.class_name().into());
    details.insert("message".into(), failure.to_string().into());
    match failure {
        BindingFailure::Script(script) => describe(script, &mut details),
        BindingFailure::Limit { limit, .. } => {
            details.insert("limit".into(), NameStyle::Camel.spell(limit).into());
        }
        BindingFailure::Gateway(failure) => {
            details.insert("code".into(), failure.code.as_str().into());
            details.extend(failure.details.clone());
        }
        _ => {}
    }
    to_text(&Value::Object(details))
}

fn describe(script: &FailedScript, details: &mut Map<String, Value>) {
    details.insert("kind".into(), script.kind.into());
    details.insert("line".into(), json!(script.line));
    details.insert("column".into(), json!(script.column));
    details.insert("rendered".into(), script.rendered.as_str().into());
    if let Some(tool) = &script.tool {
        details.insert("tool".into(), tool.name.as_str().into());
        details.insert("code".into(), json!(tool.code));
        // The package has the error of this call.
        details.insert("call".into(), json!(tool.call.map(|call| call.to_string())));
    }
}

/// Makes the error of a failure of a function that JavaScript calls.
pub(crate) fn thrown(failure: &BindingFailure) -> napi::Error {
    napi::Error::from_reason(described(failure))
}
