use super::*;

#[test]
fn lines_are_read_with_and_without_an_end_and_bounded() {
    let mut input = io::BufReader::with_capacity(3, &b"ab\n\nabcd\nabcde\nx"[..]);
    let mut next = || read_line(&mut input, 4).expect("no error");
    assert_eq!(next(), Some(Line::Text(b"ab".to_vec())));
    assert_eq!(next(), Some(Line::Text(Vec::new())));
    assert_eq!(next(), Some(Line::Text(b"abcd".to_vec())));
    assert_eq!(next(), Some(Line::TooLong));
    assert_eq!(next(), Some(Line::Text(b"x".to_vec())));
    assert_eq!(next(), None);
}
