//! The global functions of a script.
//!
//! Starlark's standard functions, and others that models expect. None of them reaches outside the
//! script; `breakpoint` and the interpreter's internals are left out.

use std::sync::OnceLock;

use airlock_executor::Request;
use airlock_starlark_library::{StringIo, misuse, register, text};
use starlark::Error;
use starlark::environment::{Globals, GlobalsBuilder, LibraryExtension};
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::values::list::{AllocList, UnpackList};
use starlark::values::none::{NoneOr, NoneType};
use starlark::values::structs::AllocStruct;
use starlark::values::tuple::{TupleRef, UnpackTuple};
use starlark::values::{Heap, Value, ValueLike as _};

use crate::tool::{Callable, StarlarkSession, ToolFailure};

/// Calls of one block that the host has in flight at the same time. A smaller `limit` needs blocks of
/// its own, and a larger one is of no use.
const IN_FLIGHT: usize = 8;

/// Returns the globals. They are built once per process, because that takes milliseconds, a hundred
/// times as long as a small script.
pub(crate) fn globals() -> &'static Globals {
    static GLOBALS: OnceLock<Globals> = OnceLock::new();
    GLOBALS.get_or_init(|| {
        let extensions = [LibraryExtension::StructType, LibraryExtension::Partial];
        GlobalsBuilder::extended_by(&extensions).with(register).with(calls).with(output).build()
    })
}

/// Calls of several tools at once, and calls that return a failure as a value.
#[starlark_module]
fn calls(builder: &mut GlobalsBuilder) {
    /// Calls several tools at once: `gather([(files.read_file, {"path": "a"}), …])`; the answers
    /// are in that order.
    ///
    /// The host receives all calls as one block, so that it can ask for what needs approval before it
    /// makes the first, and bounds how many are in flight. With a smaller `limit` it receives blocks of
    /// that size, each after the one before has finished. The first call that failed ends the script,
    /// after its block has finished. With `attempt = True` each answer is a struct as from `attempt`.
    fn gather<'v>(
        #[starlark(require = pos)] calls: UnpackList<Value<'v>>,
        #[starlark(require = named, default = NoneOr::None)] limit: NoneOr<i32>,
        #[starlark(require = named, default = false)] attempt: bool,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        let calls = calls
            .items
            .into_iter()
            .map(|call| planned(call, heap))
            .collect::<starlark::Result<Vec<_>>>()?;
        let limit = match limit.into_option().map(usize::try_from) {
            None => usize::MAX,
            Some(Ok(limit)) if limit > 0 => limit,
            Some(_) => return Err(misuse("gather: `limit` is a number of calls, from 1")),
        };
        let block = if limit < IN_FLIGHT { limit } else { calls.len().max(1) };
        let mut answers = Vec::with_capacity(calls.len());
        for batch in calls.chunks(block) {
            let requests = batch.iter().map(|(_, request)| request.clone()).collect();
            let results = StarlarkSession::from_evaluator(eval).tools.call_batch(requests);
            for ((tool, _), answer) in batch.iter().zip(results) {
                let answer = tool.answer(answer, heap);
                answers.push(if attempt {
                    outcome(answer, heap)
                } else {
                    answer.map_err(Error::new_other)?
                });
            }
        }
        Ok(heap.alloc(AllocList(answers)))
    }

    /// Calls a tool without ending the script if that fails: `attempt(files.read_file, {"path":
    /// "a"})` gives a struct with `ok`, `value` and `error`.
    fn attempt<'v>(
        #[starlark(require = pos)] tool: Value<'v>,
        #[starlark(require = pos)] arguments: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        let tool = callable(tool)?;
        let arguments = arguments
            .map_or_else(|| Ok("{}".to_owned()), |arguments| tool.object(arguments, heap))?;
        let answer = StarlarkSession::from_evaluator(eval).tools.call(tool.request(arguments));
        Ok(outcome(tool.answer(answer, heap), heap))
    }
}

/// Printing.
#[starlark_module]
fn output(builder: &mut GlobalsBuilder) {
    /// Prints values to the log of the run.
    fn print<'v>(
        #[starlark(args)] values: UnpackTuple<Value<'v>>,
        #[starlark(require = named, default = NoneOr::None)] sep: NoneOr<&str>,
        #[starlark(require = named, default = NoneOr::None)] end: NoneOr<&str>,
        #[starlark(require = named)] flush: Option<Value<'v>>,
        #[starlark(require = named)] file: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<NoneType> {
        // Every line is written at once.
        let _ = flush;
        let texts: Vec<_> =
            values.items.iter().map(|value| text::str(*value, eval.heap())).collect();
        let text = texts.join(sep.into_option().unwrap_or(" "));
        let end = end.into_option().unwrap_or("\n");
        match file.and_then(starlark::values::ValueLike::downcast_ref::<StringIo>) {
            Some(file) => file.write(&(text + end)),
            None => StarlarkSession::from_evaluator(eval).print(&text, end),
        }
        Ok(NoneType)
    }
}

/// Parses one entry of the argument of `gather`.
fn planned<'v>(call: Value<'v>, heap: Heap<'v>) -> starlark::Result<(&'v Callable, Request)> {
    let [tool, arguments] = TupleRef::from_value(call).map(TupleRef::content).unwrap_or_default()
    else {
        return Err(misuse(format!(
            "gather takes (tool, {{arguments}}) tuples, not {}",
            call.to_repr()
        )));
    };
    let tool = callable(*tool)?;
    Ok((tool, tool.request(tool.object(*arguments, heap)?)))
}

fn callable(value: Value<'_>) -> starlark::Result<&Callable> {
    value
        .downcast_ref()
        .ok_or_else(|| misuse(format!("this takes a tool, not a {}", value.get_type())))
}

/// Converts a result to a struct, so that the script can examine a failure.
fn outcome<'v>(answer: Result<Value<'v>, ToolFailure>, heap: Heap<'v>) -> Value<'v> {
    let (ok, value, error) = match answer {
        Ok(value) => (true, value, Value::new_none()),
        Err(failure) => (false, Value::new_none(), failure.value(heap)),
    };
    heap.alloc(AllocStruct([("ok", heap.alloc(ok)), ("value", value), ("error", error)]))
}

#[cfg(test)]
mod tests {
    use airlock_test_executors::{batches, check_values};

    use crate::Starlark;
    use crate::run::tests::{fail, result};

    #[test]
    fn numbers_behave_as_in_python() {
        check_values::<Starlark>(&[
            ("[round(0.5), round(1.5), round(-2.5), round(2)]", "[0,2,-2,2]"),
            ("[round(2.675, 2), round(1.005, 1), round(3, 2)]", "[2.67,1.0,3]"),
            ("round(1e30)", "\"1000000000000000019884624838656\""),
            ("[pow(2, 10), pow(2, -1), pow(2.0, 3), pow(-3, 3)]", "[1024,0.5,8.0,-27]"),
            ("[sum([1, 2.5]), sum([], 3), sum([[1], [2]], []), sum(range(4))]", "[3.5,3,[1,2],6]"),
        ]);
        assert_eq!(
            result("result = [round(1250, -2), round(-1350, -2), round(15, -1)]").as_deref(),
            Some("[1200,-1400,20]")
        );
        assert_eq!(fail("round('a')").message, "type str doesn't define __round__ method");
    }

    #[test]
    fn gather_returns_results_in_order() {
        let source = "result = gather([(files.read_file, {'n': n}) for n in range(3)])";
        assert_eq!(result(source).as_deref(), Some(r#"[{"n":0},{"n":1},{"n":2}]"#));
        assert_eq!(
            fail("gather([files.read_file])").message,
            "gather takes (tool, {arguments}) tuples, not files.read_file"
        );
        assert_eq!(
            fail("gather([(files.read_file, 1)])").message,
            "files.read_file takes a dict of arguments, not an int"
        );
        assert_eq!(fail("gather([(len, {})])").message, "this takes a tool, not a function");
    }

    #[test]
    fn gather_sends_one_block_unless_a_smaller_limit_is_given() {
        for (limit, blocks) in [
            ("", vec![20]),
            (", limit = 8", vec![20]),
            (", limit = 100", vec![20]),
            (", limit = None", vec![20]),
            (", limit = 7", vec![7, 7, 6]),
            (", limit = 1", vec![1; 20]),
        ] {
            let source = format!("gather([(files.read_file, {{}})] * 20{limit})");
            assert_eq!(batches::<Starlark>(&source), blocks, "{source}");
        }
        assert_eq!(batches::<Starlark>("gather([])"), Vec::<usize>::new());
        for limit in [0, -1] {
            let message = fail(&format!("gather([], limit = {limit})")).message;
            assert_eq!(message, "gather: `limit` is a number of calls, from 1");
        }
    }

    #[test]
    fn a_failure_can_be_examined() {
        let failed = r#"{"ok":false,"value":null,"error":{"kind":"denied","code":"no_way","message":"refused","data":{},"retry_after_ms":null}}"#;
        let worked = r#"{"ok":true,"value":{"a":1},"error":null}"#;
        assert_eq!(result("result = attempt(files.fail)").as_deref(), Some(failed));
        assert_eq!(result("result = attempt(files.read_file, {'a': 1})").as_deref(), Some(worked));
        let source =
            "result = gather([(files.fail, {}), (files.read_file, {'a': 1})], attempt = True)";
        assert_eq!(result(source), Some(format!("[{failed},{worked}]")));
    }

    #[test]
    fn no_global_reaches_the_internals_of_the_interpreter() {
        for name in ["breakpoint", "load", "open", "eval", "exec", "__internal__", "internal"] {
            fail(&format!("x = {name}"));
        }
    }
}
