//! JSON objects that are kept as text, member by member.
//!
//! A tree of `serde_json` holds numbers as doubles or 64-bit integers, and writes them in its own
//! form. An object that is forwarded as text keeps them: `12345678901234567890123` and `0.10` stay
//! as they were written.

mod raw_members;

use std::{borrow::Cow, ops::Range, sync::Arc};

use serde_json::{Map, Value};

use self::raw_members::{MemberReader, RawMember, RawMembers};
use super::{Caps, Cost, Error, check_with, scan::plain_length};

/// Maximum number of members of a [`RawObject`], a repeated name counted each time. A member is
/// found by comparing names one by one, so reading an object takes at most 131,000 comparisons. A
/// request to a model has some thirty members, a message fewer.
pub const MAX_MEMBERS: usize = 512;

/// A JSON object whose members are text. Members stay in their order, and a member that is not set
/// keeps its text byte for byte. If a name occurs twice, the last value counts, at the place of
/// the first.
#[derive(Debug, Clone, Default)]
pub struct RawObject {
    /// Not an `Arc<str>`, which would copy the text.
    text: Arc<String>,
    members: RawMembers,
}

impl RawObject {
    /// Reads an object. Returns it with the cost that a tree of it would have, although no tree is
    /// built. Fails if the text is not a JSON object within `caps`, or has more than
    /// [`MAX_MEMBERS`] members.
    pub fn parse(text: Vec<u8>, caps: &Caps) -> Result<(Self, Cost), Error> {
        let mut reader = MemberReader::default();
        let cost = match check_with(&text, caps, &mut reader) {
            Ok(cost) => cost,
            Err(error) => return Err(super::located::<Map<String, Value>>(error, &text)),
        };
        let members = reader.into_members().ok_or(NO_OBJECT)??;
        let text = String::from_utf8(text).map_err(|_| NOT_UTF8)?;
        Ok((Self { text: Arc::new(text), members }, cost))
    }

    /// Reads the members of the object in a range of a text; `None` if it is no object. Fails if there are more
    /// than [`MAX_MEMBERS`].
    fn from_range(text: Arc<String>, range: Range<usize>) -> Option<Result<Self, Error>> {
        let start = text.as_ptr() as usize;
        let mut read = RawMembers::default();
        for (count, (name, value)) in members(&text[range])?.enumerate() {
            if count == MAX_MEMBERS {
                return Some(Err(Error::TooManyMembers { limit: MAX_MEMBERS }));
            }
            let from = value.as_ptr() as usize - start;
            read.add(name.into(), from..from + value.len());
        }
        Some(Ok(Self { text, members: read }))
    }

    /// Returns the JSON text of a member; `None` if there is no such member.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.members.get(name).map(|raw| self.text_of(raw))
    }

    /// Returns the first name that occurs twice in the text that was read.
    pub fn repeated(&self) -> Option<&str> {
        self.members.repeated.as_deref()
    }

    /// Iterates over the members: name and text of the value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.members.list.iter().map(|(name, raw)| (&**name, self.text_of(raw)))
    }

    /// Returns a member that is an object, without a copy of its text; `None` if there is no such
    /// member, or if it is no object. Fails if it has more than [`MAX_MEMBERS`] members.
    pub fn object(&self, name: &str) -> Option<Result<Self, Error>> {
        let (text, range) = match self.members.get(name)? {
            RawMember::Read(range) => (self.text.clone(), range.clone()),
            RawMember::Set(text) => (Arc::new((**text).to_owned()), 0..text.len()),
        };
        Self::from_range(text, range)
    }

    /// Returns a member as a tree. Fails if the tree would exceed `caps`; `None` if there is no
    /// such member.
    pub fn value(&self, name: &str, caps: &Caps) -> Result<Option<Value>, Error> {
        self.get(name)
            .map(|text| super::parse(text.as_bytes(), caps).map(|(value, _)| value))
            .transpose()
    }

    /// Sets a member, at its place if it exists and else at the end. `json` must be JSON text; it
    /// is not checked.
    pub fn set(&mut self, name: &str, json: impl Into<Arc<str>>) {
        self.members.set(name, RawMember::Set(json.into()));
    }

    /// Removes a member.
    pub fn remove(&mut self, name: &str) {
        self.members.list.retain(|(own, _)| **own != *name);
    }

    /// Parses the whole object to a tree, without caps. Fails if it is nested too deeply, or if a
    /// member was set to text that is not JSON.
    pub fn to_object(&self) -> Result<Map<String, Value>, serde_json::Error> {
        self.iter().map(|(name, text)| Ok((name.to_owned(), serde_json::from_str(text)?))).collect()
    }

    /// Returns the object as JSON text.
    pub fn to_text(&self) -> String {
        let mut out = String::with_capacity(self.text_len() + 2);
        for (name, text) in self.iter() {
            out.push(if out.is_empty() { '{' } else { ',' });
            out.push_str(&Value::from(name).to_string());
            out.push(':');
            out.push_str(text);
        }
        if out.is_empty() {
            out.push('{');
        }
        out.push('}');
        out
    }

    /// Returns the approximate length of the object as JSON text, in bytes. Escapes in names are
    /// not counted.
    pub fn text_len(&self) -> usize {
        self.iter().map(|(name, text)| name.len() + text.len() + r#""":,"#.len()).sum()
    }

    fn text_of<'a>(&'a self, raw: &'a RawMember) -> &'a str {
        match raw {
            RawMember::Read(range) => &self.text[range.clone()],
            RawMember::Set(text) => text,
        }
    }
}

impl From<&Map<String, Value>> for RawObject {
    fn from(object: &Map<String, Value>) -> Self {
        // The names of a map differ, so no member is looked for. An object can have any number of them.
        let members = object
            .iter()
            .map(|(name, value)| (name.as_str().into(), RawMember::Set(value.to_string().into())));
        let members = RawMembers { list: members.collect(), repeated: None };
        Self { text: Arc::default(), members }
    }
}

const NOT_UTF8: Error = Error::Syntax { expected: "UTF-8", at: 0 };
const NO_OBJECT: Error = Error::Syntax { expected: "an object", at: 0 };

/// Iterates over the members of an object: name, with its escapes resolved, and text of the value.
/// `None` if the text is not an object. `text` must be valid JSON; of other text, any parts may be
/// returned, without a panic.
pub fn members(text: &str) -> Option<impl Iterator<Item = (Cow<'_, str>, &str)>> {
    let mut reader = ValueReader::open(text, b'{')?;
    Some(std::iter::from_fn(move || {
        let name = reader.value()?;
        let value = reader.value()?;
        Some((unquoted(name), value))
    }))
}

/// Iterates over the elements of an array, as text. `None` if the text is not an array. `text` must
/// be valid JSON, as for [`members`].
pub fn elements(text: &str) -> Option<impl Iterator<Item = &str>> {
    let mut reader = ValueReader::open(text, b'[')?;
    Some(std::iter::from_fn(move || reader.value()))
}

/// Returns a member of an object, as text; the last one if the name occurs twice. `None` if there
/// is no such member, or if the text is not an object. `text` must be valid JSON, as for
/// [`members`].
pub fn member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    members(text)?.filter(|(own, _)| own == name).map(|(_, value)| value).last()
}

/// Removes a member of an object, with the comma that separates it, and leaves the rest of the text as it is;
/// the last one if the name occurs twice. `text` must be valid JSON, as for [`members`].
pub fn remove_member(text: &mut String, name: &str) {
    if let Some(range) = member_range(text, name) {
        text.replace_range(range, "");
    }
}

/// Returns the range of a member, from its name to its value, and of one comma beside it.
fn member_range(text: &str, name: &str) -> Option<Range<usize>> {
    let mut reader = ValueReader::open(text, b'{')?;
    let mut found = None;
    while let Some(own) = reader.value() {
        let value = reader.value()?;
        if unquoted(own) == name {
            let from = own.as_ptr() as usize - text.as_ptr() as usize;
            let end = value.as_ptr() as usize - text.as_ptr() as usize + value.len();
            found = Some(from..end);
        }
    }
    let Range { start, end } = found?;
    let before = text[..start].trim_ascii_end();
    if before.ends_with(',') {
        return Some(before.len() - 1..end);
    }
    let after = text[end..].trim_ascii_start();
    let skipped = text.len() - after.len() + usize::from(after.starts_with(','));
    Some(start..skipped)
}

/// Returns the value of a JSON text that is a string, with its escapes resolved; `None` if it is
/// not a string.
pub fn string(text: &str) -> Option<Cow<'_, str>> {
    text.trim_ascii_start().starts_with('"').then(|| unquoted(text))
}

fn unquoted(text: &str) -> Cow<'_, str> {
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Cow::Borrowed(plain),
        _ => Cow::Owned(serde_json::from_str(text).unwrap_or_default()),
    }
}

/// Reads the values inside one array or object, one after the other.
struct ValueReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> ValueReader<'a> {
    fn open(text: &'a str, bracket: u8) -> Option<Self> {
        let at = text.len() - text.trim_ascii_start().len();
        (text.as_bytes().get(at) == Some(&bracket)).then_some(Self { text, at: at + 1 })
    }

    /// Returns the next value, which may be the name of a member.
    fn value(&mut self) -> Option<&'a str> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|byte| is_between(*byte)) {
            self.at += 1;
        }
        let start = self.at;
        match bytes.get(start)? {
            b'}' | b']' => return None,
            b'"' => self.string(),
            b'{' | b'[' => self.nested(),
            _ => {
                let length = bytes[start..]
                    .iter()
                    .position(|byte| is_between(*byte) || matches!(byte, b'}' | b']'));
                self.at = length.map_or(bytes.len(), |length| start + length);
            }
        }
        self.text.get(start..self.at)
    }

    /// Moves past a string.
    fn string(&mut self) {
        let bytes = self.text.as_bytes();
        self.at += 1;
        self.skip_plain();
        while let Some(byte) = bytes.get(self.at) {
            self.at += if *byte == b'\\' { 2 } else { 1 };
            match byte {
                b'"' => break,
                // Other characters than those of ASCII come in groups.
                0x80.. => {}
                _ => self.skip_plain(),
            }
        }
        self.at = self.at.min(bytes.len());
    }

    /// Skips the unescaped ASCII characters of a string, several bytes at a time.
    fn skip_plain(&mut self) {
        self.at += plain_length(self.text.as_bytes().get(self.at..).unwrap_or_default());
    }

    /// Moves past an array or object.
    fn nested(&mut self) {
        let bytes = self.text.as_bytes();
        let mut depth = 0_usize;
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'"' => {
                    self.string();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                break;
            }
        }
    }
}

/// Returns whether a byte separates values.
fn is_between(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':')
}

/// Returns JSON text without line breaks, which are possible between its tokens alone.
pub fn on_one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*};
    use serde_json::json;

    use super::*;

    const CAPS: Caps = Caps::memory(1 << 20);

    fn object(text: &str) -> RawObject {
        RawObject::parse(text.into(), &CAPS).expect("an object").0
    }

    fn json_values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                collection::btree_map(".*", inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn a_member_is_removed_with_one_comma_and_the_rest_stays_as_it_is() {
        for (text, left) in [
            (r#"{"a":1, "u":null,"b":0.10}"#, r#"{"a":1,"b":0.10}"#),
            (r#"{"u":null, "b":2}"#, r#"{ "b":2}"#),
            (r#"{"a":"\"u\":null" , "u" : {"u":[1,"}"]} }"#, r#"{"a":"\"u\":null"  }"#),
            (r#" { "\u0075":1 } "#, " { } "),
            (r#"{"a":{"u":1}}"#, r#"{"a":{"u":1}}"#),
            ("{}", "{}"),
            ("[1]", "[1]"),
        ] {
            let mut found = text.to_owned();
            remove_member(&mut found, "u");
            assert_eq!(found, left, "{text}");
        }
    }

    #[test]
    fn the_text_of_an_object_has_its_members_in_their_order() {
        let mut body = object("{\"a\\n\" : 0.10, \"b\":[ 1 ]}");
        body.set("a\n", "{}");
        body.set("c", "null");
        assert_eq!(body.to_text(), "{\"a\\n\":{},\"b\":[ 1 ],\"c\":null}");
        assert_eq!(object("{}").to_text(), "{}");
    }

    #[test]
    fn a_member_that_is_not_set_keeps_its_text() {
        let mut body =
            object(" {\"n\" : 12345678901234567890123, \"f\":0.10,\"a\\u0041\":[ 1 ,{}] }\n");
        assert_eq!(body.get("n"), Some("12345678901234567890123"));
        assert_eq!(body.get("aA"), Some("[ 1 ,{}]"));
        body.set("f", "null");
        body.set("z", "1");
        body.remove("n");
        assert_eq!(
            body.iter().collect::<Vec<_>>(),
            [("f", "null"), ("aA", "[ 1 ,{}]"), ("z", "1")]
        );
    }

    #[test]
    fn the_last_value_of_a_repeated_name_counts() {
        let body = object(r#"{"a":1,"b":2,"a":3}"#);
        assert_eq!(body.iter().collect::<Vec<_>>(), [("a", "3"), ("b", "2")]);
        assert_eq!(body.repeated(), Some("a"));
        assert_eq!(member(r#"{"a":1,"a":3}"#, "a"), Some("3"));
        let hidden = object(r#"{"b":{"b":1,"c":[{"b":2}]},"c":[{"b":3}],"\u0062":[ ]}"#);
        assert_eq!(hidden.iter().collect::<Vec<_>>(), [("b", "[ ]"), ("c", r#"[{"b":3}]"#)]);
        assert_eq!(hidden.repeated(), Some("b"));
        assert_eq!(object(r#"{"b":{"b":1}}"#).repeated(), None);
    }

    #[test]
    fn what_is_no_object_and_what_has_too_many_members_is_refused() {
        for bad in ["[]", "1", "{", "", "{\"a\":1}}"] {
            assert!(RawObject::parse(bad.into(), &CAPS).is_err(), "{bad}");
        }
        assert!(RawObject::parse(object_with(MAX_MEMBERS), &CAPS).is_ok());
        let error = RawObject::parse(object_with(MAX_MEMBERS + 1), &CAPS);
        let error = error.expect_err("one too many").to_string();
        assert_eq!(error, "more than 512 members in one object");
    }

    fn object_with(count: usize) -> Vec<u8> {
        let members: Vec<_> = (0..count).map(|n| format!("\"{n}\":0")).collect();
        format!("{{{}}}", members.join(",")).into()
    }

    #[test]
    fn line_breaks_between_tokens_are_removed_and_numbers_stay_as_written() {
        assert_eq!(on_one_line("{\"n\":\r\n 1.10}"), "{\"n\":   1.10}");
    }

    #[test]
    fn a_string_ends_at_its_quote_at_every_place_in_a_word() {
        for length in 0..70 {
            for inner in ["", "\\\"", "\\\\", "\u{e9}", "\u{65e5}\u{672c}a\\n"] {
                let plain = "x".repeat(length);
                let string = format!("\"{plain}{inner}{plain}\"");
                let text = format!("[{string},{{\"k\":{string}}},{string}]");
                let read: Vec<_> = elements(&text).expect("an array").collect();
                assert_eq!(read, [string.clone(), format!("{{\"k\":{string}}}"), string]);
            }
        }
    }

    #[test]
    fn strings_are_read_and_other_values_are_not() {
        assert_eq!(string(r#""a\"b""#).as_deref(), Some("a\"b"));
        assert_eq!(string("7"), None);
        assert_eq!(elements("{}").map(Iterator::count), None);
        assert_eq!(member("[]", "a"), None);
    }

    proptest! {
        #[test]
        fn members_and_elements_are_those_of_the_tree(value in json_values(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let text = text.expect("it is JSON");
            let read = members(&text).map(|members| members.map(|(name, text)| (name.into_owned(), parsed(text))).collect::<Map<_, _>>());
            prop_assert_eq!(read.as_ref(), value.as_object());
            let read = elements(&text).map(|elements| elements.map(parsed).collect::<Vec<_>>());
            prop_assert_eq!(read.as_ref(), value.as_array());
            if let Some(members) = value.as_object() {
                prop_assert_eq!(&object(&text).to_object().expect("it is JSON"), members);
                prop_assert_eq!(&RawObject::from(members).to_object().expect("it is JSON"), members);
            }
        }

        #[test]
        fn text_that_is_no_json_is_read_without_a_panic(text in r#"[\[{][\\"{}\[\],:a1é ]*"#) {
            let _ = members(&text).map(Iterator::count);
            let _ = elements(&text).map(Iterator::count);
            let _ = object_or_none(&text);
        }
    }

    fn parsed(text: &str) -> Value {
        serde_json::from_str::<Value>(text).expect("it is JSON")
    }

    fn object_or_none(text: &str) -> Option<Value> {
        let object = RawObject::parse(text.into(), &CAPS).ok()?.0;
        Some(json!(object.to_object().expect("it was checked")))
    }
}
