//! Memory for the first allocations of a call, in plugins without WASI.
//!
//! Each call has a new instance, in which Rust's own allocator has no memory yet and begins with `memory.grow`. The host
//! then changes the protection of memory twice in each call, which interrupts its other cores. This allocator has a page
//! of the memory that the instance begins with. What does not fit is left to Rust's.

use std::alloc::Layout;

/// Bytes of the memory for first allocations: a page of WebAssembly.
const BYTES: usize = 64 << 10;
/// Alignment of this memory, in bytes. Allocations that need more are left to Rust's allocator.
const ALIGN: usize = 16;

/// The places of this memory, which are taken in their order. One that is freed is taken again if it is the last; others
/// stay taken until the instance is dropped.
struct FirstPlaces {
    /// End of the last place that is taken.
    end: usize,
}

impl FirstPlaces {
    /// Takes a place. Returns its offset; `None` if there is none.
    fn take(&mut self, layout: Layout) -> Option<usize> {
        let start = self.end.checked_next_multiple_of(layout.align())?;
        let end = start.checked_add(layout.size())?;
        if layout.align() > ALIGN || end > BYTES {
            return None;
        }
        self.end = end;
        Some(start)
    }

    /// Frees the place of `bytes` bytes at an offset.
    fn free(&mut self, start: usize, bytes: usize) {
        if start + bytes == self.end {
            self.end = start;
        }
    }

    /// Changes the bytes of the place at an offset. Returns false, and changes nothing, if the place would have to be
    /// moved.
    fn resize(&mut self, start: usize, bytes: usize, new_bytes: usize) -> bool {
        if start + bytes != self.end {
            return new_bytes <= bytes;
        }
        let end = start.saturating_add(new_bytes);
        if end > BYTES {
            return false;
        }
        self.end = end;
        true
    }
}

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
#[expect(unsafe_code, reason = "an allocator hands out memory")]
mod first {
    use std::{
        alloc::{GlobalAlloc, Layout, System},
        cell::UnsafeCell,
        ptr,
    };

    use super::{BYTES, FirstPlaces};

    #[global_allocator]
    static ALLOCATOR: FirstAllocations = FirstAllocations {
        places: UnsafeCell::new(FirstPlaces { end: 0 }),
        memory: UnsafeCell::new(FirstPage([0; BYTES])),
    };

    struct FirstAllocations {
        places: UnsafeCell<FirstPlaces>,
        memory: UnsafeCell<FirstPage>,
    }

    /// Aligned to [`ALIGN`](super::ALIGN).
    #[repr(align(16))]
    struct FirstPage([u8; BYTES]);

    // SAFETY: without atomics there is one thread.
    unsafe impl Sync for FirstAllocations {}

    impl FirstAllocations {
        /// Returns the beginning of the memory.
        fn base(&self) -> *mut u8 {
            // SAFETY: the memory is not read, and no method has a reference to it.
            unsafe { (&raw mut (*self.memory.get()).0).cast() }
        }

        /// Returns the offset of an allocation; `None` if it is one of Rust's allocator.
        fn offset(&self, allocated: *mut u8) -> Option<usize> {
            let start = allocated.addr().checked_sub(self.base().addr())?;
            (start < BYTES).then_some(start)
        }

        #[expect(clippy::mut_from_ref, reason = "there is one thread, and no method holds it")]
        fn places(&self) -> &mut FirstPlaces {
            // SAFETY: there is one thread, and no method has another reference meanwhile.
            unsafe { &mut *self.places.get() }
        }

        /// Returns a place of the memory; `None` if there is none.
        fn take(&self, layout: Layout) -> Option<*mut u8> {
            let start = self.places().take(layout)?;
            // SAFETY: the place lies in the memory.
            Some(unsafe { self.base().add(start) })
        }
    }

    // SAFETY: places do not overlap, fit their layouts, and stay where they are; all others are those of `System`.
    unsafe impl GlobalAlloc for FirstAllocations {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller keeps the contract, which is the same.
            self.take(layout).unwrap_or_else(|| unsafe { System.alloc(layout) })
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            let Some(place) = self.take(layout) else {
                // SAFETY: as above.
                return unsafe { System.alloc_zeroed(layout) };
            };
            // SAFETY: the place has as many bytes. They are not zero if it was taken before.
            unsafe { ptr::write_bytes(place, 0, layout.size()) };
            place
        }

        unsafe fn dealloc(&self, allocated: *mut u8, layout: Layout) {
            match self.offset(allocated) {
                Some(start) => self.places().free(start, layout.size()),
                // SAFETY: it was allocated there.
                None => unsafe { System.dealloc(allocated, layout) },
            }
        }

        unsafe fn realloc(&self, allocated: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
            let Some(start) = self.offset(allocated) else {
                // SAFETY: it was allocated there.
                return unsafe { System.realloc(allocated, layout, bytes) };
            };
            if self.places().resize(start, layout.size(), bytes) {
                return allocated;
            }
            // SAFETY: the caller guarantees that the new size fits the alignment. Both allocations have the bytes that are
            // copied, and do not overlap.
            unsafe {
                let moved = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
                if !moved.is_null() {
                    ptr::copy_nonoverlapping(allocated, moved, layout.size().min(bytes));
                    self.dealloc(allocated, layout);
                }
                moved
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(bytes: usize, align: usize) -> Layout {
        Layout::from_size_align(bytes, align).expect("a layout")
    }

    #[test]
    fn places_are_aligned_do_not_overlap_and_end_with_the_memory() {
        let mut places = FirstPlaces { end: 0 };
        assert_eq!(places.take(layout(3, 1)), Some(0));
        assert_eq!(places.take(layout(8, 8)), Some(8));
        assert_eq!(places.take(layout(1, 32)), None, "it has no such alignment");
        assert_eq!(places.take(layout(BYTES - 15, 1)), None);
        assert_eq!(places.take(layout(BYTES - 16, 16)), Some(16));
        assert_eq!(places.take(layout(1, 1)), None);
        let largest = layout(isize::MAX as usize, 1);
        assert_eq!(places.take(largest), None);
    }

    #[test]
    fn the_last_place_is_taken_again_and_changes_its_size_where_it_is() {
        let mut places = FirstPlaces { end: 0 };
        let first = places.take(layout(8, 8)).expect("a place");
        let last = places.take(layout(8, 8)).expect("a place");
        assert!(!places.resize(first, 8, 9), "another place follows");
        assert!(places.resize(first, 8, 4));
        assert!(places.resize(last, 8, BYTES - 8));
        assert!(!places.resize(last, BYTES - 8, BYTES - 7));
        assert!(places.resize(last, BYTES - 8, 1));
        places.free(first, 4);
        assert_eq!(places.take(layout(1, 1)), Some(9), "the last place is still taken");
        places.free(9, 1);
        places.free(last, 1);
        assert_eq!(places.take(layout(1, 1)), Some(last));
    }
}
