//! Control characters of the direction of text. Marked are overrides, which show letters in another order than a model
//! reads them, and what is left open at the end of its line, as in sources whose comments hide code. Pairs that end on
//! their line stay: texts from right to left need them.

use crate::mark::{FoundMark, MarkKind, MarkSearch, push};

/// Length of each control character, in bytes.
const LENGTH: usize = 3;

/// A control character on a line.
struct BidiControl {
    at: usize,
    effect: BidiEffect,
    is_marked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BidiEffect {
    /// Begins an override.
    Override,
    /// Begins an embedding.
    Embed,
    /// Begins an isolate.
    Isolate,
    /// Ends an override or an embedding.
    Pop,
    /// Ends an isolate, and what begins inside it.
    PopIsolate,
}

/// Finds marks of the kind `bidi`.
pub(super) fn marks(text: &str, search: &MarkSearch) -> Vec<FoundMark> {
    let mut found = Vec::new();
    if !search.has(MarkKind::Bidi) || text.is_ascii() {
        return found;
    }
    let mut line: Vec<BidiControl> = Vec::new();
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'\n' if !line.is_empty() => {
                resolve(&mut line, &mut found);
                line.clear();
            }
            0xe2 => {
                if let Some(effect) = effect(&bytes[at..]) {
                    line.push(BidiControl { at, effect, is_marked: false });
                }
            }
            _ => {}
        }
    }
    resolve(&mut line, &mut found);
    found
}

/// Returns the effect of the control character at the start of a text.
fn effect(bytes: &[u8]) -> Option<BidiEffect> {
    match bytes {
        [_, 0x80, 0xaa | 0xab, ..] => Some(BidiEffect::Embed),
        [_, 0x80, 0xac, ..] => Some(BidiEffect::Pop),
        [_, 0x80, 0xad | 0xae, ..] => Some(BidiEffect::Override),
        [_, 0x81, 0xa6..=0xa8, ..] => Some(BidiEffect::Isolate),
        [_, 0x81, 0xa9, ..] => Some(BidiEffect::PopIsolate),
        _ => None,
    }
}

/// Decides about the control characters of one line.
fn resolve(line: &mut [BidiControl], found: &mut Vec<FoundMark>) {
    let mut open: Vec<usize> = Vec::new();
    let mut isolates = 0;
    for number in 0..line.len() {
        match line[number].effect {
            BidiEffect::Override | BidiEffect::Embed => open.push(number),
            BidiEffect::Isolate => {
                isolates += 1;
                open.push(number);
            }
            BidiEffect::Pop => {
                let begins = open.last().copied();
                if let Some(begin) = begins
                    && line[begin].effect != BidiEffect::Isolate
                {
                    open.pop();
                    close(line, begin, number);
                } else {
                    line[number].is_marked = true;
                }
            }
            BidiEffect::PopIsolate if isolates == 0 => line[number].is_marked = true,
            BidiEffect::PopIsolate => {
                isolates -= 1;
                while let Some(begin) = open.pop() {
                    if line[begin].effect == BidiEffect::Isolate {
                        close(line, begin, number);
                        break;
                    }
                    line[begin].is_marked = true;
                }
            }
        }
    }
    for begin in open {
        line[begin].is_marked = true;
    }
    for control in line.iter().filter(|control| control.is_marked) {
        push(found, MarkKind::Bidi, control.at, control.at + LENGTH);
    }
}

/// Marks a pair that is an override, or that has nothing but control characters between its ends.
fn close(line: &mut [BidiControl], begin: usize, end: usize) {
    let is_empty = line[end].at - line[begin].at == LENGTH * (end - begin);
    if is_empty || line[begin].effect == BidiEffect::Override {
        line[begin].is_marked = true;
        line[end].is_marked = true;
    }
}
