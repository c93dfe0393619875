//! The Merkle tree of RFC 9162, section 2.1: hashes, the tree as it grows, and its proofs.
//!
//! No tree is held in memory. A growing tree is the roots of its complete subtrees ([`Tree`]), and a
//! proof is computed from the ranges of leaves whose subtrees it names, in one pass over the leaves.

use std::ops::Range;

use sha2::{Digest as _, Sha256};

/// A hash of the tree.
pub(crate) type Hash = [u8; 32];

/// Returns the hash of a leaf with these contents.
pub(crate) fn leaf_hash(contents: &[u8]) -> Hash {
    Sha256::new().chain_update([0]).chain_update(contents).finalize().into()
}

/// Returns the hash of a node above two others.
pub(crate) fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

/// Size of trees that are refused, so that adding to a tree that was read does not overflow.
const SIZE_LIMIT: u64 = 1 << 62;

/// A tree to which leaves are added: its size, and the roots of its complete subtrees, largest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    size: u64,
    /// One for each bit of the size that is set.
    subtrees: Vec<Hash>,
}

impl Tree {
    /// Restores a tree. `None` if a tree of this size has another number of complete subtrees, or is larger than
    /// any log.
    pub(crate) fn from_subtrees(size: u64, subtrees: Vec<Hash>) -> Option<Self> {
        let is_whole = usize::try_from(size.count_ones()) == Ok(subtrees.len());
        (is_whole && size < SIZE_LIMIT).then_some(Self { size, subtrees })
    }

    /// Returns the number of leaves.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the roots of the complete subtrees, largest first.
    pub(crate) fn subtrees(&self) -> &[Hash] {
        &self.subtrees
    }

    /// Adds a leaf.
    pub(crate) fn push(&mut self, leaf: Hash) {
        let mut node = leaf;
        for _ in 0..self.size.trailing_ones() {
            let Some(left) = self.subtrees.pop() else { break };
            node = node_hash(&left, &node);
        }
        self.subtrees.push(node);
        self.size += 1;
    }

    /// Returns the root. That of the empty tree is the hash of nothing.
    pub(crate) fn root(&self) -> Hash {
        let mut subtrees = self.subtrees.iter().rev();
        let Some(&smallest) = subtrees.next() else { return Sha256::digest([]).into() };
        subtrees.fold(smallest, |right, left| node_hash(left, &right))
    }
}

/// Returns the leaves below each hash of a proof that leaf `index` is in the tree of this size, in the
/// order of the proof. Empty if the leaf is not in it.
pub(crate) fn inclusion_ranges(index: u64, size: u64) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    let mut part = 0..size;
    while part.contains(&index) && part.end - part.start > 1 {
        let middle = part.start + split(part.end - part.start);
        let (own, sibling) = if index < middle {
            (part.start..middle, middle..part.end)
        } else {
            (middle..part.end, part.start..middle)
        };
        ranges.push(sibling);
        part = own;
    }
    ranges.reverse();
    ranges
}

/// Returns the leaves below each hash of a proof that the tree of size `new` begins with the tree of size
/// `old`, in the order of the proof. Empty for equal sizes and for an empty old tree, which need none.
pub(crate) fn consistency_ranges(old: u64, new: u64) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    if old == 0 || old >= new {
        return ranges;
    }
    let mut part = 0..new;
    while part.end != old {
        let middle = part.start + split(part.end - part.start);
        if old <= middle {
            ranges.push(middle..part.end);
            part.end = middle;
        } else {
            ranges.push(part.start..middle);
            part.start = middle;
        }
    }
    // The verifier has the root of the old tree already if it is this subtree.
    if part.start > 0 {
        ranges.push(part);
    }
    ranges.reverse();
    ranges
}

/// Returns the largest power of two below `size`, which is at least 2.
fn split(size: u64) -> u64 {
    1 << (size - 1).ilog2()
}

/// The subtrees of a proof, while the leaves pass by.
#[derive(Debug)]
pub(crate) struct ProofBuilder {
    subtrees: Vec<(Range<u64>, Tree)>,
    next: u64,
}

impl ProofBuilder {
    /// Creates the builder of a proof with a hash for each of these ranges. The first leaf that it gets is
    /// number `first`.
    pub(crate) fn new(ranges: Vec<Range<u64>>, first: u64) -> Self {
        let subtrees = ranges.into_iter().map(|range| (range, Tree::default())).collect();
        Self { subtrees, next: first }
    }

    /// Takes the next leaf.
    pub(crate) fn push(&mut self, leaf: Hash) {
        let index = self.next;
        self.next = self.next.saturating_add(1);
        for (range, tree) in &mut self.subtrees {
            if range.contains(&index) {
                tree.push(leaf);
            }
        }
    }

    /// Returns the hashes; `None` if a leaf below one of them did not pass by.
    pub(crate) fn finish(self) -> Option<Vec<Hash>> {
        let roots = self
            .subtrees
            .into_iter()
            .map(|(range, tree)| (tree.size() == range.end - range.start).then(|| tree.root()));
        roots.collect()
    }
}

/// Returns whether a proof shows that the tree of this size and root has this leaf at `index`
/// (RFC 9162, section 2.1.3.2).
pub(crate) fn is_included(leaf: &Hash, index: u64, size: u64, proof: &[Hash], root: &Hash) -> bool {
    if index >= size {
        return false;
    }
    let mut own = index;
    let mut last = size - 1;
    let mut node = *leaf;
    for sibling in proof {
        if last == 0 {
            return false;
        }
        if own & 1 == 1 || own == last {
            node = node_hash(sibling, &node);
            while own & 1 == 0 && own != 0 {
                own >>= 1;
                last >>= 1;
            }
        } else {
            node = node_hash(&node, sibling);
        }
        own >>= 1;
        last >>= 1;
    }
    last == 0 && node == *root
}

/// Returns whether a proof shows that the tree `new` begins with the tree `old`; both are sizes and roots
/// (RFC 9162, section 2.1.4.2).
pub(crate) fn is_consistent(old: (u64, &Hash), new: (u64, &Hash), proof: &[Hash]) -> bool {
    let (old_size, old_root) = old;
    let (new_size, new_root) = new;
    if old_size == new_size {
        return proof.is_empty() && old_root == new_root;
    }
    if old_size == 0 {
        return proof.is_empty() && *old_root == Tree::default().root();
    }
    if old_size > new_size {
        return false;
    }
    let mut hashes = proof.iter();
    // A complete old tree is itself the first subtree, and is not in the proof.
    let first = if old_size.is_power_of_two() { Some(old_root) } else { hashes.next() };
    let Some(first) = first else { return false };
    let complete = (old_size - 1).trailing_ones();
    let mut own = (old_size - 1) >> complete;
    let mut last = (new_size - 1) >> complete;
    let mut old_node = *first;
    let mut new_node = *first;
    for sibling in hashes {
        if last == 0 {
            return false;
        }
        if own & 1 == 1 || own == last {
            old_node = node_hash(sibling, &old_node);
            new_node = node_hash(sibling, &new_node);
            while own & 1 == 0 && own != 0 {
                own >>= 1;
                last >>= 1;
            }
        } else {
            new_node = node_hash(&new_node, sibling);
        }
        own >>= 1;
        last >>= 1;
    }
    last == 0 && old_node == *old_root && new_node == *new_root
}

#[cfg(test)]
mod tests;
