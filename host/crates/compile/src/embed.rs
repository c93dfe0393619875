//! Writes custom sections named `airlock:…` into a component, which hold data of its build for
//! readers of the component. They are never part of its code, so a component with other such
//! sections is not compiled again.

use std::borrow::Cow;

use wasmparser::{BinaryReader, BinaryReaderError};

use crate::error::CompileError;

/// Prefix of the names of such sections.
const PREFIX: &str = "airlock:";
/// First bytes of every component: the magic number, the version of the binary format, and the mark
/// that it is no core module.
const HEADER: &[u8] = b"\0asm\x0d\0\x01\0";

/// A section as encoded in the component, and its name if it is a custom section.
struct Section<'a> {
    name: Option<&'a str>,
    bytes: &'a [u8],
}

/// Returns the component with a custom section of this name and content, which replaces all its
/// sections of that name. The name must begin with `airlock:`. Sections inside a nested module or
/// component belong to that and stay.
pub fn embed(wasm: &[u8], name: &str, content: &[u8]) -> Result<Vec<u8>, CompileError> {
    debug_assert!(name.starts_with(PREFIX));
    let sections = sections(wasm)?;
    let mut out = HEADER.to_vec();
    sections
        .iter()
        .filter(|section| section.name != Some(name))
        .for_each(|section| out.extend(section.bytes));
    let mut payload = leb128(name.len());
    payload.extend(name.as_bytes());
    payload.extend(content);
    out.push(0);
    out.extend(leb128(payload.len()));
    out.extend(payload);
    Ok(out)
}

/// Returns the part of a component that is compiled: everything but its `airlock:` sections. Bytes
/// that are no component are returned unchanged, so that the compiler reports what they are
/// instead.
pub(crate) fn code(wasm: &[u8]) -> Cow<'_, [u8]> {
    let Ok(sections) = sections(wasm) else { return Cow::Borrowed(wasm) };
    if !sections.iter().any(is_ours) {
        return Cow::Borrowed(wasm);
    }
    let kept = sections.iter().filter(|section| !is_ours(section)).map(|section| section.bytes);
    // Copied section by section. A copy byte by byte took a sixth of the time of a start.
    let parts: Vec<&[u8]> = std::iter::once(HEADER).chain(kept).collect();
    Cow::Owned(parts.concat())
}

fn is_ours(section: &Section<'_>) -> bool {
    section.name.is_some_and(|name| name.starts_with(PREFIX))
}

/// Returns the outermost sections of a component.
fn sections(wasm: &[u8]) -> Result<Vec<Section<'_>>, CompileError> {
    if !wasm.starts_with(HEADER) {
        return Err(CompileError::NotAComponent("it does not begin as one".into()));
    }
    let mut reader = BinaryReader::new(&wasm[HEADER.len()..], HEADER.len());
    let mut sections = Vec::new();
    while !reader.eof() {
        let start = reader.original_position();
        let section =
            read(&mut reader).map_err(|error| CompileError::NotAComponent(error.to_string()))?;
        sections.push(Section { name: section, bytes: &wasm[start..reader.original_position()] });
    }
    Ok(sections)
}

/// Reads past one section. Returns its name if it is a custom section.
fn read<'a>(reader: &mut BinaryReader<'a>) -> Result<Option<&'a str>, BinaryReaderError> {
    let is_custom = reader.read_u8()? == 0;
    let size = reader.read_var_u32()?;
    let content = reader.read_bytes(size as usize)?;
    if is_custom { BinaryReader::new(content, 0).read_string().map(Some) } else { Ok(None) }
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

    fn component() -> Vec<u8> {
        wat::parse_str("(component (core module (@custom \"airlock:mine\" \"inner\")) (@custom \"other\" \"kept\"))")
            .expect("valid")
    }

    #[test]
    fn a_section_that_is_replaced_twice_is_there_once() {
        let first = embed(&component(), "airlock:mine", b"one").expect("a component");
        let second = embed(&first, "airlock:mine", &[b'x'; 300]).expect("a component");
        assert_eq!(first, [&component()[..], b"\0\x10\x0cairlock:mineone"].concat());
        assert_eq!(second.len(), component().len() + 1 + 2 + 13 + 300);
        assert!(second.starts_with(&component()), "nested sections and those of others stay");
    }

    #[test]
    fn embedded_sections_do_not_change_the_compiled_code() {
        let mut wasm = component();
        for name in ["airlock:tools", "airlock:manifest"] {
            wasm = embed(&wasm, name, b"{}").expect("a component");
        }
        assert_eq!(*code(&wasm), *component());
        assert!(matches!(code(&component()), Cow::Borrowed(_)), "without any it is not copied");
        assert_eq!(*code(b"no component"), *b"no component");
    }

    #[test]
    fn bytes_that_are_no_component_are_refused() {
        for bad in [
            &b"\0asm\x01\0\0\0"[..],
            b"",
            b"\0asm\x0d\0\x01\0\0\x05\x01",
            b"\0asm\x0d\0\x01\0\0\x01\xff",
        ] {
            assert!(
                matches!(embed(bad, "airlock:mine", b""), Err(CompileError::NotAComponent(_))),
                "{bad:?}"
            );
        }
    }
}
