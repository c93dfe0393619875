//! Suggestions for a mistyped name.

/// Least similarity of a suggestion (Jaro-Winkler, 0 to 1). Names with less similarity have little
/// more than letters in common.
const SIMILAR: f64 = 0.75;
/// The longest name that is compared, in bytes. The cost of a comparison is the product of the two
/// lengths.
const MAX_NAME_BYTES: usize = 64;
/// The most candidates that are compared, each with a cost of up to 64 times 64 steps: a million for all.
const MAX_CANDIDATES: usize = 256;

/// Finds the candidate that is most similar to `name`; `None` if no candidate is similar enough.
/// Case and punctuation do not count. Of equally similar candidates, the last one is returned.
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if name.len() > MAX_NAME_BYTES {
        return None;
    }
    let name = plain(name);
    let compared = candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= MAX_NAME_BYTES)
        .take(MAX_CANDIDATES);
    compared
        .map(|candidate| (strsim::jaro_winkler(&name, &plain(candidate)), candidate))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, candidate)| candidate)
}

fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_name_is_suggested_if_any_is_similar() {
        let known = ["listen", "max_body", "read_timeout"];
        assert_eq!(nearest("lisen", known), Some("listen"));
        assert_eq!(nearest("MaxBody", known), Some("max_body"));
        assert_eq!(nearest("x", known), None);
        assert_eq!(nearest(&"listen".repeat(20), known), None);
    }
}
