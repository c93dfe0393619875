//! The vectors are those of the test data of Certificate Transparency (`merkletree/merkle_tree_test.cc` of
//! google/certificate-transparency, also in Trillian and in `transparency-dev/merkle`).

use std::collections::BTreeMap;

use airlock_strings::hex;
use proptest::prelude::*;

use super::*;

const LEAVES: [&[u8]; 8] = [
    b"",
    b"\x00",
    b"\x10",
    b"\x20\x21",
    b"\x30\x31",
    b"\x40\x41\x42\x43",
    b"\x50\x51\x52\x53\x54\x55\x56\x57",
    b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
];

const ROOTS: [&str; 9] = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

const LEAF_2: &str = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7";
const LEAF_5: &str = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b";
const NODE_3_4: &str = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e";
const NODE_5_6: &str = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a";
const NODE_5_8: &str = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4";
const NODE_7_8: &str = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0";

fn leaves(size: u64) -> Vec<Hash> {
    (0..size).map(|number| leaf_hash(&number.to_be_bytes())).collect()
}

fn tree(leaves: &[Hash]) -> Tree {
    let mut tree = Tree::default();
    for leaf in leaves {
        tree.push(*leaf);
    }
    tree
}

/// The definition of RFC 9162, section 2.1.1, without any of the code above.
fn defined_root(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => Sha256::digest([]).into(),
        [leaf] => *leaf,
        _ => {
            let middle = leaves.len().next_power_of_two() / 2;
            let (left, right) = leaves.split_at(middle);
            node_hash(&defined_root(left), &defined_root(right))
        }
    }
}

fn proof(ranges: Vec<Range<u64>>, leaves: &[Hash]) -> Vec<Hash> {
    let mut builder = ProofBuilder::new(ranges, 0);
    for leaf in leaves {
        builder.push(*leaf);
    }
    builder.finish().expect("all leaves were there")
}

/// The hashes of proofs in one tree. Most proofs have the same ones.
struct Subtrees {
    leaves: Vec<Hash>,
    roots: BTreeMap<(u64, u64), Hash>,
}

impl Subtrees {
    fn new(size: u64) -> Self {
        Self { leaves: leaves(size), roots: BTreeMap::new() }
    }

    fn root(&mut self, range: Range<u64>) -> Hash {
        let begin = usize::try_from(range.start).expect("small");
        let end = usize::try_from(range.end).expect("small");
        let leaves = &self.leaves[begin..end];
        *self.roots.entry((range.start, range.end)).or_insert_with(|| defined_root(leaves))
    }

    fn leaf(&self, index: u64) -> Hash {
        self.leaves[usize::try_from(index).expect("small")]
    }

    fn proof(&mut self, ranges: Vec<Range<u64>>) -> Vec<Hash> {
        ranges.into_iter().map(|range| self.root(range)).collect()
    }
}

fn hex_all(hashes: &[Hash]) -> Vec<String> {
    hashes.iter().map(|hash| hex(hash)).collect()
}

#[test]
fn roots_are_those_of_certificate_transparency() {
    let leaves = LEAVES.map(leaf_hash);
    for (size, root) in ROOTS.iter().enumerate() {
        assert_eq!(hex(&tree(&leaves[..size]).root()), *root, "{size}");
    }
}

#[test]
fn proofs_are_those_of_certificate_transparency() {
    let leaves = LEAVES.map(leaf_hash);
    for (index, size, expected) in [
        (0, 1, &[][..]),
        (0, 8, &[LEAF_2, NODE_3_4, NODE_5_8][..]),
        (5, 8, &[LEAF_5, NODE_7_8, ROOTS[4]]),
        (2, 3, &[ROOTS[2]]),
        (1, 5, &[ROOTS[1], NODE_3_4, LEAF_5]),
    ] {
        assert_eq!(hex_all(&proof(inclusion_ranges(index, size), &leaves)), expected);
    }
    for (old, new, expected) in [
        (1, 1, &[][..]),
        (1, 8, &[LEAF_2, NODE_3_4, NODE_5_8][..]),
        (6, 8, &[NODE_5_6, NODE_7_8, ROOTS[4]]),
        (2, 5, &[NODE_3_4, LEAF_5]),
    ] {
        assert_eq!(hex_all(&proof(consistency_ranges(old, new), &leaves)), expected);
    }
}

#[test]
fn every_leaf_of_every_tree_up_to_200_is_proven() {
    let mut subtrees = Subtrees::new(200);
    let mut tree = Tree::default();
    for size in 1..=200 {
        tree.push(subtrees.leaf(size - 1));
        let root = subtrees.root(0..size);
        assert_eq!(tree.root(), root);
        assert_eq!(Tree::from_subtrees(size, tree.subtrees().to_vec()), Some(tree.clone()));
        for index in 0..size {
            let proof = subtrees.proof(inclusion_ranges(index, size));
            let leaf = subtrees.leaf(index);
            assert!(is_included(&leaf, index, size, &proof, &root), "{index} of {size}");
            assert!(!is_included(&[0; 32], index, size, &proof, &root));
            assert!(!is_included(&leaf, index + 1, size, &proof, &root));
        }
    }
}

#[test]
fn every_pair_of_trees_up_to_200_is_consistent() {
    let mut subtrees = Subtrees::new(200);
    let other = [1; 32];
    for new in 0..=200 {
        let new_root = subtrees.root(0..new);
        for old in 0..=new {
            let old_root = subtrees.root(0..old);
            let proof = subtrees.proof(consistency_ranges(old, new));
            assert!(is_consistent((old, &old_root), (new, &new_root), &proof), "{old} to {new}");
            assert!(!is_consistent((old, &other), (new, &new_root), &proof), "{old} to {new}");
            // Nothing is proven about a tree that begins with the empty one.
            let is_proven = is_consistent((old, &old_root), (new, &other), &proof);
            assert_eq!(is_proven, old == 0 && new > 0, "{old} to {new}");
        }
    }
    let root = subtrees.root(0..2);
    assert!(!is_consistent((3, &root), (2, &root), &[]));
}

#[test]
fn a_tree_is_restored_from_as_many_subtrees_as_it_has() {
    assert_eq!(Tree::from_subtrees(5, vec![[0; 32]; 3]), None);
    assert_eq!(Tree::from_subtrees(0, Vec::new()), Some(Tree::default()));
    assert_eq!(Tree::from_subtrees(u64::MAX, vec![[0; 32]; 64]), None);
}

proptest! {
    #[test]
    fn a_proof_with_a_changed_bit_or_another_length_is_refused(
        size in 2_u64..300, seed in any::<u64>(), bit in any::<usize>(),
    ) {
        let leaves = leaves(size);
        let index = seed % size;
        let root = tree(&leaves).root();
        let leaf = leaves[usize::try_from(index).expect("small")];
        let proof = proof(inclusion_ranges(index, size), &leaves);
        let mut changed = proof.clone();
        let bit = bit % (changed.len() * 256);
        changed[bit / 256][bit % 256 / 8] ^= 1 << (bit % 8);
        prop_assert!(!is_included(&leaf, index, size, &changed, &root));
        prop_assert!(!is_included(&leaf, index, size, &proof[1..], &root));
        let longer = [&proof[..], &[[0; 32]]].concat();
        prop_assert!(!is_included(&leaf, index, size, &longer, &root));
    }

    #[test]
    fn hostile_proofs_end(index in any::<u64>(), size in any::<u64>(), proof in prop::collection::vec(any::<Hash>(), 0..80)) {
        let root = [0; 32];
        prop_assert!(!is_included(&root, index, size, &proof, &root) || (size == 1 && proof.is_empty()));
        let _ = is_consistent((index, &root), (size, &root), &proof);
    }
}
