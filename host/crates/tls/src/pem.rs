//! Certificates and keys in PEM format.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use rustix::fs::{Mode, OFlags};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

use super::error::{BadPem, PemPlace};

/// Maximum size of a file, in bytes, so that a path to another file by mistake does not fill the memory.
/// The system's whole store of certificates has a quarter of a megabyte.
pub const MAX_BYTES: u64 = 4 << 20;
/// Maximum length of a path, in bytes: that of Linux.
const MAX_PATH_BYTES: usize = 4_096;
/// Least length of a private key in Base64, in characters: that of Ed25519 in PKCS #8, of 48 bytes, is the
/// shortest.
const MIN_KEY_CHARACTERS: usize = 64;

/// Returns whether a text that should be the path of a certificate or a private key is the content of its
/// file: in PEM format, or in DER format as Base64. Such a text is not shown in an error.
pub fn is_content(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    let is_line = !text.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
    let has_armour = text.windows(ARMOUR.len()).any(|part| part == ARMOUR);
    !is_line || has_armour || text.len() > MAX_PATH_BYTES || is_der(text)
}

/// Returns whether a text is Base64 of a sequence (tag `0x30`), which each key and certificate is in DER
/// format. The byte after the tag is at most `0x7f`, or `0x80` and the number of bytes of the length.
fn is_der(text: &[u8]) -> bool {
    let is_base64 =
        text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    is_base64
        && text.len() >= MIN_KEY_CHARACTERS
        && text[0] == b'M'
        && matches!(text[1], b'A'..=b'I')
}

/// Reads the certificates of a file, in its order. Fails if it has none, or if one is not in PEM format.
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, BadPem> {
    certificates(&read(path)?, PemPlace::File(path.to_owned()))
}

/// Parses the certificates of a text, like [`read_certificates`].
pub(crate) fn parse_certificates(text: &str) -> Result<Vec<CertificateDer<'static>>, BadPem> {
    certificates(text.as_bytes(), PemPlace::Text)
}

/// Reads a file, of which nothing is known yet. Fails if it is not a regular file, or is larger than
/// [`MAX_BYTES`]. Does not wait for the other end of a pipe.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, BadPem> {
    if is_content(path) {
        return Err(BadPem::Content);
    }
    let mut bytes = Vec::new();
    let file = open(path).map_err(|error| BadPem::Unreadable(path.to_owned(), error))?;
    let file = file.ok_or_else(|| BadPem::NotRegular(path.to_owned()))?;
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| BadPem::Unreadable(path.to_owned(), error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(BadPem::TooLarge(path.to_owned()));
    }
    Ok(bytes)
}

/// Opens a file; `None` if it is not a regular one.
fn open(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let is_regular = file.metadata()?.is_file();
    Ok(is_regular.then_some(file))
}

/// Parses the only private key of a text, which may have certificates beside it.
pub(super) fn private_key(pem: &[u8], place: &PemPlace) -> Result<PrivateKeyDer<'static>, BadPem> {
    // PKCS #8 says so in its label, and the older forms in a header.
    if pem.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED) {
        return Err(BadPem::EncryptedKey(place.clone()));
    }
    let mut keys = PrivateKeyDer::pem_slice_iter(pem);
    let first = keys.next().and_then(Result::ok).ok_or_else(|| BadPem::NoKey(place.clone()))?;
    match keys.next() {
        None => Ok(first),
        Some(_) => Err(BadPem::SeveralKeys(place.clone())),
    }
}

const ENCRYPTED: &[u8] = b"ENCRYPTED";
/// Begin of each part of a text in PEM format.
const ARMOUR: &[u8] = b"-----BEGIN";

fn certificates(pem: &[u8], place: PemPlace) -> Result<Vec<CertificateDer<'static>>, BadPem> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(BadPem::NoCertificate(place)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_strings::with_causes;

    fn refused(path: &Path) -> String {
        let error = with_causes(&read_certificates(path).expect_err("it is refused"));
        error.replace(&path.parent().expect("a directory").display().to_string(), "…")
    }

    #[test]
    fn files_without_certificates_are_refused_by_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ca.pem");
        assert_eq!(
            refused(&path),
            "the file …/ca.pem cannot be read: No such file or directory (os error 2)"
        );
        std::fs::write(&path, "text").expect("a file");
        assert_eq!(refused(&path), "the file …/ca.pem has no certificate in PEM format");
        let broken = "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n";
        std::fs::write(&path, broken).expect("a file");
        assert_eq!(refused(&path), "the file …/ca.pem has no certificate in PEM format");
        for (bytes, expected) in
            [(MAX_BYTES, "has no certificate"), (MAX_BYTES + 1, "larger than 4 MiB")]
        {
            File::create(&path).and_then(|file| file.set_len(bytes)).expect("a file");
            assert!(refused(&path).contains(expected), "{bytes}");
        }
        assert_eq!(refused(Path::new("/dev/zero")), "…/zero is not a regular file");
        assert!(refused(directory.path()).ends_with("is not a regular file"));
        // Nothing writes to it, so that a read would wait for ever.
        let pipe = directory.path().join("pipe");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, Mode::RUSR, 0).expect("a pipe");
        assert_eq!(refused(&pipe), "…/pipe is not a regular file");
        let text = parse_certificates("x").expect_err("it is refused").to_string();
        assert_eq!(text, "the text has no certificate in PEM format");
    }

    #[test]
    fn the_content_of_a_file_in_place_of_its_path_is_refused_and_not_shown() {
        // A key of Ed25519 in PKCS #8, as Base64 of its DER format.
        let der = format!("MC4CAQAwBQYDK2VwBCIEI{}", "A".repeat(43));
        let long = "x/".repeat(2_048);
        for content in [
            "-----BEGIN PRIVATE KEY-----".to_owned(),
            "key\n".to_owned(),
            "a\rb".to_owned(),
            format!("{long}x"),
            format!("MIGHAgEAMBMGByqGSM49{}", "A".repeat(160)),
            der.clone(),
        ] {
            assert!(is_content(Path::new(&content)), "{content}");
            let error = with_causes(&read_certificates(Path::new(&content)).expect_err("refused"));
            assert_eq!(error, "expected the path of a PEM file, and not its content");
        }
        for path in
            ["key.pem", "/etc/airlock/key.pem", "MIGH", &der[..63], &der[1..], long.as_str()]
        {
            assert!(!is_content(Path::new(path)), "{path}");
        }
    }
}
