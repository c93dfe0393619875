//! The custom section `airlock:tools`: a plugin's descriptors, embedded when it was built, so that
//! listing tools runs no guest. What is in it is as untrusted as the plugin's code.

use airlock_core::tool::ToolDefinition;
use serde::{Deserialize, Serialize};
use wasmparser::{Parser, Payload};

use super::LoadError;

/// Its name.
pub(super) const NAME: &str = "airlock:tools";
const SCHEMA: &str = "airlock.tools/1";
/// Descriptors beyond this are refused.
pub(super) const MAX_BYTES: usize = 4 << 20;

#[derive(Deserialize)]
struct Section {
    schema: String,
    tools: Vec<ToolDefinition>,
}

/// Finds the section in the component itself, not in what it contains.
pub(super) fn find(wasm: &[u8]) -> Result<Option<&[u8]>, LoadError> {
    named(wasm, NAME)
}

/// The interfaces that a component imports, by name.
pub(super) fn imports(wasm: &[u8]) -> Result<Vec<String>, LoadError> {
    outermost(wasm, |payload, imports: &mut Vec<String>| {
        let Payload::ComponentImportSection(section) = payload else { return Ok(()) };
        for import in section {
            imports.push(import?.name.name.to_owned());
        }
        Ok(())
    })
}

/// What a component exports, by name.
pub(super) fn exports(wasm: &[u8]) -> Result<Vec<String>, LoadError> {
    outermost(wasm, |payload, exports: &mut Vec<String>| {
        let Payload::ComponentExportSection(section) = payload else { return Ok(()) };
        for export in section {
            exports.push(export?.name.name.to_owned());
        }
        Ok(())
    })
}

/// Gathers something from the sections of the component itself, and not of what it contains.
fn outermost<'a, T: Default>(
    wasm: &'a [u8],
    mut gather: impl FnMut(Payload<'a>, &mut T) -> Result<(), wasmparser::BinaryReaderError>,
) -> Result<T, LoadError> {
    let bad = |error: wasmparser::BinaryReaderError| LoadError::NotAComponent(error.to_string());
    let mut depth = 0_usize;
    let mut gathered = T::default();
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.map_err(bad)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            payload if depth == 0 => gather(payload, &mut gathered).map_err(bad)?,
            _ => {}
        }
    }
    Ok(gathered)
}

/// Finds a custom section of the component itself or else, for what a compiler puts there, of the
/// first module in it.
pub(super) fn named_anywhere<'a>(
    wasm: &'a [u8],
    name: &str,
) -> Result<Option<&'a [u8]>, LoadError> {
    if let Some(section) = named(wasm, name)? {
        return Ok(Some(section));
    }
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.map_err(|error| LoadError::NotAComponent(error.to_string()))? {
            Payload::CustomSection(section) if section.name() == name => {
                return Ok(Some(section.data()));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Finds a custom section of the component itself, not of what it contains.
pub(super) fn named<'a>(wasm: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, LoadError> {
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.map_err(|error| LoadError::NotAComponent(error.to_string()))? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CustomSection(section) if depth == 0 && section.name() == name => {
                return Ok(Some(section.data()));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// What the section of these tools holds.
pub(super) fn of(tools: &[ToolDefinition]) -> String {
    #[derive(Serialize)]
    struct Section<'a> {
        schema: &'static str,
        tools: &'a [ToolDefinition],
    }
    serde_json::to_string(&Section { schema: SCHEMA, tools })
        .expect("names are text and the rest is JSON already")
}

/// Reads the descriptors.
pub(super) fn parse(section: &[u8]) -> Result<Vec<ToolDefinition>, LoadError> {
    let bad = |reason: String| LoadError::Descriptors(reason.into());
    if section.len() > MAX_BYTES {
        return Err(bad(format!(
            "{} bytes of descriptors, the limit is {MAX_BYTES}",
            section.len()
        )));
    }
    let section: Section =
        serde_json::from_slice(section).map_err(|error| LoadError::Descriptors(error.into()))?;
    if section.schema != SCHEMA {
        return Err(bad(format!(
            "descriptors of the form {:?}, this build reads {SCHEMA:?}",
            section.schema
        )));
    }
    Ok(section.tools)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(section: &str) -> Vec<u8> {
        wat::parse_str(format!(
            "(component (core module (@custom \"airlock:tools\" \"inner\")) {section})"
        ))
        .expect("a component")
    }

    #[test]
    fn the_section_of_the_component_itself_is_read_and_no_inner_one() {
        assert!(find(&component("")).expect("it parses").is_none());
        let wasm = component(
            r#"(@custom "airlock:tools" "{\"schema\":\"airlock.tools/1\",\"tools\":[{\"name\":\"a\",\"inputSchema\":{}}]}")"#,
        );
        let tools =
            parse(find(&wasm).expect("it parses").expect("it is there")).expect("good descriptors");
        assert_eq!(tools.len(), 1);
        assert_eq!(parse(of(&tools).as_bytes()).expect("what was written is read"), tools);
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_reason() {
        assert!(find(b"\0asm").is_err());
        for bad in [
            "",
            "[]",
            r#"{"schema":"airlock.tools/2","tools":[]}"#,
            r#"{"schema":"airlock.tools/1","tools":[{}]}"#,
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
