//! Memory for a run, as a part of the snapshot.

#[cfg(target_arch = "wasm32")]
use std::{arch::wasm32, hint::black_box, mem};

/// Bytes of the room for stacks. A parser that guards its stack takes 1 MiB of them, and an evaluator takes its own stack
/// from them once the parser has returned.
#[cfg(target_arch = "wasm32")]
const STACKS: usize = (1 << 20) + (32 << 10);

/// Bytes of the room for the values of usual runs: what a script of 2 KB needs. With more, a large script would write to more
/// pages that are restored after every later run.
#[cfg(target_arch = "wasm32")]
const VALUES: usize = 64 << 10;

/// Bytes of the pieces that fill large free pieces.
#[cfg(target_arch = "wasm32")]
const LARGE_PIECE: usize = 16 << 10;

/// Bytes of the pieces that fill all others: the allocator has none that are smaller.
#[cfg(target_arch = "wasm32")]
const SMALL_PIECE: usize = 8;

/// Makes room in the heap, so that a snapshot taken afterwards has memory for a usual run, in one place. Growing the
/// memory in each run would cost two system calls. An executor whose usual run grows nothing, and whose heap has few free
/// pieces, has no need of it.
///
/// The warm-up leaves free pieces everywhere in the heap, and an allocator takes the smallest one that fits: with them, a script
/// in Starlark with one sum wrote to 29 pages of its memory, and without them to 12. After every run, the host restores each
/// page of the snapshot that this run or an earlier one in the same slot has written.
///
/// There is no other room, so a run with many values grows the memory. The host restores pages beyond the snapshot only
/// after the run that has grown the memory, so a large run does not slow the small ones after it.
pub fn reserve_heap() {
    #[cfg(target_arch = "wasm32")]
    {
        fill_pieces(LARGE_PIECE);
        fill_pieces(SMALL_PIECE);
        let values = black_box(Vec::<u8>::with_capacity(VALUES));
        // Keeps the rooms apart: values would leave too little of one room for a stack.
        mem::forget(black_box(Vec::<u8>::with_capacity(SMALL_PIECE)));
        drop(black_box(Vec::<u8>::with_capacity(STACKS)));
        drop(values);
    }
}

/// Takes all free pieces of at least `bytes` bytes for good. Only the headers of their blocks are
/// written.
#[cfg(target_arch = "wasm32")]
fn fill_pieces(bytes: usize) {
    let pages = wasm32::memory_size::<0>();
    while wasm32::memory_size::<0>() == pages {
        mem::forget(black_box(Vec::<u8>::with_capacity(bytes)));
    }
}
