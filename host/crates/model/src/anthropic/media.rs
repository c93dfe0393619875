//! Images and files of chat messages → sources of Anthropic's blocks.

use serde_json::{Value, json};

use crate::{Object, translation::Unsupported};
use airlock_strings as text;

/// Media types of images that the Messages API accepts.
const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
const PDF: &str = "application/pdf";
/// Start of every PDF file in base64.
const PDF_MAGIC: &str = "JVBERi";
/// Maximum bytes of a media type or address that an error quotes.
const QUOTED_BYTES: usize = 64;

/// Content of a `data:` URL.
struct DataUrl<'a> {
    media_type: String,
    base64: &'a str,
}

/// Returns the `image` block of an `image_url` part. `detail` has no counterpart: the API always
/// uses the full resolution up to its maximum.
pub(super) fn image(part: &Object) -> Result<Value, Unsupported> {
    let url = part.get("image_url").and_then(|image| image.get("url")).and_then(Value::as_str);
    let url = url.ok_or_else(|| Unsupported::new("image_url.url", "must be a string"))?;
    let source = if is_data(url) {
        base64_image(url).map_err(|error| error.within("image_url.url"))?
    } else if is_web(url) {
        json!({"type": "url", "url": url})
    } else {
        let problem = format!("must be a data:, http:// or https:// URL, not {}", quoted(url));
        return Err(Unsupported::new("image_url.url", problem));
    };
    Ok(json!({"type": "image", "source": source}))
}

/// Returns the `document` block of a `file` part.
pub(super) fn document(part: &Object) -> Result<Value, Unsupported> {
    let file = part.get("file").and_then(Value::as_object);
    let file = file.ok_or_else(|| Unsupported::new("file", "must be an object"))?;
    let source = match (file.get("file_data"), file.get("file_id")) {
        (Some(Value::String(data)), None | Some(Value::Null)) => {
            json!({"type": "base64", "media_type": PDF, "data": pdf(data)?})
        }
        (None | Some(Value::Null), Some(Value::String(id))) => {
            json!({"type": "file", "file_id": id})
        }
        _ => {
            let problem = "must have one of `file_data` and `file_id`, as a string";
            return Err(Unsupported::new("file", problem));
        }
    };
    let mut block = json!({"type": "document", "source": source});
    if let Some(name @ Value::String(_)) = file.get("filename") {
        block["title"] = name.clone();
    }
    Ok(block)
}

fn base64_image(url: &str) -> Result<Value, Unsupported> {
    let DataUrl { media_type, base64 } = parse_data(url)?;
    if !IMAGES.contains(&media_type.as_str()) {
        let problem = format!("must be one of {}, not {}", IMAGES.join(", "), quoted(&media_type));
        return Err(Unsupported::new("", problem));
    }
    Ok(json!({"type": "base64", "media_type": media_type, "data": base64}))
}

/// Returns the base64 text of a PDF file. OpenAI's reference describes `file_data` as base64 text,
/// its examples as a `data:` URL.
fn pdf(data: &str) -> Result<&str, Unsupported> {
    if !is_data(data) {
        return data.starts_with(PDF_MAGIC).then_some(data).ok_or_else(|| {
            Unsupported::new(
                "file.file_data",
                "must be a data: URL or the base64 text of a PDF file",
            )
        });
    }
    let DataUrl { media_type, base64 } =
        parse_data(data).map_err(|error| error.within("file.file_data"))?;
    if media_type != PDF {
        let problem = format!("must be of type {PDF}, not {}", quoted(&media_type));
        return Err(Unsupported::new("file.file_data", problem));
    }
    Ok(base64)
}

fn parse_data(url: &str) -> Result<DataUrl<'_>, Unsupported> {
    let rest = &url["data:".len()..];
    rest.split_once(',')
        .and_then(|(head, base64)| {
            let (media_type, encoding) = head.rsplit_once(';')?;
            let media_type = media_type.split(';').next()?.to_ascii_lowercase();
            encoding.eq_ignore_ascii_case("base64").then_some(DataUrl { media_type, base64 })
        })
        .ok_or_else(|| Unsupported::new("", "must be of the form data:TYPE;base64,DATA"))
}

fn is_data(url: &str) -> bool {
    has_scheme(url, "data:")
}

fn is_web(url: &str) -> bool {
    has_scheme(url, "http://") || has_scheme(url, "https://")
}

fn has_scheme(url: &str, scheme: &str) -> bool {
    url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}

fn quoted(text: &str) -> String {
    format!("{:?}", text::cut(text.to_owned(), QUOTED_BYTES))
}
