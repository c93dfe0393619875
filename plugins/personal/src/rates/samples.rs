//! Personal data of each kind, as their issuers make them.

use airlock_digits::checksum::{luhn, mod97};

use super::Random;
use crate::find::{
    PersonalKind,
    identity::{DNI, check_letter, mod11, weighted},
    national::iso7064,
};

const SMALL: &str = "abcdefghijklmnopqrstuvwxyz";
const CAPITALS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const NONZERO: &str = "123456789";
/// First digits of areas in North America.
const AREA: &str = "23456789";
const HEX: &str = "0123456789abcdef";

/// Makes one text.
type Sample = fn(&mut Random) -> String;

/// Data in forms that are not searched.
pub(super) const OTHER_FORMS: [(&str, Sample); 4] = [
    ("addresses with words for the signs", |random| {
        format!("{} at {} dot com", random.text(SMALL, 6), random.text(SMALL, 6))
    }),
    ("numbers of identity in single digits", |random| {
        let number = us_ssn(random);
        number.chars().flat_map(|digit| [digit, '_']).collect()
    }),
    ("telephone numbers without a form", |random| random.text(NONZERO, 7)),
    ("names", |random| {
        let first = random.one(&["Ann", "Björn", "Chidi", "Dolores", "Eszter"]);
        format!("{first} {}", random.one(&["Smith", "Müller", "Okafor", "García", "Nagy"]))
    }),
];

/// Returns data of a kind.
pub(super) fn data(kind: PersonalKind, random: &mut Random) -> String {
    match kind {
        PersonalKind::Email => email(random),
        PersonalKind::PhoneNumber => phone(random),
        PersonalKind::Iban => iban(random),
        PersonalKind::CardNumber => card(random),
        PersonalKind::IpAddress => ip(random),
        PersonalKind::UsSsn => us_ssn(random),
        PersonalKind::DeTaxId => de_tax_id(random),
        PersonalKind::UkNino => uk_nino(random),
        PersonalKind::FrNir => fr_nir(random),
        PersonalKind::EsDni => es_dni(random),
        PersonalKind::ItTaxCode => it_tax_code(random),
        PersonalKind::PlPesel => pl_pesel(random),
        PersonalKind::ChAhv => ch_ahv(random),
        PersonalKind::BrCpf => br_cpf(random),
    }
}

fn email(random: &mut Random) -> String {
    let length = 1 + random.below(8);
    let name = random.text(SMALL, length);
    let separator = random.one(&[".", "_", "-", "+", ""]);
    let last = random.text("abcxyz0123456789", 3);
    let host = random.text(SMALL, 5);
    let top = random.one(&["com", "de", "org", "io", "co.uk", "example"]);
    format!("{name}{separator}{last}@{host}.{top}")
}

fn phone(random: &mut Random) -> String {
    let country = random.one(&["49", "44", "33", "34", "39", "48", "41", "55", "91"]);
    let area = random.text(AREA, 1) + &random.digits(2);
    let exchange = random.text(AREA, 1) + &random.digits(2);
    let line = random.digits(4);
    let pairs: Vec<_> = (0..4).map(|_| random.digits(2)).collect();
    match random.below(9) {
        0 => format!("+{country}{}", random.digits(9)),
        1 => format!("+{country} {} {}", random.text(NONZERO, 2), random.digits(7)),
        2 => format!("+1 ({area}) {exchange}-{line}"),
        3 => format!("({area}) {exchange}-{line}"),
        4 => format!("{area}-{exchange}-{line}"),
        5 => format!("0{} {}", random.text(NONZERO, 2), random.digits(7)),
        6 => format!("0{}/{}", random.text(NONZERO, 3), random.digits(6)),
        7 => format!("0{} {}", random.text(NONZERO, 1), pairs.join(" ")),
        _ => format!("00{country} {} {}", random.text(NONZERO, 2), random.digits(7)),
    }
}

fn iban(random: &mut Random) -> String {
    let (country, length) = random.one(&["DE22", "FR27", "GB22", "NO15", "ES24"]).split_at(2);
    let length: usize = length.parse().expect("a number");
    let account = random.digits(length - 4);
    let check = 98 - mod97(format!("{country}00{account}").as_bytes());
    let iban = format!("{country}{check:02}{account}");
    if random.below(2) == 0 {
        return iban;
    }
    let groups: Vec<_> = iban.as_bytes().chunks(4).map(String::from_utf8_lossy).collect();
    groups.join(" ")
}

fn card(random: &mut Random) -> String {
    let body = random.one(&["4", "53", "6011"]).to_owned();
    let rest = random.digits(15 - body.len());
    let body = body + &rest;
    let check = (10 - luhn(&values(&format!("{body}0"))) % 10) % 10;
    printed(&format!("{body}{check}"), &[4, 4, 4, 4], random.one(&["", " ", "-"]))
}

fn ip(random: &mut Random) -> String {
    if random.below(2) == 0 {
        let groups: Vec<_> = (0..8).map(|_| random.text(HEX, 4)).collect();
        return groups.join(":");
    }
    let others: Vec<_> = (0..3).map(|_| random.below(256).to_string()).collect();
    format!("{}.{}", 128 + random.below(96), others.join("."))
}

fn us_ssn(random: &mut Random) -> String {
    let area = 1 + random.below(665);
    format!("{area:03}-{:02}-{:04}", 1 + random.below(99), 1 + random.below(9_999))
}

/// Returns a tax number in which one digit is twice and another one not.
fn de_tax_id(random: &mut Random) -> String {
    let mut left: Vec<u8> = (0..10).collect();
    let mut body = Vec::new();
    while body.len() < 10 {
        let digit = left.remove(random.below(left.len()));
        if body.is_empty() && digit == 0 {
            left.push(digit);
            continue;
        }
        body.push(digit);
    }
    body[9] = body[random.below(9)];
    let check = iso7064(&body);
    let number: String = body.iter().chain([&check]).map(ToString::to_string).collect();
    printed(&number, &[2, 3, 3, 3], random.one(&["", " "]))
}

fn uk_nino(random: &mut Random) -> String {
    let prefix = random.one(&["AB", "JG", "CE", "WK", "PZ"]);
    let number = printed(&random.digits(6), &[2, 2, 2], random.one(&["", " "]));
    let suffix = random.text("ABCD", 1);
    if number.len() == 6 {
        format!("{prefix}{number}{suffix}")
    } else {
        format!("{prefix} {number} {suffix}")
    }
}

fn fr_nir(random: &mut Random) -> String {
    let sex = random.text("12", 1);
    let year = random.digits(2);
    let month = 1 + random.below(12);
    let body = format!("{sex}{year}{month:02}{}", random.digits(8));
    let number: u64 = body.parse().expect("a number");
    let number = format!("{body}{:02}", 97 - number % 97);
    printed(&number, &[1, 2, 2, 2, 3, 3, 2], random.one(&["", " "]))
}

fn es_dni(random: &mut Random) -> String {
    let lead = random.below(4);
    let body = random.digits(if lead == 3 { 8 } else { 7 });
    let number: usize = body.parse().expect("a number");
    let first = if lead == 3 { 0 } else { lead * 10_000_000 };
    let letter = char::from(DNI[(first + number) % 23]);
    let first = ["X", "Y", "Z", ""][lead];
    format!("{first}{body}{}{letter}", random.one(&["", "-"]))
}

fn it_tax_code(random: &mut Random) -> String {
    let name = random.text(CAPITALS, 6);
    let day = format!("{}{}{}", random.digits(2), random.text("ABCDEHLMPRST", 1), random.digits(2));
    let body = format!("{name}{day}{}{}", random.text(CAPITALS, 1), random.digits(3));
    let check = char::from(check_letter(body.as_bytes()));
    format!("{body}{check}")
}

fn pl_pesel(random: &mut Random) -> String {
    let month = 1 + random.below(12) + 20 * random.below(2);
    let day = 1 + random.below(28);
    let body = format!("{}{month:02}{day:02}{}", random.digits(2), random.digits(4));
    format!("{body}{}", weighted(&values(&body), &[1, 3, 7, 9]))
}

fn ch_ahv(random: &mut Random) -> String {
    let body = format!("756{}", random.digits(9));
    let number = format!("{body}{}", weighted(&values(&body), &[1, 3]));
    printed(&number, &[3, 4, 4, 2], random.one(&["", "."]))
}

fn br_cpf(random: &mut Random) -> String {
    // Not of one digit alone.
    let mut digits = values(&format!("12{}", random.digits(7)));
    digits.push(mod11(&digits));
    digits.push(mod11(&digits));
    let number: String = digits.iter().map(ToString::to_string).collect();
    format!("{}-{}", printed(&number[..9], &[3, 3, 3], "."), &number[9..])
}

/// Returns the values of digits.
fn values(digits: &str) -> Vec<u8> {
    digits.bytes().map(|digit| digit - b'0').collect()
}

/// Returns a number in groups with a separator between them.
fn printed(number: &str, groups: &[usize], separator: &str) -> String {
    let mut parts = Vec::new();
    let mut rest = number;
    for group in groups {
        let (part, after) = rest.split_at(*group);
        parts.push(part);
        rest = after;
    }
    parts.join(separator)
}
