//! Runs one script from source to result.

use airlock_executor::{Failure, Language, Script, Tools, reserve_heap, warm_up};
use airlock_starlark_library::{Patterns, convert};
use serde_json::{Map, Value as Json};
use starlark::ErrorKind;
use starlark::environment::Module;
use starlark::eval::Evaluator;
use starlark::syntax::{AstModule, Dialect, DialectTypes};
use starlark::values::Value;

use crate::builtins;
use crate::failure::{self, ScriptSource, describe};
use crate::tool::{self, StarlarkSession};
use crate::{Starlark, lower};

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

impl Language for Starlark {
    /// The warm-up script uses a method of each built-in type, because Starlark builds their method
    /// tables at first use.
    fn prepare() {
        warm_up::<Self>("warm-up.star", include_str!("warm_up.star"));
        reserve_heap();
    }

    fn run(
        script: &Script,
        tools: &dyn Tools,
        print: &dyn Fn(&str),
    ) -> Result<Option<String>, Failure> {
        let Script { name, source, bindings, .. } = script;
        let inputs = read_inputs(script)?;
        let lower::Lowered { text, map, ends_with_value, calls, flows } =
            lower::lower(script, &inputs)
                .map_err(|refusals| lower::refused::failure(name, source, &refusals))?;
        if let Some(refusal) = failure::wrong_calls(script, &calls) {
            return Err(refusal);
        }
        if let Some(flows) = flows {
            bindings.follow(&flows);
        }
        let source = ScriptSource { file: name, text: source, map: &map };
        Module::with_temp_heap(|module| {
            tool::bind(bindings, &module);
            for (name, value) in &inputs {
                module.set(&lower::plain_name(name), convert::value(value, module.heap()));
            }
            let session = StarlarkSession::new(tools, print);
            let outcome = evaluate(name, text, &module, &session);
            session.flush();
            let last = outcome.map_err(|error| describe(&error, &source, bindings))?;
            let value = if ends_with_value { Some(last) } else { module.get("result") };
            match value {
                Some(value) if !value.is_none() => convert::to_json(value, module.heap())
                    .map(Some)
                    .map_err(|unfit| Failure::unfit_value(&unfit, ends_with_value)),
                _ => Ok(None),
            }
        })
    }
}

/// Returns the inputs of a script by their names, without those that it cannot have.
fn read_inputs(script: &Script) -> Result<Map<String, Json>, Failure> {
    let Some(json) = &script.inputs else { return Ok(Map::new()) };
    let inputs: Map<String, Json> = serde_json::from_str(json).map_err(Failure::unfit_inputs)?;
    Ok(inputs.into_iter().filter(|(name, _)| !name.starts_with(lower::OWN)).collect())
}

/// Runs the lowered text. Returns the value of its last statement, which is `None` unless that is an
/// expression.
fn evaluate<'v>(
    name: &str,
    text: String,
    module: &Module<'v>,
    session: &StarlarkSession<'_>,
) -> starlark::Result<Value<'v>> {
    let ast = AstModule::parse(name, text, &DIALECT)?;
    let mut patterns = Patterns::default();
    let mut evaluator = Evaluator::new(module);
    evaluator
        .set_max_callstack_size(MAX_FRAMES)
        .map_err(ErrorKind::Internal)
        .map_err(starlark::Error::new_kind)?;
    evaluator.extra = Some(session);
    evaluator.extra_mut = Some(&mut patterns);
    evaluator.eval_module(ast, builtins::globals())
}

#[cfg(test)]
pub(crate) mod tests {
    use airlock_test_executors as testing;

    use super::*;

    pub(crate) fn result(source: &str) -> Option<String> {
        testing::result::<Starlark>(source)
    }

    pub(crate) fn fail(source: &str) -> Failure {
        testing::fail::<Starlark>(source)
    }

    #[test]
    fn scripts_run_as_in_every_executor() {
        testing::check_language::<Starlark>();
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
    fn a_lambda_is_no_result() {
        let reason = "`lambda` is a function: call it, like `lambda(…)`";
        let message = fail("result = [lambda x: x]").message;
        assert_eq!(message, format!("`result` cannot be returned: {reason}"));
    }
}
