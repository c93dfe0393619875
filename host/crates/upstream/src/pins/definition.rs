//! A definition as it is pinned: its text and its digest.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;

use super::sets;
use airlock_core::tool::ToolDefinition;
use airlock_lock::{digest, sorted};

/// A definition of a tool, with its digest over all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    text: Arc<str>,
    digest: Arc<str>,
}

impl Definition {
    /// Creates the definition of a tool. Fails if its text could not be read again, because it is
    /// nested too deeply.
    pub(super) fn new(tool: &ToolDefinition) -> Result<Self, serde_json::Error> {
        let value = serde_json::to_value(tool)?;
        let text = value.to_string();
        serde_json::from_str::<ToolDefinition>(&text)?;
        Ok(Self { text: text.into(), digest: digest_of(value).into() })
    }

    /// Reads the text of a definition.
    pub(super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        Self::new(&serde_json::from_str(text)?)
    }

    /// Returns the definition as JSON, with its members in the order in which the server sent them.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns `sha256:` and the digest in hexadecimal. The order of members does not count.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns whether two definitions differ at most in the order of sets.
    pub(super) fn is_same_but_for_order(&self, other: &Self) -> bool {
        self.text.len() == other.text.len() && self.with_sorted_sets() == other.with_sorted_sets()
    }

    fn with_sorted_sets(&self) -> Value {
        // Sorted members make equal elements of a set equal texts.
        sets::sorted(sorted(self.value()))
    }

    /// Returns the definition as a tree.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Returns the tool that it defines.
    pub(super) fn tool(&self) -> Option<ToolDefinition> {
        // The text was read before, in `of`.
        serde_json::from_str(&self.text).ok()
    }

    /// Returns the digest without the name, by which a renamed tool is recognized.
    pub(super) fn nameless(&self) -> String {
        let mut value = self.value();
        if let Value::Object(members) = &mut value {
            members.shift_remove("name");
        }
        digest_of(value)
    }
}

/// Returns a value as JSON without whitespace, the members of every object sorted by the bytes of
/// their names.
fn canonical(value: Value) -> String {
    sorted(value).to_string()
}

/// A list with the definition of each tool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listing {
    /// The tools, in the order of the server. Of two tools with one name, the first is kept.
    pub(super) tools: Vec<(ToolDefinition, Definition)>,
    /// Reasons that other tools cannot be used.
    pub(super) left_out: Vec<String>,
    /// Digest of all definitions, whose order does not count.
    digest: String,
}

impl Listing {
    /// Returns the digest of all definitions. Their order does not count.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the number of tools.
    pub(crate) fn count(&self) -> usize {
        self.tools.len()
    }

    /// Computes the digests on a blocking thread, which takes about 0.1 s for the largest lists.
    pub(crate) async fn new(list: Vec<ToolDefinition>) -> Self {
        // Without a result, the list has no readers any more.
        on_blocking_thread(|| Self::new_blocking(list)).await.unwrap_or_default()
    }

    fn new_blocking(list: Vec<ToolDefinition>) -> Self {
        let mut listing = Self::default();
        let mut digests = BTreeMap::new();
        let mut names = BTreeSet::new();
        for tool in list {
            let name = &tool.name;
            if !names.insert(name.clone()) {
                listing.left_out.push(format!("a second tool named {name:?}"));
                continue;
            }
            match Definition::new(&tool) {
                Ok(definition) => {
                    digests.insert(name.clone(), definition.digest.clone());
                    listing.tools.push((tool, definition));
                }
                Err(error) => listing.left_out.push(format!("tool {name:?}: {error}")),
            }
        }
        let all = digests.iter().map(|(name, digest)| format!("{} {name} {digest}\n", name.len()));
        listing.digest = digest(all.collect::<String>().as_bytes());
        listing
    }
}

fn digest_of(value: Value) -> String {
    #[cfg(test)]
    DIGESTS.set(DIGESTS.get() + 1);
    digest(canonical(value).as_bytes())
}

/// Runs work that takes up to 0.1 s for the largest lists on a blocking thread, so that the messages
/// of other servers do not wait for it. `None` if the runtime is shutting down. Panics if the work
/// does.
pub(super) async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
    }
}

#[cfg(test)]
thread_local! {
    /// Digests that this thread has computed.
    pub(super) static DIGESTS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn full() -> Value {
        json!({
            "name": "t", "title": "T", "description": "d",
            "inputSchema": {"type": "object", "properties": {"b": {"enum": [1, 2.5]}, "a": {"default": null}}},
            "outputSchema": {"type": "object", "required": ["x"]},
            "annotations": {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true,
                            "openWorldHint": false, "title": "hint", "x": {"y": 1}},
            "icons": [{"src": "i", "sizes": ["1x1"]}],
            "execution": {"taskSupport": "optional"},
            "_meta": {"k": {"l": [true]}},
            "unknown": {"m": "n"},
        })
    }

    fn definition(value: Value) -> Definition {
        Definition::new(&serde_json::from_value(value).expect("a definition")).expect("not deep")
    }

    /// Returns the pointers of all values in a value, except the name.
    fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
        let values: Vec<(String, &Value)> = match value {
            Value::Object(members) => {
                members.iter().map(|(key, value)| (key.clone(), value)).collect()
            }
            Value::Array(elements) => {
                elements.iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect()
            }
            _ => Vec::new(),
        };
        for (key, value) in values {
            let at = format!("{at}/{key}");
            pointers(value, &at, found);
            found.push(at);
        }
    }

    /// Reverses the order of members at every depth.
    fn reversed(value: Value) -> Value {
        match value {
            Value::Object(members) => {
                members.into_iter().rev().map(|(key, value)| (key, reversed(value))).collect()
            }
            Value::Array(elements) => elements.into_iter().map(reversed).collect(),
            other => other,
        }
    }

    #[test]
    fn every_change_of_any_value_changes_the_digest() {
        let mut all = Vec::new();
        pointers(&full(), "", &mut all);
        assert!(all.len() > 30, "{all:?}");
        let before = definition(full());
        for pointer in all {
            let mut changed = full();
            let place = changed.pointer_mut(&pointer).expect("it is there");
            *place = match place.take() {
                Value::Bool(is_set) => (!is_set).into(),
                Value::String(text) => format!("{text}\u{200b}").into(),
                Value::Object(mut members) => {
                    members.insert("added".into(), json!(0));
                    members.into()
                }
                Value::Array(mut elements) => {
                    elements.push(json!(0));
                    elements.into()
                }
                _ => json!(7),
            };
            assert_ne!(definition(changed).digest(), before.digest(), "{pointer}");
        }
        for member in full().as_object().expect("an object").keys() {
            let mut changed = full();
            changed.as_object_mut().expect("an object").shift_remove(member);
            let Ok(tool) = serde_json::from_value::<ToolDefinition>(changed) else { continue };
            assert_ne!(
                Definition::new(&tool).expect("not deep").digest(),
                before.digest(),
                "{member}"
            );
        }
    }

    #[test]
    fn the_order_of_members_does_not_count_and_that_of_elements_does() {
        assert_eq!(definition(reversed(full())).digest(), definition(full()).digest());
        assert_ne!(definition(reversed(full())).text(), definition(full()).text());
        let mut changed = full();
        changed["inputSchema"]["properties"]["b"]["enum"] = json!([2.5, 1]);
        assert_ne!(definition(changed).digest(), definition(full()).digest());
    }

    #[test]
    fn the_digest_is_stable() {
        let tool = definition(json!({"name": "t", "inputSchema": {}}));
        insta::assert_snapshot!(tool.text(), @r#"{"name":"t","description":"","inputSchema":{},"annotations":{}}"#);
        insta::assert_snapshot!(tool.digest(), @"sha256:4c6dfdde0f518f703a27dc270d171c53347bd60909258c3481ded2401de42a3f");
    }

    #[test]
    fn a_definition_that_could_not_be_read_again_is_left_out() {
        let kept = nested(120);
        let deep = nested(126);
        assert_eq!((kept.tools.len(), kept.left_out.len()), (1, 0));
        assert_eq!((deep.tools.len(), deep.left_out.len()), (0, 1), "{deep:?}");
    }

    /// Lists a tool whose schema is so deep.
    fn nested(depth: usize) -> Listing {
        let schema = (0..depth).fold(json!({}), |schema, _| json!({"items": schema}));
        let tool = json!({"name": "t", "inputSchema": schema});
        Listing::new_blocking(vec![serde_json::from_value(tool).expect("a definition")])
    }

    #[test]
    fn of_two_tools_with_one_name_the_first_is_kept() {
        let listing = Listing::new_blocking(vec![described("first"), described("second")]);
        assert_eq!(listing.tools.len(), 1);
        assert_eq!(listing.tools[0].0.description, "first");
        assert_eq!(listing.left_out, [r#"a second tool named "t""#]);
    }

    fn described(description: &str) -> ToolDefinition {
        let tool = json!({"name": "t", "description": description, "inputSchema": {}});
        serde_json::from_value(tool).expect("a definition")
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("JSON has no other", |n| n.is_finite()).prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((".{0,4}", inner), 0..4)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_definition_survives_its_text(schema in json_value(), extra in json_value(), description in ".{0,16}") {
            let before = definition(json!({"name": "t", "description": description, "inputSchema": schema, "x": extra}));
            let after = Definition::parse(before.text()).expect("its own text");
            prop_assert_eq!(&after, &before);
            let other_order = definition(reversed(before.value()));
            prop_assert_eq!(other_order.digest(), before.digest());
        }

        #[test]
        fn two_schemas_have_one_digest_only_if_they_are_equal(one in json_value(), other in json_value()) {
            let first = definition(json!({"name": "t", "inputSchema": one}));
            let second = definition(json!({"name": "t", "inputSchema": other}));
            prop_assert_eq!(first.digest() == second.digest(), canonical(one) == canonical(other));
        }
    }
}
