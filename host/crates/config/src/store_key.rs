//! The keys that secrets in the store are sealed with, read from where the configuration says.

use std::{
    fs::File,
    io,
    io::Read as _,
    path::{Path, PathBuf},
};

use airlock_store::{self as store, SealKey, SealKeyError, Seals};

use super::config::{Config, SealKeySource, StoreSeal};

/// Longest file with a key, in bytes. A key has 64 hexadecimal digits; the rest is room for blanks around them.
const MAX_FILE_BYTES: usize = 1 << 10;

/// Reason that a key of the store cannot be used. The key is not shown.
#[derive(Debug, thiserror::Error)]
pub enum StoreKeyError {
    /// The file cannot be read, or has more than 1 KiB.
    #[error("`store_key`: the file {} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The text is no key.
    #[error("`store_key`, or one of `store_old_keys`, is not valid")]
    Invalid(#[source] SealKeyError),
}

impl Config {
    /// Returns the settings of the store, with the keys of its secrets. Blocks while it reads a small
    /// file, if the key is in one. Fails if a key cannot be read or is not valid.
    pub fn store_settings(&self) -> Result<store::Settings, StoreKeyError> {
        let seal = self.store_seal.as_ref().map(StoreSeal::read).transpose()?;
        Ok(store::Settings { seal, ..store::Settings::at(self.store.clone()) })
    }
}

impl StoreSeal {
    fn read(&self) -> Result<Seals, StoreKeyError> {
        let older = self.old_keys.iter().map(SealKeySource::read).collect::<Result<_, _>>()?;
        Ok(Seals::new(self.key.read()?, older))
    }
}

impl SealKeySource {
    fn read(&self) -> Result<SealKey, StoreKeyError> {
        let parsed = match self {
            Self::Text(text) => SealKey::parse(text.expose()),
            Self::File(path) => {
                let text = read_file(path)
                    .map_err(|source| StoreKeyError::Unreadable { path: path.clone(), source })?;
                SealKey::parse(&text)
            }
        };
        parsed.map_err(StoreKeyError::Invalid)
    }
}

/// Reads a file with a key. Fails if it has more than [`MAX_FILE_BYTES`]: the beginning of a longer one might be a key, and
/// the rest of it something else.
fn read_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    // One byte more than a key may have tells that the file is longer.
    File::open(path)?.take(MAX_FILE_BYTES as u64 + 1).read_to_string(&mut text)?;
    if text.len() > MAX_FILE_BYTES {
        let message = format!("it has more than {MAX_FILE_BYTES} bytes; expected a key alone");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use airlock_core::secret::Secret;

    const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn settings(source: SealKeySource) -> Result<store::Settings, StoreKeyError> {
        let config = Config::parse("{}", "test", &|_| None).expect("a configuration");
        let store_seal = Some(StoreSeal { key: source, old_keys: Vec::new() });
        Config { store_seal, ..config }.store_settings()
    }

    #[test]
    fn a_key_is_read_from_a_text_or_a_file_and_never_shown() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("key");
        let source = SealKeySource::File(file.clone());
        assert!(matches!(settings(source.clone()), Err(StoreKeyError::Unreadable { .. })));
        fs::write(&file, format!("{KEY}\n")).expect("a file");
        assert!(settings(source.clone()).is_ok_and(|settings| settings.seal.is_some()));
        fs::write(&file, "hunter2").expect("a file");
        let refused = settings(source).expect_err("no key");
        assert!(!format!("{refused:?} {refused}").contains("hunter2"));
        assert!(settings(SealKeySource::Text(Secret::new(KEY))).is_ok());
        assert!(settings(SealKeySource::Text(Secret::new(&KEY[1..]))).is_err());
    }

    #[test]
    fn a_file_that_is_longer_than_any_key_is_refused_and_not_cut() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("key");
        let source = SealKeySource::File(file.clone());
        fs::write(&file, format!("{KEY:<MAX_FILE_BYTES$}")).expect("a file");
        assert!(settings(source.clone()).is_ok_and(|settings| settings.seal.is_some()));
        fs::write(&file, format!("{KEY:<MAX_FILE_BYTES$}x")).expect("a file");
        let refused = settings(source).expect_err("it is longer than a key");
        let StoreKeyError::Unreadable { source, .. } = refused else { panic!("{refused:?}") };
        assert_eq!(source.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(source.to_string(), "it has more than 1024 bytes; expected a key alone");
    }
}
