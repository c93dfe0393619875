//! One script from source to result.

use starlark::environment::Module;
use starlark::eval::Evaluator;
use starlark::syntax::{AstModule, Dialect, DialectTypes};
use starlark::{ErrorKind, PrintHandler};

use crate::builtins;
use crate::convert;
use crate::failure::{Failure, describe};
use crate::tool::{Namespaces, Session, Tools};

/// One tool as the script sees it: `namespace.name(…)`.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The global.
    pub namespace: String,
    /// The callable under it.
    pub name: String,
    /// Another spelling of `name` that works too.
    pub alias: Option<String>,
    /// What [`Tools`] knows the tool as.
    pub tool: String,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Script {
    /// File name for messages.
    pub name: String,
    /// Source text.
    pub source: String,
    /// Every tool that exists for this run.
    pub bindings: Vec<Binding>,
}

/// Calls in calls, Starlark's and built-in ones, before a run fails with a line number. Measured in
/// the component: the worst recursion of its tests needs 96 to 160 KiB of WebAssembly stack for
/// 200, and the host gives 512 KiB. The rest is for conversion, comparison and nested expressions
/// at the innermost call, which no counter bounds.
const MAX_FRAMES: usize = 200;

/// Everything a model may write. No `load`: there is nothing to load from. Type hints are read and
/// not enforced.
const DIALECT: Dialect = Dialect {
    enable_load: false,
    enable_load_reexport: false,
    enable_types: DialectTypes::ParseOnly,
    ..Dialect::AllOptionsInternal
};

/// Runs a script; answers what it left in the global `result`, as JSON, unless that is missing or
/// `None`.
///
/// `print` gets each line at once. A panic of the interpreter or exhausted stack is left to the
/// sandbox.
pub fn run(
    script: &Script,
    tools: &dyn Tools,
    print: &dyn Fn(&str),
) -> Result<Option<String>, Failure> {
    Module::with_temp_heap(|module| {
        let namespaces = Namespaces::bind(&script.bindings, &module);
        evaluate(script, &module, tools, print).map_err(|error| describe(&error, &namespaces))?;
        match module.get("result") {
            Some(value) if !value.is_none() => convert::to_json(value, module.heap())
                .map(Some)
                .map_err(|unfit| Failure::of_result(&unfit)),
            _ => Ok(None),
        }
    })
}

/// Builds what every run shares, so that a snapshot taken afterwards holds it.
///
/// The script touches a method of each built-in type: Starlark makes their method tables at first
/// use.
///
/// # Panics
///
/// If that script fails: the executor is then not to be built.
pub fn prepare() {
    struct NoTools;
    impl Tools for NoTools {
        fn call(&self, _: crate::Request) -> Result<crate::Answer, String> {
            Ok(crate::Answer::Json("{\"text\": [1, 2.5]}".into()))
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
        }],
    };
    let outcome = run(&script, &NoTools, &|_| ());
    assert!(matches!(outcome, Ok(Some(_))), "the warm-up script fails: {outcome:?}");
}

fn evaluate<'v>(
    script: &Script,
    module: &Module<'v>,
    tools: &dyn Tools,
    print: &dyn Fn(&str),
) -> starlark::Result<()> {
    let ast = AstModule::parse(&script.name, script.source.clone(), &DIALECT)?;
    let session = Session { tools };
    let lines = Lines(print);
    let mut evaluator = Evaluator::new(module);
    evaluator
        .set_max_callstack_size(MAX_FRAMES)
        .map_err(ErrorKind::Internal)
        .map_err(starlark::Error::new_kind)?;
    evaluator.set_print_handler(&lines);
    evaluator.extra = Some(&session);
    evaluator.eval_module(ast, builtins::globals()).map(drop)
}

/// Splits what is printed into lines.
struct Lines<'a>(&'a dyn Fn(&str));

impl PrintHandler for Lines<'_> {
    fn println(&self, text: &str) -> starlark::Result<()> {
        text.split('\n').for_each(self.0);
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::failure::FailureKind;
    use crate::tool::{Answer, Request};

    /// `read_file` answers its arguments, and every other tool fails.
    struct Echo;

    impl Tools for Echo {
        fn call(&self, request: Request) -> Result<Answer, String> {
            match request.tool.as_str() {
                "files-read_file" => Ok(Answer::Text(request.arguments)),
                _ => Err("refused".into()),
            }
        }
    }

    /// Runs a script with `files.read_file`, which is also `files.readFile`, and `files.fail`.
    fn run_with(source: &str, print: &dyn Fn(&str)) -> Result<Option<String>, Failure> {
        let bind = |name: &str, alias: Option<&str>| Binding {
            namespace: "files".into(),
            name: name.into(),
            alias: alias.map(Into::into),
            tool: format!("files-{name}"),
        };
        let bindings = vec![bind("read_file", Some("readFile")), bind("fail", None)];
        run(&Script { name: "code.star".into(), source: source.into(), bindings }, &Echo, print)
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
    fn what_is_printed_arrives_line_by_line_even_if_the_script_fails_after() {
        let lines = RefCell::new(Vec::new());
        let print = |line: &str| lines.borrow_mut().push(line.to_owned());
        run_with("print('a', 1)\nprint('b\\nc')\nfail('no')", &print).expect_err("it says fail");
        assert_eq!(*lines.borrow(), ["a 1", "b", "c"]);
    }

    #[test]
    fn a_script_without_a_result_gives_none() {
        assert_eq!(result(""), None);
        assert_eq!(result("result = None"), None);
        assert_eq!(result("1 + 1"), None);
    }

    #[test]
    fn the_dialect_is_what_models_write() {
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
    fn a_result_that_json_cannot_hold_is_a_failure() {
        for (source, message) in [
            (
                "result = []\nresult.append(result)",
                "`result` cannot be returned: it nests deeper than 128 levels, or contains itself",
            ),
            (
                "result = [float('nan')]",
                "`result` cannot be returned: it contains a float that JSON cannot hold (nan or infinity)",
            ),
        ] {
            let failure = fail(source);
            assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Runtime, message));
        }
    }
}
