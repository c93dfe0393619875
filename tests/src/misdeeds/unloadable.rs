//! Components that must be refused before any of their code runs for a caller.

use crate::wat::{ONE_TOOL, Text, WELL_BEHAVED};

/// A component that must be refused.
pub struct Unloadable {
    /// Name of the source of tools that would run it.
    pub name: &'static str,
    /// Defect of the component, as the end of "a component that …".
    pub does: &'static str,
    /// The component.
    pub component: Vec<u8>,
    /// Text that the reason must contain.
    pub says: &'static str,
}

/// Returns all of them.
pub fn unloadable() -> Vec<Unloadable> {
    [
        no_components(),
        bad_descriptors(),
        too_large_for_the_pool(),
        other_contracts(),
        hard_to_compile(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn one(
    name: &'static str,
    does: &'static str,
    component: Vec<u8>,
    says: &'static str,
) -> Unloadable {
    Unloadable { name, does, component, says }
}

fn written(text: Text) -> Vec<u8> {
    text.component()
}

fn with_tools(tools: &'static str) -> Vec<u8> {
    written(Text { tools, ..WELL_BEHAVED })
}

fn with_describe(describe: &'static str) -> Vec<u8> {
    written(Text { tools: "", describe, ..WELL_BEHAVED })
}

fn beside(component: &'static str) -> Vec<u8> {
    written(Text { component, ..WELL_BEHAVED })
}

fn changed(from: &str, to: &str) -> Vec<u8> {
    let good = WELL_BEHAVED.text();
    assert!(good.contains(from), "{from}");
    parsed(&good.replace(from, to))
}

fn no_components() -> Vec<Unloadable> {
    vec![
        one("garbage", "is a text", ONE_TOOL.into(), "component"),
        one("nothing", "is empty", Vec::new(), "component"),
        one("cut", "ends in the middle", written(WELL_BEHAVED)[..500].to_vec(), "component"),
    ]
}

fn bad_descriptors() -> Vec<Unloadable> {
    vec![
        one("not_json", "embeds descriptors that are not JSON", with_tools("{"), "the tool descriptors cannot be read"),
        one("no_schema", "embeds descriptors of no known form", with_tools("{}"), "missing field `schema`"),
        one(
            "other_form",
            "embeds descriptors of another form",
            with_tools(r#"{"schema":"airlock.tools/9","tools":[]}"#),
            "airlock.tools/9",
        ),
        one(
            "no_list",
            "embeds descriptors that are no list",
            with_tools(r#"{"schema":"airlock.tools/1","tools":{}}"#),
            "the tool descriptors cannot be read",
        ),
        one(
            "nameless",
            "embeds a tool without a name",
            with_tools(r#"{"schema":"airlock.tools/1","tools":[{}]}"#),
            "missing field `name`",
        ),
        one("describe_traps", "traps when it is asked for its tools", with_describe("unreachable"), "describe its tools"),
        one(
            "describe_spins",
            "computes for ever when it is asked for its tools",
            with_describe("(loop $again (br $again)) unreachable"),
            "describe its tools",
        ),
        one(
            "describe_wild",
            "answers with an address outside its memory when it is asked for its tools",
            with_describe("(i32.const -4)"),
            "describe its tools",
        ),
        one(
            "describe_lies",
            "refuses to describe its tools with a message outside its memory",
            with_describe(
                "(i32.store8 (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) (i32.const -4))
                 (i32.store (i32.const 72) (i32.const 9)) (i32.const 64)",
            ),
            "describe its tools",
        ),
        one(
            "declines",
            "refuses to describe its tools",
            with_describe(
                "(i32.store8 (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) (i32.const 0))
                 (i32.store (i32.const 72) (i32.const 2)) (i32.const 64)",
            ),
            "refused to describe its tools: ok",
        ),
    ]
}

fn too_large_for_the_pool() -> Vec<Unloadable> {
    vec![
        one(
            "memories",
            "has three memories",
            beside(
                "(core module $more (memory 1)) (core instance (instantiate $more)) (core instance (instantiate $more))",
            ),
            "memories",
        ),
        one("tables", "has five tables", beside(FIVE_TABLES), "tables"),
        one(
            "minimum",
            "begins with more than 1 GiB of memory",
            written(Text { pages: 16_385, ..WELL_BEHAVED }),
            "memory",
        ),
        one(
            "threads",
            "shares memory between threads",
            beside("(core module (memory 1 1 shared))"),
            "threads",
        ),
    ]
}

fn other_contracts() -> Vec<Unloadable> {
    vec![
        one(
            "more_imports",
            "imports an interface that the gateway does not provide",
            beside(r#"(import "airlock:host/admin@0.1.0" (instance $admin))"#),
            "airlock:host/admin@0.1.0",
        ),
        one(
            "other_export",
            "exports another interface of Airlock's",
            changed(TOOLS, r#"(export "airlock:plugin/tool@0.1.0""#),
            "tools",
        ),
        one(
            "later",
            "was built for a later contract",
            changed(TOOLS, r#"(export "airlock:plugin/tools@0.9.0""#),
            "0.9.0",
        ),
        one(
            "lacks_invoke",
            "cannot be invoked",
            changed(r#"(export "invoke" (func $invoke))"#, ""),
            "invoke",
        ),
        one(
            "lacks_describe",
            "cannot be asked for its tools",
            changed(r#"(export "describe" (func $describe))"#, ""),
            "describe",
        ),
        one(
            "other_function",
            "imports a function with other parameters",
            changed(
                r#"(param "level" $level) (param "message" string)"#,
                r#"(param "level" $level) (param "message" (list u8))"#,
            ),
            "tool-plugin",
        ),
    ]
}

fn hard_to_compile() -> Vec<Unloadable> {
    vec![
        one(
            "one_body",
            "has one function of 3 MB",
            parsed(&body(3_000_000)),
            "bytes in one function",
        ),
        one(
            "functions",
            "has 1,000,000 functions",
            parsed(&format!("(component (core module {}))", "(func)".repeat(1_000_000))),
            "functions; the limit is",
        ),
        one(
            "nested",
            "has 60 components one in the other",
            parsed(&format!("(component {}{})", "(component ".repeat(60), ")".repeat(60))),
            "levels of nested components",
        ),
        one(
            "instances",
            "makes 1,100 instances",
            beside_many("(core instance (instantiate $more))", 1_100),
            "instances",
        ),
        one(
            "types",
            "has 60,000 types",
            parsed(&format!("(component {})", "(type u8)".repeat(60_000))),
            "types",
        ),
    ]
}

const TOOLS: &str = r#"(export "airlock:plugin/tools@0.1.0""#;

const FIVE_TABLES: &str = "(core module $more (table 1 funcref))
    (core instance (instantiate $more)) (core instance (instantiate $more)) (core instance (instantiate $more))
    (core instance (instantiate $more)) (core instance (instantiate $more))";

/// Returns a valid component that takes long to compile: its functions have the largest size that
/// is permitted.
pub fn slow() -> Vec<u8> {
    parsed(&format!(
        "(component (core module {}))",
        format!("(func {})", "i32.const 1 drop ".repeat(300_000)).repeat(12)
    ))
}

/// Returns the text of a component with one function of about this many bytes.
fn body(bytes: usize) -> String {
    // Each repetition takes three bytes.
    format!("(component (core module (func {})))", "i32.const 1 drop ".repeat(bytes / 3))
}

fn beside_many(item: &str, count: usize) -> Vec<u8> {
    parsed(&format!("(component (core module $more) {})", item.repeat(count)))
}

fn parsed(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"))
}
