//! Patterns in Python's syntax, in that of the crate.

use std::fmt::Write as _;

/// Translates Python's syntax: refuses what takes more than linear time, and escapes what has
/// another meaning in the crate.
pub(super) fn translate(source: &str, verbose: bool) -> Result<String, String> {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len() + 8);
    let mut at = 0;
    let mut class = None;
    while let Some(c) = chars.get(at).copied() {
        let rest = &chars[at + 1..];
        at += 1;
        match (c, class) {
            ('\\', _) => {
                let next = rest.first().ok_or("bad escape (end of pattern)")?;
                at += 1;
                escape(&mut out, *next, class.is_some())?;
            }
            ('[', None) => {
                out.push('[');
                if rest.first() == Some(&'^') {
                    out.push('^');
                    at += 1;
                }
                // A bracket that comes first is a member.
                if chars.get(at) == Some(&']') {
                    out.push_str("\\]");
                    at += 1;
                }
                class = Some(());
            }
            (']', Some(())) => {
                out.push(']');
                class = None;
            }
            ('[' | '&' | '~', Some(())) => {
                out.push('\\');
                out.push(c);
            }
            (' ' | '#', Some(())) if verbose => {
                out.push('\\');
                out.push(c);
            }
            ('(', None) if rest.first() == Some(&'?') => match (rest.get(1), rest.get(2)) {
                (Some('=' | '!'), _) | (Some('<'), Some('=' | '!')) => {
                    return Err(
                        "look-around is not linear in time: match more, and use a group".into()
                    );
                }
                (Some('P'), Some('=')) => return Err(no_reference()),
                (Some('#'), _) => {
                    at += rest.iter().position(|c| *c == ')').ok_or("missing )")? + 1;
                }
                _ => out.push('('),
            },
            ('{', None) if !is_count(rest) => out.push_str("\\{"),
            ('}', None) if !out_has_open(&out) => out.push_str("\\}"),
            (c, _) => out.push(c),
        }
    }
    Ok(out)
}

fn no_reference() -> String {
    "back references are not linear in time: compare groups yourself".into()
}

fn escape(out: &mut String, next: char, class: bool) -> Result<(), String> {
    match next {
        'Z' if !class => out.push_str("\\z"),
        '1'..='9' if !class => return Err(no_reference()),
        '0' => out.push_str("\\x00"),
        'b' if class => out.push_str("\\x08"),
        'A' | 'b' | 'B' | 'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'n' | 'r' | 't' | 'f' | 'v' | 'x'
        | 'u' | 'U' | 'a' => {
            out.push('\\');
            out.push(next);
        }
        letter if letter.is_ascii_alphanumeric() => return Err(format!("bad escape \\{letter}")),
        '<' | '>' => out.push(next),
        other if other.is_ascii() && !other.is_control() && other != ' ' => {
            out.push('\\');
            out.push(other);
        }
        ' ' => out.push_str("\\x20"),
        other => write!(out, "\\x{{{:x}}}", u32::from(other)).map_err(|error| error.to_string())?,
    }
    Ok(())
}

/// Returns whether a brace opens a count: `{2}`, `{2,}`, `{2,3}`, `{,3}`.
fn is_count(rest: &[char]) -> bool {
    let Some(end) = rest.iter().position(|c| *c == '}') else { return false };
    let inner: String = rest[..end].iter().collect();
    let (low, high) = inner.split_once(',').unwrap_or((&inner, "0"));
    let mut digits = low.bytes().chain(high.bytes());
    inner != "," && !inner.is_empty() && digits.all(|c| c.is_ascii_digit())
}

/// Returns whether the translated pattern has a count that is still open.
fn out_has_open(out: &str) -> bool {
    let open = out.rfind('{').filter(|at| !out[..*at].ends_with('\\'));
    open.is_some_and(|at| !out[at..].contains('}'))
}
