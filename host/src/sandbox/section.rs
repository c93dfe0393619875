//! The custom section `airlock:tools`: a plugin's descriptors, embedded when it was built, so that listing tools runs no
//! guest. What is in it is as untrusted as the plugin's code.

use serde::Deserialize;
use wasmparser::{Parser, Payload};

use super::LoadError;
use crate::catalog::ToolDefinition;

const NAME: &str = "airlock:tools";
const SCHEMA: &str = "airlock.tools/1";
/// Descriptors beyond this are refused.
const MAX_BYTES: usize = 4 << 20;

#[derive(Deserialize)]
struct Section {
    schema: String,
    tools: Vec<ToolDefinition>,
}

/// Finds the section in the component itself, not in what it contains.
pub(super) fn find(wasm: &[u8]) -> Result<Option<&[u8]>, LoadError> {
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.map_err(|error| LoadError::NotAComponent(error.to_string()))? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CustomSection(section) if depth == 0 && section.name() == NAME => return Ok(Some(section.data())),
            _ => {}
        }
    }
    Ok(None)
}

/// Reads the descriptors.
pub(super) fn parse(section: &[u8]) -> Result<Vec<ToolDefinition>, LoadError> {
    let bad = |reason: String| LoadError::Descriptors(reason.into());
    if section.len() > MAX_BYTES {
        return Err(bad(format!("{} bytes of descriptors, the limit is {MAX_BYTES}", section.len())));
    }
    let section: Section = serde_json::from_slice(section).map_err(|error| LoadError::Descriptors(error.into()))?;
    if section.schema != SCHEMA {
        return Err(bad(format!("descriptors of the form {:?}, this build reads {SCHEMA:?}", section.schema)));
    }
    Ok(section.tools)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(section: &str) -> Vec<u8> {
        wat::parse_str(format!("(component (core module (@custom \"airlock:tools\" \"inner\")) {section})")).expect("a component")
    }

    #[test]
    fn the_section_of_the_component_itself_is_read_and_no_inner_one() {
        assert!(find(&component("")).expect("it parses").is_none());
        let wasm = component(
            r#"(@custom "airlock:tools" "{\"schema\":\"airlock.tools/1\",\"tools\":[{\"name\":\"a\",\"inputSchema\":{}}]}")"#,
        );
        let tools = parse(find(&wasm).expect("it parses").expect("it is there")).expect("good descriptors");
        assert_eq!(tools.len(), 1);
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_reason() {
        assert!(find(b"\0asm").is_err());
        for bad in ["", "[]", r#"{"schema":"airlock.tools/2","tools":[]}"#, r#"{"schema":"airlock.tools/1","tools":[{}]}"#] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
