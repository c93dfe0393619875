//! Checks that every language has to pass, for the tests of executors.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::{Answer, Binding, Bindings, Catalogue, Language, Request, Script, ToolError, Tools};

/// A catalogue of 500 tools in five namespaces that counts what is asked of it.
struct Many(Arc<AtomicUsize>);

impl Catalogue for Many {
    fn find(&self, namespace: &str, name: &str) -> Option<Binding> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let number: usize = name.strip_prefix("tool_")?.parse().ok()?;
        let tool = format!("{namespace}-{name}");
        let namespace = namespace.to_owned();
        let name = name.to_owned();
        (number < 100).then_some(Binding { namespace, name, alias: None, tool })
    }

    fn names(&self, _: &str) -> Vec<String> {
        panic!("a script that ends well lists no tools")
    }

    fn namespaces(&self) -> Vec<String> {
        panic!("a script that ends well lists no namespaces")
    }
}

/// Returns the name of the tool.
struct Named;

impl Tools for Named {
    fn call(&self, request: Request) -> Result<Answer, ToolError> {
        Ok(Answer::Text(request.tool))
    }
}

/// Checks that a script which uses two of 500 tools, each three times, asks for two.
///
/// # Panics
///
/// If it asks for more.
pub fn check_lazy_bindings<L: Language>() {
    let times = Arc::new(AtomicUsize::new(0));
    let named = (0..5).map(|n| format!("server_{n}")).collect();
    let source = "out = []
for _ in range(3):
    out.append(server_1.tool_7(a=1))
    out.append(server_3.tool_99())
result = out[2:4]";
    let script = Script {
        name: "code".into(),
        source: source.into(),
        bindings: Bindings::new(named, Box::new(Many(times.clone()))),
        clock_ms: None,
    };
    let value = L::run(&script, &Named, &|_| ()).expect("it ends well");
    assert_eq!(value.as_deref(), Some(r#"["server_1-tool_7","server_3-tool_99"]"#));
    assert_eq!(times.load(Ordering::Relaxed), 2);
}
