//! Parts of a result or of an error: the content blocks of the Model Context Protocol.

use serde_json::Value;

/// One part of a result or of an error.
///
/// ```
/// use airlock_guest::{Content, Link, serde_json::json};
///
/// let part = Content::from(Link::new("https://example.com/chart", "chart").with_size(2048))
///     .with_annotations(json!({ "audience": ["user"] }));
/// assert_eq!(part.annotations.unwrap()["audience"][0], "user");
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Content {
    /// The content block.
    pub block: Block,
    /// MCP annotations, such as `audience` and `priority`: a JSON object.
    pub annotations: Option<Value>,
    /// Vendor keys of the part, forwarded as its MCP `_meta`: a JSON object.
    pub meta: Option<Value>,
    /// Other members of the MCP content block, such as the `icons` of a link: a JSON object.
    pub extra: Option<Value>,
}

/// One content block.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Block {
    /// Text for the model.
    Text(String),
    /// An image.
    Image(Media),
    /// A sound.
    Audio(Media),
    /// A resource that the caller may fetch.
    Link(Link),
    /// A resource that is part of the result.
    Embedded(Embedded),
    /// Any other MCP content block: a JSON object with a `type`.
    Other(Value),
}

/// An image or a sound.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Media {
    /// The bytes, not encoded.
    pub data: Vec<u8>,
    /// Media type of the bytes.
    pub mime_type: String,
}

/// A resource that the caller may fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// Its address.
    pub uri: String,
    /// Name for programs.
    pub name: String,
    /// Name for people.
    pub title: Option<String>,
    /// Description for a model.
    pub description: Option<String>,
    /// Media type of the resource.
    pub mime_type: Option<String>,
    /// Size of the resource in bytes.
    pub size: Option<u64>,
}

/// A resource that is part of the result.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Embedded {
    /// Its address.
    pub uri: String,
    /// Media type of the contents.
    pub mime_type: Option<String>,
    /// The resource itself.
    pub contents: Contents,
    /// Vendor keys of the resource, forwarded as its MCP `_meta`: a JSON object.
    pub meta: Option<Value>,
    /// Other members of the MCP resource contents: a JSON object.
    pub extra: Option<Value>,
}

/// The contents of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Contents {
    /// Text.
    Text(String),
    /// The bytes, not encoded.
    Blob(Vec<u8>),
}

impl Content {
    /// Creates a text.
    pub fn text(text: impl Into<String>) -> Self {
        Block::Text(text.into()).into()
    }

    /// Creates an image; `data` is not encoded.
    pub fn image(data: impl Into<Vec<u8>>, mime_type: impl Into<String>) -> Self {
        Block::Image(Media { data: data.into(), mime_type: mime_type.into() }).into()
    }

    /// Creates a sound; `data` is not encoded.
    pub fn audio(data: impl Into<Vec<u8>>, mime_type: impl Into<String>) -> Self {
        Block::Audio(Media { data: data.into(), mime_type: mime_type.into() }).into()
    }

    /// Creates a part that this crate has no type for, from an MCP content block: a JSON object
    /// with a `type`. A client that does not know the type shows it as text.
    pub fn other(block: impl Into<Value>) -> Self {
        Block::Other(block.into()).into()
    }

    setters! {
        /// Sets the MCP annotations, a JSON object.
        with_annotations(annotations: Value) => annotations;
        /// Sets the vendor keys, a JSON object.
        with_meta(meta: Value) => meta;
        /// Sets the other members of the MCP content block, a JSON object.
        with_extra(extra: Value) => extra;
    }

    /// Returns the text of a text part; `None` for any other part.
    pub fn as_text(&self) -> Option<&str> {
        match &self.block {
            Block::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl From<Block> for Content {
    fn from(block: Block) -> Self {
        Self { block, annotations: None, meta: None, extra: None }
    }
}

impl From<Link> for Content {
    fn from(link: Link) -> Self {
        Block::Link(link).into()
    }
}

impl From<Embedded> for Content {
    fn from(embedded: Embedded) -> Self {
        Block::Embedded(embedded).into()
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl Link {
    /// Creates a link to a URI, with a name for programs.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            size: None,
        }
    }

    setters! {
        /// Sets the name for people.
        with_title(title: String) => title;
        /// Sets the description for a model.
        with_description(description: String) => description;
        /// Sets the media type of the resource.
        with_mime_type(mime_type: String) => mime_type;
    }

    /// Sets the size of the resource in bytes.
    #[must_use]
    pub fn with_size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }
}

impl Embedded {
    /// Creates a text resource.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(uri.into(), Contents::Text(text.into()))
    }

    /// Creates a binary resource; `data` is not encoded.
    pub fn blob(uri: impl Into<String>, data: impl Into<Vec<u8>>) -> Self {
        Self::new(uri.into(), Contents::Blob(data.into()))
    }

    fn new(uri: String, contents: Contents) -> Self {
        Self { uri, mime_type: None, contents, meta: None, extra: None }
    }

    setters! {
        /// Sets the media type of the contents.
        with_mime_type(mime_type: String) => mime_type;
        /// Sets the vendor keys of the resource, a JSON object.
        with_meta(meta: Value) => meta;
        /// Sets the other members of the MCP resource contents, a JSON object.
        with_extra(extra: Value) => extra;
    }
}
