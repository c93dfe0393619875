//! Requests to models, and their responses.

use serde::{Deserialize, Serialize};

use super::Verdict;
use crate::Error;

/// A request to a model, or its response.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelExchange {
    /// Name of the model that is asked: the provider, `/`, and its name there.
    pub model: String,
    /// Name of the virtual key of the request; `None` if it came without one.
    pub key: Option<String>,
    /// The party that the request is accounted to, for people.
    pub tenant: String,
    /// The texts: the JSON text of an array of objects with `role` and `text`. A request has those that were added since
    /// the hook ran before: at first the whole conversation, then the last response and the results of its calls.
    pub texts: String,
    /// The settings of the guard: the JSON text of an object, empty if there are none.
    pub settings: String,
    /// Further members of later gateways: the JSON text of an object.
    pub extra: Option<String>,
}

/// A text of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelText {
    /// The role of its message, as the request has it; else `call` for the arguments of a call, `tool` for a result, and
    /// `reasoning`.
    pub role: String,
    /// The text.
    pub text: String,
}

/// A part of a text that the model is not to see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HiddenPart {
    /// Place of its first byte in the text.
    pub start: usize,
    /// Place after its last byte.
    pub end: usize,
    /// The kind of the part, such as `email`: at most 24 letters from a to z and `_`.
    pub kind: String,
}

/// A text with the parts that are hidden, as the gateway reads it.
#[derive(Serialize)]
struct HidingText<'t> {
    #[serde(flatten)]
    text: &'t ModelText,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hide: Vec<HiddenPart>,
}

impl ModelExchange {
    /// Creates a request or a response without a key, for tests of a guard without settings: its texts are pairs of a
    /// role and a text.
    pub fn new(texts: &[(&str, &str)]) -> Self {
        let texts = texts
            .iter()
            .map(|(role, text)| ModelText { role: (*role).to_owned(), text: (*text).to_owned() });
        Self {
            model: "provider/model".to_owned(),
            key: None,
            tenant: "anonymous".to_owned(),
            texts: serde_json::json!(texts.collect::<Vec<_>>()).to_string(),
            settings: "{}".to_owned(),
            extra: None,
        }
    }

    /// Parses the texts.
    pub fn texts(&self) -> Result<Vec<ModelText>, Error> {
        Ok(serde_json::from_str(&self.texts)?)
    }

    /// Replaces each text by what `change` returns for it, and allows the exchange if it returns `None` for all.
    ///
    /// ```
    /// use airlock_guest::guard::{ModelExchange, Verdict};
    ///
    /// let exchange = ModelExchange::new(&[("user", "my name is Ann")]);
    /// let verdict = exchange.rewrite(|text| {
    ///     text.text.contains("Ann").then(|| text.text.replace("Ann", "[name]"))
    /// });
    /// let expected = r#"[{"role":"user","text":"my name is [name]"}]"#;
    /// assert_eq!(verdict.unwrap(), Verdict::Rewrite(expected.to_owned()));
    /// ```
    pub fn rewrite(&self, change: impl Fn(&ModelText) -> Option<String>) -> Result<Verdict, Error> {
        let mut texts = self.texts()?;
        let mut is_changed = false;
        for text in &mut texts {
            if let Some(changed) = change(text) {
                text.text = changed;
                is_changed = true;
            }
        }
        if is_changed { Verdict::rewrite(&texts) } else { Ok(Verdict::Allow) }
    }

    /// Hides the parts of each text that `find` returns for it, in their order, and allows the request if it returns none
    /// for all. The model gets placeholders such as `[EMAIL_1]` in their places. In its response, and in the arguments of
    /// its calls, the gateway puts the parts back. Valid before the model alone.
    ///
    /// A part has 4 to 256 bytes, without quotes of any kind, backslashes, `[`, `]`, `{`, `}`, `$` and control characters.
    /// Otherwise, and if a request has more than 4,096 different parts, the request is not sent.
    ///
    /// ```
    /// use airlock_guest::guard::{HiddenPart, ModelExchange, Verdict};
    ///
    /// let exchange = ModelExchange::new(&[("user", "mail ann@a.example")]);
    /// let verdict = exchange.hide(|text| {
    ///     let start = text.text.find("ann@a.example");
    ///     let part = start.map(|start| HiddenPart { start, end: start + 13, kind: "email".into() });
    ///     part.into_iter().collect()
    /// });
    /// let expected = r#"[{"role":"user","text":"mail ann@a.example","hide":[{"start":5,"end":18,"kind":"email"}]}]"#;
    /// assert_eq!(verdict.unwrap(), Verdict::Rewrite(expected.to_owned()));
    /// ```
    pub fn hide(&self, find: impl Fn(&ModelText) -> Vec<HiddenPart>) -> Result<Verdict, Error> {
        let texts = self.texts()?;
        let texts = texts.iter().map(|text| HidingText { text, hide: find(text) });
        let texts: Vec<_> = texts.collect();
        if texts.iter().all(|text| text.hide.is_empty()) {
            return Ok(Verdict::Allow);
        }
        Verdict::rewrite(&texts)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_parsed_and_an_exchange_without_changes_is_allowed() {
        let exchange = ModelExchange::new(&[("user", "a"), ("tool", "b")]);
        let exchange = exchange.with_settings(&json!([1]));
        let roles: Vec<_> = exchange.texts().unwrap().into_iter().map(|text| text.role).collect();
        assert_eq!(roles, ["user", "tool"]);
        assert_eq!(exchange.rewrite(|_| None), Ok(Verdict::Allow));
        assert_eq!(exchange.hide(|_| Vec::new()), Ok(Verdict::Allow));
        assert_eq!(exchange.settings::<Vec<u8>>(), Ok(vec![1]));
        let broken = ModelExchange { texts: "{}".to_owned(), ..exchange };
        assert!(broken.texts().is_err());
    }
}
