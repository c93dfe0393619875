//! Values of attributes.

/// Maximum length of a text in an attribute, in characters: servers and callers choose some.
pub(crate) const MAX_TEXT: usize = 1024;
/// Maximum length of the name of a span or an event, in characters. The names of tools in it are
/// chosen by servers.
pub(crate) const MAX_NAME: usize = 256;
/// Maximum attributes of a span, fields of a record, and elements of a list: a provider can end any number of
/// choices. Further ones are dropped.
pub const MAX_ELEMENTS: usize = 64;

/// Value of an attribute. Texts are cut to 1,024 characters, lists to 64 elements.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// An integer.
    Integer(i64),
    /// A number.
    Number(f64),
    /// True or false.
    Bool(bool),
    /// Several texts.
    Texts(Vec<String>),
}

#[cfg(feature = "otlp")]
impl AttributeValue {
    /// Approximate memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Integer(_) | Self::Number(_) | Self::Bool(_) => size_of::<i64>(),
            Self::Texts(texts) => texts.iter().map(String::len).sum(),
        }
    }
}

/// Cuts a text to a number of characters.
pub(crate) fn cut(mut text: String, most: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(most) {
        text.truncate(end);
    }
    text
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.chars().take(MAX_TEXT).collect())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(cut(text, MAX_TEXT))
    }
}

impl From<&String> for AttributeValue {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<bool> for AttributeValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<f64> for AttributeValue {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<i64> for AttributeValue {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

/// Integers that fit, and those of which too large ones become the largest.
macro_rules! integers {
    (fit: $($small:ty),*; cut: $($large:ty),*) => {
        $(impl From<$small> for AttributeValue {
            fn from(value: $small) -> Self {
                Self::Integer(value.into())
            }
        })*
        $(impl From<$large> for AttributeValue {
            fn from(value: $large) -> Self {
                Self::Integer(i64::try_from(value).unwrap_or(i64::MAX))
            }
        })*
    };
}

integers!(fit: i32, u8, u16, u32; cut: u64, usize);

impl<T: AsRef<str>> From<&[T]> for AttributeValue {
    fn from(texts: &[T]) -> Self {
        let texts = texts.iter().take(MAX_ELEMENTS);
        Self::Texts(texts.map(|text| text.as_ref().chars().take(MAX_TEXT).collect()).collect())
    }
}

impl From<Vec<String>> for AttributeValue {
    fn from(texts: Vec<String>) -> Self {
        texts.as_slice().into()
    }
}

#[cfg(feature = "otlp")]
impl From<AttributeValue> for opentelemetry::Value {
    fn from(value: AttributeValue) -> Self {
        match value {
            AttributeValue::Text(text) => Self::from(text),
            AttributeValue::Integer(value) => Self::I64(value),
            AttributeValue::Number(value) => Self::F64(value),
            AttributeValue::Bool(value) => Self::Bool(value),
            AttributeValue::Texts(texts) => {
                let texts = texts.into_iter().map(opentelemetry::StringValue::from).collect();
                Self::Array(opentelemetry::Array::String(texts))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_a_character() {
        let long = "é".repeat(MAX_TEXT + 1);
        let cut = AttributeValue::Text("é".repeat(MAX_TEXT));
        assert_eq!(AttributeValue::from(long.as_str()), cut);
        assert_eq!(AttributeValue::from(long.clone()), cut);
        let list = vec![long; MAX_ELEMENTS + 1];
        let AttributeValue::Texts(texts) = list.into() else { panic!("a list") };
        assert_eq!(texts.len(), MAX_ELEMENTS);
        assert_eq!(texts[0].chars().count(), MAX_TEXT);
    }

    #[test]
    fn integers_beyond_the_largest_are_the_largest() {
        assert_eq!(AttributeValue::from(u64::MAX), AttributeValue::Integer(i64::MAX));
        assert_eq!(AttributeValue::from(-3_i64), AttributeValue::Integer(-3));
    }
}
