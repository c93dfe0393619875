//! Counts the items of a component before it is compiled. Counting is cheap, and a compiler's time
//! and memory grow with these counts.

mod instances;

use wasmparser::{Instance, InstanceSectionReader, Parser, Payload};

use self::instances::Instances;
use crate::{engine::CORE_INSTANCES_PER_COMPONENT, error::CompileError};

/// Largest body of a function, in bytes. Cranelift takes more than linear time and memory for it,
/// and the other cores cannot share that work. The largest known among interpreters is `CPython`'s,
/// with 427 KB. The plugin format promises this number.
const MAX_BODY_BYTES: u64 = 1 << 20;
/// Levels of nested components. The largest known real component has one; tools that compose
/// components add one each. The plugin format promises this number (`docs/plugin-format.md`).
const MAX_LEVELS: u64 = 8;
/// Most items of each kind. For comparison, a large real component, which `componentize-py` makes
/// from `CPython`, has 13,500 functions, 37 modules, 110 instances, 1,500 aliases, 150 types, one
/// level.
const LIMITS: [(&str, u64); 8] = [
    ("functions", 100_000),
    ("core modules", 128),
    ("nested components", 64),
    ("instances", 1_024),
    ("core instances", CORE_INSTANCES_PER_COMPONENT as u64),
    ("types", 50_000),
    ("aliases", 20_000),
    ("imports and exports", 50_000),
];

/// Kind of item, in the order of [`LIMITS`].
#[derive(Clone, Copy)]
enum ItemKind {
    Functions,
    Modules,
    Components,
    Instances,
    CoreInstances,
    Types,
    Aliases,
    Externs,
}

#[derive(Default)]
struct ItemCounts([u64; LIMITS.len()]);

impl ItemKind {
    fn check(self, found: u64) -> Result<(), CompileError> {
        let (what, limit) = LIMITS[self as usize];
        within(what, found, limit)
    }
}

impl ItemCounts {
    fn add(&mut self, kind: ItemKind, more: u64) -> Result<(), CompileError> {
        let found = &mut self.0[kind as usize];
        *found = found.saturating_add(more);
        kind.check(*found)
    }
}

fn within(what: &'static str, found: u64, limit: u64) -> Result<(), CompileError> {
    if found > limit { Err(CompileError::TooMuch { what, found, limit }) } else { Ok(()) }
}

/// Counts the entries of each section, and fails at the first count beyond its limit. The count
/// that a section declares is used as it is, because the compiler goes by it too. The content of an
/// entry, such as the fields of a type, is bounded by the validator and by the limits of the child.
/// A nested component is counted once here, and its instances once more for each time that it is
/// instantiated.
pub(crate) fn check(wasm: &[u8]) -> Result<(), CompileError> {
    let mut counts = ItemCounts::default();
    let mut instances = Instances::default();
    let mut level = 0_u64;
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload.map_err(|error| CompileError::NotAComponent(error.to_string()))?;
        instances.take(&payload)?;
        match payload {
            Payload::ModuleSection { .. } => {
                counts.add(ItemKind::Modules, 1)?;
                level += 1;
            }
            Payload::ComponentSection { .. } => {
                counts.add(ItemKind::Components, 1)?;
                level += 1;
                within("levels of nested components", level, MAX_LEVELS)?;
            }
            Payload::End(_) => level = level.saturating_sub(1),
            Payload::CodeSectionStart { count, .. } => {
                counts.add(ItemKind::Functions, count.into())?;
            }
            Payload::CodeSectionEntry(body) => {
                within("bytes in one function", body.range().len() as u64, MAX_BODY_BYTES)?;
            }
            Payload::InstanceSection(section) => {
                counts.add(ItemKind::Instances, section.count().into())?;
                counts.add(ItemKind::CoreInstances, instantiations(section))?;
            }
            Payload::ComponentInstanceSection(section) => {
                counts.add(ItemKind::Instances, section.count().into())?;
            }
            Payload::TypeSection(section) => counts.add(ItemKind::Types, section.count().into())?,
            Payload::CoreTypeSection(section) => {
                counts.add(ItemKind::Types, section.count().into())?;
            }
            Payload::ComponentTypeSection(section) => {
                counts.add(ItemKind::Types, section.count().into())?;
            }
            Payload::ComponentAliasSection(section) => {
                counts.add(ItemKind::Aliases, section.count().into())?;
            }
            Payload::ComponentCanonicalSection(section) => {
                counts.add(ItemKind::Functions, section.count().into())?;
            }
            Payload::ImportSection(section) => {
                counts.add(ItemKind::Externs, section.count().into())?;
            }
            Payload::ExportSection(section) => {
                counts.add(ItemKind::Externs, section.count().into())?;
            }
            Payload::ComponentImportSection(section) => {
                counts.add(ItemKind::Externs, section.count().into())?;
            }
            Payload::ComponentExportSection(section) => {
                counts.add(ItemKind::Externs, section.count().into())?;
            }
            _ => {}
        }
    }
    let total = instances.total();
    ItemKind::CoreInstances.check(total.core)?;
    ItemKind::Instances.check(total.all)
}

/// Returns the number of core modules that a section instantiates. Its other entries only group
/// exports.
fn instantiations(section: InstanceSectionReader<'_>) -> u64 {
    let entries = section.into_iter().map_while(Result::ok);
    entries.filter(|entry| matches!(entry, Instance::Instantiate { .. })).count() as u64
}

#[cfg(test)]
mod tests {
    use std::{fmt::Write as _, time::Instant};

    use super::*;

    fn refused(text: &str) -> String {
        let wasm = wat::parse_str(text).expect("it parses");
        let begun = Instant::now();
        let refused = check(&wasm).expect_err("too much").to_string();
        // A generous bound: counting a million functions takes about 10 ms.
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
        refused
    }

    fn fits(text: &str) -> bool {
        check(&wat::parse_str(text).expect("it parses")).is_ok()
    }

    fn times(count: usize, text: &str) -> String {
        text.repeat(count)
    }

    /// Returns a component with one function of about `bytes` bytes.
    fn body(bytes: usize) -> String {
        // Each pair of instructions has three bytes.
        format!("(component (core module (func {})))", times(bytes / 3, "i32.const 1 drop "))
    }

    #[test]
    fn one_huge_function_is_refused() {
        assert!(fits(&body(1_000_000)));
        insta::assert_snapshot!(refused(&body(3_000_000)), @"the component has 3000002 bytes in one function; the limit is 1048576");
    }

    #[test]
    fn core_instances_are_counted_in_all_nested_components() {
        assert!(fits(&nested_instances(48)));
        insta::assert_snapshot!(refused(&nested_instances(49)), @"the component has 49 core instances; the limit is 48");
    }

    fn nested_instances(count: usize) -> String {
        let one = "(core instance (instantiate $m))";
        let more = "(core module $m)";
        format!("(component (component {more} {one}) {more} {})", times(count - 1, one))
    }

    #[test]
    fn instances_of_a_repeated_nested_component_are_counted_each_time() {
        assert!(fits(&repeated_component(48)));
        insta::assert_snapshot!(refused(&repeated_component(49)), @"the component has 49 core instances; the limit is 48");
        insta::assert_snapshot!(refused(&repeated_component(1_000)), @"the component has 1000 core instances; the limit is 48");
        assert!(fits(&repeated_groups(256)));
        insta::assert_snapshot!(refused(&repeated_groups(257)), @"the component has 1028 instances; the limit is 1024");
    }

    fn repeated_component(count: usize) -> String {
        let one = "(core instance (instantiate $m))";
        let more = "(core module $m)";
        let instances = times(count, "(instance (instantiate $c))");
        format!("(component (component $c {more} {one}) {instances})")
    }

    fn repeated_groups(count: usize) -> String {
        let instances = times(count, "(instance (instantiate $c))");
        format!("(component (component $c (instance) (instance) (instance)) {instances})")
    }

    #[test]
    fn a_million_tiny_functions_are_refused() {
        assert!(fits(&functions(100_000)));
        insta::assert_snapshot!(refused(&functions(100_001)), @"the component has 100001 functions; the limit is 100000");
        insta::assert_snapshot!(refused(&functions(1_000_000)), @"the component has 1000000 functions; the limit is 100000");
        // The limit is for all modules together.
        let modules = times(3, &format!("(core module {})", times(40_000, "(func)")));
        insta::assert_snapshot!(refused(&format!("(component {modules})")), @"the component has 120000 functions; the limit is 100000");
    }

    fn functions(count: usize) -> String {
        format!("(component (core module {}))", times(count, "(func)"))
    }

    #[test]
    fn components_nested_deeper_than_eight_levels_are_refused() {
        assert!(fits(&nested(8)));
        insta::assert_snapshot!(refused(&nested(9)), @"the component has 9 levels of nested components; the limit is 8");
        insta::assert_snapshot!(refused(&nested(60)), @"the component has 9 levels of nested components; the limit is 8");
        insta::assert_snapshot!(refused(&format!("(component {})", times(65, "(component)"))), @"the component has 65 nested components; the limit is 64");
    }

    fn nested(levels: usize) -> String {
        format!("(component {}{})", times(levels, "(component "), times(levels, ")"))
    }

    #[test]
    fn too_many_modules_instances_types_or_aliases_are_refused() {
        insta::assert_snapshot!(refused(&component_of(&times(129, "(core module)"))), @"the component has 129 core modules; the limit is 128");
        let instances =
            format!("(core module $m) {}", times(1_025, "(core instance (instantiate $m))"));
        insta::assert_snapshot!(refused(&component_of(&instances)), @"the component has 1025 instances; the limit is 1024");
        insta::assert_snapshot!(refused(&component_of(&times(50_001, "(type u8)"))), @"the component has 50001 types; the limit is 50000");
        let mut exports = String::new();
        let mut aliases = String::new();
        for n in 0..20_001 {
            // Writing to a String cannot fail.
            let _ = write!(exports, "(export \"{n}\" (func $f))");
            let _ = write!(aliases, "(alias core export $i \"{n}\" (core func))");
        }
        let text = format!(
            "(core module $m (func $f) {exports}) (core instance $i (instantiate $m)) {aliases}"
        );
        insta::assert_snapshot!(refused(&component_of(&text)), @"the component has 20001 aliases; the limit is 20000");
    }

    fn component_of(text: &str) -> String {
        format!("(component {text})")
    }

    #[test]
    fn bytes_that_do_not_parse_are_no_component() {
        assert!(matches!(check(b"\0asm"), Err(CompileError::NotAComponent(_))));
        assert!(matches!(
            check(b"\0asm\x0d\0\x01\0\x01\xff\xff\xff\xff\x0f"),
            Err(CompileError::NotAComponent(_))
        ));
    }
}
