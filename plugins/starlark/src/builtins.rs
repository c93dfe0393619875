//! The global functions of a script.
//!
//! Starlark's standard functions, and others that models expect. None of them reaches outside the
//! script; `breakpoint` and the interpreter's internals are left out.

use std::sync::OnceLock;

use num_bigint::BigInt;
use starlark::environment::{Globals, GlobalsBuilder, LibraryExtension};
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::values::float::{StarlarkFloat, UnpackFloat};
use starlark::values::list::{AllocList, UnpackList};
use starlark::values::none::NoneOr;
use starlark::values::structs::AllocStruct;
use starlark::values::tuple::TupleRef;
use starlark::values::{Heap, UnpackValue as _, Value, ValueLike as _};
use starlark::{Error, ErrorKind};

use crate::convert;
use crate::tool::{Callable, Request, Session, ToolFailure};

/// Returns the globals. They are built once per process, because that takes milliseconds, a hundred
/// times as long as a small script.
pub(crate) fn globals() -> &'static Globals {
    static GLOBALS: OnceLock<Globals> = OnceLock::new();
    GLOBALS.get_or_init(|| {
        let extensions = [
            LibraryExtension::StructType,
            LibraryExtension::Map,
            LibraryExtension::Filter,
            LibraryExtension::Partial,
            LibraryExtension::Print,
            LibraryExtension::SetType,
        ];
        GlobalsBuilder::extended_by(&extensions)
            .with(calls)
            .with(arithmetic)
            .with_namespace("json", json)
            .build()
    })
}

/// Calls of several tools at once, and calls that return a failure as a value.
#[starlark_module]
fn calls(builder: &mut GlobalsBuilder) {
    /// Calls several tools at once: `gather([(files.read_file, {"path": "a"}), …])`; the answers
    /// are in that order.
    ///
    /// The first call that failed ends the script, after all have finished. With `attempt = True`
    /// each answer is a struct as from `attempt`.
    fn gather<'v>(
        #[starlark(require = pos)] calls: UnpackList<Value<'v>>,
        #[starlark(require = named, default = false)] attempt: bool,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        let calls = calls
            .items
            .into_iter()
            .map(|call| planned(call, heap))
            .collect::<starlark::Result<Vec<_>>>()?;
        let (tools, requests): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
        let answers = Session::of(eval).tools.call_batch(requests);
        let answers = tools.into_iter().zip(answers).map(|(tool, answer)| {
            let answer = tool.answer(answer, heap);
            if attempt { Ok(outcome(answer, heap)) } else { answer.map_err(Error::new_other) }
        });
        Ok(heap.alloc(AllocList(answers.collect::<starlark::Result<Vec<_>>>()?)))
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
        let arguments =
            arguments.map_or_else(|| Ok("{}".to_owned()), |it| tool.object(it, heap))?;
        let answer = Session::of(eval).tools.call(tool.request(arguments));
        Ok(outcome(tool.answer(answer, heap), heap))
    }
}

/// Functions of Python that Starlark lacks and that models use most.
#[starlark_module]
fn arithmetic(builder: &mut GlobalsBuilder) {
    /// The sum of a sequence.
    fn sum<'v>(
        #[starlark(require = pos)] items: Value<'v>,
        #[starlark(default = 0)] start: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        items.iterate(heap)?.try_fold(start, |total, item| total.add(item, heap))
    }

    /// A number rounded to the nearest integer, ties to the even one; or to that many digits after
    /// the point.
    fn round<'v>(
        #[starlark(require = pos)] number: Value<'v>,
        #[starlark(default = NoneOr::None)] ndigits: NoneOr<i32>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let digits = ndigits.into_option().map(usize::try_from);
        match (number.downcast_ref(), digits) {
            (None, None | Some(Ok(_))) if number.get_type() == "int" => Ok(number),
            (Some(StarlarkFloat(float)), None) if float.is_finite() => {
                Ok(heap.alloc(whole(*float)))
            }
            (Some(StarlarkFloat(float)), Some(Ok(digits))) => {
                Ok(heap.alloc(rounded(*float, digits)))
            }
            _ => Err(unusable("round", number)),
        }
    }

    /// `base` to the power of `exponent`: exact for integers, a float otherwise.
    fn pow<'v>(
        #[starlark(require = pos)] base: Value<'v>,
        #[starlark(require = pos)] exponent: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        if base.get_type() == "int"
            && let Some(Ok(times)) = exponent.unpack_i32().map(u32::try_from)
        {
            let base: BigInt = base.to_str().parse().expect("an int prints as its digits");
            return Ok(heap.alloc(base.pow(times)));
        }
        let float = |value: Value<'v>| {
            UnpackFloat::unpack_value(value)?.ok_or_else(|| unusable("pow", value))
        };
        Ok(heap.alloc(float(base)?.0.powf(float(exponent)?.0)))
    }
}

/// Replaces Starlark's own `json`, which panics at numbers beyond a float and rounds big integers.
#[starlark_module]
fn json(builder: &mut GlobalsBuilder) {
    /// A value as JSON text.
    fn encode<'v>(
        #[starlark(require = pos)] value: Value<'v>,
        heap: Heap<'v>,
    ) -> anyhow::Result<String> {
        convert::to_json(value, heap).map_err(|unfit| anyhow::anyhow!("json.encode: {unfit}"))
    }

    /// JSON text as a value.
    fn decode<'v>(
        #[starlark(require = pos)] text: &str,
        heap: Heap<'v>,
    ) -> anyhow::Result<Value<'v>> {
        convert::from_json(text, heap).map_err(|error| anyhow::anyhow!("json.decode: {error}"))
    }
}

/// Parses one entry of the argument of `gather`.
fn planned<'v>(call: Value<'v>, heap: Heap<'v>) -> starlark::Result<(&'v Callable, Request)> {
    let [tool, arguments] = TupleRef::from_value(call).map(TupleRef::content).unwrap_or_default()
    else {
        return Err(misuse(&format!(
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
        .ok_or_else(|| misuse(&format!("this takes a tool, not a {}", value.get_type())))
}

/// Converts a result to a struct, so that the script can examine a failure.
fn outcome<'v>(answer: Result<Value<'v>, ToolFailure>, heap: Heap<'v>) -> Value<'v> {
    let (ok, value, error) = match answer {
        Ok(value) => (true, value, Value::new_none()),
        Err(failure) => (false, Value::new_none(), heap.alloc(failure.to_string())),
    };
    heap.alloc(AllocStruct([("ok", heap.alloc(ok)), ("value", value), ("error", error)]))
}

/// Rounds a finite float to an integer.
fn whole(float: f64) -> BigInt {
    // Printing is exact; a cast would saturate at 64 bits.
    format!("{:.0}", float.round_ties_even()).parse().expect("a whole float prints as digits")
}

fn rounded(float: f64, digits: usize) -> f64 {
    // No float has more digits after the point.
    format!("{float:.*}", digits.min(1_074)).parse().unwrap_or(float)
}

fn unusable(function: &str, value: Value<'_>) -> Error {
    misuse(&format!("{function} cannot use {}", value.to_repr()))
}

fn misuse(what: &str) -> Error {
    Error::new_kind(ErrorKind::Function(anyhow::anyhow!("{what}")))
}

#[cfg(test)]
mod tests {
    use crate::run::tests::{fail, result};

    #[test]
    fn numbers_behave_as_in_python() {
        for (expression, value) in [
            ("[round(0.5), round(1.5), round(-2.5), round(2)]", "[0,2,-2,2]"),
            ("[round(2.675, 2), round(1.005, 1), round(3, 2)]", "[2.67,1.0,3]"),
            ("round(1e30)", "\"1000000000000000019884624838656\""),
            ("[pow(2, 10), pow(2, -1), pow(2.0, 3), pow(-3, 3)]", "[1024,0.5,8.0,-27]"),
            ("[sum([1, 2.5]), sum([], 3), sum([[1], [2]], []), sum(range(4))]", "[3.5,3,[1,2],6]"),
        ] {
            assert_eq!(
                result(&format!("result = {expression}")).as_deref(),
                Some(value),
                "{expression}"
            );
        }
        assert_eq!(fail("round('a')").message, "round cannot use \"a\"");
        assert_eq!(fail("round(1234, -2)").message, "round cannot use 1234");
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
            "files.read_file takes a dict of arguments, not a int"
        );
        assert_eq!(fail("gather([(len, {})])").message, "this takes a tool, not a function");
    }

    #[test]
    fn a_failure_can_be_examined() {
        let failed = r#"{"ok":false,"value":null,"error":"files.fail: refused"}"#;
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
