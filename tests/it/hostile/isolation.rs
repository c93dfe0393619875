//! Isolation of calls: a call leaves nothing behind for the next one, and its outcome depends only
//! on its guest and its input.

use airlock_tests::{
    Client, Embedded, Setup, guests,
    wat::{Text, WELL_BEHAVED},
};
use futures_util::future::join_all;

/// Takes all memory and table elements that it may have, and writes a secret over all of it except
/// its own result.
const WRITER: Text = Text {
    items: "(table $table 0 funcref) (elem declare func $secret) (func $secret)",
    ..Text::run(
        "(loop $again (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
         (memory.fill (i32.const 256) (i32.const 0xa5) (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 256)))
         (drop (table.grow $table (ref.func $secret) (i32.const 20000)))
         (call $ok)",
    )
};

/// Takes as much as the writer and searches it for data that it did not put there.
const READER: Text = Text {
    items: r#"(table $table 0 funcref) (data (i32.const 1000) "clean" "found a byte" "found a function" "found nothing to read")"#,
    ..Text::run(
        "(loop $grow (br_if $grow (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
         (local.set $j (i32.mul (memory.size) (i32.const 65536)))
         (if (i32.lt_u (local.get $j) (i32.const 0x1000000)) (then (return (call $text (i32.const 1033) (i32.const 21)))))
         ;; From the third page on: the first two have the data and the arguments.
         (local.set $i (i32.const 131072))
         (loop $read
           (if (i64.ne (i64.load (local.get $i)) (i64.const 0)) (then (return (call $text (i32.const 1005) (i32.const 12)))))
           (br_if $read (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 8))) (local.get $j))))
         (if (i32.ne (table.grow $table (ref.null func) (i32.const 20000)) (i32.const 0))
           (then (return (call $text (i32.const 1033) (i32.const 21)))))
         (local.set $i (i32.const 0))
         (loop $look
           (if (i32.eqz (ref.is_null (table.get $table (local.get $i))))
             (then (return (call $text (i32.const 1017) (i32.const 16)))))
           (br_if $look (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 20000))))
         (call $text (i32.const 1000) (i32.const 5))",
    )
};

#[tokio::test]
async fn a_slot_that_held_a_secret_is_zero_for_the_next_guest() {
    // Few slots and many modules: a writer prefers an unused slot, and a reader then has to take a
    // used one.
    let mut setup = Setup::new();
    for number in 0..8 {
        for (name, text) in [("writer", &WRITER), ("reader", &READER)] {
            // One distinct byte makes it a distinct module.
            let own = text.text().replacen(
                "(table $table 0 funcref)",
                &format!("(table $table 0 funcref) (global $own i32 (i32.const {number}))"),
                1,
            );
            let file = setup
                .file(&format!("{name}{number}.wasm"), wat::parse_str(own).expect("a component"));
            setup = setup.client(
                Client::wasm(&format!("{name}{number}"), file).trusted().limit("memory", "32MiB"),
            );
        }
    }
    let gateway = Embedded::with(
        setup,
        |sandbox| (sandbox.instances_per_depth, sandbox.depths) = (1, 1),
        |builder| builder,
    )
    .await;
    for round in 0..2 {
        for number in 0..8 {
            assert_eq!(
                gateway.call(&format!("writer{number}-run"), "{}").await.text(),
                "ok",
                "writer {number} of round {round}"
            );
        }
        for number in 0..8 {
            assert_eq!(
                gateway.call(&format!("reader{number}-run"), "{}").await.text(),
                "clean",
                "reader {number} of round {round}"
            );
        }
    }
    gateway.emptied().await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_input_has_the_same_fuel_and_result_with_and_without_a_pool() {
    const ARGUMENTS: &str = r#"{"text":"one two three four five"}"#;
    let mut seen = Vec::new();
    // The second has no pool: its slots would need more mappings than a process may have.
    for instances in [64, 1_000_000] {
        let setup = Setup::new();
        let written = Client::text(&setup, "written", &WELL_BEHAVED);
        let setup = setup.client(written).client(Client::wasm("text", guests::TEXT));
        let gateway = Embedded::with(
            setup,
            |sandbox| sandbox.instances_per_depth = instances,
            |builder| builder,
        )
        .await;
        for tool in ["text-word_count", "written-run"] {
            let cold = gateway.call(tool, ARGUMENTS).await;
            let alone = gateway.call(tool, ARGUMENTS).await;
            let crowd = join_all((0..100).map(|_| gateway.call(tool, ARGUMENTS))).await;
            for ended in [cold, alone].into_iter().chain(crowd) {
                assert!(ended.fuel.is_some_and(|fuel| fuel > 0), "{ended:?}");
                seen.push((tool, ended.fuel, format!("{:?}", ended.answer)));
            }
        }
        gateway.emptied().await;
        gateway.stop().await;
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 2, "one for each tool: {seen:#?}");
}
