//! Stores of keys and values. A write to a full store returns an error and the guest goes on; these
//! guests end when their budget is spent.

use super::Misdeed;
use crate::wat::{Text, WELL_BEHAVED};

/// The part of the interface `kv` that writing needs.
const STORE: Text = Text {
    component: r#"
        (type $kv_type (instance
          (export "store" (type $store (sub resource)))
          (type $error_ (variant (case "no-such-store") (case "denied") (case "quota-exceeded") (case "too-large")
            (case "conflict") (case "unavailable" string) (case "other" string)))
          (export "kv-error" (type $error (eq $error_)))
          (type $set (func (param "self" (borrow $store)) (param "key" string) (param "value" (list u8))
            (param "if-version" (option u64)) (param "ttl-ms" (option u64)) (result (result u64 (error $error)))))
          (export "[method]store.set" (func (type $set)))
          (type $open (func (param "name" string) (result (result (own $store) (error $error)))))
          (export "open" (func (type $open)))))
        (import "airlock:host/kv@0.1.0" (instance $kv (type $kv_type)))
        (core func $open (canon lower (func $kv "open") (memory $memory) (realloc $realloc)))
        (core func $set (canon lower (func $kv "[method]store.set") (memory $memory) (realloc $realloc)))"#,
    host: r#"(export "open" (func $open)) (export "set" (func $set))"#,
    imports: r#"
        ;; name, where to put the handle
        (import "host" "open" (func $open (param i32 i32 i32)))
        ;; store, key, value (address, length), version, lifetime (tag, value), where to put the version
        (import "host" "set" (func $set (param i32 i32 i32 i32 i32 i32 i64 i32 i64 i32)))"#,
    items: r#"(data (i32.const 256) "data")"#,
    ..WELL_BEHAVED
};

/// Grants of these guests: one small store.
const GRANTED: &str = r#"{"kv":{"data":{"max_bytes":"1MiB"}}}"#;

pub(super) const ALL: &[Misdeed] = &[
    Misdeed::written(
        "kv_fill",
        "writes 2 KiB under ever new keys to a store of 1 MiB",
        Text {
            run: "
                (call $open (i32.const 256) (i32.const 4) (i32.const 512))
                (if (i32.load8_u (i32.const 512)) (then unreachable))
                (local.set $j (i32.load (i32.const 516)))
                (loop $again
                  (i32.store8 (i32.const 300) (i32.add (i32.const 48) (i32.and (local.get $i) (i32.const 63))))
                  (i32.store8 (i32.const 301)
                    (i32.add (i32.const 48) (i32.and (i32.shr_u (local.get $i) (i32.const 6)) (i32.const 63))))
                  (call $set (local.get $j) (i32.const 300) (i32.const 2) (i32.const 65536) (i32.const 2048)
                    (i32.const 0) (i64.const 0) (i32.const 0) (i64.const 0) (i32.const 512))
                  (local.set $i (i32.add (local.get $i) (i32.const 1)))
                  (br $again))
                unreachable",
            ..STORE
        },
        &["budget"],
    )
    .granted(GRANTED),
    Misdeed::written(
        "kv_large",
        "writes a value of 60 MiB",
        Text {
            run: "
                (drop (memory.grow (i32.const 1000)))
                (call $open (i32.const 256) (i32.const 4) (i32.const 512))
                (call $set (i32.load (i32.const 516)) (i32.const 256) (i32.const 4) (i32.const 65536) (i32.const 62914560)
                  (i32.const 0) (i64.const 0) (i32.const 0) (i64.const 0) (i32.const 512))
                (call $ok)",
            ..STORE
        },
        &["budget"],
    )
    .granted(GRANTED),
    Misdeed::written(
        "kv_open",
        "opens the same store without an end",
        Text { run: "(loop $again (call $open (i32.const 256) (i32.const 4) (i32.const 512)) (br $again)) unreachable", ..STORE },
        &["budget"],
    )
    .granted(GRANTED),
];
