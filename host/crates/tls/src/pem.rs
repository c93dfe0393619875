//! Certificates and keys in PEM format.

use std::{fs::File, io::Read as _, path::Path};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

use super::error::{BadPem, PemPlace};

/// Maximum size of a file, in bytes, so that a path to another file by mistake does not fill the memory.
/// The system's whole store of certificates has a quarter of a megabyte.
pub const MAX_BYTES: u64 = 4 << 20;

/// Reads the certificates of a file, in its order. Fails if it has none, or if one is not in PEM format.
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, BadPem> {
    certificates(&read(path)?, PemPlace::File(path.to_owned()))
}

/// Parses the certificates of a text, like [`read_certificates`].
pub fn parse_certificates(text: &str) -> Result<Vec<CertificateDer<'static>>, BadPem> {
    certificates(text.as_bytes(), PemPlace::Text)
}

/// Reads a file, of which nothing is known yet. Fails if it is larger than [`MAX_BYTES`].
pub(super) fn read(path: &Path) -> Result<Vec<u8>, BadPem> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| BadPem::Unreadable(path.to_owned(), error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(BadPem::TooLarge(path.to_owned()));
    }
    Ok(bytes)
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
        // A device has no size.
        assert!(refused(Path::new("/dev/zero")).contains("larger than 4 MiB"));
        let text = parse_certificates("x").expect_err("it is refused").to_string();
        assert_eq!(text, "the text has no certificate in PEM format");
    }
}
