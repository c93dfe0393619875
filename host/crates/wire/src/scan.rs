//! Finds the identifier of a message that cannot be read as a whole: one that is too long, nested
//! too deeply, or not JSON. Its request then fails at once and does not wait for its deadline.

/// Maximum bytes of a key or an identifier that is kept. Identifiers of the gateway are numbers of
/// at most 20 digits, and the key is `id`.
const MAX_TOKEN_BYTES: usize = 32;

/// Reads a JSON text in parts, in constant memory and linear time, and remembers the identifier.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "the states of a scanner are independent")]
pub struct IdScanner {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The token that is being read at the outermost level.
    token: Vec<u8>,
    /// The last name of a member at the outermost level, until its value begins.
    is_id: bool,
    after_colon: bool,
    found: Option<i64>,
    has_method: bool,
}

impl IdScanner {
    /// Reads the next part of the text.
    pub fn push(&mut self, part: &[u8]) {
        for byte in part {
            self.step(*byte);
        }
    }

    /// Returns the identifier of the request that a text answers; `None` if it names none, or if
    /// the text is a request or a notification.
    pub fn answered(&self) -> Option<i64> {
        self.found.filter(|_| !self.has_method)
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            return self.step_in_string(byte);
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.token.clear();
            }
            b'{' | b'[' => {
                self.depth += 1;
                self.token.clear();
            }
            b'}' | b']' => {
                self.end_value();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.is_id = self.token == b"id";
                self.has_method |= self.token == b"method";
                self.after_colon = true;
                self.token.clear();
            }
            b',' => self.end_value(),
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => self.keep(byte),
        }
    }

    fn step_in_string(&mut self, byte: u8) {
        if self.is_escaped {
            // An escape inside a token makes it no name that is looked for.
            self.is_escaped = false;
            self.keep(b'\\');
            return;
        }
        match byte {
            b'\\' => self.is_escaped = true,
            b'"' => self.in_string = false,
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() <= MAX_TOKEN_BYTES {
            self.token.push(byte);
        }
    }

    /// Ends a value, which is the identifier if its name was `id`.
    fn end_value(&mut self) {
        if self.depth == 1 && self.after_colon && self.is_id && self.found.is_none() {
            self.found = std::str::from_utf8(&self.token).ok().and_then(|text| text.parse().ok());
        }
        self.after_colon = false;
        self.is_id = false;
        self.token.clear();
    }
}

/// Returns the identifier of the request that a text answers, whatever else the text is.
pub fn answered(text: &[u8]) -> Option<i64> {
    let mut scanner = IdScanner::default();
    scanner.push(text);
    // A text that was cut may end with the identifier.
    scanner.end_value();
    scanner.answered()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identifier_is_found_before_and_after_what_cannot_be_read() {
        let deep = "[".repeat(10_000);
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"result":1e999}"#.to_owned(),
            r#"{"result":{"id":1,"x":"\"id\":2"},"id" : 7 }"#.to_owned(),
            r#"{"id":"7","result":{}}"#.to_owned(),
            format!(r#"{{"id":7,"result":{deep}"#),
            format!(r#"{{"result":{deep}{},"id":7}}"#, "]".repeat(10_000)),
            r#"{"id":7,"id":8,"result":1}"#.to_owned(),
            r#"{"id":7"#.to_owned(),
        ] {
            assert_eq!(answered(text.as_bytes()), Some(7), "{text:.60}");
        }
    }

    #[test]
    fn a_text_that_answers_nothing_names_no_request() {
        for text in [
            "",
            "7",
            "no message",
            r#"{"result":{"id":7}}"#,
            r#"{"id":7,"method":"ping"}"#,
            r#"{"id":"seven","result":1}"#,
            r#"{"\u0069d":7}"#,
            r#"[{"id":7}]"#,
            r#"{"id":null}"#,
            "{\"id\":\u{fe}}",
        ] {
            assert_eq!(answered(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn parts_are_read_like_the_whole_and_memory_is_bounded() {
        let text =
            format!(r#"{{"{}":1,"id":42,"result":"{}"}}"#, "k".repeat(1 << 20), "x".repeat(99));
        let mut scanner = IdScanner::default();
        for part in text.as_bytes().chunks(7) {
            scanner.push(part);
            assert!(scanner.token.capacity() <= 4 * MAX_TOKEN_BYTES);
        }
        assert_eq!(scanner.answered(), Some(42));
    }
}
