//! The invariants on the recorded streams and on a few made inputs, and the targets by their names.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::*;

/// Function that a target calls with its input.
type FuzzTarget = fn(&[u8]);

/// The targets, with the functions that they run.
const TARGETS: [(&str, FuzzTarget); 3] =
    [("chat_stream", chat_stream), ("chunks", chunks), ("sse", sse)];

/// Returns the files of a directory with this extension, sorted by path.
fn files(directory: &str, extension: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let entries = fs::read_dir(directory).expect("a directory");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

#[test]
fn each_target_runs_the_function_of_its_name() {
    let sources = files("targets", "rs");
    assert_eq!(sources.len(), TARGETS.len(), "{sources:?}");
    for (source, (name, _)) in sources.iter().zip(TARGETS) {
        assert_eq!(source.file_stem().and_then(|stem| stem.to_str()), Some(name));
        let text = fs::read_to_string(source).expect("a target");
        let call =
            format!("libfuzzer_sys::fuzz_target!(|input: &[u8]| airlock_fuzz::{name}(input));");
        assert!(text.ends_with(&format!("#![no_main]\n\n{call}\n")), "{text}");
    }
}

#[test]
fn the_invariants_hold_for_the_recorded_streams() {
    let streams = files("../fixtures/chat_streams", "sse");
    assert!(streams.len() > 100, "{}", streams.len());
    for path in streams {
        let stream = fs::read(path).expect("a stream");
        // In bytes, in pieces of 5 and 7 bytes, and with events of at most 63 bytes.
        let ends: [&[u8]; 3] = [&[], &[0xff, 64, 5, 7], &[0xff, 63]];
        for end in ends {
            let input = [&stream[..], end].concat();
            sse(&input);
            chat_stream(&input);
        }
    }
}

#[test]
fn the_invariants_hold_for_made_chunks() {
    for seed in 0..=u8::MAX {
        let bytes = (0..=u8::MAX).map(|at| at.wrapping_mul(seed | 1).rotate_left(3) ^ seed);
        chunks(&bytes.collect::<Vec<_>>());
    }
}
