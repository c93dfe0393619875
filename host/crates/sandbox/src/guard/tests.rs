use airlock_compile::pooled_engine;

use super::*;
use crate::run::memory;

/// Returns the reason that a component in WebAssembly text is no guard.
fn refusal(text: &str) -> String {
    let engine = pooled_engine(1, None).expect("an engine");
    let wasm = wat::parse_str(text).expect("a component");
    let component = Component::new(&engine, &wasm).expect("it compiles");
    let memory = memory::budget(1 << 20);
    let refused = Guard::new(engine, memory, &component, Limits::PLUGIN, "{}".into()).err();
    airlock_strings::with_causes(&refused.expect("it is refused"))
}

#[test]
fn a_component_with_imports_or_without_the_hooks_is_no_guard() {
    let imports = refusal(
        r#"(component (import "wasi:clocks/monotonic-clock@0.2.0" (instance
            (export "now" (func (result u64))))) (import "run" (func)))"#,
    );
    assert!(imports.contains("wasi:clocks/monotonic-clock@0.2.0, run; build"), "{imports}");
    for text in [
        "(component)",
        r#"(component (instance $i) (export "airlock:guard/hooks@0.2.0" (instance $i)))"#,
    ] {
        let refused = refusal(text);
        assert!(refused.starts_with("the component does not fit the world guard"), "{refused}");
    }
}

#[test]
fn an_error_lists_the_first_imports_alone() {
    let imports = (0..=MAX_LISTED).map(|number| format!(r#"(import "f{number}" (func))"#));
    let many = imports.collect::<Vec<_>>().concat();
    let refused = refusal(&format!("(component {many})"));
    assert!(refused.contains("f4") && !refused.contains("f5"), "{refused}");
}
