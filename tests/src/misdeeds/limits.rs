//! Computation, memory, tables, handles, and code that runs outside the tool's own function: in
//! destructors, in post-return, at start, in `realloc`.

use super::{
    LITTLE_FUEL,
    LimitValue::{self, Count},
    Misdeed,
};
use crate::wat::{Text, WELL_BEHAVED};

/// A resource type of the guest, with a destructor in `$lib`.
const OWN_RESOURCE: Text = Text {
    component: r#"
        (type $own (resource (rep i32) (dtor (core func $lib "destroy"))))
        (core func $new_own (canon resource.new $own))
        (core func $drop_own (canon resource.drop $own))"#,
    host: r#"(export "new_own" (func $new_own)) (export "drop_own" (func $drop_own))"#,
    imports: r#"
        (import "host" "new_own" (func $new_own (param i32) (result i32)))
        (import "host" "drop_own" (func $drop_own (param i32)))"#,
    library: r#"(func (export "destroy") (param i32))"#,
    ..WELL_BEHAVED
};

pub(super) const ALL: &[Misdeed] = &[
    Misdeed::written(
        "fill",
        "fills 64 KiB of memory again and again",
        Text::run("(loop $again (memory.fill (i32.const 65536) (i32.const 7) (i32.const 65536)) (br $again)) unreachable"),
        &["out_of_fuel"],
    )
    .within(&[LITTLE_FUEL]),
    Misdeed::written(
        "one_grow",
        "asks for 1 GiB at once and cannot do without",
        Text::run("(if (i32.eq (memory.grow (i32.const 16382)) (i32.const -1)) (then unreachable)) (call $ok)"),
        &["memory"],
    ),
    Misdeed::written(
        "two_memories",
        "grows two memories in turn",
        Text {
            component: r#"
                (core module $other_module (memory 1)
                  (func (export "grow") (result i32) (memory.grow (i32.const 16))))
                (core instance $other (instantiate $other_module))"#,
            host: r#"(export "grow_other" (func $other "grow"))"#,
            imports: r#"(import "host" "grow_other" (func $grow_other (result i32)))"#,
            ..Text::run(
                "(loop $again
                   (br_if $again (i32.and
                     (i32.ne (memory.grow (i32.const 16)) (i32.const -1))
                     (i32.ne (call $grow_other) (i32.const -1)))))
                 unreachable",
            )
        },
        &["memory"],
    ),
    Misdeed::written(
        "large_at_start",
        "begins with one page of memory more than it may have",
        Text { pages: 1025, ..WELL_BEHAVED },
        &["memory"],
    ),
    Misdeed::written(
        "tables",
        "grows a table without an end",
        Text {
            items: "(table $grown 0 funcref)",
            ..Text::run(
                "(loop $again
                   (br_if $again (i32.ne (table.grow $grown (ref.null func) (i32.const 1000)) (i32.const -1))))
                 unreachable",
            )
        },
        &["memory"],
    ),
    Misdeed::written(
        "handles",
        "makes handles and gives none back",
        Text { run: "(loop $again (drop (call $new_own (i32.const 1))) (br $again)) unreachable", ..OWN_RESOURCE },
        &["budget"],
    ),
    Misdeed::written(
        "destructor_traps",
        "traps in a destructor",
        Text {
            library: r#"(func (export "destroy") (param i32) unreachable)"#,
            run: "(call $drop_own (call $new_own (i32.const 1))) (call $ok)",
            ..OWN_RESOURCE
        },
        &["trap"],
    ),
    Misdeed::written(
        "destructor_spins",
        "computes for ever in a destructor",
        Text {
            library: r#"(func (export "destroy") (param i32) (loop $again (br $again)))"#,
            run: "(call $drop_own (call $new_own (i32.const 1))) (call $ok)",
            ..OWN_RESOURCE
        },
        &["out_of_fuel"],
    )
    .within(&[LITTLE_FUEL]),
    Misdeed::written(
        "post_return_traps",
        "traps after its answer was read",
        Text {
            items: r#"(func (export "after") (param i32) unreachable)"#,
            lift: r#"(post-return (core func $guest "after"))"#,
            ..WELL_BEHAVED
        },
        &["trap"],
    ),
    Misdeed::written(
        "post_return_spins",
        "computes for ever after its answer was read",
        Text {
            items: r#"(func (export "after") (param i32) (loop $again (br $again)))"#,
            lift: r#"(post-return (core func $guest "after"))"#,
            ..WELL_BEHAVED
        },
        &["out_of_fuel"],
    )
    .within(&[LITTLE_FUEL]),
    Misdeed::written(
        "start_traps",
        "traps while it is instantiated",
        Text { items: "(func $start unreachable) (start $start)", ..WELL_BEHAVED },
        &["trap"],
    ),
    Misdeed::written(
        "start_spins",
        "computes for ever while it is instantiated",
        Text { items: "(func $start (loop $again (br $again))) (start $start)", ..WELL_BEHAVED },
        &["out_of_fuel"],
    )
    .within(&[LITTLE_FUEL]),
    Misdeed::written(
        "realloc_spins",
        "computes for ever while the host hands it the arguments",
        Text {
            library: r#"(func (export "spin") (param i32 i32 i32 i32) (result i32) (loop $again (br $again)) unreachable)"#,
            realloc: "spin",
            ..WELL_BEHAVED
        },
        &["out_of_fuel"],
    )
    .within(&[LITTLE_FUEL]),
    Misdeed::written("sleep", "sleeps for an hour", SLEEPS, &["deadline"]).within(&[("deadline", LimitValue::Text("50ms"))]),
    Misdeed::written("random", "asks for randomness without an end", RANDOM, &["out_of_fuel"])
        .within(&[("fuel", Count(5_000_000))]),
    Misdeed::written(
        "little",
        "starts with less fuel than it takes to answer",
        Text::run("(loop $again (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 1000)))) (call $ok)"),
        &["out_of_fuel"],
    )
    .within(&[("fuel", Count(1_000))]),
];

const SLEEPS: Text = Text {
    component: r#"
        (import "wasi:io/poll@0.2.0" (instance $poll
          (export "pollable" (type $pollable (sub resource)))
          (export "[method]pollable.block" (func (param "self" (borrow $pollable))))))
        (alias export $poll "pollable" (type $pollable))
        (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
          (alias outer 1 $pollable (type $pollable_))
          (export "pollable" (type $pollable (eq $pollable_)))
          (export "subscribe-duration" (func (param "when" u64) (result (own $pollable))))))
        (core func $block (canon lower (func $poll "[method]pollable.block")))
        (core func $subscribe (canon lower (func $clock "subscribe-duration")))"#,
    host: r#"(export "block" (func $block)) (export "subscribe" (func $subscribe))"#,
    imports: r#"
        (import "host" "block" (func $block (param i32)))
        (import "host" "subscribe" (func $subscribe (param i64) (result i32)))"#,
    ..Text::run("(call $block (call $subscribe (i64.const 3600000000000))) (call $ok)")
};

const RANDOM: Text = Text {
    component: r#"
        (import "wasi:random/random@0.2.0" (instance $random
          (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))
        (core func $random
          (canon lower (func $random "get-random-bytes") (memory $memory) (realloc (core func $lib "same"))))"#,
    host: r#"(export "random" (func $random))"#,
    imports: r#"(import "host" "random" (func $random (param i64 i32)))"#,
    // The same address for each result; otherwise the memory limit would end the guest.
    library: r#"(func (export "same") (param i32 i32 i32 i32) (result i32) (i32.const 65536))"#,
    ..Text::run(
        "(loop $again (call $random (i64.const 4096) (i32.const 256)) (br $again)) unreachable",
    )
};
