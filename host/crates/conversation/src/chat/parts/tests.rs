use super::*;
use crate::chat::ChatDialect::{OpenAi, WithAnthropicMembers};

const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";

fn read_one(part: Value) -> Result<Part, Untranslatable> {
    read(Some(vec![part].into()), &Path::Root).map(|mut parts| parts.remove(0))
}

fn base64(media_type: &str, data: &str) -> Media {
    Media::Base64 { media_type: media_type.to_owned(), data: data.to_owned() }
}

#[test]
fn each_part_is_read_and_written_as_it_came() {
    for (part, content) in [
        (json!({"type": "text", "text": "hi"}), Content::Text("hi".to_owned())),
        (json!({"type": "refusal", "refusal": "no"}), Content::Refusal("no".to_owned())),
        (
            json!({"type": "image_url", "image_url": {"url": PNG, "detail": "high"}}),
            Content::Image {
                media: base64("image/png", "iVBORw0KGgo="),
                detail: Some("high".to_owned()),
            },
        ),
        (
            json!({"type": "image_url", "image_url": {"url": "https://a/b.png"}}),
            Content::Image { media: Media::Url("https://a/b.png".to_owned()), detail: None },
        ),
        (
            json!({"type": "image_url", "image_url": {"url": "data:image/png,raw"}}),
            Content::Image { media: Media::Url("data:image/png,raw".to_owned()), detail: None },
        ),
        (
            json!({"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}),
            Content::Audio(base64("audio/wav", "UklG")),
        ),
        (
            json!({"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0x", "filename": "a.pdf"}}),
            Content::File {
                media: base64("application/pdf", "JVBERi0x"),
                name: Some("a.pdf".to_owned()),
            },
        ),
        (
            json!({"type": "file", "file": {"file_data": "JVBERi0x"}}),
            Content::File { media: base64("", "JVBERi0x"), name: None },
        ),
        (
            json!({"type": "file", "file": {"file_data": "https://a/b.pdf"}}),
            Content::File { media: Media::Url("https://a/b.pdf".to_owned()), name: None },
        ),
        (
            json!({"type": "file", "file": {"file_id": "file_1"}}),
            Content::File { media: Media::FileId("file_1".to_owned()), name: None },
        ),
    ] {
        let mut marked = part.clone();
        marked["cache_control"] = json!({"type": "ephemeral"});
        marked["unknown"] = 1.into();
        let read = read_one(marked.clone()).expect("a good part");
        assert_eq!(read.content, content, "{part}");
        assert_eq!(read.cache_control, Some(json!({"type": "ephemeral"})));
        let form = ChatForm::new(Wire::Chat, OpenAi);
        assert_eq!(write_part(read, form).map(Value::from), Ok(marked));
    }
}

#[test]
fn parts_of_another_form_are_kept_as_they_came() {
    for part in [
        json!({"type": "video_url", "video_url": {"url": "https://a/b.mp4"}}),
        json!({"type": "file", "file": {"file_data": "JVBERi0x", "file_id": "file_1"}}),
        json!({"type": "file", "file": "x"}),
        json!({"type": "input_audio", "input_audio": "https://a/b.mp3"}),
        json!({"type": "document", "source": {"type": "text"}}),
    ] {
        let read = read_one(part.clone()).expect("the provider judges it");
        assert!(matches!(&read.content, Content::Native(native) if native.kind == part["type"]));
        let form = ChatForm::new(Wire::Chat, OpenAi);
        assert_eq!(write_part(read, form).map(Value::from), Ok(part));
    }
}

#[test]
fn unknown_members_of_an_inner_object_are_kept() {
    let part = json!({"type": "image_url", "image_url": {"url": PNG, "format": "image/png"}});
    let read = read_one(part.clone()).expect("a good part");
    assert_eq!(write_part(read, ChatForm::new(Wire::Chat, OpenAi)).map(Value::from), Ok(part));
}

#[test]
fn an_address_as_text_and_a_media_type_with_parameters_are_read() {
    for (url, media) in [
        (json!("https://a/b.png"), Media::Url("https://a/b.png".to_owned())),
        (json!({"url": "DATA:IMAGE/JPEG;charset=x;BASE64,/9j/"}), base64("image/jpeg", "/9j/")),
    ] {
        let read = read_one(json!({"type": "image_url", "image_url": url}));
        let expected = Content::Image { media, detail: None };
        assert_eq!(read.map(|part| part.content), Ok(expected), "{url}");
    }
}

#[test]
fn content_that_is_not_valid_is_refused_by_name() {
    for (content, param) in [
        (json!(1), "content"),
        (json!(["hi"]), "content[0]"),
        (json!([{"text": "hi"}]), "content[0].type"),
        (json!([{"type": "text"}]), "content[0].text"),
        (json!([{"type": "text", "text": "a"}, {"type": "refusal"}]), "content[1].refusal"),
        (json!([{"type": "image_url"}]), "content[0].image_url"),
        (json!([{"type": "image_url", "image_url": {}}]), "content[0].image_url.url"),
    ] {
        let refused = read(Some(content.clone()), &Path::Root.member("content"));
        assert_eq!(refused.expect_err("refused").param, param, "{content}");
    }
    for empty in [None, Some(json!("")), Some(json!([]))] {
        assert_eq!(read(empty, &Path::Root), Ok(Vec::new()));
    }
}

#[test]
fn texts_become_one_text_where_other_services_expect_it() {
    let parts = || vec![Part::text("a"), Part::text("b")];
    let list = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    for (wire, dialect, expected) in [
        (Wire::Messages, OpenAi, json!("a\n\nb")),
        (Wire::Messages, WithAnthropicMembers, list.clone()),
        (Wire::Responses, OpenAi, list.clone()),
        (Wire::Chat, OpenAi, list),
    ] {
        let form = ChatForm::new(wire, dialect);
        assert_eq!(
            write(placed(parts(), ItemSite::list(wire)), form.separator("\n\n"), form),
            Ok(expected),
            "{wire:?}"
        );
    }
    let image = Content::Image { media: Media::Url("https://a".to_owned()), detail: None };
    let form = ChatForm::new(Wire::Messages, OpenAi);
    let parts = placed(vec![Part::text("a"), Part::new(image)], ItemSite::list(Wire::Messages));
    let mixed = write(parts, Some(""), form).expect("parts");
    assert_eq!(mixed.as_array().map(Vec::len), Some(2));
}

#[test]
fn media_of_other_apis_have_a_form_or_are_refused() {
    let document = |media| Content::File { media, name: Some("n".to_owned()) };
    let text = || Media::Text("hello".to_owned());
    let web = || Media::Url("https://a/b.pdf".to_owned());
    for (content, dialect, expected) in [
        (document(text()), OpenAi, Some(json!({"type": "text", "text": "hello"}))),
        (
            document(text()),
            WithAnthropicMembers,
            Some(json!({"type": "document", "title": "n", "source": {
                "type": "text", "media_type": "text/plain", "data": "hello"
            }})),
        ),
        (document(web()), OpenAi, None),
        (
            document(web()),
            WithAnthropicMembers,
            Some(json!({"type": "document", "title": "n", "source": {
                "type": "url", "url": "https://a/b.pdf"
            }})),
        ),
        (
            Content::File { media: base64("application/pdf", "JVBE"), name: None },
            OpenAi,
            Some(json!({"type": "file", "file": {
                "file_data": "data:application/pdf;base64,JVBE", "filename": "document.pdf"
            }})),
        ),
        (
            Content::File { media: base64("application/pdf", "JVBE"), name: None },
            WithAnthropicMembers,
            Some(json!({"type": "file", "file": {
                "file_data": "data:application/pdf;base64,JVBE"
            }})),
        ),
        (
            Content::Image { media: Media::FileId("f".to_owned()), detail: None },
            WithAnthropicMembers,
            Some(json!({"type": "image", "source": {"type": "file", "file_id": "f"}})),
        ),
        (Content::Image { media: Media::FileId("f".to_owned()), detail: None }, OpenAi, None),
        (
            Content::Audio(base64("audio/mpeg", "SUQz")),
            OpenAi,
            Some(json!({"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}})),
        ),
        (Content::Audio(web()), OpenAi, None),
    ] {
        let written = write_part(Part::new(content), ChatForm::new(Wire::Messages, dialect));
        match expected {
            Some(expected) => assert_eq!(written.map(Value::from), Ok(expected)),
            None => assert_eq!(written.expect_err("refused").param, "messages"),
        }
    }
}

#[test]
fn parts_of_anthropic_are_for_its_models_alone() {
    let object = json!({"type": "search_result", "source": "s"});
    let native = NativeItem::new(Wire::Messages, airlock_json::object(object.clone()));
    let part = Part::new(Content::Native(native));
    let form = ChatForm::new(Wire::Messages, WithAnthropicMembers);
    assert_eq!(write_part(part.clone(), form).map(Value::from), Ok(object));
    let refused = write_part(part, ChatForm::new(Wire::Messages, OpenAi)).expect_err("refused");
    assert_eq!((refused.code, &*refused.param), ("unsupported_value", "messages"));
}
