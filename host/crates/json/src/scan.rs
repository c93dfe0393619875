//! Scanner that reads a JSON text once, without recursion or allocation, charges its values and keys, and
//! hands them to a sink.

use super::{Caps, Cost, Error, MAX_DEPTH, charge};

/// Least length of a number without an exponent, in bytes, that may be too large for a double.
const LONG_NUMBER_BYTES: usize = 300;

/// Bytes of a short string that are looked at together.
const WORD_BYTES: usize = size_of::<u64>();

/// Bytes of a long string that are looked at together: the compiler vectorises the search.
const GROUP_BYTES: usize = 32;

/// Receives the tokens of a JSON text in the pass that checks it. If the check fails, the tokens before the error were
/// received. By default, nothing is done with a token.
pub trait TokenSink {
    /// Receives a key of the innermost open object: its text between the quotes, with its escapes.
    fn key(&mut self, _key: &[u8], _has_escapes: bool) {}

    /// Receives the text of a value that is neither an array nor an object, and its offset. A string has its quotes and
    /// its escapes.
    fn scalar(&mut self, _text: &[u8], _has_escapes: bool, _at: usize) {}

    /// Receives the beginning of an object, or else of an array, and the offset of its bracket.
    fn open(&mut self, _is_object: bool, _at: usize) {}

    /// Receives the end of the innermost array or object: the offset after its bracket.
    fn close(&mut self, _end: usize) {}
}

/// Ignores all tokens.
impl TokenSink for () {}

/// An array or object that is not closed yet: twice the number of its members, and one more if it is an object. One
/// number, because a scanner has [`MAX_DEPTH`] of them, which are cleared for each text.
#[derive(Clone, Copy)]
struct OpenContainer(u32);

impl OpenContainer {
    fn new(is_object: bool) -> Self {
        Self(u32::from(is_object))
    }

    fn is_object(self) -> bool {
        self.0 & 1 == 1
    }

    /// Returns the bracket that closes it.
    fn end(self) -> u8 {
        if self.is_object() { b'}' } else { b']' }
    }

    /// Counts one more member. Returns the number of those before.
    fn add(&mut self) -> usize {
        let before = self.0 / 2;
        // A text with more members has 4 GiB.
        self.0 = self.0.checked_add(2).unwrap_or(self.0);
        before as usize
    }
}

pub(super) struct Scanner<'a, S> {
    text: &'a [u8],
    sink: &'a mut S,
    at: usize,
    caps: Caps,
    cost: Cost,
    /// The innermost array or object. Without a meaning while none is open.
    innermost: OpenContainer,
    /// Those around the innermost one.
    outer: [OpenContainer; MAX_DEPTH],
    depth: usize,
}

impl<'a, S: TokenSink> Scanner<'a, S> {
    pub(super) fn new(text: &'a [u8], caps: &Caps, sink: &'a mut S) -> Self {
        let outer = [OpenContainer(0); MAX_DEPTH];
        let innermost = OpenContainer(0);
        Self { text, sink, at: 0, caps: *caps, cost: Cost::default(), innermost, outer, depth: 0 }
    }

    pub(super) fn run(&mut self) -> Result<Cost, Error> {
        // The growth of an array or object includes its values. The root has no parent, so it is
        // charged here.
        self.charge(charge::VALUE_BYTES)?;
        let mut is_opened = false;
        loop {
            self.skip_spaces();
            if is_opened && self.take(self.innermost.end()) {
                self.close();
            } else {
                if self.depth > 0 && self.innermost.is_object() {
                    self.key()?;
                }
                is_opened = self.value()?;
                if is_opened {
                    continue;
                }
            }
            if self.ends()? {
                return Ok(self.cost);
            }
            is_opened = false;
        }
    }

    /// Reads a scalar, or the bracket that opens an array or object. Returns whether it is a bracket.
    fn value(&mut self) -> Result<bool, Error> {
        self.node()?;
        if self.depth > 0 && !self.innermost.is_object() {
            let growth = charge::array_growth(self.innermost.add());
            self.charge(growth)?;
        }
        let start = self.at;
        let mut has_escapes = false;
        match self.peek() {
            Some(b'{') => return self.open(true),
            Some(b'[') => return self.open(false),
            Some(b'"') => has_escapes = self.string()?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word(b"true", "`true`")?,
            Some(b'f') => self.word(b"false", "`false`")?,
            Some(b'n') => self.word(b"null", "`null`")?,
            _ => return Err(self.expected("a JSON value")),
        }
        self.sink.scalar(&self.text[start..self.at], has_escapes, start);
        Ok(false)
    }

    /// Reads a key of the innermost object, to its value.
    fn key(&mut self) -> Result<(), Error> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("a key in double quotes"));
        }
        self.node()?;
        let growth = charge::object_growth(self.innermost.add());
        self.charge(growth)?;
        let start = self.at + 1;
        let has_escapes = self.string()?;
        self.sink.key(&self.text[start..self.at - 1], has_escapes);
        self.skip_spaces();
        if !self.take(b':') {
            return Err(self.expected("`:`"));
        }
        self.skip_spaces();
        Ok(())
    }

    /// Reads the brackets that close arrays and objects after a value, to the comma before the next one. Returns
    /// whether the text ends.
    fn ends(&mut self) -> Result<bool, Error> {
        loop {
            self.skip_spaces();
            if self.depth == 0 {
                let ends = self.at == self.text.len();
                return if ends { Ok(true) } else { Err(self.expected("the end of the text")) };
            }
            if self.take(b',') {
                return Ok(false);
            }
            if !self.take(self.innermost.end()) {
                let is_object = self.innermost.is_object();
                return Err(self.expected(if is_object { "`,` or `}`" } else { "`,` or `]`" }));
            }
            self.close();
        }
    }

    fn open(&mut self, is_object: bool) -> Result<bool, Error> {
        let limit = self.caps.depth.min(MAX_DEPTH);
        if self.depth == limit {
            return Err(Error::TooDeep { limit, at: self.at });
        }
        self.outer[self.depth] = self.innermost;
        self.innermost = OpenContainer::new(is_object);
        self.depth += 1;
        self.cost.depth = self.cost.depth.max(self.depth);
        self.sink.open(is_object, self.at);
        self.at += 1;
        Ok(true)
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.innermost = self.outer[self.depth];
        self.sink.close(self.at);
    }

    /// Reads a string at its opening quote and charges its length in the text. The decoded string
    /// is never longer, because every escape is longer than its character. Returns whether it has escapes.
    #[inline]
    fn string(&mut self) -> Result<bool, Error> {
        self.at += 1;
        let start = self.at;
        self.at += plain_length(&self.text[start..]);
        let has_escapes = self.peek() != Some(b'"') && self.rest_of_string(start)?;
        self.charge(charge::allocation(self.at - start))?;
        self.at += 1;
        Ok(has_escapes)
    }

    /// Reads a string from its first byte that may not stand for itself to its closing quote. Returns whether it has
    /// escapes.
    #[inline(never)]
    fn rest_of_string(&mut self, start: usize) -> Result<bool, Error> {
        let mut is_ascii = true;
        let mut has_escapes = false;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    has_escapes = true;
                    self.escape()?;
                }
                Some(0x20..=0x7f) => self.at += 1,
                Some(0x80..) => {
                    is_ascii = false;
                    self.skip_wide();
                }
                Some(..0x20) => return Err(self.expected("no control character in a string")),
                None => return Err(self.expected("the end of a string")),
            }
            self.at += plain_length(&self.text[self.at..]);
        }
        let content = &self.text[start..self.at];
        if !is_ascii && let Err(error) = std::str::from_utf8(content) {
            return Err(Error::Syntax { expected: "UTF-8", at: start + error.valid_up_to() });
        }
        Ok(has_escapes)
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
        let has_exponent =
            matches!(self.peek(), Some(b'.' | b'e' | b'E')) && self.fraction_or_exponent()?;
        let is_large = has_exponent || self.at - start >= LONG_NUMBER_BYTES;
        if is_large && serde_json::from_slice::<f64>(&self.text[start..self.at]).is_err() {
            return Err(Error::Syntax { expected: "a number that a double can hold", at: start });
        }
        Ok(())
    }

    /// Reads what follows the integer of a number. Returns whether it has an exponent.
    fn fraction_or_exponent(&mut self) -> Result<bool, Error> {
        if self.take(b'.') {
            self.digits()?;
        }
        let has_exponent = self.take(b'e') || self.take(b'E');
        if has_exponent {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Ok(has_exponent)
    }

    fn digits(&mut self) -> Result<(), Error> {
        let count = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count > 0 { Ok(()) } else { Err(self.expected("a digit")) }
    }

    fn word<const N: usize>(
        &mut self,
        word: &[u8; N],
        expected: &'static str,
    ) -> Result<(), Error> {
        if self.text[self.at..].first_chunk::<N>() != Some(word) {
            return Err(self.expected(expected));
        }
        self.at += N;
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

    #[inline]
    fn skip_spaces(&mut self) {
        // Most tokens follow each other without a space, and there are five places where one may be.
        if self.peek().is_some_and(|byte| byte <= b' ') {
            self.skip_all_spaces();
        }
    }

    #[inline(never)]
    fn skip_all_spaces(&mut self) {
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

/// Returns the number of bytes before the first one of a string that is a quote, a backslash, a control character or not
/// ASCII. Whole words are read, so at the end of the text it may be smaller by less than a word.
#[inline]
pub(super) fn plain_length(text: &[u8]) -> usize {
    // Most strings are short.
    let length = plain_words(&text[..text.len().min(GROUP_BYTES)]);
    if length < GROUP_BYTES { length } else { long_plain_length(text) }
}

#[inline(never)]
fn long_plain_length(text: &[u8]) -> usize {
    let groups = text.as_chunks::<GROUP_BYTES>().0;
    let length = groups.iter().take_while(|group| is_plain(group)).count() * GROUP_BYTES;
    length + plain_words(&text[length..])
}

/// Returns whether all bytes of a group stand for themselves. All of them are compared: that takes less time than a
/// branch for each byte.
fn is_plain(group: &[u8; GROUP_BYTES]) -> bool {
    group.iter().fold(0, |found, byte| found | u8::from(is_special(*byte))) == 0
}

/// Returns whether a byte of a string does not stand for itself, or is of a character that is not ASCII.
fn is_special(byte: u8) -> bool {
    // As a signed number, a byte of a character that is not ASCII is less than those of control characters.
    byte.cast_signed() < 0x20 || matches!(byte, b'"' | b'\\')
}

/// Returns the number of bytes before the first one that is special. The bytes after the last whole word are not read.
#[inline]
fn plain_words(text: &[u8]) -> usize {
    let words = text.as_chunks::<WORD_BYTES>().0;
    for (index, word) in words.iter().enumerate() {
        let special = special_bytes(*word);
        if special != 0 {
            return index * WORD_BYTES + special.trailing_zeros() as usize / 8;
        }
    }
    words.len() * WORD_BYTES
}

/// Returns a word in which the highest bit is set of the first byte that is special, and of none before it.
fn special_bytes(word: [u8; WORD_BYTES]) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; WORD_BYTES]);
    const HIGH: u64 = ONES << 7;
    let word = u64::from_le_bytes(word);
    // A subtraction sets the highest bit of a byte that is smaller than the subtracted one. It may borrow from the bytes
    // after that one alone.
    let quote = (word ^ (ONES * u64::from(b'"'))).wrapping_sub(ONES);
    let backslash = (word ^ (ONES * u64::from(b'\\'))).wrapping_sub(ONES);
    let control = word.wrapping_sub(ONES * 0x20);
    (word | quote | backslash | control) & HIGH
}
