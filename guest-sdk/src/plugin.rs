//! Runtime of `plugin!`: the table of tools, and the exports that use it.

use schemars::Schema;
use serde_json::{Value, json};

use crate::{Context, Descriptor, Error, Output, Tool};

/// Vendor key of a tool with the schema of the configuration, for `airlock plugin build`.
const CONFIG_SCHEMA: &str = "airlock/config_schema";

/// A plugin as `plugin!` declares it.
pub trait Plugin {
    /// The tools in the order in which they are announced.
    const TOOLS: &'static [Entry];
    /// Returns the schema of the configuration; `None` if the plugin declares none.
    const CONFIG: Option<fn() -> Schema> = None;
}

/// One tool of a plugin.
#[derive(Debug)]
pub struct Entry {
    name: &'static str,
    descriptor: fn() -> Descriptor,
    invoke: fn(&str, &Context<'_>) -> Result<Output, Error>,
}

impl Entry {
    /// Creates the entry of a tool.
    pub const fn new<T: Tool>() -> Self {
        Self { name: T::NAME, descriptor: T::descriptor, invoke: T::invoke }
    }
}

/// Returns whether no earlier entry has the same name. Evaluated at compile time.
#[must_use]
pub const fn is_first_of_its_name(tools: &[Entry], position: usize) -> bool {
    let mut before = 0;
    while before < position {
        if same(tools[before].name.as_bytes(), tools[position].name.as_bytes()) {
            return false;
        }
        before += 1;
    }
    true
}

/// Compares slices in `const` code, which has no `==` for them.
const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The exports of a plugin.
#[cfg(target_family = "wasm")]
mod exports {
    use super::{Plugin, descriptors, run};
    use crate::bindings::airlock::types::types::{ToolDescriptor, ToolError, ToolOutput};
    use crate::bindings::exports::airlock::plugin::tools::Guest;
    use crate::host::context::CallContext;
    use crate::{Context, runtime, wire};

    impl<P: Plugin> Guest for P {
        fn describe() -> Result<Vec<ToolDescriptor>, String> {
            runtime::start();
            Ok(descriptors(P::TOOLS, P::CONFIG).map(wire::descriptor_to_host).collect())
        }

        fn invoke(
            name: String,
            arguments: String,
            context: &CallContext,
        ) -> Result<ToolOutput, ToolError> {
            runtime::start();
            let output = run(P::TOOLS, &name, &arguments, &Context::new(context));
            output.map(wire::output_to_host).map_err(wire::error_to_host)
        }
    }
}

/// Returns the descriptors in the order of the table, the first with the schema of the configuration.
#[cfg_attr(
    not(any(target_family = "wasm", test)),
    expect(dead_code, reason = "an export calls it")
)]
fn descriptors(
    tools: &[Entry],
    config: Option<fn() -> Schema>,
) -> impl Iterator<Item = Descriptor> {
    let mut config = config;
    tools.iter().map(move |tool| {
        let mut descriptor = (tool.descriptor)();
        if let Some(schema) = config.take() {
            let meta = descriptor.meta.get_or_insert_with(|| json!({}));
            if let Value::Object(members) = meta {
                members.insert(CONFIG_SCHEMA.to_owned(), schema().into());
            }
        }
        descriptor
    })
}

/// Runs the tool of this name.
#[cfg_attr(
    not(any(target_family = "wasm", test)),
    expect(dead_code, reason = "an export calls it")
)]
fn run(
    tools: &[Entry],
    name: &str,
    arguments: &str,
    context: &Context<'_>,
) -> Result<Output, Error> {
    match tools.iter().find(|tool| tool.name == name) {
        Some(tool) => (tool.invoke)(arguments, context),
        None => Err(Error::not_found(format!("this plugin has no tool `{name}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Host;
    use crate::{ErrorKind, schema};

    struct Echo;

    impl Tool for Echo {
        const NAME: &'static str = "echo";

        fn descriptor() -> Descriptor {
            Descriptor::new(Self::NAME, "", schema::of_input::<()>())
        }

        fn invoke(arguments: &str, _: &Context<'_>) -> Result<Output, Error> {
            Ok(Output::text(arguments))
        }
    }

    struct Renamed;

    impl Tool for Renamed {
        const NAME: &'static str = "also";

        fn descriptor() -> Descriptor {
            Descriptor { name: Self::NAME.to_owned(), ..Echo::descriptor() }
        }

        fn invoke(_: &str, _: &Context<'_>) -> Result<Output, Error> {
            Err(Error::internal("never works"))
        }
    }

    const TOOLS: &[Entry] = &[Entry::new::<Renamed>(), Entry::new::<Echo>(), Entry::new::<Echo>()];

    #[test]
    fn tools_are_announced_in_the_order_of_the_table() {
        assert!(descriptors(TOOLS, None).map(|tool| tool.name).eq(["also", "echo", "echo"]));
    }

    #[test]
    fn the_first_tool_has_the_schema_of_the_configuration() {
        let found: Vec<_> = descriptors(TOOLS, Some(crate::config::schema::<()>)).collect();
        let schema = found[0].meta.as_ref().map(|meta| meta[CONFIG_SCHEMA].clone());
        assert_eq!(schema.expect("it has one")["additionalProperties"], json!(false));
        assert!(found[1..].iter().all(|tool| tool.meta.is_none()));
    }

    #[test]
    fn a_tool_is_found_by_its_name_and_an_unknown_one_is_not_found() {
        assert_eq!(run_named("echo"), Ok(Output::text("{}")));
        assert_eq!(run_named("also").unwrap_err().kind(), ErrorKind::Internal);
        assert_eq!(run_named("none").unwrap_err().kind(), ErrorKind::NotFound);
    }

    fn run_named(name: &str) -> Result<Output, Error> {
        run(TOOLS, name, "{}", &Host::new().context())
    }

    #[test]
    fn the_second_entry_of_a_name_is_detected() {
        assert!(is_first_of_its_name(TOOLS, 0) && is_first_of_its_name(TOOLS, 1));
        assert!(!is_first_of_its_name(TOOLS, 2));
    }
}
