//! Results of tools as content parts, for models that read images there.

use std::borrow::Cow;

use super::present::ResultFrame;
use airlock_conversation::{self as conversation, Media, Part};
use airlock_core::tool::{Content, ContentBlock, decode_base64};
use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Media types of images that both OpenAI's and Anthropic's API accept.
const IMAGE_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
/// Maximum size of an image as base64, in bytes: the limit of Anthropic's API, the smallest of
/// those that are documented. A provider refuses a conversation with a larger one as a whole.
const MAX_IMAGE_BYTES: usize = 5 << 20;
/// Maximum number of images of one result. Anthropic's API accepts 20 at full size.
const MAX_IMAGES: usize = 20;

/// Returns the content of a result as parts: one for each image, and texts before, between and after
/// them, in a frame. `None` if there is no image that a model can read.
/// Any other image stays a note, as in the text of a result.
pub(super) fn with_images<'c>(
    frame: &ResultFrame,
    content: impl IntoIterator<Item = &'c Content>,
) -> Option<Vec<Part>> {
    let mut parts = PartList::new(frame);
    for part in content {
        match readable(part) {
            Some((mime_type, data)) if parts.images < MAX_IMAGES => {
                parts.add_image(mime_type, &data);
            }
            _ => parts.add_text(part),
        }
    }
    parts.finish()
}

/// Returns the media type and the base64 of an image that a model can read.
fn readable(part: &Content) -> Option<(&str, Cow<'_, str>)> {
    let ContentBlock::Image { data, mime_type } = &part.block else { return None };
    if data.len() > MAX_IMAGE_BYTES || !IMAGE_TYPES.contains(&mime_type.as_str()) {
        return None;
    }
    let data = if is_standard(data) {
        Cow::Borrowed(data.as_str())
    } else {
        Cow::Owned(STANDARD.encode(decode_base64(data)?))
    };
    (!data.is_empty()).then_some((mime_type, data))
}

/// Returns whether a text is base64 as providers require it: the standard alphabet, padded, on one
/// line.
fn is_standard(data: &str) -> bool {
    let digits = data.trim_end_matches('=');
    data.len().is_multiple_of(4) && data.len() - digits.len() <= 2 && digits.bytes().all(is_digit)
}

/// Returns whether a byte is a digit of base64's standard alphabet.
fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

/// A list of content parts, as it grows.
struct PartList<'a> {
    frame: &'a ResultFrame,
    /// Text before the result that is not in the list yet.
    lead: String,
    list: Vec<Part>,
    /// Text since the last image.
    text: String,
    images: usize,
}

impl<'a> PartList<'a> {
    fn new(frame: &'a ResultFrame) -> Self {
        Self { frame, lead: frame.lead(), list: Vec::new(), text: String::new(), images: 0 }
    }

    fn add_text(&mut self, part: &Content) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        part.render_for_model(&mut self.text);
    }

    fn add_image(&mut self, mime_type: &str, data: &str) {
        self.end_text("");
        self.images += 1;
        let media = Media::Base64 { media_type: mime_type.to_owned(), data: data.to_owned() };
        self.list.push(Part::new(conversation::Content::Image { media, detail: None }));
    }

    /// Adds the text since the last image, and `tail` after it. An empty part would be refused by
    /// some providers.
    fn end_text(&mut self, tail: &str) {
        let text = self.frame.inside(std::mem::take(&mut self.text));
        let mut text = std::mem::take(&mut self.lead) + &text;
        if !tail.is_empty() && !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(tail);
        if !text.is_empty() {
            self.list.push(Part::text(text));
        }
    }

    fn finish(mut self) -> Option<Vec<Part>> {
        if self.images == 0 {
            return None;
        }
        self.end_text(&self.frame.tail());
        Some(self.list)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use airlock_conversation::{chat, responses};

    fn image(mime_type: &str, data: &str) -> Content {
        ContentBlock::Image { data: data.to_owned(), mime_type: mime_type.to_owned() }.into()
    }

    fn png(data: &str) -> Content {
        image("image/png", data)
    }

    fn parts(content: &[Content]) -> Value {
        let parts = with_images(&ResultFrame::default(), content);
        parts.map_or(Value::Null, |parts| chat::write_content(parts).expect("parts"))
    }

    #[test]
    fn images_are_parts_in_their_order_and_texts_between_them_are_joined() {
        let content = [
            Content::text("one \"line\""),
            Content::text("two"),
            png("AAAA"),
            image("image/webp", "AAA="),
            image("image/svg+xml", "AAAA"),
        ];
        assert_eq!(
            parts(&content),
            json!([
                {"type": "text", "text": "one \"line\"\ntwo"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                {"type": "image_url", "image_url": {"url": "data:image/webp;base64,AAA="}},
                {"type": "text", "text": "[Image: image/svg+xml]"},
            ])
        );
    }

    #[test]
    fn the_responses_api_has_the_same_parts_in_its_own_form() {
        let parts = with_images(&ResultFrame::default(), &[Content::text("a"), png("AAAA")]);
        assert_eq!(
            responses::write_content(parts.expect("an image")),
            Ok(json!([
                {"type": "input_text", "text": "a"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
            ]))
        );
    }

    #[test]
    fn a_result_without_an_image_that_a_model_reads_has_no_parts() {
        let large = "A".repeat(MAX_IMAGE_BYTES + 4);
        for content in [Content::text("x"), png(""), png("*"), png(&large), image("", "AAAA")] {
            assert_eq!(with_images(&ResultFrame::default(), &[content]), None);
        }
        assert!(with_images(&ResultFrame::default(), &[png(&large[4..])]).is_some());
    }

    #[test]
    fn base64_of_another_form_is_written_in_the_standard_one() {
        for (data, expected) in [("-_8", "+/8="), ("AA\r\nAA", "AAAA"), ("AA\"", ""), ("A=", "")] {
            let url = format!("data:image/png;base64,{expected}");
            let expected = if expected.is_empty() { Value::Null } else { json!(url) };
            assert_eq!(parts(&[png(data)])[0]["image_url"]["url"], expected, "{data:?}");
        }
    }

    #[test]
    fn images_beyond_the_limit_are_notes() {
        let all = parts(&vec![png("AAAA"); MAX_IMAGES + 2]);
        let all = all.as_array().expect("a list");
        assert_eq!(all.len(), MAX_IMAGES + 1);
        assert_eq!(all[MAX_IMAGES]["text"], "[Image: image/png]\n[Image: image/png]");
    }
}
