//! Floods of host calls, and host calls that ask for too much at once.

use super::{LITTLE_FUEL, Misdeed};
use crate::wat::Text;

/// Names of two tools: one that does not exist, and the guest's own.
const NAMES: &str = r#"(data (i32.const 256) "nobody-nothing{}itself-run")"#;

pub(super) const ALL: &[Misdeed] = &[
    Misdeed::written(
        "ask",
        "asks how long it may still run, without an end",
        Text::run("(loop $again (call $remaining (local.get $context) (i32.const 256)) (br $again)) unreachable"),
        &["budget"],
    ),
    Misdeed::written(
        "progress",
        "tells of its progress without an end",
        Text::run(
            "(loop $again
               (call $progress (local.get $context) (f64.const nan) (i32.const 1) (f64.const inf)
                 (i32.const 1) (i32.const 0) (i32.const 2))
               (br $again))
             unreachable",
        ),
        &["out_of_fuel"],
    )
    .within(&[LITTLE_FUEL]),
    Misdeed::written(
        "emit",
        "sends parts of its answer without an end",
        Text::run(
            "(loop $again
               (call $emit (local.get $context) (i32.const 0) (i32.const 2))
               (br $again))
             unreachable",
        ),
        &["budget"],
    ),
    Misdeed::written(
        "emit_large",
        "sends one part that is too large ahead of its answer",
        Text::run(
            "(drop (memory.grow (i32.const 32)))
             (call $emit (local.get $context) (i32.const 65536) (i32.const 0x100001))
             (call $ok)",
        ),
        &["budget"],
    ),
    Misdeed::written(
        "log",
        "writes to the log without an end",
        Text::run("(loop $again (call $write (i32.const 2) (i32.const 0) (i32.const 2) (i32.const 0) (i32.const 0)) (br $again)) unreachable"),
        &["out_of_fuel"],
    )
    .within(&[LITTLE_FUEL]),
    Misdeed::written(
        "log_large",
        "writes a line of 60 MiB to the log",
        Text::run(
            "(drop (memory.grow (i32.const 1000)))
             (call $write (i32.const 2) (i32.const 0) (i32.const 62914560) (i32.const 0) (i32.const 0))
             (call $ok)",
        ),
        &["budget"],
    ),
    Misdeed::written(
        "log_fields",
        "writes a line with 3,000,000 fields to the log",
        Text::run(
            "(drop (memory.grow (i32.const 1000)))
             (call $write (i32.const 2) (i32.const 0) (i32.const 2) (i32.const 65536) (i32.const 3000000))
             (call $ok)",
        ),
        &["budget"],
    ),
    Misdeed::written(
        "list",
        "lists its tools without an end",
        Text::run(
            "(loop $again
               (call $list (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 1000) (i32.const 256))
               (br $again))
             unreachable",
        ),
        &["budget"],
    ),
    Misdeed::written(
        "call",
        "calls a tool that does not exist, without an end",
        Text {
            items: NAMES,
            ..Text::run(
                "(loop $again
                   (call $call (i32.const 256) (i32.const 14) (i32.const 270) (i32.const 2)
                     (i32.const 0) (i64.const 0) (i32.const 1024))
                   (br $again))
                 unreachable",
            )
        },
        &["budget"],
    ),
    Misdeed::written(
        "itself",
        "calls itself without an end",
        Text {
            items: NAMES,
            ..Text::run(
                "(loop $again
                   (call $call (i32.const 272) (i32.const 10) (i32.const 270) (i32.const 2)
                     (i32.const 0) (i64.const 0) (i32.const 1024))
                   (br $again))
                 unreachable",
            )
        },
        &["budget"],
    )
    .granted(r#"{"tools":["itself-run"]}"#),
    Misdeed::written(
        "batch_large",
        "calls 1,000,000 tools at once",
        Text::run(
            "(drop (memory.grow (i32.const 1000)))
             (call $batch (i32.const 65536) (i32.const 1000000) (i32.const 256))
             (call $ok)",
        ),
        &["budget"],
    ),
];
