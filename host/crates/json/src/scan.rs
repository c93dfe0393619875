//! Scanner that reads a JSON text once, without recursion or allocation, charges its values and keys, and
//! hands them to a sink.

use super::{Caps, Cost, Error, MAX_DEPTH, charge};

/// Least length of a number without an exponent, in bytes, that may be too large for a double.
const LONG_NUMBER_BYTES: usize = 300;

/// Bytes of a string that are looked at together.
pub(super) const WORD_BYTES: usize = size_of::<u64>();

/// Receives the tokens of a JSON text in the pass that checks it. If the check fails, the tokens before the error were
/// received. By default, nothing is done with a token.
pub trait TokenSink {
    /// Receives a key of the innermost open object: its text between the quotes, with its escapes.
    fn key(&mut self, _key: &[u8]) {}

    /// Receives the text of a value that is neither an array nor an object. A string has its quotes and its escapes.
    fn scalar(&mut self, _text: &[u8]) {}

    /// Receives the beginning of an object, or else of an array.
    fn open(&mut self, _is_object: bool) {}

    /// Receives the end of the innermost array or object.
    fn close(&mut self) {}
}

/// Ignores all tokens.
impl TokenSink for () {}

/// An array or object that is not closed yet. Small, because a scanner has [`MAX_DEPTH`] of them, which are
/// cleared for each text.
#[derive(Clone, Copy)]
struct OpenContainer {
    is_object: bool,
    /// Not above `u32::MAX`: a text with as many members has 8 GiB.
    members: u32,
}

impl OpenContainer {
    /// Counts one more member. Returns the number of those before.
    fn add(&mut self) -> usize {
        let before = self.members;
        self.members = before.saturating_add(1);
        before as usize
    }
}

/// Tokens that are valid at the next byte that is not whitespace.
enum ExpectedToken {
    Value,
    FirstElement,
    FirstKey,
    Key,
    /// `,` or the end of the innermost array or object; the end of the text if none is open.
    Separator,
}

pub(super) struct Scanner<'a, S> {
    text: &'a [u8],
    sink: &'a mut S,
    at: usize,
    caps: &'a Caps,
    cost: Cost,
    open: [OpenContainer; MAX_DEPTH],
    depth: usize,
}

impl<'a, S: TokenSink> Scanner<'a, S> {
    pub(super) fn new(text: &'a [u8], caps: &'a Caps, sink: &'a mut S) -> Self {
        let open = [OpenContainer { is_object: false, members: 0 }; MAX_DEPTH];
        Self { text, sink, at: 0, caps, cost: Cost::default(), open, depth: 0 }
    }

    pub(super) fn run(&mut self) -> Result<Cost, Error> {
        // The growth of an array or object includes its values. The root has no parent, so it is
        // charged here.
        self.charge(charge::VALUE_BYTES)?;
        let mut next = ExpectedToken::Value;
        loop {
            self.skip_spaces();
            next = match next {
                ExpectedToken::FirstElement if self.take(b']') => self.close(),
                ExpectedToken::Value | ExpectedToken::FirstElement => self.value()?,
                ExpectedToken::FirstKey if self.take(b'}') => self.close(),
                ExpectedToken::FirstKey | ExpectedToken::Key => self.key()?,
                ExpectedToken::Separator if self.depth > 0 => self.separator()?,
                ExpectedToken::Separator if self.at == self.text.len() => return Ok(self.cost),
                ExpectedToken::Separator => return Err(self.expected("the end of the text")),
            };
        }
    }

    fn value(&mut self) -> Result<ExpectedToken, Error> {
        self.node()?;
        if let Some(array) = self.innermost().filter(|open| !open.is_object) {
            let growth = charge::array_growth(array.add());
            self.charge(growth)?;
        }
        let start = self.at;
        match self.peek() {
            Some(b'{') => return self.open(true),
            Some(b'[') => return self.open(false),
            Some(b'"') => self.string()?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word(b"true", "`true`")?,
            Some(b'f') => self.word(b"false", "`false`")?,
            Some(b'n') => self.word(b"null", "`null`")?,
            _ => return Err(self.expected("a JSON value")),
        }
        self.sink.scalar(&self.text[start..self.at]);
        Ok(ExpectedToken::Separator)
    }

    fn key(&mut self) -> Result<ExpectedToken, Error> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("a key in double quotes"));
        }
        self.node()?;
        if let Some(object) = self.innermost() {
            let growth = charge::object_growth(object.add());
            self.charge(growth)?;
        }
        let start = self.at + 1;
        self.string()?;
        self.sink.key(&self.text[start..self.at - 1]);
        self.skip_spaces();
        if self.take(b':') { Ok(ExpectedToken::Value) } else { Err(self.expected("`:`")) }
    }

    fn separator(&mut self) -> Result<ExpectedToken, Error> {
        let is_object = self.innermost().is_some_and(|open| open.is_object);
        if self.take(b',') {
            return Ok(if is_object { ExpectedToken::Key } else { ExpectedToken::Value });
        }
        let (end, expected) = if is_object { (b'}', "`,` or `}`") } else { (b']', "`,` or `]`") };
        if self.take(end) { Ok(self.close()) } else { Err(self.expected(expected)) }
    }

    fn open(&mut self, is_object: bool) -> Result<ExpectedToken, Error> {
        let limit = self.caps.depth.min(MAX_DEPTH);
        if self.depth == limit {
            return Err(Error::TooDeep { limit, at: self.at });
        }
        self.open[self.depth] = OpenContainer { is_object, members: 0 };
        self.depth += 1;
        self.cost.depth = self.cost.depth.max(self.depth);
        self.at += 1;
        self.sink.open(is_object);
        Ok(if is_object { ExpectedToken::FirstKey } else { ExpectedToken::FirstElement })
    }

    fn close(&mut self) -> ExpectedToken {
        self.depth -= 1;
        self.sink.close();
        ExpectedToken::Separator
    }

    /// Reads a string at its opening quote and charges its length in the text. The decoded string
    /// is never longer, because every escape is longer than its character.
    fn string(&mut self) -> Result<(), Error> {
        self.at += 1;
        let start = self.at;
        let mut is_ascii = true;
        loop {
            self.skip_plain();
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(0x20..=0x7f) => self.at += 1,
                Some(0x80..) => {
                    is_ascii = false;
                    self.skip_wide();
                }
                Some(..0x20) => return Err(self.expected("no control character in a string")),
                None => return Err(self.expected("the end of a string")),
            }
        }
        let content = &self.text[start..self.at];
        if !is_ascii && let Err(error) = std::str::from_utf8(content) {
            return Err(Error::Syntax { expected: "UTF-8", at: start + error.valid_up_to() });
        }
        self.charge(charge::allocation(content.len()))?;
        self.at += 1;
        Ok(())
    }

    /// Skips bytes of a string that stand for themselves, word by word.
    fn skip_plain(&mut self) {
        while let Some(word) = self.text[self.at..].first_chunk() {
            let plain = plain_bytes(*word);
            self.at += plain;
            if plain < WORD_BYTES {
                return;
            }
        }
    }

    /// Skips bytes of characters that are not ASCII.
    fn skip_wide(&mut self) {
        while matches!(self.peek(), Some(0x80..)) {
            self.at += 1;
        }
    }

    fn escape(&mut self) -> Result<(), Error> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let is_pair = match self.hex()? {
                    0xd800..0xdc00 => true,
                    0xdc00..0xe000 => return Err(self.expected("a surrogate pair")),
                    _ => false,
                };
                // Half a surrogate pair is not a character, and no Rust string can hold it.
                if is_pair
                    && !(self.take(b'\\')
                        && self.peek() == Some(b'u')
                        && matches!(self.hex()?, 0xdc00..0xe000))
                {
                    return Err(self.expected("a surrogate pair"));
                }
            }
            _ => return Err(self.expected("an escape of JSON")),
        }
        Ok(())
    }

    /// Reads `uXXXX` and returns its number.
    fn hex(&mut self) -> Result<u32, Error> {
        let digits = self.text.get(self.at + 1..self.at + 5);
        let value = digits.and_then(|digits| {
            digits
                .iter()
                .try_fold(0, |value, digit| Some(value * 16 + char::from(*digit).to_digit(16)?))
        });
        let value = value.ok_or_else(|| self.expected("four hexadecimal digits"))?;
        self.at += 5;
        Ok(value)
    }

    fn number(&mut self) -> Result<(), Error> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        let has_exponent = self.take(b'e') || self.take(b'E');
        if has_exponent {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        let is_large = has_exponent || self.at - start >= LONG_NUMBER_BYTES;
        if is_large && serde_json::from_slice::<f64>(&self.text[start..self.at]).is_err() {
            return Err(Error::Syntax { expected: "a number that a double can hold", at: start });
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Error> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(self.expected("a digit")) }
    }

    fn word(&mut self, word: &[u8], expected: &'static str) -> Result<(), Error> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.expected(expected));
        }
        self.at += word.len();
        Ok(())
    }

    fn node(&mut self) -> Result<(), Error> {
        if self.cost.nodes == self.caps.nodes {
            return Err(Error::TooManyNodes {
                limit: self.caps.nodes,
                at: self.at,
                len: self.text.len(),
            });
        }
        self.cost.nodes += 1;
        Ok(())
    }

    fn charge(&mut self, bytes: usize) -> Result<(), Error> {
        self.cost.tree_bytes = self.cost.tree_bytes.saturating_add(bytes);
        if self.cost.tree_bytes > self.caps.tree_bytes {
            return Err(Error::TooLarge {
                limit_bytes: self.caps.tree_bytes,
                found_bytes: self.cost.tree_bytes,
                at: self.at,
                len: self.text.len(),
            });
        }
        Ok(())
    }

    fn innermost(&mut self) -> Option<&mut OpenContainer> {
        self.open[..self.depth].last_mut()
    }

    fn skip_spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn expected(&self, expected: &'static str) -> Error {
        Error::Syntax { expected, at: self.at }
    }
}

/// Returns the number of bytes at the beginning of a word of a string that are ASCII and neither a quote nor a
/// backslash nor a control character.
pub(super) fn plain_bytes(word: [u8; WORD_BYTES]) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; WORD_BYTES]);
    const HIGH: u64 = ONES << 7;
    let word = u64::from_le_bytes(word);
    // A subtraction sets the highest bit of a byte that is smaller than the subtracted one. It may borrow from the bytes
    // after that one alone.
    let quote = (word ^ (ONES * u64::from(b'"'))).wrapping_sub(ONES);
    let backslash = (word ^ (ONES * u64::from(b'\\'))).wrapping_sub(ONES);
    let control = word.wrapping_sub(ONES * 0x20);
    let others = (word | quote | backslash | control) & HIGH;
    others.trailing_zeros() as usize / 8
}
