//! Reads a component without running it: its custom sections, imports, exports and data.

use wasmparser::{Parser, Payload, Validator, WasmFeatures, component_types::ComponentEntityType};

use crate::error::CompileError;

/// Prefix of the modules whose functions Extism's host provides.
const EXTISM: &str = "extism:host/";

/// Finds a custom section of the component itself, not of nested modules or components.
pub fn section<'a>(wasm: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, CompileError> {
    check_layer(wasm)?;
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.map_err(|error| CompileError::NotAComponent(error.to_string()))? {
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

/// Finds a custom section of the component itself, or else of the first nested module or component
/// that has one, because compilers put sections there. Its content is as untrusted as the component.
pub fn section_anywhere<'a>(wasm: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, CompileError> {
    if let Some(section) = section(wasm, name)? {
        return Ok(Some(section));
    }
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.map_err(|error| CompileError::NotAComponent(error.to_string()))? {
            Payload::CustomSection(section) if section.name() == name => {
                return Ok(Some(section.data()));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Returns the names of the interfaces and other items that a component imports.
pub fn imports(wasm: &[u8]) -> Result<Vec<String>, CompileError> {
    outermost(wasm, |payload, imports: &mut Vec<String>| {
        let Payload::ComponentImportSection(section) = payload else { return Ok(()) };
        for import in section {
            imports.push(import?.name.name.to_owned());
        }
        Ok(())
    })
}

/// Returns the names of the functions that a component imports with an interface; none if it does
/// not import the interface. The component is validated, which takes a tenth of a second for one that
/// contains an interpreter.
pub fn imported_functions(wasm: &[u8], interface: &str) -> Result<Vec<String>, CompileError> {
    let types = Validator::new_with_features(WasmFeatures::all()).validate_all(wasm);
    let types = types.map_err(|error| CompileError::NotAComponent(error.to_string()))?;
    let types = types.as_ref();
    let Some(import) = types.component_item_for_import(interface) else { return Ok(Vec::new()) };
    let ComponentEntityType::Instance(instance) = import.ty else { return Ok(Vec::new()) };
    let exports = types[instance].exports.iter();
    let functions = exports.filter(|(_, export)| matches!(export.ty, ComponentEntityType::Func(_)));
    Ok(functions.map(|(name, _)| name.clone()).collect())
}

/// Returns the names of the items that a component exports.
pub fn exports(wasm: &[u8]) -> Result<Vec<String>, CompileError> {
    outermost(wasm, |payload, exports: &mut Vec<String>| {
        let Payload::ComponentExportSection(section) = payload else { return Ok(()) };
        for export in section {
            exports.push(export?.name.name.to_owned());
        }
        Ok(())
    })
}

/// Returns whether a data segment of a nested module contains this text.
pub fn data_contains(wasm: &[u8], text: &[u8]) -> Result<bool, CompileError> {
    for payload in Parser::new(0).parse_all(wasm) {
        let Payload::DataSection(section) = payload.map_err(|error| not_a_component(&error))?
        else {
            continue;
        };
        for segment in section {
            let data = segment.map_err(|error| not_a_component(&error))?.data;
            if data.windows(text.len()).any(|found| found == text) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Fails if the bytes are a core module, or not WebAssembly at all.
pub(crate) fn check_layer(wasm: &[u8]) -> Result<(), CompileError> {
    if Parser::is_core_wasm(wasm) {
        Err(if is_for_extism(wasm) { CompileError::Extism } else { CompileError::CoreModule })
    } else if wasm.starts_with(b"\0asm") {
        Ok(())
    } else {
        Err(CompileError::NotAComponent("it does not begin with the bytes `\\0asm`".to_owned()))
    }
}

/// Returns whether a core module imports functions of Extism's host.
fn is_for_extism(module: &[u8]) -> bool {
    Parser::new(0).parse_all(module).map_while(Result::ok).any(|payload| {
        let Payload::ImportSection(section) = payload else { return false };
        let mut imports = section.into_imports().map_while(Result::ok);
        imports.any(|import| import.module.starts_with(EXTISM))
    })
}

/// Collects items from the sections of the component itself, not from those of nested modules or
/// components.
fn outermost<'a, T: Default>(
    wasm: &'a [u8],
    mut gather: impl FnMut(Payload<'a>, &mut T) -> Result<(), wasmparser::BinaryReaderError>,
) -> Result<T, CompileError> {
    let mut depth = 0_usize;
    let mut gathered = T::default();
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.map_err(|error| not_a_component(&error))? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            payload if depth == 0 => {
                gather(payload, &mut gathered).map_err(|error| not_a_component(&error))?;
            }
            _ => {}
        }
    }
    Ok(gathered)
}

fn not_a_component(error: &wasmparser::BinaryReaderError) -> CompileError {
    CompileError::NotAComponent(error.to_string())
}
