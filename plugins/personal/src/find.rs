//! The personal data in a text, by their formats. Each position is looked at once, and each format looks at a bounded part
//! of the text, so the time is linear in the length of the text.

mod address;
mod email;
mod groups;
pub(crate) mod identity;
pub(crate) mod national;
mod phone;

use serde::Deserialize;

/// Kind of personal data. Its name in settings is [`Self::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonalKind {
    /// Address of e-mail.
    Email,
    /// Telephone number.
    PhoneNumber,
    /// International bank account number.
    Iban,
    /// Number of a payment card.
    CardNumber,
    /// Address of IPv4 or IPv6.
    IpAddress,
    /// Social security number of the United States.
    UsSsn,
    /// Tax identification number of Germany.
    DeTaxId,
    /// Number of national insurance of the United Kingdom.
    UkNino,
    /// Number of social security of France.
    FrNir,
    /// Number of identity of Spain, also of foreigners.
    EsDni,
    /// Tax code of Italy.
    ItTaxCode,
    /// Number of identity of Poland.
    PlPesel,
    /// Number of social security of Switzerland.
    ChAhv,
    /// Number of taxpayers of Brazil.
    BrCpf,
}

impl PersonalKind {
    /// Every kind.
    pub const ALL: [Self; 14] = [
        Self::Email,
        Self::PhoneNumber,
        Self::Iban,
        Self::CardNumber,
        Self::IpAddress,
        Self::UsSsn,
        Self::DeTaxId,
        Self::UkNino,
        Self::FrNir,
        Self::EsDni,
        Self::ItTaxCode,
        Self::PlPesel,
        Self::ChAhv,
        Self::BrCpf,
    ];

    /// Returns its name in settings, reasons, marks and placeholders.
    pub fn name(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::PhoneNumber => "phone_number",
            Self::Iban => "iban",
            Self::CardNumber => "card_number",
            Self::IpAddress => "ip_address",
            Self::UsSsn => "us_ssn",
            Self::DeTaxId => "de_tax_id",
            Self::UkNino => "uk_nino",
            Self::FrNir => "fr_nir",
            Self::EsDni => "es_dni",
            Self::ItTaxCode => "it_tax_code",
            Self::PlPesel => "pl_pesel",
            Self::ChAhv => "ch_ahv",
            Self::BrCpf => "br_cpf",
        }
    }
}

/// Personal data in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PersonalData {
    /// Its kind.
    pub kind: PersonalKind,
    /// Place of its first byte.
    pub start: usize,
    /// Place after its last byte.
    pub end: usize,
}

/// Returns the personal data of these kinds in a text, in their order.
pub fn personal(text: &str, kinds: &[PersonalKind]) -> Vec<PersonalData> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match data_at(bytes, at, kinds) {
            Some((kind, end)) => {
                found.push(PersonalData { kind, start: at, end });
                at = end;
            }
            None => at += 1,
        }
    }
    found
}

/// Finds data of one format at a place. Returns their end.
type PersonalFormat = fn(&[u8], usize) -> Option<usize>;

/// Returns the kind and the end of the data at a place.
fn data_at(text: &[u8], at: usize, kinds: &[PersonalKind]) -> Option<(PersonalKind, usize)> {
    let formats = formats(text[at]).iter().filter(|(kind, _)| kinds.contains(kind));
    let mut found = formats.filter_map(|(kind, format)| Some((*kind, format(text, at)?)));
    found.next()
}

/// Returns the formats of data that begin with a byte. Of two that match, the first counts.
fn formats(first: u8) -> &'static [(PersonalKind, PersonalFormat)] {
    match first {
        b'0'..=b'9' => &[
            (PersonalKind::Email, email::email),
            (PersonalKind::IpAddress, address::ip),
            (PersonalKind::UsSsn, national::us_ssn),
            (PersonalKind::BrCpf, identity::br_cpf),
            (PersonalKind::ChAhv, identity::ch_ahv),
            (PersonalKind::CardNumber, airlock_digits::card),
            (PersonalKind::FrNir, national::fr_nir),
            (PersonalKind::DeTaxId, national::de_tax_id),
            (PersonalKind::PlPesel, identity::pl_pesel),
            (PersonalKind::EsDni, identity::es_dni),
            (PersonalKind::PhoneNumber, phone::national),
        ],
        b'A'..=b'Z' => &[
            (PersonalKind::Email, email::email),
            (PersonalKind::Iban, airlock_digits::iban),
            (PersonalKind::IpAddress, address::ip),
            (PersonalKind::ItTaxCode, identity::it_tax_code),
            (PersonalKind::UkNino, national::uk_nino),
            (PersonalKind::EsDni, identity::es_dni),
        ],
        b'a'..=b'z' => {
            &[(PersonalKind::Email, email::email), (PersonalKind::IpAddress, address::ip)]
        }
        b'+' => &[(PersonalKind::PhoneNumber, phone::international)],
        b'(' => &[(PersonalKind::PhoneNumber, phone::national)],
        // Letters that are not ASCII.
        0xC3..=0xD4 => &[(PersonalKind::Email, email::email)],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_found_in_their_order_and_of_their_kinds_alone() {
        let text = "ann@a.example, +49 30 1234567, 4111 1111 1111 1111";
        let kinds: Vec<_> =
            personal(text, &PersonalKind::ALL).iter().map(|found| found.kind.name()).collect();
        assert_eq!(kinds, ["email", "phone_number", "card_number"]);
        let found = personal(text, &[PersonalKind::PhoneNumber]);
        let [phone] = found[..] else { panic!("there is one") };
        assert_eq!(&text[phone.start..phone.end], "+49 30 1234567");
    }

    #[test]
    fn the_time_is_linear_in_the_length_of_texts_that_begin_like_data() {
        for part in [
            "a.", "a@", "a@a.", "é", "+1 ", "+1(", "(030", "0", "1.", "1:", "a::", "DE89 ",
            "1111 ", "AA ",
        ] {
            // A quadratic scan would take minutes.
            let text = part.repeat((1 << 18) / part.len());
            assert!(personal(&text, &PersonalKind::ALL).len() < 1 << 16, "{part}");
        }
    }
}
