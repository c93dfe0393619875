//! Invalid results: addresses outside memory, tags that do not exist, text that is not UTF-8, JSON
//! that is not JSON.

use super::{LimitValue, Misdeed};
use crate::wat::{Text, WELL_BEHAVED};

/// Descriptors of a tool whose output schema requires a list of texts.
const PROMISES: &str = r#"{"schema":"airlock.tools/1","tools":[{"name":"run","description":"Misbehaves.","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"rows":{"type":"array","items":{"type":"string"}}}}}]}"#;

pub(super) const ALL: &[Misdeed] = &[
    Misdeed::written(
        "wild_string",
        "answers with a string outside its memory",
        Text::run("(call $text (i32.const -16) (i32.const 100))"),
        &["bad_result"],
    ),
    Misdeed::written(
        "endless_string",
        "answers with a string of 4 GiB",
        Text::run("(call $text (i32.const 0) (i32.const -1))"),
        &["bad_result"],
    ),
    Misdeed::written(
        "wild_list",
        "answers with a list of 4,000,000,000 parts",
        Text::run("(call $parts (i32.const 256) (i32.const -294967296))"),
        &["bad_result"],
    ),
    Misdeed::written(
        "skewed_list",
        "answers with a list at an odd address",
        Text::run("(call $parts (i32.const 257) (i32.const 1))"),
        &["bad_result"],
    ),
    Misdeed::written("wild_answer", "answers with an address outside its memory", Text::run("(i32.const -8)"), &["bad_result"]),
    Misdeed::written("skewed_answer", "answers with an odd address", Text::run("(i32.const 65)"), &["bad_result"]),
    Misdeed::written(
        "wild_tag",
        "answers with a kind of content that does not exist",
        Text::run("(drop (call $ok)) (i32.store8 (i32.const 128) (i32.const 77)) (i32.const 64)"),
        &["bad_result"],
    ),
    Misdeed::written(
        "wild_realloc",
        "gives the host an address outside its memory to copy to",
        Text {
            library: r#"(func (export "lie") (param i32 i32 i32 i32) (result i32) (i32.const -16))"#,
            realloc: "lie",
            ..WELL_BEHAVED
        },
        &["bad_result"],
    ),
    Misdeed::written(
        "huge_string",
        "answers with a string of 1 GiB that it has",
        Text::run("(drop (memory.grow (i32.const 16381))) (call $text (i32.const 0) (i32.const 0x3ffeffff))"),
        &["result_too_large"],
    )
    .within(&[("memory", LimitValue::Text("1GiB"))]),
    Misdeed::written(
        "many_parts",
        "answers with 500,000 empty parts",
        Text::run("(drop (memory.grow (i32.const 1000))) (call $parts (i32.const 65536) (i32.const 500000))"),
        &["result_too_large"],
    ),
    Misdeed::written(
        "repeated_part",
        "answers with 1,000 parts that are the same 1 MiB",
        Text::run(
            "(drop (memory.grow (i32.const 32)))
             (loop $again
               (i32.store (i32.add (i32.const 1032) (i32.mul (local.get $i) (i32.const 120))) (i32.const 65536))
               (i32.store (i32.add (i32.const 1036) (i32.mul (local.get $i) (i32.const 120))) (i32.const 0x100000))
               (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 1000))))
             (call $parts (i32.const 1024) (i32.const 1000))",
        ),
        &["result_too_large"],
    ),
    Misdeed::written(
        "not_utf8",
        "answers with text that is not UTF-8",
        Text { items: r#"(data (i32.const 256) "good\ff\fe")"#, ..Text::run("(call $text (i32.const 256) (i32.const 6))") },
        &["bad_result"],
    ),
    Misdeed::written(
        "not_json",
        "answers with data that is not JSON",
        Text { items: r#"(data (i32.const 256) "{\22a\22:")"#, ..Text::run("(call $data (i32.const 256) (i32.const 5))") },
        &["bad_result"],
    ),
    Misdeed::written(
        "deep_json",
        "answers with 60,000 arrays one in the other",
        Text::run(
            "(memory.fill (i32.const 65536) (i32.const 91) (i32.const 60000)) (call $data (i32.const 65536) (i32.const 60000))",
        ),
        &["bad_result"],
    ),
    Misdeed::written(
        "huge_json",
        "answers with one byte of JSON more than it may",
        Text::run(
            "(drop (memory.grow (i32.const 32)))
             (memory.fill (i32.const 65536) (i32.const 32) (i32.const 0x100001))
             (call $data (i32.const 65536) (i32.const 0x100001))",
        ),
        &["result_too_large"],
    ),
    Misdeed::written(
        "breaks_schema",
        "answers with data that its own output schema forbids",
        Text {
            tools: PROMISES,
            items: r#"(data (i32.const 256) "{\22rows\22:[7]}")"#,
            ..Text::run("(call $data (i32.const 256) (i32.const 12))")
        },
        &["invalid_result"],
    ),
    Misdeed::written(
        "lacks_data",
        "answers with text alone although it promised data",
        Text { tools: PROMISES, ..WELL_BEHAVED },
        &["invalid_result"],
    ),
    Misdeed::written(
        "twice_dropped",
        "gives a handle back twice",
        Text::run("(call $drop (local.get $context)) (call $ok)"),
        &["bad_result"],
    ),
    Misdeed::written(
        "wild_handle",
        "uses a handle that it was not given",
        Text::run("(call $remaining (i32.const 4711) (i32.const 256)) (call $ok)"),
        &["bad_result"],
    ),
];
