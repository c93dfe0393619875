//! Fuzzes the decoder of server-sent events against a slow one.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| airlock_fuzz::sse(input));
