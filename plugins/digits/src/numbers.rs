//! Numbers with check digits: payment cards and bank accounts. Each function returns the end of the one at a place.

use crate::{
    checksum,
    words::{ends_word, is_whole, run, starts_word},
};

/// Groups that the digits of a card are printed in.
const GROUPS: [&[usize]; 3] = [&[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4]];
/// Digits of the longest card.
const CARD: usize = 16;

/// Finds the number of a card, in one group or as it is printed, with a space or `-` between its groups.
pub fn card(text: &[u8], at: usize) -> Option<usize> {
    if !starts_word(text, at) {
        return None;
    }
    let first = run(text, at, CARD + 1, |byte| byte.is_ascii_digit());
    let (digits, end) = if first == 4 {
        GROUPS.iter().find_map(|groups| grouped(text, at, groups))?
    } else {
        (text[at..at + first].iter().map(|digit| digit - b'0').collect(), at + first)
    };
    let is_card = is_issued(&digits) && checksum::luhn(&digits).is_multiple_of(10);
    (is_card && is_whole(text, at, end)).then_some(end)
}

/// Reads digits in groups, with the same separator between all.
fn grouped(text: &[u8], at: usize, groups: &[usize]) -> Option<(Vec<u8>, usize)> {
    let separator = *text.get(at + groups[0]).filter(|byte| matches!(byte, b' ' | b'-'))?;
    if matches!(&text[..at], [.., digit, before] if *before == separator && digit.is_ascii_digit())
    {
        // A group of a longer number, such as an IBAN.
        return None;
    }
    let mut digits = Vec::with_capacity(CARD);
    let mut place = at;
    for (number, length) in groups.iter().enumerate() {
        if number > 0 {
            if text.get(place) != Some(&separator) {
                return None;
            }
            place += 1;
        }
        let group = text.get(place..place + length)?;
        if !group.iter().all(u8::is_ascii_digit) {
            return None;
        }
        digits.extend(group.iter().map(|digit| digit - b'0'));
        place += length;
    }
    ends_word(text, place).then_some((digits, place))
}

/// Returns whether an issuer has numbers of this length that begin so.
fn is_issued(digits: &[u8]) -> bool {
    let Some(head) = digits.get(..4) else { return false };
    let head = head.iter().fold(0_u16, |head, digit| head * 10 + u16::from(*digit));
    match digits.len() {
        // Visa, Mastercard, Discover, JCB, UnionPay.
        16 => {
            matches!(head, 4000..=4999 | 2221..=2720 | 5100..=5599 | 6011 | 6440..=6599 | 3528..=3589 | 6200..=6299)
        }
        // American Express.
        15 => matches!(head, 3400..=3499 | 3700..=3799),
        // Diners Club.
        14 => matches!(head, 3000..=3059 | 3600..=3699 | 3800..=3899),
        _ => false,
    }
}

/// Finds an IBAN, in one group or as it is printed, in groups of four with a space between them.
pub fn iban(text: &[u8], at: usize) -> Option<usize> {
    if !starts_word(text, at) {
        return None;
    }
    let head = text.get(at..at + 4)?;
    if !head[1].is_ascii_uppercase() || !head[2].is_ascii_digit() || !head[3].is_ascii_digit() {
        return None;
    }
    let length = length_of(&head[..2])?;
    let is_printed = text.get(at + 4) == Some(&b' ');
    let mut account = Vec::with_capacity(length);
    let mut place = at;
    while account.len() < length {
        if is_printed && !account.is_empty() && account.len().is_multiple_of(4) {
            if text.get(place) != Some(&b' ') {
                return None;
            }
            place += 1;
        }
        let byte = *text.get(place)?;
        if !byte.is_ascii_uppercase() && !byte.is_ascii_digit() {
            return None;
        }
        account.push(byte);
        place += 1;
    }
    (ends_word(text, place) && checksum::mod97(&account) == 1).then_some(place)
}

/// Countries with IBANs and their lengths.
pub const COUNTRIES: &str = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 \
     ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 \
     MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 TN24 \
     TR26 UA29 VA22 VG24 XK20";

/// Returns the length of the IBANs of a country; `None` if it has none.
fn length_of(country: &[u8]) -> Option<usize> {
    let entry =
        COUNTRIES.split_ascii_whitespace().find(|entry| entry.as_bytes()[..2] == *country)?;
    entry[2..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the first number in a text.
    fn number(text: &str) -> Option<&str> {
        let bytes = text.as_bytes();
        let mut found = (0..bytes.len()).filter_map(|at| {
            let end = card(bytes, at).or_else(|| iban(bytes, at))?;
            Some(&text[at..end])
        });
        found.next()
    }

    #[test]
    fn cards_are_found_as_they_are_printed() {
        for card in [
            "4111111111111111",
            "4111 1111 1111 1111",
            "5555-5555-5555-4444",
            "378282246310005",
            "3782 822463 10005",
            "3056 930902 5904",
            "6011111111111117",
            "3530111333300000",
        ] {
            assert_eq!(number(card), Some(card));
            let sentence = format!("Card {card}, 12/27.");
            assert_eq!(number(&sentence), Some(card));
            assert_eq!(number(&format!("{card} 12")), Some(card));
        }
        for other in [
            "4111111111111112",
            "41111111111111111",
            "0.4111111111111111",
            "4111111111111111.5",
            "1-4111111111111111",
            "4111 1111-1111 1111",
            "4111 1111 1111 11111",
            "1234567812345670",
            "a4111111111111111",
            "DE00 4111 1111 1111 1111 00",
        ] {
            assert_eq!(number(other), None, "{other}");
        }
    }

    #[test]
    fn ibans_are_found_as_they_are_printed() {
        for iban in ["GB82WEST12345698765432", "DE89 3704 0044 0532 0130 00", "NO9386011117947"] {
            assert_eq!(number(iban), Some(iban));
            let sentence = format!("to {iban} today");
            assert_eq!(number(&sentence), Some(iban));
        }
        for other in [
            "GB82WEST12345698765423",
            "GB82WEST1234569876543",
            "DE8937040044 0532013000",
            "XX82WEST12345698765432",
        ] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
