//! Suggests the name that was probably meant.

/// Below this, two names have little more than letters in common (Jaro-Winkler similarity, 0 to 1).
const SIMILAR: f64 = 0.75;
/// Longer names are not compared, in bytes: comparing costs the product of the lengths.
const MAX_NAME_BYTES: usize = 64;
/// Candidates that are compared.
const MAX_CANDIDATES: usize = 256;

/// Finds the candidate that `name` was probably meant to be. Case and punctuation do not count. Of
/// two that are equally similar, the last one wins.
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
