//! Requests to models, and their responses.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Verdict, parse_settings};
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

    /// Sets the settings of the guard, for tests.
    #[must_use]
    pub fn with_settings(self, settings: &Value) -> Self {
        Self { settings: settings.to_string(), ..self }
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

    /// Parses the settings of the guard.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T, Error> {
        parse_settings(&self.settings)
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
        assert_eq!(exchange.settings::<Vec<u8>>(), Ok(vec![1]));
        let broken = ModelExchange { texts: "{}".to_owned(), ..exchange };
        assert!(broken.texts().is_err());
    }
}
