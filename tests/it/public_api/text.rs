//! Tokens as text, in one form wherever the lines of the source break.

use quote::ToTokens;

/// Returns tokens as rustfmt would write them on one line, without a comma after the last element, and without the `mut`
/// of parameters, which callers do not see.
pub(super) fn compact(tokens: &impl ToTokens) -> String {
    let spaced = tokens.to_token_stream().to_string();
    let mut text = String::new();
    let mut last = "";
    for word in spaced.split_whitespace() {
        if !text.is_empty() && !is_joined(last, word) {
            text.push(' ');
        }
        text.push_str(word);
        last = word;
    }
    let text = text.replace(",)", ")").replace(",>", ">");
    let text = text.replace("(mut ", "(").replace(", mut ", ", ");
    text.trim_end_matches(',').to_owned()
}

/// Returns whether no space is between two words of a token stream.
fn is_joined(left: &str, right: &str) -> bool {
    if right.starts_with([',', ';', '>']) || left.ends_with("::") {
        return true;
    }
    if left == "->" || left.ends_with([',', '=', '+', ';', ':']) {
        return false;
    }
    right.starts_with([':', '(', '<']) || left.ends_with(['(', '[', '<', '&', '!', '*', '?', '#'])
}

#[test]
fn tokens_are_written_as_in_a_source() {
    for source in [
        "fn take<'a, T: ?Sized + Send>(&'a mut self, list: &[T], by: [u8; 32]) -> Result<(), Box<T>>",
        "async fn call(self, run: impl Fn(&str) -> bool + 'static) -> <T as Trait<u8>>::Output",
        "fn each(take: &mut dyn for<'a> FnMut(&'a str, (u8, u8))) -> Option<(u8, *const u8)>",
        "fn check<const N: usize>(self: Arc<Self>) -> std::io::Result<[u8; N]> where Self: Sized",
    ] {
        let parsed: syn::Signature = syn::parse_str(source).expect("a signature");
        assert_eq!(compact(&parsed), source);
    }
    let broken = "fn f(\n    mut first: u8,\n    second: Vec<\n        u8,\n    >,\n) -> u8";
    let parsed: syn::Signature = syn::parse_str(broken).expect("a signature");
    assert_eq!(compact(&parsed), "fn f(first: u8, second: Vec<u8>) -> u8");
}
