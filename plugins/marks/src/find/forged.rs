//! Marks that belong to the templates of models, to the results of tools and to this gateway, and not into data. Each
//! function returns the place after the mark at a place.

use super::words::{after, is_blank, read, run, skip};

/// Maximum length of the name of a special token, in visible letters. Those of Llama 3 have up to 26:
/// `reserved_special_token_` and three digits.
const MAX_NAME: usize = 32;
/// Bytes in which the bracket after the words of a mark has to close. If it closes later, the words
/// alone are the mark, because what is before the bracket may be a text of its own.
const MAX_REST: usize = 200;
/// The bar in special tokens of some models.
const WIDE_BAR: char = '\u{ff5c}';
/// The blank in the same.
const BLOCK: char = '\u{2581}';
/// Elements that templates and clients of models use.
const NAMES: [&str; 20] = [
    "system",
    "system_prompt",
    "system-prompt",
    "system_message",
    "system-reminder",
    "assistant",
    "human",
    "tool_result",
    "tool_results",
    "tool_response",
    "tool_call",
    "tool_calls",
    "function_call",
    "function_calls",
    "function_result",
    "function_results",
    "start_of_turn",
    "end_of_turn",
    "important",
    "instructions",
];
/// Roles in the headings of templates.
const ROLES: [&str; 5] = ["system", "human", "user", "assistant", "instruction"];

/// Finds a mark in angle brackets: a special token, an element, or the marks of a system prompt.
pub(super) fn angle(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let next = skip(text, at + 1);
    match bytes.get(next)? {
        b'|' => token(text, next + 1),
        b'<' if bytes.get(next + 1) == Some(&b'<') => None,
        b'<' => after(text, next, "<SYS>>").or_else(|| after(text, next, "</SYS>>")),
        b'/' => element(text, skip(text, next + 1)),
        b'a'..=b'z' | b'A'..=b'Z' => element(text, next),
        _ if text[next..].starts_with(WIDE_BAR) => token(text, next + WIDE_BAR.len_utf8()),
        _ => None,
    }
}

/// Finds the rest of a special token: its name, and `|>` or the same in full width.
fn token(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = start;
    let mut length = 0;
    while length <= MAX_NAME {
        let byte = *bytes.get(at)?;
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') {
            at += 1;
            length += 1;
            continue;
        }
        if byte.is_ascii() {
            return if at > start { after(text, at, "|>") } else { None };
        }
        let rest = &text[at..];
        if rest.starts_with(WIDE_BAR) {
            let is_end = at > start && rest[WIDE_BAR.len_utf8()..].starts_with('>');
            return is_end.then_some(at + WIDE_BAR.len_utf8() + 1);
        }
        let next = if rest.starts_with(BLOCK) { at + BLOCK.len_utf8() } else { skip(text, at) };
        if next == at {
            return None;
        }
        at = next;
    }
    None
}

/// Finds the rest of a tag without attributes: a name of [`NAMES`] and `>`.
fn element(text: &str, at: usize) -> Option<usize> {
    // Most tags have a shorter name than the shortest here.
    if matches!(text.as_bytes().get(at + 2)?, b'>' | b' ' | b'<') {
        return None;
    }
    let (name, end) =
        read(text, at, |byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-'));
    let end = run(text.as_bytes(), end, is_blank);
    let is_closed = text.as_bytes().get(end) == Some(&b'>');
    (is_closed && name.is_one_of(&NAMES)).then_some(end + 1)
}

/// Finds a mark in square brackets: one of a template, of this gateway, or of a result or an approval.
pub(super) fn bracket(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut next = skip(text, at + 1);
    if bytes.get(next) == Some(&b'/') {
        next = skip(text, next + 1);
    }
    let first = bytes.get(next)?;
    if !first.is_ascii_alphabetic() {
        return None;
    }
    let wholes: &[&str] = match first {
        b'I' => &["INST]"],
        b'S' => &["SYSTEM_PROMPT]"],
        b'A' => &["AVAILABLE_TOOLS]"],
        b'T' => &["TOOL_RESULTS]", "TOOL_CALLS]", "TOOL_CONTENT]"],
        _ => &[],
    };
    let begins: &[&str] = match first.to_ascii_lowercase() {
        b'm' => &["mcp tool result", "mcp service:"],
        b'e' => &["end of mcp tool result", "end of tool result"],
        b't' => &["tool result:", "tool result from", "tool output:"],
        b'f' => &["function result:"],
        b'a' => &["approval:", "approval granted", "approved by the user"],
        b'u' => &["user approved", "user has approved"],
        _ => &[],
    };
    let whole = wholes.iter().find_map(|mark| after(text, next, mark));
    whole.or_else(|| closed(text, begins.iter().find_map(|words| after(text, next, words))?))
}

/// Returns the place after the bracket that closes a mark, or the end of its words if none does. A link is no mark.
fn closed(text: &str, words: usize) -> Option<usize> {
    let rest = &text.as_bytes()[words..];
    let length = rest.iter().take(MAX_REST).position(|byte| matches!(byte, b'[' | b']' | b'\n'));
    match length {
        Some(length) if rest[length] == b']' => {
            (rest.get(length + 1) != Some(&b'(')).then_some(words + length + 1)
        }
        _ => Some(words),
    }
}

/// Finds a heading that names a role: `### System:` at the start of a line.
pub(super) fn heading(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    if at > 0 && bytes[at - 1] != b'\n' {
        return None;
    }
    let hashes = after(text, at, "###")?;
    let start = run(bytes, hashes, is_blank);
    let (role, end) = read(text, start, |byte| byte.is_ascii_alphabetic());
    let end = run(bytes, end, is_blank);
    (bytes.get(end) == Some(&b':') && role.is_one_of(&ROLES)).then_some(end + 1)
}
