//! Counts the instances that a component makes: those of a nested component once for each time that
//! it is instantiated. A few levels of repetition in a small file make millions of instances, and
//! both the compiler and the sandbox have work with each of them.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind,
    ComponentTypeRef, Instance, Payload,
};

use crate::error::CompileError;

/// Instances that one instantiation of a component makes. Larger numbers become the maximum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Total {
    /// Instances of core modules.
    pub(super) core: u64,
    /// All instances, groups of exports included.
    pub(super) all: u64,
}

impl Total {
    fn add(&mut self, core: u64, all: u64) {
        self.core = self.core.saturating_add(core);
        self.all = self.all.saturating_add(all);
    }
}

/// One component, as far as it is parsed.
#[derive(Default)]
struct ComponentScope {
    total: Total,
    /// Its components by index; `None` for one whose definition is known only when the component is
    /// instantiated.
    components: Vec<Option<Total>>,
}

/// The components that the parser is in, the innermost last. `None` is a core module.
#[derive(Default)]
pub(super) struct Instances {
    open: Vec<Option<ComponentScope>>,
    root: Total,
}

impl Instances {
    /// Takes the next part of the file. An entry that does not parse ends its section here; the
    /// validator refuses it. Fails if the component instantiates a component that another one passes
    /// to it: such instances cannot be counted before the component runs, and no known compiler
    /// makes them.
    pub(super) fn take(&mut self, payload: &Payload<'_>) -> Result<(), CompileError> {
        match payload {
            Payload::Version { .. } if self.open.is_empty() => {
                self.open.push(Some(ComponentScope::default()));
            }
            Payload::ComponentSection { .. } => self.open.push(Some(ComponentScope::default())),
            Payload::ModuleSection { .. } => self.open.push(None),
            Payload::End(_) => self.close(),
            Payload::ComponentAliasSection(section) => {
                for alias in section.clone().into_iter().map_while(Result::ok) {
                    self.alias(&alias);
                }
            }
            _ => {
                if let Some(Some(scope)) = self.open.last_mut() {
                    scope.take(payload)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the instances of the whole component, once it is parsed.
    pub(super) fn total(&self) -> Total {
        self.root
    }

    /// Ends the innermost component or module. Its parent refers to a component by the next index.
    fn close(&mut self) {
        let Some(Some(ComponentScope { total, .. })) = self.open.pop() else { return };
        match self.open.last_mut() {
            Some(Some(parent)) => parent.components.push(Some(total)),
            _ => self.root = total,
        }
    }

    fn alias(&mut self, alias: &ComponentAlias<'_>) {
        let component = match *alias {
            ComponentAlias::InstanceExport { kind: ComponentExternalKind::Component, .. } => None,
            ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, count, index } => {
                self.outer(count, index)
            }
            _ => return,
        };
        if let Some(Some(scope)) = self.open.last_mut() {
            scope.components.push(component);
        }
    }

    /// Returns a component of the one that is `count` levels further out.
    fn outer(&self, count: u32, index: u32) -> Option<Total> {
        let level = self.open.len().checked_sub(1)?.checked_sub(usize::try_from(count).ok()?)?;
        self.open[level].as_ref()?.component(index)
    }
}

impl ComponentScope {
    fn component(&self, index: u32) -> Option<Total> {
        *self.components.get(usize::try_from(index).ok()?)?
    }

    fn take(&mut self, payload: &Payload<'_>) -> Result<(), CompileError> {
        match payload {
            Payload::InstanceSection(section) => {
                for instance in section.clone().into_iter().map_while(Result::ok) {
                    let is_made = matches!(instance, Instance::Instantiate { .. });
                    self.total.add(is_made.into(), 1);
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section.clone().into_iter().map_while(Result::ok) {
                    self.instance(&instance)?;
                }
            }
            Payload::ComponentImportSection(section) => {
                let imports = section.clone().into_iter().map_while(Result::ok);
                let components =
                    imports.filter(|import| matches!(import.ty, ComponentTypeRef::Component(_)));
                self.components.extend(components.map(|_| None));
            }
            Payload::ComponentExportSection(section) => {
                // An export is a component of its own index too.
                for export in section.clone().into_iter().map_while(Result::ok) {
                    if export.kind == ComponentExternalKind::Component {
                        self.components.push(self.component(export.index));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn instance(&mut self, instance: &ComponentInstance<'_>) -> Result<(), CompileError> {
        self.total.add(0, 1);
        if let ComponentInstance::Instantiate { component_index, .. } = instance {
            let of = self.component(*component_index).ok_or(CompileError::Uncountable)?;
            self.total.add(of.core, of.all);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use wasmparser::Parser;

    use super::*;

    fn total(text: &str) -> Result<Total, CompileError> {
        let wasm = wat::parse_str(text).expect("it parses");
        let mut instances = Instances::default();
        for payload in Parser::new(0).parse_all(&wasm) {
            instances.take(&payload.expect("a payload"))?;
        }
        Ok(instances.total())
    }

    fn counted(text: &str) -> (u64, u64) {
        let total = total(text).expect("it is counted");
        (total.core, total.all)
    }

    const MODULE: &str = "(core module $m) (core instance (instantiate $m))";

    #[test]
    fn the_instances_of_a_nested_component_count_each_time_that_it_is_instantiated() {
        assert_eq!(
            [counted_of_repeated(0), counted_of_repeated(1), counted_of_repeated(5)],
            [(0, 0), (1, 2), (5, 10)]
        );
        let groups = "(component (component $c (core instance) (instance)) (instance (instantiate $c)) (instance (instantiate $c)))";
        assert_eq!(counted(groups), (0, 6), "groups of exports are no core instances");
    }

    fn counted_of_repeated(count: usize) -> (u64, u64) {
        let instances = "(instance (instantiate $c))".repeat(count);
        counted(&format!("(component (component $c {MODULE}) {instances})"))
    }

    #[test]
    fn levels_multiply_and_their_product_does_not_overflow() {
        assert_eq!(counted(&nested(3, 4)).0, 81);
        let begun = Instant::now();
        assert_eq!(counted(&nested(1_000, 8)), (u64::MAX, u64::MAX));
        // A generous bound: counting takes about 1 ms.
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    }

    fn nested(times: usize, levels: usize) -> String {
        let text = (0..levels).fold(MODULE.to_owned(), |inner, _| {
            format!("(component $c {inner}) {}", "(instance (instantiate $c))".repeat(times))
        });
        format!("(component {text})")
    }

    #[test]
    fn a_component_is_found_by_every_index_that_it_has() {
        let aliased = format!(
            "(component
                (component $c {MODULE})
                (component $user
                    (alias outer 1 $c (component $own))
                    (instance (instantiate $own))
                    (component $deep (alias outer 2 $c (component $own)) (instance (instantiate $own)))
                    (instance (instantiate $deep)))
                (instance (instantiate $user)))"
        );
        assert_eq!(counted(&aliased).0, 2);
        // The export is the second component, and the one after it the third.
        let exported = format!(
            "(component
                (component $c {MODULE})
                (export $e \"c\" (component $c))
                (component $empty)
                (instance (instantiate $e))
                (instance (instantiate $empty)))"
        );
        assert_eq!(counted(&exported).0, 1);
    }

    #[test]
    fn a_component_that_another_one_passes_on_is_not_instantiated() {
        let imported = format!(
            "(component
                (component $user (import \"c\" (component $c)) (instance (instantiate $c)))
                (component $heavy {MODULE})
                (instance (instantiate $user (with \"c\" (component $heavy)))))"
        );
        let of_instance = format!(
            "(component
                (component $owner (component $c {MODULE}) (export \"c\" (component $c)))
                (instance $owner (instantiate $owner))
                (alias export $owner \"c\" (component $c))
                (instance (instantiate $c)))"
        );
        for text in [imported, of_instance] {
            assert!(matches!(total(&text), Err(CompileError::Uncountable)), "{text}");
        }
        let passed_on = format!(
            "(component
                (component $user (import \"c\" (component $c)) (export \"d\" (component $c)))
                (component $c {MODULE})
                (instance (instantiate $user (with \"c\" (component $c)))))"
        );
        assert_eq!(counted(&passed_on), (0, 1));
    }
}
