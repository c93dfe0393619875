//! Redaction of secrets in the results and errors of tools.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::Scrubber;
use crate::tool::{
    Content, ContentBlock, Members, Resource, ResourceContents, ResourceLink, ToolError,
    ToolOutput, decode_base64,
};

impl Scrubber {
    /// Redacts secrets in data: in texts, in the names of members, and in numbers that are a secret
    /// as a whole. If two names become the same, only one member is kept, with the later value.
    /// Returns whether a secret was found.
    pub fn value(&self, value: &mut Value) -> bool {
        if self.is_empty() {
            return false;
        }
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => {
                let Some(marker) = self.number(number) else { return false };
                *value = Value::String(marker.to_owned());
                true
            }
            Value::String(text) => self.string(text),
            // `|` does not short-circuit, so every item is redacted.
            Value::Array(items) => {
                items.iter_mut().fold(false, |found, item| found | self.value(item))
            }
            Value::Object(members) => self.members(members),
        }
    }

    fn members(&self, members: &mut Map<String, Value>) -> bool {
        let found = members.values_mut().fold(false, |found, value| found | self.value(value));
        if members.keys().all(|name| matches!(self.text(name), Cow::Borrowed(_))) {
            return found;
        }
        *members = std::mem::take(members)
            .into_iter()
            .map(|(name, value)| (self.text(&name).into_owned(), value))
            .collect();
        true
    }

    /// Redacts secrets in a JSON text. Borrows the text if it has none; returns `None` if it seems
    /// to have one and is not JSON.
    ///
    /// Builds a tree of the values if there is a secret, so the caller has to bound the memory that
    /// the tree takes.
    pub fn json<'t>(&self, text: &'t [u8]) -> Option<Cow<'t, [u8]>> {
        if self.find(text).is_none() {
            return Some(Cow::Borrowed(text));
        }
        let mut value: Value = serde_json::from_slice(text).ok()?;
        self.value(&mut value);
        serde_json::to_vec(&value).ok().map(Cow::Owned)
    }

    /// Redacts secrets in a result. Returns whether a secret was found.
    pub fn output(&self, output: &mut ToolOutput) -> bool {
        let ToolOutput { content, structured, meta, extra } = output;
        self.contents(content)
            | structured.as_mut().is_some_and(|value| self.value(value))
            | self.object(meta)
            | self.boxed(extra)
    }

    /// Redacts secrets in an error that a tool returned. Returns whether a secret was found.
    pub fn error(&self, error: &mut ToolError) -> bool {
        let ToolError { kind: _, code, message, retry_after_ms: _, content, details, meta, extra } =
            error;
        self.string(message)
            | self.optional(code)
            | self.contents(content)
            | details.as_mut().is_some_and(|details| self.value(details))
            | self.object(meta)
            | self.boxed(extra)
    }

    fn contents(&self, content: &mut [Content]) -> bool {
        content.iter_mut().fold(false, |found, part| found | self.content(part))
    }

    /// Redacts secrets in one part of a result. Binary data, such as an image or a sound, cannot be
    /// redacted in place; a text replaces the block. Returns whether a secret was found.
    pub fn content(&self, part: &mut Content) -> bool {
        if self.is_empty() {
            return false;
        }
        let Content { block, annotations, meta, extra } = part;
        self.block(block) | self.boxed(annotations) | self.boxed(meta) | self.boxed(extra)
    }

    fn block(&self, block: &mut ContentBlock) -> bool {
        let (what, marker) = match block {
            ContentBlock::Text { text } => return self.string(text),
            ContentBlock::ResourceLink(link) => return self.link(link),
            ContentBlock::Other(members) => return self.members(members),
            ContentBlock::Image { data, .. } => ("image", self.binary(data)),
            ContentBlock::Audio { data, .. } => ("sound", self.binary(data)),
            ContentBlock::Resource { resource } => match &resource.contents {
                ResourceContents::Blob(blob) => ("resource", self.binary(blob)),
                ResourceContents::Text(_) => ("resource", None),
            },
        };
        if let Some(marker) = marker {
            let text = format!("[{what} left out: it holds {marker}]");
            *block = ContentBlock::Text { text };
            return true;
        }
        match block {
            ContentBlock::Image { mime_type, .. } | ContentBlock::Audio { mime_type, .. } => {
                self.string(mime_type)
            }
            ContentBlock::Resource { resource } => self.resource(resource),
            _ => false,
        }
    }

    fn link(&self, link: &mut ResourceLink) -> bool {
        let ResourceLink { uri, name, title, description, mime_type, size: _ } = link;
        self.string(uri)
            | self.string(name)
            | self.optional(title)
            | self.optional(description)
            | self.optional(mime_type)
    }

    fn resource(&self, resource: &mut Resource) -> bool {
        let Resource { uri, mime_type, contents, meta, extra } = resource;
        let text = match contents {
            ResourceContents::Text(text) => self.string(text),
            ResourceContents::Blob(_) => false,
        };
        text | self.string(uri) | self.optional(mime_type) | self.boxed(meta) | self.boxed(extra)
    }

    fn boxed(&self, members: &mut Members) -> bool {
        members.as_mut().is_some_and(|members| self.members(members))
    }

    fn object(&self, members: &mut Option<Map<String, Value>>) -> bool {
        members.as_mut().is_some_and(|members| self.members(members))
    }

    fn optional(&self, text: &mut Option<String>) -> bool {
        text.as_mut().is_some_and(|text| self.string(text))
    }

    /// Returns the marker of a secret in base64 text or in the data that it decodes to; `None` if
    /// neither holds one. Text that cannot be decoded is searched only as it is.
    fn binary(&self, base64: &str) -> Option<&str> {
        self.find(base64.as_bytes()).or_else(|| self.find(&decode_base64(base64)?))
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::{
        Engine as _,
        general_purpose::{STANDARD as PADDED, URL_SAFE_NO_PAD},
    };
    use serde_json::json;

    use super::*;
    use crate::{secret::Secret, tool::ErrorKind};

    const VALUE: &str = "s3cr3t/t0ken+ü";

    fn scrubber() -> Scrubber {
        let token = Secret::new(VALUE);
        let pin = Secret::new("31415926");
        Scrubber::new([("TOKEN", &token), ("PIN", &pin)]).expect("good secrets")
    }

    #[test]
    fn secrets_in_texts_names_and_numbers_are_redacted_and_the_order_is_kept() {
        let mut value = json!({
            "z": [1, null, true, {"deep": format!("<{VALUE}>")}],
            VALUE: {"pin": 31_415_926, "other": 314_159_260, "text": "31415926"},
            "a": 1,
        });
        assert!(scrubber().value(&mut value));
        let scrubbed = r#"{"z":[1,null,true,{"deep":"<[secret TOKEN]>"}],"[secret TOKEN]":{"pin":"[secret PIN]","other":314159260,"text":"[secret PIN]"},"a":1}"#;
        assert_eq!(value.to_string(), scrubbed);
        assert!(!scrubber().value(&mut value), "there is nothing left to find");
        assert_eq!(value.to_string(), scrubbed);
    }

    #[test]
    fn json_stays_valid_wherever_a_secret_is_redacted() {
        let pin = Secret::new("31415926");
        let quote = Secret::new(r#"a","b":"c"#);
        let scrubber = Scrubber::new([("PIN", &pin), ("QUOTE", &quote)]).expect("good secrets");
        assert_eq!(
            redacted(&scrubber, r#"{"a":31415926,"31415926":1}"#).as_deref(),
            Some(r#"{"a":"[secret PIN]","[secret PIN]":1}"#)
        );
        assert_eq!(
            redacted(&scrubber, r#"{"\u0033\u0031415926":1}"#).as_deref(),
            Some(r#"{"[secret PIN]":1}"#)
        );
        // The text that looks like the secret is JSON syntax here.
        assert_eq!(
            redacted(&scrubber, r#"{"a":"a","b":"c"}"#).as_deref(),
            Some(r#"{"a":"a","b":"c"}"#)
        );
        assert!(matches!(scrubber.json(br#"{"n":[1,2]}"#), Some(Cow::Borrowed(_))));
        assert_eq!(scrubber.json(b"{31415926"), None);
    }

    fn redacted(scrubber: &Scrubber, text: &str) -> Option<String> {
        scrubber
            .json(text.as_bytes())
            .map(|text| String::from_utf8(text.into_owned()).expect("UTF-8"))
    }

    fn object(text: &str) -> Option<Map<String, Value>> {
        json!({"k": [text]}).as_object().cloned()
    }

    fn members(text: &str) -> Members {
        object(text).map(Box::new)
    }

    /// Returns a part of every kind, with a text in every field that can hold one.
    fn parts(text: &str) -> Vec<Content> {
        let resource = Resource {
            uri: text.into(),
            mime_type: Some(text.into()),
            contents: ResourceContents::Text(text.into()),
            meta: members(text),
            extra: members(text),
        };
        let link = ResourceLink {
            uri: text.into(),
            name: text.into(),
            title: Some(text.into()),
            description: Some(text.into()),
            mime_type: Some(text.into()),
            size: Some(1),
        };
        [
            ContentBlock::Text { text: text.into() },
            ContentBlock::Image { data: "AAAA".into(), mime_type: text.into() },
            ContentBlock::Audio { data: "AAAA".into(), mime_type: text.into() },
            ContentBlock::ResourceLink(Box::new(link)),
            ContentBlock::Resource { resource: Box::new(resource) },
            ContentBlock::Other(object(text).expect("an object")),
        ]
        .map(|block| Content {
            block,
            annotations: members(text),
            meta: members(text),
            extra: members(text),
        })
        .into()
    }

    #[test]
    fn secrets_in_every_field_of_a_result_are_redacted() {
        let mut output = output_with(VALUE);
        assert!(scrubber().output(&mut output));
        assert_eq!(output, output_with("[secret TOKEN]"));
        assert!(!scrubber().output(&mut output));
    }

    fn output_with(text: &str) -> ToolOutput {
        ToolOutput {
            content: parts(text),
            structured: Some(json!({"text": text})),
            meta: object(text),
            extra: members(text),
        }
    }

    #[test]
    fn secrets_in_every_field_of_an_error_are_redacted() {
        let mut failed = error_with(VALUE);
        assert!(scrubber().error(&mut failed));
        assert_eq!(failed, error_with("[secret TOKEN]"));
        assert!(!scrubber().error(&mut failed));
    }

    fn error_with(text: &str) -> ToolError {
        ToolError {
            code: Some(text.into()),
            content: parts(text),
            details: Some(json!({text: text})),
            meta: object(text),
            extra: members(text),
            ..ToolError::new(ErrorKind::Internal, text)
        }
    }

    #[test]
    fn binary_data_with_a_secret_is_replaced_by_a_text() {
        let hidden = binary_with(VALUE);
        let wrapped = PADDED
            .encode(&hidden)
            .as_bytes()
            .chunks(7)
            .map(<[u8]>::to_vec)
            .collect::<Vec<_>>()
            .join(&b"\r\n"[..]);
        for data in [
            PADDED.encode(&hidden),
            PADDED.encode(binary_with("31415926")),
            PADDED.encode(binary_with(&PADDED.encode(VALUE))),
            PADDED.encode(binary_with("s3cr3t%2Ft0ken%2b%C3%BC")),
            URL_SAFE_NO_PAD.encode(&hidden),
            String::from_utf8(wrapped).expect("ASCII"),
            format!("not base64: {VALUE}"),
        ] {
            let blob = Resource {
                uri: "x".into(),
                mime_type: None,
                contents: ResourceContents::Blob(data.clone()),
                meta: None,
                extra: None,
            };
            for block in [
                ContentBlock::Image { data: data.clone(), mime_type: "image/png".into() },
                ContentBlock::Audio { data: data.clone(), mime_type: "audio/wav".into() },
                ContentBlock::Resource { resource: Box::new(blob) },
            ] {
                let mut part = Content::from(block);
                assert!(scrubber().content(&mut part), "{data}");
                let text = part.as_text().expect("a text");
                assert!(
                    text.ends_with(" left out: it holds [secret TOKEN]]")
                        || text.ends_with("[secret PIN]]"),
                    "{text}"
                );
            }
        }
    }

    fn binary_with(text: &str) -> Vec<u8> {
        [b"\x89PNG\0", text.as_bytes(), b"\xff\xfe"].concat()
    }

    #[test]
    fn binary_data_without_secrets_is_unchanged() {
        for data in [PADDED.encode(b"nothing to see"), "not base64".to_owned(), String::new()] {
            let image = Content::from(ContentBlock::Image { data, mime_type: "image/png".into() });
            let mut part = image.clone();
            assert!(!scrubber().content(&mut part));
            assert_eq!(part, image);
        }
    }
}
