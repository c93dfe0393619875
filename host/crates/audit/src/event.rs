//! Events, and the lines that hold them.
//!
//! An event is a JSON object in canonical form (RFC 8785, for the values that it may have). A line is an
//! event, its number, and the hash of the line before: `{"event":{…},"n":7,"prev":"…"}`.

use std::{
    cmp::Ordering,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use airlock_strings::hex;
use serde_json::{Map, Value};

use crate::tree::{Hash, leaf_hash};
use airlock_core::unix_time::unix_milliseconds;

/// Largest integer that every reader of JSON keeps (RFC 8785, section 3.2.2.3), and one more.
const INTEGER_LIMIT: u64 = 1 << 53;
/// Beginning of each line.
const OPENING: &str = "{\"event\":";
/// Hash before the first line of a log.
pub(crate) const GENESIS: Hash = [0; 32];

/// Kind of the first event of a log.
pub(crate) const LOG_CREATED: &str = "log_created";
/// Kind of the first event of each further file of a log.
pub(crate) const LOG_CONTINUED: &str = "log_continued";
/// Kind of the event after an incomplete line was cut from the end of the log.
pub(crate) const LOG_RECOVERED: &str = "log_recovered";
/// Kind of the event after which another key signs.
pub(crate) const KEY_ROTATED: &str = "key_rotated";

/// Writes an event in canonical form: members sorted by name, no spaces. `kind` becomes the member of this
/// name, a member that is null is left out, and of two with the same name the last one counts. Values are
/// texts, booleans, integers between -2⁵³ and 2⁵³, and lists and objects of these; another number is written
/// as text, because its digits are not the same everywhere.
pub fn line(kind: &str, members: impl IntoIterator<Item = (impl AsRef<str>, Value)>) -> String {
    let kind = Value::from(kind);
    let members: Vec<_> = members.into_iter().collect();
    let members = members.iter().map(|(name, value)| (name.as_ref(), value));
    let mut text = String::new();
    write_members(&mut text, members.chain([("kind", &kind)]).collect());
    text
}

fn canonical(event: &Map<String, Value>) -> String {
    let mut text = String::new();
    write_object(&mut text, event);
    text
}

fn write_object(text: &mut String, members: &Map<String, Value>) {
    write_members(text, members.iter().map(|(name, value)| (name.as_str(), value)).collect());
}

fn write_members(text: &mut String, mut members: Vec<(&str, &Value)>) {
    members.retain(|(_, value)| !value.is_null());
    members.sort_by(|(one, _), (other, _)| order(one, other));
    text.push('{');
    let mut separator = "";
    let mut members = members.into_iter().peekable();
    while let Some((name, value)) = members.next() {
        if members.peek().is_some_and(|(next, _)| *next == name) {
            continue;
        }
        text.push_str(separator);
        separator = ",";
        write_text(text, name);
        text.push(':');
        write_value(text, value);
    }
    text.push('}');
}

/// The order of RFC 8785 is that of UTF-16, which is another than that of UTF-8 for some characters.
fn order(one: &str, other: &str) -> Ordering {
    if one.is_ascii() && other.is_ascii() {
        one.cmp(other)
    } else {
        one.encode_utf16().cmp(other.encode_utf16())
    }
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Object(members) => write_object(text, members),
        Value::Array(elements) => {
            text.push('[');
            for (position, element) in elements.iter().enumerate() {
                if position > 0 {
                    text.push(',');
                }
                write_value(text, element);
            }
            text.push(']');
        }
        Value::String(value) => write_text(text, value),
        Value::Number(number) if !is_exact(number) => write_text(text, &number.to_string()),
        Value::Number(_) | Value::Bool(_) | Value::Null => text.push_str(&value.to_string()),
    }
}

/// Writes a text with the escapes of RFC 8785, which are those of `serde_json`.
fn write_text(text: &mut String, value: &str) {
    let is_escaped = value.bytes().any(|byte| byte < b' ' || matches!(byte, b'"' | b'\\'));
    if is_escaped {
        text.push_str(&Value::from(value).to_string());
    } else {
        text.push('"');
        text.push_str(value);
        text.push('"');
    }
}

fn is_exact(number: &serde_json::Number) -> bool {
    number.as_i64().is_some_and(|integer| integer.unsigned_abs() < INTEGER_LIMIT)
}

/// Returns the milliseconds since 1970, as the member `time_ms` of events has them.
pub(crate) fn now_ms() -> i64 {
    unix_milliseconds(SystemTime::now())
}

/// Returns a text of an event; `None` if it has none of this name.
pub(crate) fn text<'m>(members: &'m Map<String, Value>, name: &str) -> Option<&'m str> {
    members.get(name).and_then(Value::as_str)
}

/// Returns the time of an event as RFC 3339 has it, with as many digits as it needs, as Go writes it.
pub(crate) fn time(event: &Map<String, Value>) -> String {
    /// The last second of the year 9999, the latest that is written in RFC 3339.
    const LATEST: Duration = Duration::from_secs(253_402_300_799);
    let since = event.get("time_ms").and_then(Value::as_u64).unwrap_or(0);
    let time = UNIX_EPOCH + Duration::from_millis(since).min(LATEST);
    let text = humantime::format_rfc3339_millis(time).to_string();
    let text = text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
    // Seconds may end with a zero themselves.
    let seconds = "0000-00-00T00:00:00".len();
    format!("{text:0<seconds$}Z")
}

/// A line of a log, without its line end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventLine<'l> {
    /// The bytes, which are the contents of the leaf.
    pub(crate) bytes: &'l [u8],
    /// The event, as it is written.
    pub(crate) event: &'l str,
    /// The number that the line has for itself.
    pub(crate) number: u64,
    /// The hash of the line before, in hexadecimal.
    pub(crate) previous: &'l str,
}

impl<'l> EventLine<'l> {
    /// Writes a line with its line end.
    pub(crate) fn write(text: &mut String, event: &str, number: u64, previous: &Hash) {
        text.push_str(OPENING);
        text.push_str(event);
        text.push_str(",\"n\":");
        text.push_str(&number.to_string());
        text.push_str(",\"prev\":\"");
        text.push_str(&hex(previous));
        text.push_str("\"}\n");
    }

    /// Splits a line. `None` if it does not have the form of one.
    pub(crate) fn parse(bytes: &'l [u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (rest, previous) = text.strip_suffix("\"}")?.rsplit_once(",\"prev\":\"")?;
        let (event, digits) = rest.rsplit_once(",\"n\":")?;
        let event = event.strip_prefix(OPENING)?;
        let number: u64 = digits.parse().ok()?;
        let is_event = event.starts_with('{') && event.ends_with('}');
        let is_whole = is_event && previous.len() == 64 && number.to_string() == digits;
        is_whole.then_some(Self { bytes, event, number, previous })
    }

    /// Returns the hash of the leaf.
    pub(crate) fn hash(&self) -> Hash {
        leaf_hash(self.bytes)
    }

    /// Reads the event. `None` if it is no JSON object.
    pub(crate) fn members(&self) -> Option<Map<String, Value>> {
        serde_json::from_str(self.event).ok()
    }

    /// Returns whether the event is a JSON object in canonical form. In another form, two readers could
    /// understand it differently, for example if it has a member twice.
    pub(crate) fn is_canonical(&self) -> bool {
        self.members().is_some_and(|event| canonical(&event) == self.event)
    }

    /// Returns whether the event has a member `name` with this text.
    pub(crate) fn is_about(&self, name: &str, text: &str) -> bool {
        // Most lines do not have the text, and need no reader of JSON to tell.
        let is_possible = self.event.contains(&Value::from(text).to_string());
        let members = is_possible.then(|| self.members()).flatten();
        members.is_some_and(|members| self::text(&members, name) == Some(text))
    }

    /// Reads the event if it is of this kind.
    pub(crate) fn members_of_kind(&self, kind: &str) -> Option<Map<String, Value>> {
        // Most lines are not, and need no reader of JSON to tell.
        self.event
            .contains(kind)
            .then(|| self.members())
            .flatten()
            .filter(|members| text(members, "kind") == Some(kind))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(members: Value) -> String {
        let Value::Object(members) = members else { panic!("an object") };
        line("test", members)
    }

    #[test]
    fn an_event_is_written_in_canonical_form() {
        let event = json!({
            "z": true, "kind": "another", "a": {"c": -1, "b": ["x", {"e": 2, "d": "\u{1}\n\"\\é"}]}, "none": null,
        });
        let expected = "{\"a\":{\"b\":[\"x\",{\"d\":\"\\u0001\\n\\\"\\\\é\",\"e\":2}],\"c\":-1},\"kind\":\"test\",\"z\":true}";
        assert_eq!(written(event), expected);
    }

    #[test]
    fn numbers_that_readers_round_are_texts() {
        let least = -((1_i64 << 53) - 1);
        let event = json!({"a": (1_u64 << 53) - 1, "b": 1_u64 << 53, "c": least, "d": least - 1, "e": 0.5, "f": u64::MAX});
        let expected = r#"{"a":9007199254740991,"b":"9007199254740992","c":-9007199254740991,"d":"-9007199254740992","e":"0.5","f":"18446744073709551615","kind":"test"}"#;
        assert_eq!(written(event), expected);
    }

    #[test]
    fn of_two_members_with_one_name_the_last_one_counts() {
        let members = [("b", json!(1)), ("a", json!(2)), ("b", json!(3)), ("kind", json!("x"))];
        assert_eq!(line("test", members), r#"{"a":2,"b":3,"kind":"test"}"#);
    }

    #[test]
    fn members_are_sorted_as_utf_16() {
        // U+1F600 is a pair of surrogates, which are below U+FB33 in UTF-16 and above it in UTF-8.
        let expected = "{\"kind\":\"test\",\"\u{1f600}\":1,\"\u{fb33}\":2}";
        assert_eq!(written(json!({"\u{fb33}": 2, "\u{1f600}": 1})), expected);
    }

    #[test]
    fn a_line_is_split_as_it_was_written_and_other_text_is_refused() {
        let event = line("test", [("text", json!(",\"n\":5,\"prev\":\"x\"}"))]);
        let mut text = String::new();
        EventLine::write(&mut text, &event, 7, &[0xab; 32]);
        let text = text.trim_end();
        let line = EventLine::parse(text.as_bytes()).expect("a line");
        assert_eq!((line.event, line.number, line.previous), (&*event, 7, &*"ab".repeat(32)));
        for (from, to) in [
            ("\"n\":7", "\"n\":07"),
            ("\"n\":7", "\"n\":+7"),
            ("\"n\":7", "\"n\":-7"),
            ("{\"event\"", " {\"event\""),
            ("\"n\":7", "\"n\": 7"),
            ("abab", "ab"),
            ("\"}", "\"} "),
        ] {
            let end = text.rfind(from).expect("it is there");
            let changed = format!("{}{to}{}", &text[..end], &text[end + from.len()..]);
            assert!(EventLine::parse(changed.as_bytes()).is_none(), "{changed}");
        }
        assert!(EventLine::parse(b"\xff").is_none());
        assert!(line.is_canonical());
        for event in [
            "{\"b\":1,\"a\":2}",
            "{\"a\":1,\"a\":2}",
            "{\"a\": 1}",
            "{\"a\":\"\\u0062\"}",
            "{\"a\":1.5}",
            "{\"a\":}",
        ] {
            assert!(!EventLine { event, ..line }.is_canonical(), "{event}");
        }
    }
}
