//! Limits on the cost of a hostile component for the host.

use std::fmt::Write as _;

use airlock_core::{
    tenant::Tenant,
    threads::{self, INLINE_BYTES},
    tool::{HostCode, ReachedLimit},
};
use futures_util::FutureExt as _;
use wasmtime::component::Val;

use super::*;
use crate::plugin::plain::{
    amplification::HOST_BYTES_PER_COPIED,
    unfold::{MAX_CASES, MAX_DEPTH, MAX_PARTS},
};

/// Returns a component with nested lists of strings.
fn nested(levels: usize) -> String {
    let mut types = String::from("(type $t0 (list string))");
    for level in 1..levels {
        let _ = write!(types, "(type $t{level} (list $t{}))", level - 1);
    }
    echo(&types, &format!("$t{}", levels - 1))
}

fn refused(wat: &str) -> String {
    load(wat).err().expect("it is refused").to_string()
}

#[tokio::test]
async fn types_nested_beyond_the_limit_are_refused() {
    // The string and the tuple around the list are levels too.
    let deepest = MAX_DEPTH - 2;
    let plain = load(&nested(deepest)).expect("at the limit");
    let value = (0..deepest).fold(json!("x"), |value, _| json!([value]));
    assert_eq!(echoed(&plain, &value).await, Ok(value));
    assert!(refused(&nested(deepest + 1)).contains("echo: its types are nested deeper than 64"));
    // The engine has a limit of its own.
    let wasm = wat::parse_str(nested(5_000)).expect("text");
    assert!(Component::new(&ENGINE, wasm).is_err());
}

#[test]
fn a_component_whose_types_unfold_to_too_many_parts_is_refused() {
    // Counted as parameter and as result: 2 × (2^(levels + 1) − 1).
    assert!(load(&doubled(11)).is_ok());
    assert_eq!(
        refused(&doubled(14)),
        format!(
            "the types of its functions have more than {MAX_PARTS} parts, or more than 1 MiB of names"
        )
    );
}

fn doubled(levels: usize) -> String {
    let mut types = String::from("(type $t0 (tuple u8 u8))");
    for level in 1..levels {
        let _ = write!(types, "(type $t{level} (tuple $t{0} $t{0}))", level - 1);
    }
    echo(&types, &format!("$t{}", levels - 1))
}

#[test]
fn a_component_with_too_many_bytes_of_names_is_refused() {
    // Counted as parameter and as result.
    assert!(load(&record_of(50)).is_ok());
    assert!(refused(&record_of(60)).contains("1 MiB of names"));
}

fn record_of(fields: usize) -> String {
    let long = "a".repeat(10_000);
    let record = named("r", &format!(r#"(record (field "{long}" u8))"#));
    let fields: Vec<_> = (0..fields).map(|number| format!(r#"(field "f{number}" $r)"#)).collect();
    echo(&format!("{record} {}", named("many", &format!("(record {})", fields.join(" ")))), "$many")
}

#[test]
fn an_enum_with_too_many_cases_is_refused() {
    assert!(load(&enum_of(MAX_CASES)).is_ok());
    assert!(
        refused(&enum_of(MAX_CASES + 1))
            .contains("echo: it has a type of 1001 cases; the limit is 1000")
    );
}

fn enum_of(count: usize) -> String {
    let names: Vec<_> = (0..count).map(|number| format!("\"c{number}\"")).collect();
    echo(&named("e", &format!("(enum {})", names.join(" "))), "$e")
}

#[test]
fn a_component_with_too_many_exports_is_refused() {
    let plain = load(&exporting_many(1_000)).expect("at the limit");
    assert_eq!(plain.tools.len(), 1_000);
    assert_eq!(refused(&exporting_many(1_001)), "it exports more than 1000 functions");
}

fn exporting_many(count: usize) -> String {
    let exports: Vec<_> =
        (0..count).map(|number| format!(r#"(export "f{number}" (func $f))"#)).collect();
    format!(
        r"(component {} (func $f {}) {})",
        core(r#"(func (export "f"))"#),
        lift("f"),
        exports.concat()
    )
}

/// Returns a component whose function `f` returns a list of `count` elements of a type, read from
/// memory in which all bits are one.
fn hoard(definitions: &str, element: &str, element_bytes: usize) -> Plain {
    let functions = format!(
        r#"(func (export "f") (param $count i32) (result i32) (local $at i32) (local $pair i32)
            (local.set $at (call $allocate (i32.const 0) (i32.const 0) (i32.const 8)
                (i32.mul (local.get $count) (i32.const {element_bytes}))))
            (memory.fill (local.get $at) (i32.const 0xff) (i32.mul (local.get $count) (i32.const {element_bytes})))
            (local.set $pair (call $allocate (i32.const 0) (i32.const 0) (i32.const 8) (i32.const 8)))
            (i32.store (local.get $pair) (local.get $at))
            (i32.store offset=4 (local.get $pair) (local.get $count))
            (local.get $pair))"#
    );
    let core = core(&functions);
    let lift = lift("f");
    let component = format!(
        r#"(component {definitions} {core} (func (export "f") (param "count" u32) (result (list {element})) {lift}))"#
    );
    load(&component).expect("a usable component")
}

/// Returns the bytes that a value holds on the heap, as the allocator counts them, without the
/// value's own place.
fn held(val: &Val) -> usize {
    fn block(bytes: usize) -> usize {
        if bytes == 0 { 0 } else { (bytes + 8).next_multiple_of(16).max(32) }
    }
    match val {
        Val::String(text) | Val::Enum(text) => block(text.capacity()),
        Val::List(vals) | Val::Tuple(vals) => {
            block(vals.capacity() * size_of::<Val>()) + vals.iter().map(held).sum::<usize>()
        }
        Val::Record(fields) => {
            let inner = fields.iter().map(|(name, val)| block(name.capacity()) + held(val));
            block(fields.capacity() * size_of::<(String, Val)>()) + inner.sum::<usize>()
        }
        Val::Flags(names) => {
            block(names.capacity() * size_of::<String>())
                + names.iter().map(|name| block(name.capacity())).sum::<usize>()
        }
        Val::Variant(name, payload) => {
            block(name.capacity())
                + payload.as_ref().map_or(0, |val| block(size_of::<Val>()) + held(val))
        }
        Val::Option(payload) | Val::Result(Ok(payload) | Err(payload)) => {
            payload.as_ref().map_or(0, |val| block(size_of::<Val>()) + held(val))
        }
        _ => 0,
    }
}

/// Returns the largest number of elements that fits into `copied_bytes`, and the bytes that they
/// hold on the host.
async fn most(plain: &Plain, copied_bytes: usize) -> (u32, usize) {
    let function = &plain.tools["f"].function;
    let limits = Limits { result_bytes: 1 << 30, ..Limits::PLUGIN };
    let lifted = async |count: u32| {
        let lifted = run(limits, async |store| {
            store.set_hostcall_fuel(function.copied_bytes(copied_bytes));
            let instance = plain.pre.instantiate_async(&mut *store).await?;
            let call = instance.get_func(&mut *store, function.index).expect("it is there");
            let mut returned = [Val::Bool(false)];
            call.call_async(store, &[Val::U32(count)], &mut returned).await?;
            Ok(held(&returned[0]))
        });
        lifted.await.ok()
    };
    let mut fits = 0_u32;
    let mut beyond = 1_u32 << 22;
    while beyond - fits > 1 {
        let middle = fits.midpoint(beyond);
        if lifted(middle).await.is_some() { fits = middle } else { beyond = middle }
    }
    (fits, lifted(fits).await.expect("it fitted before"))
}

#[tokio::test]
async fn values_taken_out_of_a_guest_stay_within_the_host_memory_bound() {
    let letters: Vec<String> = ('a'..='z')
        .map(|c| format!("\"{c}\" "))
        .chain(('a'..='f').map(|c| format!("\"{c}1\" ")))
        .collect();
    let wrapped = named("in", r#"(record (field "a" bool))"#);
    let wrapped = (0..20).fold(wrapped, |definitions, level| {
        let inner = if level == 0 { "in".to_owned() } else { format!("r{}", level - 1) };
        definitions + &named(&format!("r{level}"), &format!(r#"(record (field "a" ${inner}))"#))
    });
    let tuples = (0..20).fold(String::from("(type $t (tuple u8))"), |types, level| {
        let inner = if level == 0 { "t".to_owned() } else { format!("t{}", level - 1) };
        types + &format!("(type $t{level} (tuple ${inner}))")
    });
    let copied_bytes = 256 << 10;
    for (what, definitions, element, element_bytes) in [
        ("bytes", String::new(), "u8", 1),
        ("32 flags", flags(&letters, 32), "$fl", 4),
        ("17 flags", flags(&letters, 17), "$fl", 4),
        ("one flag", flags(&letters, 1), "$fl", 1),
        ("records in records", wrapped, "$r19", 1),
        ("tuples in tuples", tuples, "$t19", 1),
    ] {
        let plain = hoard(&definitions, element, element_bytes);
        let (elements, held) = most(&plain, copied_bytes).await;
        assert!(elements > 0, "{what}");
        assert!(
            held <= copied_bytes * HOST_BYTES_PER_COPIED,
            "{what}: {elements} elements hold {held} bytes"
        );
    }
}

fn flags(letters: &[String], count: usize) -> String {
    named("fl", &format!("(flags {})", letters[..count].concat()))
}

#[tokio::test]
async fn a_result_may_be_as_large_as_the_limit_and_no_larger() {
    let bytes = hoard("", "u8", 1);
    // Three bytes become four letters.
    let output = called(&bytes, 3_000, limits_with(5_000)).await.expect("an answer");
    let text = output.structured.expect("a value")["result"].as_str().map(str::len);
    assert_eq!(text, Some(4_000));
    assert_too_large(called(&bytes, 3_000, limits_with(3_999)).await, 3_999);
    // By default, the result limit applies and not the memory of the values.
    assert!(called(&bytes, 780_000, Limits::PLUGIN).await.is_ok());
    // A result that cannot be taken out of the guest is refused before values are made of it.
    let roomy = Limits { result_bytes: 1 << 30, ..Limits::PLUGIN };
    assert!(called(&bytes, 830_000, roomy).await.is_ok());
    assert_too_large(called(&bytes, 840_000, roomy).await, 0x200_0000);
}

#[track_caller]
fn assert_too_large(called: Result<ToolOutput, CallError>, limit_bytes: u64) {
    let error = called.expect_err("it is too large");
    assert_eq!(error.code(), HostCode::ResultTooLarge);
    assert_eq!(error.limit(), Some(ReachedLimit::Amount(limit_bytes)));
}

fn limits_with(result_bytes: usize) -> Limits {
    Limits { result_bytes, ..Limits::PLUGIN }
}

async fn called(plain: &Plain, count: u32, limits: Limits) -> Result<ToolOutput, CallError> {
    call_within(limits, plain, "f", &json!({"count": count}).to_string()).await
}

#[tokio::test]
async fn a_list_beyond_the_result_limit_is_refused() {
    let numbers = hoard("", "s8", 1);
    let limits = Limits { result_bytes: 10_000, ..Limits::PLUGIN };
    assert!(called(&numbers, 4_000, limits).await.is_ok());
    assert_too_large(called(&numbers, 6_000, limits).await, 10_000);
}

#[test]
fn arguments_that_unpack_beyond_the_memory_limit_are_refused() {
    let plain = records();
    let parameters = &plain.tools["echo"].function.parameters;
    let read = crate::plugin::plain::arguments::read(parameters, &empty_records(500));
    assert_eq!(read.map(|read| read.vals.len()), Ok(2));
    let refused = crate::plugin::plain::arguments::read(parameters, &empty_records(1_000));
    assert_eq!(
        refused.map(|read| read.vals.len()).expect_err("refused").to_string(),
        "the arguments take more than 67108864 bytes, unpacked"
    );
}

/// Returns a component whose function takes a list of records of a thousand options.
fn records() -> Plain {
    let fields: Vec<_> =
        (0..1_000).map(|number| format!(r#"(field "f{number}" (option u8))"#)).collect();
    let plain = load(&echo(&named("r", &format!("(record {})", fields.concat())), "(list $r)"));
    plain.expect("a usable component")
}

#[tokio::test]
async fn unpacked_arguments_take_guest_memory() {
    let plain = records();
    for (memory_bytes, fits) in [(4 << 20, false), (256 << 20, true)] {
        let arguments = empty_records(100);
        let called = run_in(memory_bytes, Limits::PLUGIN, async |store| {
            plain.invoke(store, "echo", &arguments).await
        });
        let code = called.await.err().map(|error| error.code());
        assert_eq!(code == Some(HostCode::Busy), !fits, "{code:?}");
    }
}

#[tokio::test]
async fn long_arguments_and_long_results_are_converted_on_a_thread() {
    let long = core(
        r#"(func (export "long") (result i32)
            (i32.store (i32.const 8) (i32.const 1024))
            (i32.store (i32.const 12) (i32.const 40000))
            (i32.const 8))"#,
    );
    let lift = lift("long");
    let long = format!(r#"(component {long} (func (export "long") (result string) {lift}))"#);
    let text = json!({"value": "x".repeat(INLINE_BYTES), "padding": vec![0; 16]}).to_string();
    for (wat, tool, arguments) in [(echo("", "string"), "echo", &*text), (long, "long", "{}")] {
        let plain = load(&wat).expect("a usable component");
        let called = run(Limits::PLUGIN, async |store| {
            // Without a chain, the gateway itself calls.
            let held = threads::occupy(&Tenant::GATEWAY).await;
            let mut calling = plain.invoke(store, tool, arguments);
            for _ in 0..100 {
                assert!(calling.as_mut().now_or_never().is_none(), "{tool}");
            }
            drop(held);
            calling.await
        });
        assert!(called.await.expect("it returns").is_ok(), "{tool}");
    }
}

fn empty_records(count: usize) -> String {
    json!({"value": vec![json!({}); count], "padding": vec![0; 16]}).to_string()
}
