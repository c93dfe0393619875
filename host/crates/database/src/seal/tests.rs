use proptest::prelude::*;

use super::*;

fn place() -> SecretPlace {
    SecretPlace::new("t", "c", &[b"ab", b"c"])
}

fn sealer(current: u8, older: &[u8]) -> Sealer {
    let older = older.iter().map(|key| SealKey::new(&[*key; 32])).collect();
    Sealer::new(Some(Seals::new(SealKey::new(&[current; 32]), older)))
}

fn id(key: u8) -> SealKeyId {
    SealKey::new(&[key; 32]).id()
}

#[test]
fn a_secret_opens_with_its_key_also_once_that_is_an_older_one() {
    let sealed = sealer(1, &[]).seal(&place(), "hunter2").expect("sealed");
    assert!(!sealed.windows(7).any(|window| window == b"hunter2"));
    assert_eq!(sealed.len(), 1 + 8 + 12 + 7 + 16);
    for keys in [sealer(1, &[]), sealer(2, &[3, 1])] {
        assert_eq!(keys.open(&place(), &sealed).as_deref(), Ok("hunter2"));
    }
    for (keys, current) in [(sealer(1, &[]), true), (sealer(2, &[1]), false)] {
        assert_eq!(keys.is_current(&sealed), Ok(current));
        assert_eq!(keys.is_current(b"plain"), Ok(false));
    }
    let again = sealer(1, &[]).seal(&place(), "hunter2").expect("sealed");
    assert_ne!(again[9..21], sealed[9..21], "the nonce is another one");
}

#[test]
fn without_the_key_the_error_names_it() {
    let sealed = sealer(1, &[]).seal(&place(), "hunter2").expect("sealed");
    for keys in [sealer(2, &[3]), Sealer::new(None)] {
        let refused = keys.open(&place(), &sealed).expect_err("it has not the key");
        assert_eq!(refused, SealError::UnknownKey(id(1)));
        assert!(refused.to_string().contains(&id(1).to_string()), "{refused}");
    }
}

#[test]
fn a_value_without_the_mark_is_plain_whatever_keys_there_are() {
    let sealer = sealer(1, &[]);
    for plain in ["", "token", "\u{10ffff}", "\0"] {
        assert_eq!(sealer.open(&place(), plain.as_bytes()).as_deref(), Ok(plain));
        assert_eq!(Sealer::new(None).seal(&place(), plain).as_deref(), Ok(plain.as_bytes()));
    }
}

#[test]
fn a_value_opens_in_no_other_place() {
    let keys = sealer(1, &[]);
    let sealed = keys.seal(&place(), "hunter2").expect("sealed");
    let rows: [&[&[u8]]; 4] = [&[b"a", b"bc"], &[b"abc"], &[b"c", b"ab"], &[b"ab", b"c", b""]];
    let others = rows.map(|row| SecretPlace::new("t", "c", row));
    let tables = [("tc", ""), ("u", "c"), ("t", "d")];
    let tables = tables.map(|(table, column)| SecretPlace::new(table, column, rows[0]));
    for place in others.into_iter().chain(tables) {
        assert_eq!(keys.open(&place, &sealed), Err(SealError::Altered(id(1))), "{place:?}");
    }
}

#[test]
fn a_value_of_a_later_format_or_that_is_cut_is_not_opened() {
    let keys = sealer(1, &[]);
    let sealed = keys.seal(&place(), "").expect("sealed");
    for format in [0xf8, 0xfa, 0xff] {
        let later = [&[format], &sealed[1..]].concat();
        assert_eq!(keys.open(&place(), &later), Err(SealError::UnknownFormat), "{format}");
    }
    for length in 1..sealed.len() {
        let expected =
            if length < 21 { SealError::UnknownFormat } else { SealError::Altered(id(1)) };
        assert_eq!(keys.open(&place(), &sealed[..length]), Err(expected), "{length}");
    }
    assert_eq!(keys.open(&place(), b"\x80"), Err(SealError::UnknownFormat), "no text");
}

proptest! {
    #[test]
    fn what_is_sealed_opens_again_and_not_with_another_bit(secret in ".{0,40}", bit in 0..200_usize) {
        let keys = sealer(1, &[]);
        let mut sealed = keys.seal(&place(), &secret).expect("sealed");
        prop_assert_eq!(keys.open(&place(), &sealed), Ok(secret));
        let bit = bit % (8 * sealed.len());
        sealed[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(keys.open(&place(), &sealed).is_err());
    }
}
