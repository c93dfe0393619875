//! Decides which of the lists of a server's instances its client offers. Reads and writes nothing.
//!
//! | lists of the instances | offered |
//! |---|---|
//! | some have only accepted definitions | of these, the one that most connected instances have; of equal ones the one with most tools, then the present one; an empty one only if no instance has another one, also of those that are away |
//! | none has only accepted definitions, and all instances have the same | this one, as that of one server that has changed |
//! | any other | none |
//!
//! An instance with another list than the one that is offered gets no calls.

/// The last list of one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listed<'l> {
    /// Digest of its definitions.
    pub(super) digest: &'l str,
    /// Number of its tools.
    pub(super) tools: usize,
    /// True if all of its definitions are accepted.
    pub(super) is_accepted: bool,
    /// True if the instance is connected.
    pub(super) is_connected: bool,
}

/// Returns the digest of the list that is offered; `None` if none is. `lists` has one element for each
/// instance, `None` for those that have not listed their tools yet, and `present` is the digest of the list
/// that is offered now.
pub(super) fn offered<'l>(lists: &[Option<Listed<'l>>], present: Option<&str>) -> Option<&'l str> {
    let known: Vec<_> = lists.iter().flatten().collect();
    let accepted = known.iter().filter(|list| list.is_accepted);
    // A list of fewer tools has only accepted definitions too. One without any must not take them all away,
    // and an instance without tools has no calls to take meanwhile.
    let has_tools = accepted.clone().any(|list| list.tools > 0);
    let eligible = accepted.filter(|list| list.tools > 0 || !has_tools);
    let best = eligible.enumerate().max_by_key(|(index, list)| {
        let same = known.iter().filter(|other| other.is_connected && other.digest == list.digest);
        let is_present = present == Some(list.digest);
        (same.count(), list.tools, is_present, std::cmp::Reverse(*index))
    });
    if let Some((_, best)) = best {
        return Some(best.digest);
    }
    let first = known.first()?;
    let is_unanimous = known.len() == lists.len()
        && known.iter().all(|list| !list.is_accepted && list.digest == first.digest);
    is_unanimous.then_some(first.digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads lists of instances: a letter for each tool of a list, which is accepted if it begins with a
    /// capital one, `0` for an empty list, which always is, with `-` after it if the instance is not
    /// connected; `?` for none.
    fn decided(lists: &str, present: Option<&str>) -> Option<String> {
        let lists = lists.split(' ').map(|list| {
            let digest = list.trim_end_matches('-');
            (digest != "?").then(|| Listed {
                digest,
                tools: digest.trim_matches('0').len(),
                is_accepted: digest.starts_with(|c: char| c.is_ascii_uppercase() || c == '0'),
                is_connected: !list.ends_with('-'),
            })
        });
        offered(&lists.collect::<Vec<_>>(), present).map(str::to_owned)
    }

    #[test]
    fn a_list_that_is_not_accepted_is_offered_only_if_all_instances_have_it() {
        for (lists, expected) in [
            ("?", None),
            ("x", Some("x")),
            ("A", Some("A")),
            ("A x x", Some("A")),
            ("x A x", Some("A")),
            ("A- x x", Some("A")),
            ("x x x", Some("x")),
            ("x x- x", Some("x")),
            ("x x y", None),
            ("x ? x", None),
            ("? ? A", Some("A")),
            ("A- A- A-", Some("A")),
        ] {
            assert_eq!(decided(lists, Some("x")).as_deref(), expected, "{lists}");
        }
    }

    #[test]
    fn of_accepted_lists_the_most_frequent_is_offered_then_the_longest_then_the_present_one() {
        for (lists, present, expected) in [
            ("A B B", Some("A"), "B"),
            ("A B B-", Some("A"), "A"),
            ("B A", Some("A"), "A"),
            ("A B", None, "A"),
            ("A AB", None, "AB"),
            ("A AB", Some("A"), "AB"),
            ("A A AB", Some("AB"), "A"),
            ("0 A", Some("0"), "A"),
            ("0 0 A", Some("0"), "A"),
            ("0 0 A-", Some("A"), "A"),
            ("0 ?", None, "0"),
            ("0 x", Some("x"), "0"),
        ] {
            assert_eq!(decided(lists, present).as_deref(), Some(expected), "{lists} {present:?}");
        }
    }
}
