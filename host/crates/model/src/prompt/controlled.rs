//! The parts of a request for a control of requests to models: its size, its bound on the response, and the option
//! that makes a stream report its usage.

use super::{INCLUDE_USAGE, MAX_TIER_TEXT, MESSAGES, Prompt, STREAM_OPTIONS, TIERS, member};
use airlock_conversation::{MAX_REQUESTED_CHOICES, Wire};
use airlock_core::model_control::ServiceTier;
use airlock_json::raw;

/// Members with the conversation. Of others, such as the definitions of tools, the model reads all as text.
const CONVERSATION: [&str; 2] = [MESSAGES, "input"];
/// Beginning of the types of images.
const IMAGE: &str = "image/";
/// Members whose values begin an image: with its URL, or with its type. Of other text that looks like an image, the
/// model reads every byte.
const IMAGE_MEMBERS: [&str; 5] =
    ["\"url\"", "\"image_url\"", "\"media_type\"", "\"mimeType\"", "\"mime_type\""];
/// Bytes of text for which a large image counts: its 1,600 tokens, with four bytes each.
const IMAGE_BYTES: usize = 6_400;

impl Prompt {
    /// Returns the `stream_options` of the caller with the option that asks for the usage. `None` if they ask
    /// for it already, or are no object: the provider refuses them then.
    pub(crate) fn options_with_usage(&self) -> Option<String> {
        if self.includes_usage() {
            return None;
        }
        let own = self.body.get(STREAM_OPTIONS).filter(|own| *own != "null").unwrap_or("{}");
        let mut out = vec![b'{'];
        for (name, text) in raw::members(own)?.filter(|(name, _)| name != INCLUDE_USAGE) {
            member(&mut out, &name);
            out.extend_from_slice(text.as_bytes());
        }
        member(&mut out, INCLUDE_USAGE);
        out.extend_from_slice(b"true}");
        String::from_utf8(out).ok()
    }

    /// Returns the length of the request in bytes: the caller's members, the finished rounds and the
    /// definitions of the gateway's tools. An image of the conversation counts for 6,400 bytes at most.
    pub fn request_bytes(&self) -> usize {
        let conversation = CONVERSATION.iter().filter_map(|name| self.body.get(name));
        let images: usize = conversation.map(excess_of_images).sum();
        let images = images.min(self.image_bytes.unwrap_or(usize::MAX));
        let members = self.body.text_len().saturating_sub(images);
        let tools = self.tools.iter().map(|tool| {
            tool.name.as_str().len() + tool.description.len() + tool.input_schema.as_str().len()
        });
        let rounds = self.rounds_bytes();
        tools.chain([rounds]).fold(members, usize::saturating_add)
    }

    /// Returns the number of choices that the caller asks for. One that only some providers read, such as `2.0`,
    /// counts as the largest of OpenAI's API, 128.
    pub fn choices(&self) -> u64 {
        match self.body.get("n") {
            None | Some("null") => 1,
            Some(text) => {
                text.parse::<u64>().map_or(MAX_REQUESTED_CHOICES, |choices| choices.max(1))
            }
        }
    }

    /// Returns the maximum number of tokens that the caller sets for one choice: the largest, if several
    /// members set one. `None` if none does, or if one is no positive integer: there are providers that read
    /// `"7"` and `7e3`, and to some 0 and -1 are no maximum.
    pub fn max_output_tokens(&self) -> Option<u64> {
        let members: &[&str] = match self.wire {
            Wire::Responses => &["max_output_tokens"],
            Wire::Messages => &["max_tokens"],
            Wire::Chat | Wire::Gemini => &["max_completion_tokens", "max_tokens"],
        };
        let set = members.iter().filter_map(|name| self.body.get(name));
        let set = set.filter(|text| *text != "null");
        let set = set.map(|text| text.parse::<u64>().ok().filter(|most| *most > 0));
        set.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Returns the tier of service that the caller asks for: the most expensive one, if two members name one.
    pub fn tier(&self) -> ServiceTier {
        let named = TIERS.iter().filter_map(|name| self.body.get(name));
        let named = named.filter(|text| text.len() <= MAX_TIER_TEXT).filter_map(raw::string);
        let tiers: Vec<_> = named.filter_map(|name| ServiceTier::parse(&name)).collect();
        if tiers.contains(&ServiceTier::Priority) {
            return ServiceTier::Priority;
        }
        let are_flex = !tiers.is_empty() && tiers.iter().all(|tier| *tier == ServiceTier::Flex);
        if are_flex { ServiceTier::Flex } else { ServiceTier::Standard }
    }
}

/// Returns the bytes by which the images in a text, in base64, are longer than they count.
fn excess_of_images(text: &str) -> usize {
    let mut excess = 0;
    let mut rest = text;
    while let Some(at) = rest.find(IMAGE) {
        let is_image = begins_image(&rest[..at]);
        rest = &rest[at + IMAGE.len()..];
        let Some(data) = image_data(rest).filter(|_| is_image) else { continue };
        let length = data.bytes().position(|byte| !is_base64(byte)).unwrap_or(data.len());
        rest = &data[length..];
        // Other text does not count as an image.
        if rest.starts_with('"') {
            excess += length.saturating_sub(IMAGE_BYTES);
        }
    }
    excess
}

/// Returns whether the text before a type of images ends with the begin of an image.
fn begins_image(before: &str) -> bool {
    let value = before.strip_suffix("data:").unwrap_or(before).strip_suffix('"');
    let member = value.and_then(|text| text.trim_ascii_end().strip_suffix(':'));
    member.is_some_and(|text| {
        let name = text.trim_ascii_end();
        IMAGE_MEMBERS.iter().any(|member| name.ends_with(member))
    })
}

/// Returns the text from the data of an image on: in a URL, or in Anthropic's form as the gateway writes it.
/// `rest` is what follows [`IMAGE`]. `None` if there is no data.
fn image_data(rest: &str) -> Option<&str> {
    let end = rest.bytes().position(|byte| !byte.is_ascii_alphanumeric() && byte != b'+')?;
    let after = &rest[end..];
    after.strip_prefix(";base64,").or_else(|| after.strip_prefix(r#"","data":""#))
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use airlock_json::{RawObject, object};

    fn prompt(body: Value) -> Prompt {
        Prompt::new(RawObject::from(&object(body)))
    }

    #[test]
    fn the_most_expensive_tier_that_a_member_names_is_asked_for() {
        for (body, tier) in [
            (json!({}), ServiceTier::Standard),
            (json!({"service_tier": "auto"}), ServiceTier::Standard),
            (json!({"service_tier": 7}), ServiceTier::Standard),
            (json!({"service_tier": "flex"}), ServiceTier::Flex),
            (json!({"service_tier": "flex", "serviceTier": "standard"}), ServiceTier::Standard),
            (json!({"service_tier": "flex", "serviceTier": "PRIORITY"}), ServiceTier::Priority),
        ] {
            assert_eq!(prompt(body.clone()).tier(), tier, "{body}");
        }
    }

    #[test]
    fn a_stream_is_asked_for_its_usage_with_the_other_options_of_the_caller() {
        for (options, expected) in [
            (None, Some(r#"{"include_usage":true}"#)),
            (Some("null"), Some(r#"{"include_usage":true}"#)),
            (Some(r#"{"include_usage": false}"#), Some(r#"{"include_usage":true}"#)),
            (
                Some(r#"{"include_usage":null,"n":0.10,"include_usage":0}"#),
                Some(r#"{"n":0.10,"include_usage":true}"#),
            ),
            (Some(r#"{"include_usage":true}"#), None),
            (Some("[]"), None),
            (Some("7"), None),
        ] {
            let mut prompt = prompt(json!({}));
            if let Some(options) = options {
                prompt.body.set("stream_options", options);
            }
            assert_eq!(prompt.options_with_usage().as_deref(), expected, "{options:?}");
        }
        let others = Prompt::messages(RawObject::default());
        assert_eq!(others.options_with_usage(), None, "it is always asked for");
    }

    #[test]
    fn an_image_counts_as_a_fixed_length_and_other_text_as_it_is() {
        let data = "A".repeat(100_000);
        let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}});
        for (value, is_image) in [
            (json!({"url": format!("data:image/svg+xml;base64,{data}")}), true),
            (image, true),
            (json!({"url": format!("data:image/png;base64,{data} and text")}), false),
            (json!({"url": format!("data:application/pdf;base64,{data}")}), false),
            (json!({"text": format!("image/png {data}")}), false),
            (json!({"text": format!("data:image/png;base64,{data}")}), false),
            (json!({"text": format!(r#""url":"data:image/png;base64,{data}"#)}), false),
            (json!({"text": "image/".repeat(10_000)}), false),
        ] {
            let text = value.to_string();
            let expected = if is_image { data.len() - IMAGE_BYTES } else { 0 };
            assert_eq!(excess_of_images(&text), expected, "{}", &text[..60]);
            let as_text = prompt(json!({"tools": [value], "messages": []}));
            assert_eq!(as_text.request_bytes(), as_text.body.text_len());
            let prompt = prompt(json!({"messages": [value, value]}));
            let bytes = prompt.body.text_len() - 2 * expected;
            assert_eq!(prompt.request_bytes(), bytes);
            let counted = Prompt { image_bytes: Some(0), ..prompt };
            assert_eq!(counted.request_bytes(), counted.body.text_len(), "it has no images");
        }
    }

    #[test]
    fn the_largest_limit_on_the_tokens_of_a_response_counts() {
        for (body, expected) in [
            (json!({}), None),
            (json!({"max_tokens": 7}), Some(7)),
            (json!({"max_completion_tokens": 1, "max_tokens": 7}), Some(7)),
            (json!({"max_completion_tokens": null, "max_tokens": u64::MAX}), Some(u64::MAX)),
            (json!({"max_completion_tokens": 1e5, "max_tokens": 7}), None),
            (json!({"max_completion_tokens": "7", "max_tokens": 7}), None),
            (json!({"max_completion_tokens": -1, "max_tokens": 7}), None),
            (json!({"max_tokens": 0}), None),
            (json!({"max_output_tokens": 7}), None),
        ] {
            assert_eq!(prompt(body.clone()).max_output_tokens(), expected, "{body}");
        }
    }

    #[test]
    fn choices_that_not_every_provider_reads_are_the_most() {
        for (body, expected) in [
            (json!({}), 1),
            (json!({"n": null}), 1),
            (json!({"n": 0}), 1),
            (json!({"n": 3}), 3),
            (json!({"n": 1_000}), 1_000),
            (json!({"n": 3.0}), MAX_REQUESTED_CHOICES),
            (json!({"n": "3"}), MAX_REQUESTED_CHOICES),
            (json!({"n": -1}), MAX_REQUESTED_CHOICES),
        ] {
            assert_eq!(prompt(body.clone()).choices(), expected, "{body}");
        }
    }
}
