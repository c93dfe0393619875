//! Cleans the definition of a tool. Only descriptions and titles may change; a mark at another place, such as a name or
//! the value of an `enum`, is reported.

use serde_json::Value;

use crate::{mark::MarkKind, settings::MarkSettings, text::TextCleaner};

/// Members whose texts may change.
const TEXTS: [&str; 2] = ["description", "title"];
/// Keywords of JSON Schema whose values are data, in which a text is no description.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];
/// Member for programs, which no model reads.
const META: &str = "_meta";

/// A review of one definition.
#[derive(Debug)]
pub struct DefinitionTexts<'s> {
    texts: TextCleaner<'s>,
    /// Only looks: what it finds cannot be removed.
    others: TextCleaner<'s>,
    is_changed: bool,
}

impl<'s> DefinitionTexts<'s> {
    /// Creates a review.
    pub fn new(settings: &'s MarkSettings) -> Self {
        Self {
            texts: TextCleaner::new(settings, Vec::new()),
            others: TextCleaner::new(settings, Vec::new()),
            is_changed: false,
        }
    }

    /// Cleans the descriptions and titles of a definition. Returns whether one has changed.
    pub fn clean(&mut self, definition: &mut Value) -> bool {
        self.value(definition, "", false);
        self.is_changed
    }

    /// Returns the kinds because of which the tool is not offered: those that are denied, and those that cannot be removed.
    pub fn denied(&self) -> Vec<MarkKind> {
        let mut denied = self.texts.denied();
        for kind in self.others.found() {
            if !denied.contains(kind) {
                denied.push(*kind);
            }
        }
        denied
    }

    /// Cleans the value of a member. `is_data` is true in values that are no schemas.
    fn value(&mut self, value: &mut Value, name: &str, is_data: bool) {
        match value {
            Value::String(text) if !is_data && TEXTS.contains(&name) => {
                if let Some(cleaned) = self.texts.clean(text) {
                    *text = cleaned;
                    self.is_changed = true;
                }
            }
            Value::String(text) => {
                self.others.clean(text);
            }
            Value::Array(items) => {
                for item in items {
                    self.value(item, "", is_data);
                }
            }
            Value::Object(members) => {
                for (name, value) in members.iter_mut().filter(|(name, _)| *name != META) {
                    self.others.clean(name);
                    self.value(value, name, is_data || DATA.contains(&name.as_str()));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn descriptions_and_titles_are_cleaned_everywhere() {
        let settings = MarkSettings::default();
        let mut review = DefinitionTexts::new(&settings);
        let mut definition = json!({
            "name": "add", "title": "Add<!-- a -->", "description": "Adds. <important> x </IMPORTANT>",
            "inputSchema": {"type": "object", "properties": {
                "description": {"type": "string", "description": "[INST]", "default": "plain"},
            }},
            "annotations": {"title": "A[INST]"},
            "_meta": {"x": "[INST]"},
        });
        assert!(review.clean(&mut definition));
        assert!(review.denied().is_empty());
        let note = "[forged mark removed: 6 characters]";
        assert_eq!(
            definition,
            json!({
                "name": "add", "title": "Add[hidden text removed: 10 characters]",
                "description": "Adds. [forged mark removed: 11 characters] x [forged mark removed: 12 characters]",
                "inputSchema": {"type": "object", "properties": {
                    "description": {"type": "string", "description": note, "default": "plain"},
                }},
                "annotations": {"title": format!("A{note}")},
                "_meta": {"x": "[INST]"},
            })
        );
    }

    #[test]
    fn a_mark_that_cannot_be_removed_is_reported() {
        for definition in [
            json!({"name": "[INST]"}),
            json!({"name": "a", "inputSchema": {"properties": {"[INST]": {}}}}),
            json!({"name": "a", "inputSchema": {"enum": ["x", "[INST]"]}}),
            json!({"name": "a", "inputSchema": {"default": {"description": "[INST]"}}}),
            json!({"name": "a", "description": ["[INST]"]}),
        ] {
            let settings = MarkSettings::default();
            let mut review = DefinitionTexts::new(&settings);
            assert!(!review.clean(&mut definition.clone()), "{definition}");
            assert_eq!(review.denied(), [MarkKind::ForgedMarks], "{definition}");
        }
    }
}
