//! Fuzzes everything that reads a streamed chat completion.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| airlock_fuzz::chat_stream(input));
