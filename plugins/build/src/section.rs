//! Custom sections of a component.

use anyhow::{Context as _, Result, bail};

/// The component with a custom section of this name and content, in the place of all that it had of that name.
///
/// Only the outermost sections are looked at: what lies inside a nested module or component belongs to that.
pub(crate) fn replace(component: &[u8], name: &str, content: &[u8]) -> Result<Vec<u8>> {
    const HEADER: &[u8] = b"\0asm\x0d\0\x01\0";
    let Some(mut rest) = component.strip_prefix(HEADER) else { bail!("it is not a WebAssembly component") };
    let mut out = HEADER.to_vec();
    while !rest.is_empty() {
        let (section, after) = split_section(rest).context("it ends in the middle of a section")?;
        if custom_name(section) != Some(name.as_bytes()) {
            out.extend(section);
        }
        rest = after;
    }
    let mut payload = leb128(name.len());
    payload.extend(name.as_bytes());
    payload.extend(content);
    out.push(0);
    out.extend(leb128(payload.len()));
    out.extend(payload);
    Ok(out)
}

/// The first section, header included, and what follows it.
fn split_section(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, after) = read_leb128(bytes.get(1..)?)?;
    let end = (bytes.len() - after.len()).checked_add(size)?;
    bytes.split_at_checked(end)
}

fn custom_name(section: &[u8]) -> Option<&[u8]> {
    let (_, payload) = read_leb128(section.strip_prefix(&[0])?)?;
    let (length, name) = read_leb128(payload)?;
    name.get(..length)
}

fn read_leb128(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0_usize;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        value |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

fn leb128(mut value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let low = u8::try_from(value & 0x7f).expect("seven bits fit eight");
        value >>= 7;
        if value == 0 {
            out.push(low);
            return out;
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_added_once_however_often_it_is_replaced() {
        let component = wat::parse_str("(component (core module (@custom \"mine\" \"inner\")))").expect("valid");
        let first = replace(&component, "mine", b"one").expect("a component");
        let second = replace(&first, "mine", &[b'x'; 300]).expect("a component");
        assert_eq!(first, [&component[..], b"\0\x08\x04mineone"].concat());
        assert_eq!(second.len(), component.len() + 1 + 2 + 5 + 300);
        assert!(second.starts_with(&component), "the nested section stays");
    }

    #[test]
    fn what_is_no_component_is_refused() {
        let module = wat::parse_str("(module)").expect("valid");
        assert_eq!(replace(&module, "mine", b"").expect_err("a module").to_string(), "it is not a WebAssembly component");
        let cut = b"\0asm\x0d\0\x01\0\0\x05\x01";
        assert_eq!(replace(cut, "mine", b"").expect_err("cut off").to_string(), "it ends in the middle of a section");
    }
}
