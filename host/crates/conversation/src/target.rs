//! Members of a request to a provider whose API is not the caller's.

use serde_json::{Value, json};

use crate::{
    Object,
    read::{Path, Result, Untranslatable},
};

/// A member without a counterpart, with the value that asks for nothing, as a predicate and as text for errors.
pub(crate) type ForeignMember = (&'static str, fn(&Value) -> bool, &'static str);

/// Members of OpenAI's API that neither Anthropic's nor Gemini's has.
const OF_OPENAI: [ForeignMember; 10] = [
    ("logit_bias", |bias| bias.as_object().is_some_and(Object::is_empty), "{}"),
    ("modalities", |modalities| *modalities == json!(["text"]), "[\"text\"]"),
    ("audio", never, "null"),
    ("store", is_false, "false"),
    ("verbosity", |verbosity| verbosity == "medium", "\"medium\""),
    ("moderation", never, "null"),
    ("functions", |functions| functions.as_array().is_some_and(Vec::is_empty), "null; use `tools`"),
    ("function_call", never, "null; use `tool_choice`"),
    ("web_search_options", never, "null"),
    ("mcp_servers", never, "null"),
];

/// API of a provider, in the words of errors.
pub(crate) struct Target {
    /// Its name.
    pub(crate) api: &'static str,
    /// The possessive of its owner.
    pub(crate) owner: &'static str,
}

impl Target {
    /// Removes members of OpenAI's API, and `more` of them, that ask for nothing. Fails if one asks for something.
    pub(crate) fn remove_foreign(
        &self,
        members: &mut Object,
        more: &[ForeignMember],
    ) -> Result<()> {
        for (name, asks_for_nothing, default) in OF_OPENAI.iter().chain(more) {
            let value = members.shift_remove(*name);
            if let Some(value) = value.filter(|value| !asks_for_nothing(value)) {
                let api = self.api;
                let advice = format!("It has no counterpart in {api}; it must be {default}.");
                let path = Path::Member(&Path::Root, name);
                return Err(Untranslatable::unsupported_value(&path, &value, &advice));
            }
        }
        Ok(())
    }

    /// Sets a member of the API that `param` is translated to. Fails if the caller also sent that member.
    pub(crate) fn set(
        &self,
        target: &mut Object,
        name: &str,
        value: Value,
        param: &str,
    ) -> Result<()> {
        match target.insert(name.to_owned(), value) {
            None | Some(Value::Null) => Ok(()),
            Some(_) => {
                let advice = format!("It must not be combined with {} own `{name}`.", self.owner);
                Err(Untranslatable::unsupported_parameter(&Path::Root.member(param), &advice))
            }
        }
    }
}

/// Returns a member that is an object, and creates it if it is absent.
pub(crate) fn member<'a>(target: &'a mut Object, name: &str) -> Result<&'a mut Object> {
    match target.entry(name).or_insert_with(|| Object::new().into()) {
        Value::Object(member) => Ok(member),
        other => Err(Untranslatable::invalid_type(&Path::Root.member(name), "an object", other)),
    }
}

pub(crate) fn is_false(value: &Value) -> bool {
    *value == false
}

fn never(_: &Value) -> bool {
    false
}
