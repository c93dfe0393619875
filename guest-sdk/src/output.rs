//! Results of tools, and the types that a tool may return.

use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Content, Embedded, Error, Link, schema};

/// The result of a tool: parts to read, and the same result as data.
///
/// Most tools return a value that is converted to one, see [`IntoOutput`]. A tool that returns more
/// than one part builds it here.
///
/// ```
/// use airlock_guest::{Link, Output};
///
/// let png = vec![0x89, b'P', b'N', b'G'];
/// let output = Output::text("The chart of last week.")
///     .with_image(png, "image/png")
///     .with_link(Link::new("https://example.com/chart", "chart").with_title("Interactive chart"));
/// assert_eq!(output.content.len(), 3);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Output {
    /// Parts in reading order.
    pub content: Vec<Content>,
    /// The result as data: any JSON value, which matches the output schema if one was declared. Some
    /// clients expect an object.
    pub structured_content: Option<Value>,
    /// Vendor keys, forwarded as MCP `_meta`: a JSON object.
    pub meta: Option<Value>,
    /// Other members of the MCP result: a JSON object.
    pub extra: Option<Value>,
}

impl Output {
    /// Creates a result of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::default().with_text(text)
    }

    /// Creates a result from a value: as data if it is a JSON object, and as text for readers that
    /// support only text. A string becomes that text, any other value its JSON.
    pub fn json(value: &(impl Serialize + ?Sized)) -> Result<Self, Error> {
        let value = to_value(value)?;
        let output = match &value {
            Value::String(text) => return Ok(Self::text(text)),
            other => Self::text(other.to_string()),
        };
        Ok(Self { structured_content: value.is_object().then_some(value), ..output })
    }

    /// Adds a text.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Self {
        self.with(Content::text(text))
    }

    /// Adds an image; `data` is not encoded.
    #[must_use]
    pub fn with_image(self, data: impl Into<Vec<u8>>, mime_type: impl Into<String>) -> Self {
        self.with(Content::image(data, mime_type))
    }

    /// Adds a sound; `data` is not encoded.
    #[must_use]
    pub fn with_audio(self, data: impl Into<Vec<u8>>, mime_type: impl Into<String>) -> Self {
        self.with(Content::audio(data, mime_type))
    }

    /// Adds a resource that the caller may fetch.
    #[must_use]
    pub fn with_link(self, link: Link) -> Self {
        self.with(link)
    }

    /// Adds a resource that is part of the result.
    #[must_use]
    pub fn with_embedded(self, embedded: Embedded) -> Self {
        self.with(embedded)
    }

    /// Adds a part: a [`Content`], or anything that converts to one.
    #[must_use]
    pub fn with(mut self, part: impl Into<Content>) -> Self {
        self.content.push(part.into());
        self
    }

    /// Adds parts in their order.
    #[must_use]
    pub fn with_parts(mut self, parts: impl IntoIterator<Item = Content>) -> Self {
        self.content.extend(parts);
        self
    }

    setters! {
        /// Sets the result as data. It must match the output schema if the tool has one.
        with_structured_content(data: Value) => structured_content;
        /// Sets the vendor keys, a JSON object.
        with_meta(meta: Value) => meta;
        /// Sets the other members of the MCP result, a JSON object.
        with_extra(extra: Value) => extra;
    }

    /// Deserializes the result of another tool: its data or, if there is none, the JSON in its
    /// first text.
    ///
    /// ```
    /// use airlock_guest::{Output, serde_json::{Value, json}};
    ///
    /// let output = Output::json(&json!({ "words": 3 })).unwrap();
    /// assert_eq!(output.decode::<Value>().unwrap()["words"], 3);
    /// ```
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let decoded = match (&self.structured_content, self.first_text()) {
            (Some(value), _) => T::deserialize(value),
            (None, Some(text)) => serde_json::from_str(text),
            (None, None) => {
                return Err(Error::internal("the tool returned neither data nor text"));
            }
        };
        decoded.map_err(|error| Error::internal(format!("the tool's result does not fit: {error}")))
    }

    /// Returns the first text among the parts.
    pub fn first_text(&self) -> Option<&str> {
        self.content.iter().find_map(Content::as_text)
    }
}

/// A type that a tool may return, by itself or as the value of a `Result`.
///
/// | Type | Result |
/// |---|---|
/// | a struct or map (a JSON object) | data with an output schema, and the same JSON as text |
/// | `String`, `&'static str` | that text, without a schema |
/// | any other serializable type, such as a list | its JSON as text, without a schema |
/// | [`Structured<T>`] | data with the schema of `T`, and parts of your choice |
/// | [`Output`] | unchanged, without a schema |
///
/// Many clients expect an object at the root of an output schema. A tool whose result is a list
/// should return a struct that contains the list.
///
/// A type that cannot be serialized is a compile error at the function's return type:
///
/// ```compile_fail,E0277
/// # use airlock_guest::tool;
/// struct Opaque;
///
/// /// Gives something that nobody can read.
/// #[tool]
/// fn opaque() -> Opaque {
///     Opaque
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a tool",
    note = "write `#[data]` above its definition (`use airlock_guest::data`), or return `Output`"
)]
pub trait IntoOutput {
    /// Returns the JSON Schema of [`Output::structured_content`]; its root type is "object". `None` if the
    /// result has no fixed shape.
    fn schema() -> Option<Schema>;

    /// Converts the value to a result. Fails if it cannot be serialized as JSON.
    fn into_output(self) -> Result<Output, Error>;
}

// Without it, the message would be about the bounds.
#[diagnostic::do_not_recommend]
impl<T: Serialize + JsonSchema> IntoOutput for T {
    fn schema() -> Option<Schema> {
        let schema = schema::of_output::<T>();
        let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
        is_object.then_some(schema)
    }

    fn into_output(self) -> Result<Output, Error> {
        Output::json(&self)
    }
}

impl IntoOutput for Output {
    fn schema() -> Option<Schema> {
        None
    }

    fn into_output(self) -> Result<Output, Error> {
        Ok(self)
    }
}

/// Data with a schema, and parts that show the same data in another form: a table as Markdown, the
/// plain text of a file.
///
/// ```
/// use airlock_guest::{Content, IntoOutput, Structured, schemars::JsonSchema, serde::Serialize};
///
/// #[derive(Serialize, JsonSchema)]
/// # #[serde(crate = "airlock_guest::serde")]
/// # #[schemars(crate = "airlock_guest::schemars")]
/// struct Weather {
///     celsius: f32,
/// }
///
/// let answer = Structured::new(Weather { celsius: 21.5 }).with(Content::text("21.5 °C and sunny"));
/// let output = answer.into_output().unwrap();
/// assert_eq!(output.first_text(), Some("21.5 °C and sunny"));
/// assert_eq!(output.structured_content.unwrap()["celsius"], 21.5);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Structured<T> {
    /// The result as data.
    pub value: T,
    /// Parts in reading order.
    pub content: Vec<Content>,
}

impl<T> Structured<T> {
    /// Creates a result with data and without parts.
    pub fn new(value: T) -> Self {
        Self { value, content: Vec::new() }
    }

    /// Adds a part: a [`Content`], or anything that converts to one.
    #[must_use]
    pub fn with(mut self, part: impl Into<Content>) -> Self {
        self.content.push(part.into());
        self
    }
}

impl<T: Serialize + JsonSchema> IntoOutput for Structured<T> {
    fn schema() -> Option<Schema> {
        <T as IntoOutput>::schema()
    }

    fn into_output(self) -> Result<Output, Error> {
        let structured_content = Some(to_value(&self.value)?);
        Ok(Output { content: self.content, structured_content, ..Output::default() })
    }
}

fn to_value(value: &(impl Serialize + ?Sized)) -> Result<Value, Error> {
    serde_json::to_value(value)
        .map_err(|error| Error::internal(format!("the answer is not JSON: {error}")))
}

/// A `Result` under any name, for the code that `#[tool]` generates.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a tool",
    note = "the error needs `Into<airlock_guest::Error>`, the value needs `IntoOutput`"
)]
pub trait Fallible {
    /// Same as [`IntoOutput::schema`].
    fn schema() -> Option<Schema>;

    /// Same as [`IntoOutput::into_output`].
    fn into_output(self) -> Result<Output, Error>;
}

impl<T: IntoOutput, E: Into<Error>> Fallible for Result<T, E> {
    fn schema() -> Option<Schema> {
        T::schema()
    }

    fn into_output(self) -> Result<Output, Error> {
        self.map_err(Into::into)?.into_output()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_data_and_text() {
        let output = Output::json(&json!({ "b": 1, "a": 2 })).unwrap();
        assert_eq!(output.first_text(), Some(r#"{"b":1,"a":2}"#));
        assert_eq!(output.structured_content, Some(json!({ "b": 1, "a": 2 })));
    }

    #[test]
    fn a_string_is_its_text_and_a_list_its_json() {
        let text = "a \"text\"".into_output().unwrap();
        assert_eq!((text.first_text(), &text.structured_content), (Some("a \"text\""), &None));
        let list = vec![1, 2].into_output().unwrap();
        assert_eq!((list.first_text(), &list.structured_content), (Some("[1,2]"), &None));
    }

    #[test]
    fn only_an_object_has_a_schema() {
        assert!(<std::collections::BTreeMap<String, u8> as IntoOutput>::schema().is_some());
        assert!(<String as IntoOutput>::schema().is_none());
        assert!(<Vec<u8> as IntoOutput>::schema().is_none());
        assert!(<Output as IntoOutput>::schema().is_none());
    }

    #[test]
    fn a_result_that_is_not_json_is_an_internal_error() {
        let keys_are_lists = std::collections::BTreeMap::from([(vec![1], 2)]);
        let error = Output::json(&keys_are_lists).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Internal);
    }

    #[test]
    fn a_result_is_decoded_from_data_or_text() {
        let data = Output::json(&json!({ "n": 1 })).unwrap();
        assert_eq!(data.decode::<Value>().unwrap(), json!({ "n": 1 }));
        assert_eq!(Output::text("[1, 2]").decode::<Vec<u8>>().unwrap(), [1, 2]);
        assert!(Output::text("no json").decode::<Value>().is_err());
        assert!(Output::default().decode::<Value>().is_err());
    }
}
