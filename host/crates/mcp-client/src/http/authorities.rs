//! Certificates that are trusted in addition to the system's.

use std::{io, path::PathBuf};

use reqwest::Certificate;

/// Maximum size of a file of certificates, in bytes, so that the path of another file is noticed
/// before it is read. The system's whole store is smaller.
const MAX_BYTES: u64 = 4 << 20;

/// Certificates that are trusted in addition to the system's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Authorities {
    /// None.
    #[default]
    System,
    /// Those in this text, in PEM format.
    Pem(String),
    /// Those in this file, in PEM format. It is read for each connection to the server.
    File(PathBuf),
}

/// Reason that certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadAuthorities {
    /// The text has none.
    #[error("the text of `ca_cert_pem` has no certificate in PEM format")]
    Text,
    /// The file cannot be read.
    #[error("the file of certificates {0} cannot be read")]
    Unreadable(PathBuf, #[source] io::Error),
    /// The file is too large.
    #[error("the file of certificates {0} is larger than 4 MiB")]
    TooLarge(PathBuf),
    /// The file has none.
    #[error("the file {0} has no certificate in PEM format")]
    File(PathBuf),
}

impl Authorities {
    /// Reads the certificates. Fails if there is none, unless only the system's are trusted.
    pub fn read(&self) -> Result<Vec<Certificate>, BadAuthorities> {
        match self {
            Self::System => Ok(Vec::new()),
            Self::Pem(pem) => parse(pem.as_bytes()).ok_or(BadAuthorities::Text),
            Self::File(path) => {
                let metadata = std::fs::metadata(path)
                    .map_err(|error| BadAuthorities::Unreadable(path.clone(), error))?;
                if metadata.len() > MAX_BYTES {
                    return Err(BadAuthorities::TooLarge(path.clone()));
                }
                let pem = std::fs::read(path)
                    .map_err(|error| BadAuthorities::Unreadable(path.clone(), error))?;
                parse(&pem).ok_or_else(|| BadAuthorities::File(path.clone()))
            }
        }
    }
}

/// Reads a bundle in PEM format; `None` if it has no certificate.
fn parse(pem: &[u8]) -> Option<Vec<Certificate>> {
    Certificate::from_pem_bundle(pem).ok().filter(|certificates| !certificates.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_strings::with_causes;

    #[test]
    fn text_and_files_without_certificates_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let pem = Authorities::Pem("x".into());
        insta::assert_snapshot!(refused(&pem, directory.path()), @"the text of `ca_cert_pem` has no certificate in PEM format");
        let path = directory.path().join("ca.pem");
        let file = Authorities::File(path.clone());
        insta::assert_snapshot!(refused(&file, directory.path()), @"the file of certificates …/ca.pem cannot be read: No such file or directory (os error 2)");
        std::fs::write(&path, "text").expect("a file");
        insta::assert_snapshot!(refused(&file, directory.path()), @"the file …/ca.pem has no certificate in PEM format");
        std::fs::File::create(&path).and_then(|file| file.set_len(MAX_BYTES)).expect("a file");
        assert!(refused(&file, directory.path()).contains("no certificate"));
        std::fs::File::create(&path).and_then(|file| file.set_len(MAX_BYTES + 1)).expect("a file");
        assert!(refused(&file, directory.path()).contains("larger than 4 MiB"));
        assert!(Authorities::System.read().is_ok_and(|certificates| certificates.is_empty()));
    }

    fn refused(authorities: &Authorities, directory: &std::path::Path) -> String {
        let error = with_causes(&authorities.read().expect_err("it is refused"));
        error.replace(&directory.display().to_string(), "…")
    }
}
