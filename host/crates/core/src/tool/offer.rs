//! Resources, resource templates and prompts of a source, as its lists describe them.

use std::sync::Arc;

use serde_json::Value;

use airlock_json::{Caps, RawObject};

/// One resource, template or prompt. Its description is kept as the source wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    key: Arc<str>,
    json: Arc<str>,
}

impl Offer {
    /// Creates an offer from its URI, URI template or name, and its JSON object. `json` must be the
    /// text of a JSON object.
    pub fn new(key: &str, json: &str) -> Self {
        Self { key: key.into(), json: json.into() }
    }

    /// The URI, the URI template or the name at the source.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the JSON object with another value of `member`. All other members stay as they are.
    pub fn with(&self, member: &str, value: &str) -> String {
        // It was an object when it was read, and `Caps` were applied then.
        let object = RawObject::parse(self.json.as_bytes().to_vec(), &Caps::memory(usize::MAX));
        let Ok((mut object, _)) = object else { return self.json.to_string() };
        object.set(member, Value::from(value).to_string());
        object.to_text()
    }
}

/// The resources and prompts that one source offers in addition to its tools, each list without
/// duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offers {
    /// Resources by URI.
    pub resources: Vec<Offer>,
    /// Templates of resources by URI template.
    pub templates: Vec<Offer>,
    /// Prompts by name.
    pub prompts: Vec<Offer>,
    /// Instructions of the source for models; without secrets, and bounded.
    pub instructions: Option<Arc<str>>,
}

impl Offers {
    /// Returns whether a URI is listed, or may be an expansion of a template that is.
    pub fn has_resource(&self, uri: &str) -> bool {
        self.resources.iter().any(|resource| resource.key() == uri)
            || self.templates.iter().any(|template| may_expand_to(template.key(), uri))
    }
}

/// Returns whether a URI template may expand to `uri`. Each expression stands for any text, so that
/// no URI of a template is missed.
pub fn may_expand_to(template: &str, uri: &str) -> bool {
    let Some((head, mut rest)) = template.split_once('{') else { return template == uri };
    let Some(mut left) = uri.strip_prefix(head) else { return false };
    loop {
        // An expression that is not closed reaches to the end.
        let Some((_, after)) = rest.split_once('}') else { return true };
        let Some((literal, next)) = after.split_once('{') else { return left.ends_with(after) };
        let Some(found) = left.find(literal) else { return false };
        left = &left[found + literal.len()..];
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_matches_every_uri_that_it_may_expand_to() {
        for (template, uri, expected) in [
            ("test://a/{id}/data", "test://a/1/data", true),
            ("test://a/{id}/data", "test://a//data", true),
            ("test://a/{id}/data", "test://a/1/other", false),
            ("test://a/{id}/data", "test://b/1/data", false),
            ("file:///{+path}", "file:///a/b?c", true),
            ("x://{a}/{b}/end", "x://1/2/end", true),
            ("x://{a}/{b}/end", "x://1/end", false),
            ("x://plain", "x://plain", true),
            ("x://plain", "x://plain/more", false),
            ("x://{open", "x://anything", true),
        ] {
            assert_eq!(may_expand_to(template, uri), expected, "{template} {uri}");
        }
    }

    #[test]
    fn another_value_of_a_member_leaves_the_others_as_they_were_written() {
        let offer = Offer::new("a://b", r#"{"uri":"a://b","x":1.10,"name":"n"}"#);
        assert_eq!(offer.with("uri", "c\"d"), r#"{"uri":"c\"d","x":1.10,"name":"n"}"#);
        assert_eq!(offer.key(), "a://b");
    }
}
