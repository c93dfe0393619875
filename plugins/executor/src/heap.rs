//! Memory for a run, as a part of the snapshot.

use std::hint::black_box;

/// Bytes that are free in a heap after [`reserve_heap`], in one piece. A parser that guards its stack
/// takes 1 MiB.
const RESERVED: usize = 2 << 20;

/// Makes room in the heap, so that a snapshot taken afterwards has memory for a usual run. Growing the
/// memory in each run would cost two system calls and a page fault for each page that it touches. An
/// executor whose usual run grows nothing has no need of it.
pub fn reserve_heap() {
    drop(black_box(Vec::<u8>::with_capacity(RESERVED)));
}
