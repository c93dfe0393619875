//! Durations and sizes with their unit, as in the configuration file.

use std::{borrow::Cow, fmt, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};

/// A duration with its unit: `"250ms"`, `"30s"`, `"10m"`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Span(pub Duration);

impl Span {
    /// Creates a duration of `n` milliseconds.
    pub const fn millis(n: u64) -> Self {
        Self(Duration::from_millis(n))
    }

    /// Creates a duration of `n` seconds.
    pub const fn secs(n: u64) -> Self {
        Self(Duration::from_secs(n))
    }

    /// Creates a duration of `n` days.
    pub const fn days(n: u64) -> Self {
        Self::secs(n * 24 * 60 * 60)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpanVisitor { bare_seconds: false })
    }
}

/// A [`Span`], or a bare number of seconds for keys that have always accepted one.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct SecondsOrSpan(pub Span);

impl fmt::Display for SecondsOrSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for SecondsOrSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpanVisitor { bare_seconds: true }).map(Self)
    }
}

struct SpanVisitor {
    bare_seconds: bool,
}

impl Visitor<'_> for SpanVisitor {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time with its unit, such as \"250ms\", \"30s\" or \"10m\"")?;
        if self.bare_seconds { f.write_str(", or a whole number of seconds") } else { Ok(()) }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
        humantime::parse_duration(text).map(Span).map_err(|_| misread(text, &self))
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Span, E> {
        if self.bare_seconds {
            Ok(Span::secs(seconds))
        } else {
            Err(E::invalid_type(de::Unexpected::Unsigned(seconds), &self))
        }
    }
}

/// A number of bytes with its unit: `"64MiB"`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Size(pub u64);

impl Size {
    /// Creates a size of `n` KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// Creates a size of `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// Returns the size in bytes, at most `usize::MAX`.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl From<usize> for Size {
    fn from(bytes: usize) -> Self {
        Self(bytes as u64)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let whole = units.into_iter().find(|(unit, _)| self.0 != 0 && self.0.is_multiple_of(*unit));
        let (unit, name) = whole.unwrap_or((1, "B"));
        write!(f, "{}{name}", self.0 / unit)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = Size;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size with its unit, such as \"64MiB\" or \"512KiB\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
        let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
        let size = text.parse::<bytesize::ByteSize>().ok().filter(|_| has_unit);
        size.map(|size| Size(size.as_u64())).ok_or_else(|| misread(text, &self))
    }
}

fn misread<E: de::Error>(text: &str, expected: &dyn de::Expected) -> E {
    E::custom(format_args!(
        "found {:?}, expected {expected}",
        airlock_strings::cut(text.to_owned(), 64)
    ))
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

macro_rules! string_schema {
    ($($type:ident $name:literal: $schema:tt)*) => {$(
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

string_schema! {
    Span "Span": {"type": "string", "examples": ["250ms", "30s", "10m"]}
    SecondsOrSpan "SecondsOrSpan": {"type": ["string", "integer"], "minimum": 1, "examples": ["30s", 30]}
    Size "Size": {"type": "string", "pattern": "[A-Za-z]$", "examples": ["64MiB", "512KiB"]}
}
