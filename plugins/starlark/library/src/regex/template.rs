//! Replacements of `sub`, with groups: `\1`, `\g<name>`.

use super::super::values::misuse;

/// The replacement of `sub`.
pub(super) struct Template(pub(super) Vec<Part>);

pub(super) enum Part {
    Text(String),
    Group(usize),
    Named(String),
}

impl Template {
    pub(super) fn parse(template: &str) -> starlark::Result<Self> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = template;
        while let Some(at) = rest.find('\\') {
            text.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let mut chars = rest.chars();
            let next = chars.next().ok_or_else(|| misuse("bad escape (end of pattern)"))?;
            let after = chars.as_str();
            match next {
                'g' if after.starts_with('<') => {
                    let end =
                        after.find('>').ok_or_else(|| misuse("missing >, unterminated name"))?;
                    parts.push(Part::Text(std::mem::take(&mut text)));
                    let name = &after[1..end];
                    parts.push(name.parse().map_or_else(|_| Part::Named(name.into()), Part::Group));
                    rest = &after[end + 1..];
                }
                '1'..='9' => {
                    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()).min(2);
                    parts.push(Part::Text(std::mem::take(&mut text)));
                    parts.push(Part::Group(rest[..end].parse().unwrap_or_default()));
                    rest = &rest[end..];
                }
                'n' | 't' | 'r' | '\\' | '0' => {
                    text.push(match next {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        '0' => '\0',
                        other => other,
                    });
                    rest = after;
                }
                other if other.is_ascii_alphabetic() => {
                    return Err(misuse(format!("bad escape \\{other}")));
                }
                other => {
                    text.push('\\');
                    text.push(other);
                    rest = after;
                }
            }
        }
        text.push_str(rest);
        parts.push(Part::Text(text));
        Ok(Self(parts))
    }
}
