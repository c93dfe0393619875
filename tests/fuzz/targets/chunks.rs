//! Fuzzes what reads the chunks of a chat completion, with chunks in the shape of the API.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| airlock_fuzz::chunks(input));
