//! Allocator that counts the live allocations of each thread.

#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// Live allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) bytes: usize,
    pub(super) allocations: usize,
}

thread_local! {
    static HELD: Cell<Held> = const { Cell::new(Held { bytes: 0, allocations: 0 }) };
}

/// Runs `make`, and returns its result with the allocations that are still live.
pub(super) fn held_by<T>(make: impl FnOnce() -> T) -> (T, Held) {
    let before = HELD.get();
    let result = make();
    let after = HELD.get();
    let bytes = after.bytes.wrapping_sub(before.bytes);
    (result, Held { bytes, allocations: after.allocations.wrapping_sub(before.allocations) })
}

struct Counting;

/// Counts one call of the allocator. The counters wrap, because one thread may free memory that
/// another thread has allocated.
fn count(add: Layout, remove: Layout) {
    // A thread that ends may still allocate after its counters are dropped.
    let _ = HELD.try_with(|held| {
        let Held { bytes, allocations } = held.get();
        held.set(Held {
            bytes: bytes.wrapping_add(add.size()).wrapping_sub(remove.size()),
            allocations: allocations.wrapping_add(one(add)).wrapping_sub(one(remove)),
        });
    });
}

fn one(layout: Layout) -> usize {
    usize::from(layout.size() > 0)
}

const NOTHING: Layout = Layout::new::<()>();

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, NOTHING);
        // SAFETY: the caller upholds the same contract that `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(NOTHING, layout);
        // SAFETY: the caller upholds the same contract that `System` requires.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout, NOTHING);
        // SAFETY: the caller upholds the same contract that `System` requires.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(Layout::from_size_align(bytes, layout.align()).unwrap_or(NOTHING), layout);
        // SAFETY: the caller upholds the same contract that `System` requires.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
