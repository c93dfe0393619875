//! Values of a script to JSON. A value either can be represented, or there is a reason why not.

use std::{collections::HashSet, fmt};

use serde::Serialize;

/// Largest depth of nested lists and dicts in the output. The JSON parsers of the receiver have the
/// same limit, and what one of them refuses is a failure of the executor instead of the script.
pub const MAX_DEPTH: usize = 127;
/// Bytes that a text has room for from the start: enough for the arguments of most calls. A text is moved when it grows.
const ROOM_BYTES: usize = 128;

/// Reason for which a value cannot be JSON.
#[derive(Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It nests deeper than [`MAX_DEPTH`], perhaps endlessly.
    Deep,
    /// It contains an infinity or NaN.
    NotFinite,
    /// Two keys of a dict have the same text.
    SameKey(String),
    /// It contains a tool with this name in the script, which was not called.
    Tool(String),
    /// It contains a function with this name.
    Function(String),
}

impl Unfit {
    /// Creates the reason for a tool that was not called, by its name in the script. To the script, one
    /// that is a global is a function like any other.
    pub fn uncalled(name: String) -> Self {
        if name.contains('.') { Self::Tool(name) } else { Self::Function(name) }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deep => write!(f, "it nests deeper than {MAX_DEPTH} levels, or contains itself"),
            Self::NotFinite => {
                f.write_str("it contains a float that JSON cannot hold (nan or infinity)")
            }
            Self::Tool(name) => write!(f, "`{name}` is a tool: call it, like `{name}(…)`"),
            Self::Function(name) => {
                write!(f, "`{name}` is a function: call it, like `{name}(…)`")
            }
            Self::SameKey(key) => {
                write!(f, "a dict in it has two keys that are both \"{key}\" as text")
            }
        }
    }
}

/// Returns an error if two keys of a dict have the same text, such as `1` and `"1"`.
pub fn check_distinct<'k>(keys: impl IntoIterator<Item = &'k str>) -> Result<(), Unfit> {
    let mut seen = HashSet::new();
    let twice = keys.into_iter().find(|key| !seen.insert(*key));
    twice.map_or(Ok(()), |key| Err(Unfit::SameKey(key.to_owned())))
}

/// Returns the JSON text of one value, which `write` writes.
pub fn written(write: impl FnOnce(&mut Writer) -> Result<(), Unfit>) -> Result<String, Unfit> {
    let mut writer = Writer { out: Vec::with_capacity(ROOM_BYTES), depth: 0 };
    write(&mut writer)?;
    Ok(writer.finish())
}

/// JSON text in the making.
pub struct Writer {
    out: Vec<u8>,
    depth: usize,
}

impl Writer {
    fn finish(self) -> String {
        String::from_utf8(self.out).expect("JSON is written from text")
    }

    /// Writes text that is JSON already.
    pub fn verbatim(&mut self, json: &str) {
        self.out.extend(json.as_bytes());
    }

    /// Writes a string, a finite number or a boolean.
    ///
    /// # Panics
    ///
    /// If the value is none of these.
    pub fn scalar(&mut self, value: &(impl Serialize + ?Sized)) {
        serde_json::to_writer(&mut self.out, value)
            .expect("a scalar has JSON, and memory takes it");
    }

    /// Writes an integer, as text if a 64-bit reader would round it.
    pub fn integer(&mut self, digits: &str) {
        if digits.parse::<i64>().is_ok() || digits.parse::<u64>().is_ok() {
            self.verbatim(digits);
        } else {
            self.scalar(digits);
        }
    }

    /// Writes an array, each item with `write`.
    pub fn array<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        write: impl FnMut(&mut Self, T) -> Result<(), Unfit>,
    ) -> Result<(), Unfit> {
        self.enclosed(b'[', b']', items, write)
    }

    /// Writes an object, each value with `write`. The keys are distinct.
    pub fn object<K: AsRef<str>, T>(
        &mut self,
        fields: impl IntoIterator<Item = (K, T)>,
        mut write: impl FnMut(&mut Self, T) -> Result<(), Unfit>,
    ) -> Result<(), Unfit> {
        self.enclosed(b'{', b'}', fields, |writer, (key, item)| {
            writer.scalar(key.as_ref());
            writer.out.push(b':');
            write(writer, item)
        })
    }

    fn enclosed<T>(
        &mut self,
        open: u8,
        close: u8,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> Result<(), Unfit>,
    ) -> Result<(), Unfit> {
        if self.depth == MAX_DEPTH {
            return Err(Unfit::Deep);
        }
        self.depth += 1;
        self.out.push(open);
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            write(self, item)?;
        }
        self.out.push(close);
        self.depth -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_separated_and_escaped() {
        let fields = [("a\"", vec![1, 2]), ("b", vec![])];
        let json = written(|out| {
            out.object(fields, |out, items| {
                out.array(items, |out, item| {
                    out.scalar(&item);
                    Ok(())
                })
            })
        });
        assert_eq!(json.as_deref(), Ok(r#"{"a\"":[1,2],"b":[]}"#));
    }

    #[test]
    fn an_integer_beyond_64_bits_is_text() {
        for (digits, json) in [
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551616", "\"18446744073709551616\""),
            ("-9223372036854775808", "-9223372036854775808"),
            ("-9223372036854775809", "\"-9223372036854775809\""),
        ] {
            let written = written(|out| {
                out.integer(digits);
                Ok(())
            });
            assert_eq!(written.as_deref(), Ok(json));
        }
    }

    #[test]
    fn nesting_is_limited() {
        fn nested(out: &mut Writer, levels: usize) -> Result<(), Unfit> {
            out.array((levels > 1).then_some(levels - 1), nested)
        }
        let deepest = written(|out| nested(out, MAX_DEPTH));
        assert_eq!(deepest.map(|json| json.len()), Ok(2 * MAX_DEPTH));
        assert_eq!(written(|out| nested(out, MAX_DEPTH + 1)), Err(Unfit::Deep));
    }

    #[test]
    fn keys_with_the_same_text_are_found() {
        assert_eq!(check_distinct(["1", "2"]), Ok(()));
        assert_eq!(check_distinct(["1", "2", "1"]), Err(Unfit::SameKey("1".into())));
    }
}
