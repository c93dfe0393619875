//! Counts what a thread's allocations hold.

#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// Allocations that are live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) bytes: usize,
    pub(super) allocations: usize,
}

thread_local! {
    static HELD: Cell<Held> = const { Cell::new(Held { bytes: 0, allocations: 0 }) };
}

/// Returns the result of `make` and what it holds.
pub(super) fn held_by<T>(make: impl FnOnce() -> T) -> (T, Held) {
    let before = HELD.get();
    let result = make();
    let after = HELD.get();
    let bytes = after.bytes.wrapping_sub(before.bytes);
    (result, Held { bytes, allocations: after.allocations.wrapping_sub(before.allocations) })
}

struct Counting;

/// Wraps, because what one thread allocates another may free.
fn count(add: Layout, remove: Layout) {
    // A thread that is ending allocates too.
    let _ = HELD.try_with(|held| {
        let Held { bytes, allocations } = held.get();
        let one = |layout: Layout| usize::from(layout.size() > 0);
        held.set(Held {
            bytes: bytes.wrapping_add(add.size()).wrapping_sub(remove.size()),
            allocations: allocations.wrapping_add(one(add)).wrapping_sub(one(remove)),
        });
    });
}

const NOTHING: Layout = Layout::new::<()>();

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, NOTHING);
        // SAFETY: the caller's promise is the one that is needed.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(NOTHING, layout);
        // SAFETY: the caller's promise is the one that is needed.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout, NOTHING);
        // SAFETY: the caller's promise is the one that is needed.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(Layout::from_size_align(bytes, layout.align()).unwrap_or(NOTHING), layout);
        // SAFETY: the caller's promise is the one that is needed.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
