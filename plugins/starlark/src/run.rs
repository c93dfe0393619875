//! Runs one script from source to result.

use airlock_executor::{Answer, Binding, Failure, Request, Script, ToolError, Tools};
use starlark::ErrorKind;
use starlark::environment::Module;
use starlark::eval::Evaluator;
use starlark::syntax::{AstModule, Dialect, DialectTypes};

use crate::builtins;
use crate::convert;
use crate::failure::{Source, describe};
use crate::lower;
use crate::tool::{Namespaces, Session};

/// Largest depth of nested calls, of Starlark and built-in functions, before a run fails with a
/// line number. Measured in the component: the worst recursion of its tests needs 96 to 160 KiB of
/// WebAssembly stack for 200 calls, and the host provides 512 KiB. The rest is for conversion,
/// comparison and nested expressions in the innermost call, which no counter limits.
const MAX_FRAMES: usize = 200;

/// Enables everything that a model may write. `load` is disabled, because there is nothing to load
/// from. Type hints are parsed and not enforced.
const DIALECT: Dialect = Dialect {
    enable_load: false,
    enable_load_reexport: false,
    enable_types: DialectTypes::ParseOnly,
    ..Dialect::AllOptionsInternal
};

/// Runs a script, as [`airlock_executor::Language::run`].
pub(crate) fn run(
    script: &Script,
    tools: &dyn Tools,
    print: &dyn Fn(&str),
) -> Result<Option<String>, Failure> {
    let clients: Vec<_> = script.bindings.named().collect();
    let lower::Lowered { text, map } = lower::lower(&script.source, &clients)
        .map_err(|refusals| lower::refused::failure(&script.name, &script.source, &refusals))?;
    let source = Source { file: &script.name, text: &script.source, map: &map };
    Module::with_temp_heap(|module| {
        let namespaces = Namespaces::bind(&script.bindings, &module);
        let session = Session::new(tools, print);
        let outcome = evaluate(&script.name, text, &module, &session);
        session.flush();
        outcome.map_err(|error| describe(&error, &source, &namespaces))?;
        match module.get("result") {
            Some(value) if !value.is_none() => convert::to_json(value, module.heap())
                .map(Some)
                .map_err(|unfit| Failure::of_result(&unfit)),
            _ => Ok(None),
        }
    })
}

/// Builds the state that all runs share, as [`airlock_executor::Language::prepare`].
///
/// The script uses a method of each built-in type, because Starlark builds their method tables at
/// first use.
pub(crate) fn prepare() {
    struct NoTools;
    impl Tools for NoTools {
        fn call(&self, _: Request) -> Result<Answer, ToolError> {
            Ok(Answer::Json("{\"text\": [1, 2.5]}".into()))
        }
    }
    let script = Script {
        name: "warm-up.star".into(),
        source: include_str!("warm_up.star").into(),
        bindings: vec![Binding {
            namespace: "tools".into(),
            name: "touch".into(),
            alias: Some("Touch".into()),
            tool: "tools-touch".into(),
        }]
        .into(),
        clock_ms: None,
    };
    let outcome = run(&script, &NoTools, &|_| ());
    assert!(matches!(outcome, Ok(Some(_))), "the warm-up script fails: {outcome:?}");
    airlock_executor::reserve_heap();
}

fn evaluate(
    name: &str,
    text: String,
    module: &Module<'_>,
    session: &Session<'_>,
) -> starlark::Result<()> {
    let ast = AstModule::parse(name, text, &DIALECT)?;
    let mut evaluator = Evaluator::new(module);
    evaluator
        .set_max_callstack_size(MAX_FRAMES)
        .map_err(ErrorKind::Internal)
        .map_err(starlark::Error::new_kind)?;
    evaluator.extra = Some(session);
    evaluator.eval_module(ast, builtins::globals()).map(drop)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::RefCell;

    use airlock_executor::FailureKind;

    use super::*;

    /// Returns the arguments for `read_file`, and fails for every other tool.
    struct Echo;

    impl Tools for Echo {
        fn call(&self, request: Request) -> Result<Answer, ToolError> {
            match request.tool.as_str() {
                "files-read_file" => Ok(Answer::Text(request.arguments)),
                "files-fail_at_length" => {
                    Err(ToolError::internal(request.arguments.replace("\\n", "\n")))
                }
                _ => Err(ToolError::internal("refused")),
            }
        }
    }

    /// Runs a script and returns the number of calls in each block that it sends.
    pub(crate) fn blocks_of(source: &str) -> Vec<usize> {
        struct Blocks(RefCell<Vec<usize>>);
        impl Tools for Blocks {
            fn call(&self, _: Request) -> Result<Answer, ToolError> {
                Ok(Answer::Text(String::new()))
            }

            fn call_batch(&self, requests: Vec<Request>) -> Vec<Result<Answer, ToolError>> {
                self.0.borrow_mut().push(requests.len());
                requests.into_iter().map(|request| self.call(request)).collect()
            }
        }
        let blocks = Blocks(RefCell::default());
        run(&script(source), &blocks, &|_| ()).expect("it ends well");
        blocks.0.into_inner()
    }

    fn run_with(source: &str, print: &dyn Fn(&str)) -> Result<Option<String>, Failure> {
        run(&script(source), &Echo, print)
    }

    /// Returns a script with `files.read_file`, which is also `files.readFile`, with tools that fail,
    /// and with clients that have the name of a function or module.
    fn script(source: &str) -> Script {
        let bind = |name: &str, alias: Option<&str>| Binding {
            namespace: "files".into(),
            name: name.into(),
            alias: alias.map(Into::into),
            tool: format!("files-{name}"),
        };
        let other = |namespace: &str| Binding { namespace: namespace.into(), ..bind("page", None) };
        let bindings = vec![
            bind("read_file", Some("readFile")),
            bind("fail", None),
            bind("fail_at_length", None),
            other("json_"),
            other("print_"),
        ];
        let (name, bindings) = ("code.star".into(), bindings.into());
        Script { name, source: source.into(), bindings, clock_ms: None }
    }

    pub(crate) fn result(source: &str) -> Option<String> {
        run_with(source, &|_| ()).unwrap_or_else(|failure| panic!("{source}: {}", failure.rendered))
    }

    pub(crate) fn fail(source: &str) -> Failure {
        match run_with(source, &|_| ()) {
            Err(failure) => failure,
            Ok(value) => panic!("{source}: worked and left {value:?}"),
        }
    }

    #[test]
    fn printed_lines_arrive_one_by_one_even_if_the_script_fails_later() {
        let lines = RefCell::new(Vec::new());
        let print = |line: &str| lines.borrow_mut().push(line.to_owned());
        run_with("print('a', 1)\nprint('b\\nc')\nfail('no')", &print).expect_err("it says fail");
        assert_eq!(*lines.borrow(), ["a 1", "b", "c"]);
    }

    #[test]
    fn a_script_without_a_result_returns_none() {
        assert_eq!(result(""), None);
        assert_eq!(result("result = None"), None);
        assert_eq!(result("1 + 1"), None);
    }

    #[test]
    fn the_dialect_accepts_the_python_that_models_write() {
        let source = "
def greet(name: str, *, loud = False) -> str:
    return f\"hi {name.upper() if loud else name}\"

total = 0
for n in range(5):
    if n % 2 == 0:
        total += n
def fact(n):
    return 1 if n < 2 else n * fact(n - 1)
result = [greet('ann', loud = True), f\"{1!r}\", total, fact(5), {k: v for k, v in zip('ab'.elems(), [1, 2])}]
";
        assert_eq!(result(source).as_deref(), Some(r#"["hi ANN","1",6,120,{"a":1,"b":2}]"#));
    }

    #[test]
    fn the_warm_up_script_runs() {
        prepare();
    }

    #[test]
    fn a_result_that_json_cannot_represent_is_a_failure() {
        for (source, message) in [
            (
                "result = []\nresult.append(result)",
                "`result` cannot be returned: it nests deeper than 128 levels, or contains itself",
            ),
            (
                "result = [float('nan')]",
                "`result` cannot be returned: it contains a float that JSON cannot hold (nan or infinity)",
            ),
            (
                "result = {'a': [files.read_file]}",
                "`result` cannot be returned: `files.read_file` is a tool: call it, like `files.read_file(…)`",
            ),
            (
                "def main():\n    pass\nresult = main",
                "`result` cannot be returned: `main` is a function: call it, like `main(…)`",
            ),
            (
                "result = len",
                "`result` cannot be returned: `len` is a function: call it, like `len(…)`",
            ),
            (
                "result = [lambda x: x]",
                "`result` cannot be returned: `lambda` is a function: call it, like `lambda(…)`",
            ),
        ] {
            let failure = fail(source);
            assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Runtime, message));
        }
    }
}
