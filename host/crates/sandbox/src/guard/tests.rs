use std::sync::atomic::{AtomicUsize, Ordering};

use airlock_compile::pooled_engine;
use airlock_core::tool::HostCode;
use tokio::task::yield_now;

use super::*;
use crate::run::memory;

/// A guest that computes without end.
const SPIN: &str = r#"(component
    (core module $module (func (export "spin") (loop $again (br $again))))
    (core instance $instance (instantiate $module))
    (func (export "spin") (canon lift (core func $instance "spin"))))"#;

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
    let imports = (0..=MAX_NAMED).map(|number| format!(r#"(import "f{number}" (func))"#));
    let many = imports.collect::<Vec<_>>().concat();
    let refused = refusal(&format!("(component {many})"));
    assert!(refused.contains("f9") && !refused.contains("f10"), "{refused}");
}

#[tokio::test]
async fn other_tasks_run_while_a_hook_computes_until_its_time_is_over() {
    let engine = pooled_engine(1, None).expect("an engine");
    let component = Component::new(&engine, wat::parse_str(SPIN).expect("a component"));
    let component = component.expect("it compiles");
    let linker: Linker<State<GuardSide>> = Linker::new(&engine);
    let memory = memory::budget(1 << 20);
    let short = Duration::from_millis(50);
    let long = Duration::from_mins(1);
    for (cpu, deadline, code) in
        [(short, long, HostCode::CpuTime), (long, short, HostCode::Deadline)]
    {
        // The runtime of the test has one thread.
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = turns.clone();
        let other = tokio::spawn(async move {
            while counted.fetch_add(1, Ordering::Relaxed) < usize::MAX {
                yield_now().await;
            }
        });
        let limits = Limits { fuel: 1 << 40, cpu, deadline, ..Limits::PLUGIN };
        let call = Call { tool: ToolName::own("guard"), chain: None, limits, guest: GuardSide };
        let ended = instance::run_alone(&engine, &memory, call, async |store| {
            let instance = linker.instantiate_async(&mut *store, &component).await?;
            let spin = instance.get_typed_func::<(), ()>(&mut *store, "spin")?;
            spin.call_async(store, ()).await
        });
        assert_eq!(ended.await.expect_err("it has no end").code(), code);
        other.abort();
        assert!(turns.load(Ordering::Relaxed) > 2, "{code:?}");
    }
}
