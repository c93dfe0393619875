//! Tokens of a reply, in both directions.

use serde_json::{Value, json};

use crate::{Object, Usage, object_of};

const INPUT_DETAILS: &str = "prompt_tokens_details";
const OUTPUT_DETAILS: &str = "completion_tokens_details";
/// Anthropic's names of the counts of the cache, which its chat clients know.
const NATIVE_READS: &str = "cache_read_input_tokens";
const NATIVE_WRITES: &str = "cache_creation_input_tokens";
/// `DeepSeek`'s name of the tokens from the cache.
const CACHE_HITS: &str = "prompt_cache_hit_tokens";

/// Reads a `usage`. Counts that are absent or not valid are 0 or `None`. A total that is not the sum
/// stays as it is.
pub fn read(mut usage: Object) -> Usage {
    let input = take_count(&mut usage, "prompt_tokens").unwrap_or_default();
    let output = take_count(&mut usage, "completion_tokens").unwrap_or_default();
    let mut input_details = take_object(&mut usage, INPUT_DETAILS);
    let mut output_details = take_object(&mut usage, OUTPUT_DETAILS);
    let native_reads = take_count(&mut usage, NATIVE_READS);
    let native_writes = take_count(&mut usage, NATIVE_WRITES);
    let cache_reads = take_count(&mut input_details, "cached_tokens")
        .or(native_reads)
        .or_else(|| usage.get(CACHE_HITS).and_then(Value::as_u64));
    let cache_writes = take_count(&mut input_details, "cache_write_tokens").or(native_writes);
    let reasoning = take_count(&mut output_details, "reasoning_tokens");
    let total = take_count(&mut usage, "total_tokens");
    usage.retain(|_, value| !value.is_null());
    let mut usage =
        Usage { input, cache_reads, cache_writes, output, reasoning, extra: usage, chunk: None };
    if let Some(total) = total.filter(|total| *total != usage.total()) {
        usage.extra.insert("total_tokens".to_owned(), total.into());
    }
    for (name, details) in [(INPUT_DETAILS, input_details), (OUTPUT_DETAILS, output_details)] {
        if !details.is_empty() {
            usage.extra.insert(name.to_owned(), details.into());
        }
    }
    usage
}

/// Writes a `usage`. Tokens of the cache are part of `prompt_tokens`. The native counts of a cache that
/// counts writes are written too, because their prices differ.
pub fn write(usage: Usage) -> Object {
    let total = usage.total();
    let Usage { input, cache_reads, cache_writes, output, reasoning, mut extra, .. } = usage;
    let mut out = object_of([
        ("prompt_tokens", input.into()),
        ("completion_tokens", output.into()),
        ("total_tokens", total.into()),
    ]);
    let counts = [("cached_tokens", cache_reads), ("cache_write_tokens", cache_writes)];
    add_details(&mut out, INPUT_DETAILS, &counts, &mut extra);
    add_details(&mut out, OUTPUT_DETAILS, &[("reasoning_tokens", reasoning)], &mut extra);
    if let (Some(reads), Some(writes)) = (cache_reads, cache_writes) {
        out.insert(NATIVE_WRITES.to_owned(), writes.into());
        out.insert(NATIVE_READS.to_owned(), reads.into());
    }
    out.extend(extra);
    out
}

fn add_details(out: &mut Object, name: &str, counts: &[(&str, Option<u64>)], extra: &mut Object) {
    let mut details = take_object(extra, name);
    for (name, count) in counts {
        if let Some(count) = count {
            details.insert((*name).to_owned(), json!(count));
        }
    }
    if !details.is_empty() {
        out.insert(name.to_owned(), details.into());
    }
}

fn take_count(object: &mut Object, name: &str) -> Option<u64> {
    object.shift_remove(name)?.as_u64()
}

fn take_object(object: &mut Object, name: &str) -> Object {
    match object.shift_remove(name) {
        Some(Value::Object(mut taken)) => {
            taken.retain(|_, value| !value.is_null());
            taken
        }
        _ => Object::new(),
    }
}

#[cfg(test)]
mod tests {
    use airlock_json::object;

    use super::*;

    #[test]
    fn counts_are_read_and_written_and_others_are_kept() {
        let anthropic = json!({
            "prompt_tokens": 3210, "completion_tokens": 50, "total_tokens": 3260,
            "prompt_tokens_details": {"cached_tokens": 3000, "cache_write_tokens": 200},
            "completion_tokens_details": {"reasoning_tokens": 20},
            "cache_creation_input_tokens": 200, "cache_read_input_tokens": 3000
        });
        let openai = json!({
            "prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 13, "cost": 0.5,
            "prompt_tokens_details": {"cached_tokens": 3, "audio_tokens": 1},
            "completion_tokens_details": {"accepted_prediction_tokens": 1}
        });
        for usage in [
            anthropic,
            openai,
            json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}),
        ] {
            assert_eq!(Value::from(write(read(object(usage.clone())))), usage);
        }
    }

    #[test]
    fn counts_that_are_absent_or_not_valid_are_zero() {
        for (usage, input, reads) in [
            (json!({"prompt_tokens": -1, "prompt_tokens_details": null}), 0, None),
            (json!({"prompt_tokens": "many", "total_tokens": "x"}), 0, None),
            (json!({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}), 9, Some(4)),
            (json!({"prompt_tokens": 9, "cache_read_input_tokens": 2}), 9, Some(2)),
        ] {
            let read = read(object(usage.clone()));
            assert_eq!((read.input, read.cache_reads, read.output), (input, reads, 0), "{usage}");
        }
    }

    #[test]
    fn counts_beyond_every_number_do_not_overflow() {
        let usage = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
        assert_eq!(write(usage)["total_tokens"], u64::MAX);
    }
}
