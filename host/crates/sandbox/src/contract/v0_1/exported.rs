//! Functions that a component exports, found when it is opened. The generated bindings check the types of all functions of
//! a world in each new instance; a call that uses one function checks the type of that one alone.

use wasmtime::component::{Component, ComponentExportIndex};

/// Finds a function of an exported interface. Fails if the component exports no such function.
pub(super) fn exported_function(
    component: &Component,
    interface: &str,
    function: &str,
) -> wasmtime::Result<ComponentExportIndex> {
    let exported = component.get_export_index(None, interface);
    exported
        .and_then(|exported| component.get_export_index(Some(&exported), function))
        .ok_or_else(|| wasmtime::Error::msg(format!("no {function} is exported in {interface}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_in_its_interface_alone() {
        let engine = airlock_compile::compiler_engine().expect("an engine");
        let component = r#"(component
            (core module $module (func (export "run")))
            (core instance $core (instantiate $module))
            (func $run (canon lift (core func $core "run")))
            (instance $instance (export "run" (func $run)))
            (export "acme:own/one@0.1.0" (instance $instance)))"#;
        let component = wat::parse_str(component).expect("a component");
        let component = Component::new(&engine, component).expect("it compiles");
        for (interface, function, is_found) in [
            ("acme:own/one@0.1.0", "run", true),
            ("acme:own/one@0.1.0", "stop", false),
            ("acme:own/two@0.1.0", "run", false),
        ] {
            let found = exported_function(&component, interface, function);
            assert_eq!(found.is_ok(), is_found, "{interface} {function}");
        }
    }
}
