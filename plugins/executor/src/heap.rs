//! Memory for a run, as a part of the snapshot.

use std::hint::black_box;
#[cfg(target_arch = "wasm32")]
use std::{arch::wasm32, mem};

/// Bytes that are free in a heap after [`reserve_heap`], in one piece. A parser that guards its stack
/// takes 1 MiB of them, and an evaluator takes its own stack from them once the parser has returned.
const RESERVED: usize = (1 << 20) + (32 << 10);

/// Bytes of the smallest free piece that [`reserve_heap`] fills. Smaller ones are for the values of usual
/// runs.
#[cfg(target_arch = "wasm32")]
const PIECE: usize = 16 << 10;

/// Makes room in the heap, so that a snapshot taken afterwards has memory for a usual run. Growing the
/// memory in each run would cost two system calls. An executor whose usual run grows nothing has no
/// need of it.
///
/// There is no other room of some size, so a run with many values grows the memory. After every run,
/// the host restores each page of the snapshot that this run or an earlier one in the same slot has
/// written. It restores pages beyond the snapshot only after the run that has grown the memory, so a
/// large run does not slow the small ones after it.
pub fn reserve_heap() {
    #[cfg(target_arch = "wasm32")]
    fill_pieces();
    drop(black_box(Vec::<u8>::with_capacity(RESERVED)));
}

/// Takes all free pieces of at least [`PIECE`] bytes for good. Only the headers of their blocks are
/// written.
#[cfg(target_arch = "wasm32")]
fn fill_pieces() {
    let pages = wasm32::memory_size::<0>();
    while wasm32::memory_size::<0>() == pages {
        mem::forget(black_box(Vec::<u8>::with_capacity(PIECE)));
    }
}
