//! Texts that are no personal data, and look like some.

use super::Random;

/// Makes one text.
type Class = fn(&mut Random) -> String;

const HEX: &str = "0123456789abcdef";
const NONZERO: &str = "123456789";
const CAPITALS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The classes, and how many of 1,000 texts of each are taken for personal data at most.
pub(super) const CLASSES: [(&str, Class, usize); 23] = [
    ("UUIDs", uuid, 3),
    ("SHA-256", |random| random.text(HEX, 64), 0),
    ("random 9 digits", |random| nonzero(random, 9), 0),
    ("random 10 digits", |random| nonzero(random, 10), 0),
    ("random 11 digits", |random| nonzero(random, 11), 50),
    ("random 12 digits", |random| nonzero(random, 12), 0),
    ("random 13 digits", |random| nonzero(random, 13), 3),
    ("random 15 digits", |random| nonzero(random, 15), 12),
    ("random 16 digits", |random| nonzero(random, 16), 40),
    ("8 digits and a capital letter", capital, 90),
    ("times in milliseconds", |random| format!("17{}", random.digits(11)), 0),
    ("times in microseconds", |random| format!("17{}", random.digits(14)), 0),
    ("numbers with a fraction", |random| format!("0.{}", random.digits(16)), 0),
    ("dates and times", date, 0),
    ("versions of three parts", |random| version(random, 3), 0),
    ("versions of four parts", |random| version(random, 4), 1_000),
    ("numbers of orders", |random| format!("ORD-2024-{}", nonzero(random, 6)), 0),
    (
        "prices",
        |random| format!("{},{}.{} EUR", nonzero(random, 1), random.digits(3), random.digits(2)),
        0,
    ),
    ("icons", |random| format!("{}@2x.png", random.text(HEX, 6)), 0),
    ("addresses of git", |random| format!("git@example.com:{}/a.git", random.text(HEX, 6)), 1_000),
    ("numbers with a sign", |random| format!("+{}", nonzero(random, 9)), 1_000),
    ("code", code, 0),
    ("prose", prose, 0),
];

fn nonzero(random: &mut Random, length: usize) -> String {
    random.text(NONZERO, 1) + &random.digits(length - 1)
}

fn uuid(random: &mut Random) -> String {
    [8, 4, 4, 4, 12].map(|length| random.text(HEX, length)).join("-")
}

fn capital(random: &mut Random) -> String {
    nonzero(random, 8) + &random.text(CAPITALS, 1)
}

fn date(random: &mut Random) -> String {
    let month = 1 + random.below(12);
    let day = 1 + random.below(28);
    let hour = random.below(24);
    let second = random.below(60);
    match random.below(4) {
        0 => format!("2024-{month:02}-{day:02}T{hour:02}:{second:02}:00.{}Z", random.digits(3)),
        1 => format!("{day:02}.{month:02}.2024 {hour:02}:{second:02}"),
        2 => format!("{month:02}/{day:02}/2024, {hour:02}:{second:02}"),
        _ => format!("2024{month:02}{day:02}_{hour:02}{second:02}00"),
    }
}

fn version(random: &mut Random, parts: usize) -> String {
    let parts: Vec<_> = (0..parts).map(|_| (1 + random.below(60)).to_string()).collect();
    parts.join(".")
}

fn code(random: &mut Random) -> String {
    let lines = [
        "@app.route('/users/<int:id>', methods=['GET'])",
        "let at = text.find(\"@\").map(|place| place + 1);",
        "npm install @types/node@18.0.1 left-pad@1.3.0",
        "listen 127.0.0.1:8080; # and [::1]:8080",
        "mask 255.255.255.0, any 0.0.0.0/0",
        "std::dec::add(0x1f, 1e10, -3.25e-7)",
        "#include <a/b.h> // 80 columns, 4 spaces",
        "SELECT email, phone FROM people WHERE id = 4711;",
        "#ff8800 #123456 rgba(12, 34, 56, 0.5)",
    ];
    format!("{} // {}", random.one(&lines), random.text(HEX, 7))
}

fn prose(random: &mut Random) -> String {
    let words = [
        "the",
        "invoice",
        "of",
        "DE",
        "branch",
        "was",
        "paid",
        "on",
        "2024-11-29",
        "with",
        "card",
        "4111",
        "and",
        "phone",
        "extension",
        "12",
        "street",
        "345",
        "for",
        "order",
        "10023",
        "GB",
        "in",
        "at",
        "10:30",
        "@ann",
    ];
    let words: Vec<_> = (0..40).map(|_| random.one(&words)).collect();
    words.join(" ")
}
