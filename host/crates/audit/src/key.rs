//! Keys: the one that signs, and the public one that checks, as C2SP `signed-note` writes them.

use std::{
    fmt,
    io::{self, Read as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    str::FromStr,
};

use airlock_core::{regular_file, secret};
use airlock_strings::hex;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use ring::{
    rand::{SecureRandom as _, SystemRandom},
    signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey},
};
use sha2::{Digest as _, Sha256};

/// Type of the signatures of a key: Ed25519 over the text of the note.
const ED25519_TYPE: u8 = 1;
/// Everything before the seed in a private key of Ed25519 (RFC 8410, section 7).
const PKCS8_OPENING: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";

/// Error: a text is not a private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSigningKey {
    /// It is not Base64, with or without the lines of a PEM file.
    #[error(
        "must be a private key in PEM form, as `openssl genpkey -algorithm ed25519` writes it, or its Base64 alone"
    )]
    Form,
    /// It is a key of another algorithm, or its parts do not belong together.
    #[error("is not a private key of Ed25519 in PKCS #8")]
    Algorithm,
}

/// Error: a private key cannot be read from its file.
#[derive(Debug, thiserror::Error)]
pub enum BadKeyFile {
    /// It does not exist, is not a regular file, or is not text.
    #[error("the key {} of the audit log cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// Others than its owner can use it.
    #[error(
        "the key {} of the audit log can be used by other users of this machine (mode {mode:04o}); restrict it (chmod 600), and rotate it if they may have read it",
        path.display()
    )]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It has no private key.
    #[error("the key {} of the audit log cannot be used: it {cause}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: BadSigningKey,
    },
}

/// Error: a text is no public key of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a public key of the form NAME+HASH+BASE64, as `airlock audit key` prints it, with the hash of its name and bytes"
)]
pub struct BadPublicKey;

/// The private key of a log. `Debug` does not show it.
pub struct SigningKey(Ed25519KeyPair);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(***)")
    }
}

impl SigningKey {
    /// Reads a private key: PKCS #8 in PEM, or its Base64 alone, so that it fits into a variable.
    pub fn parse(text: &str) -> Result<Self, BadSigningKey> {
        let text = text.trim();
        let body = match text.strip_prefix(PEM_BEGIN) {
            Some(rest) => rest.strip_suffix(PEM_END).ok_or(BadSigningKey::Form)?,
            None => text,
        };
        let body: String = body.split_ascii_whitespace().collect();
        let der = BASE64_STANDARD.decode(body).map_err(|_| BadSigningKey::Form)?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der);
        pair.map(Self).map_err(|_| BadSigningKey::Algorithm)
    }

    /// Reads a private key from its file, in a form of [`Self::parse`]. Fails if others than the owner of the file
    /// can use it.
    pub fn read(path: &Path) -> Result<Self, BadKeyFile> {
        let (mode, text) = read_file(path)
            .map_err(|cause| BadKeyFile::Unreadable { path: path.to_owned(), cause })?;
        if mode & 0o077 != 0 {
            return Err(BadKeyFile::Mode { path: path.to_owned(), mode });
        }
        Self::parse(&text).map_err(|cause| BadKeyFile::Content { path: path.to_owned(), cause })
    }

    /// Makes a key. Returns it, and its text for [`Self::parse`]. Fails if the system has no random bytes.
    pub(crate) fn generate() -> Option<(Self, String)> {
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).ok()?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).ok()?;
        let der = BASE64_STANDARD.encode([&PKCS8_OPENING[..], &seed].concat());
        Some((Self(pair), format!("{PEM_BEGIN}\n{der}\n{PEM_END}\n")))
    }

    /// Returns the public key, under this name.
    pub fn public(&self, name: &str) -> PublicKey {
        PublicKey { name: name.to_owned(), bytes: self.public_bytes() }
    }

    /// Returns the bytes of the public key.
    pub(crate) fn public_bytes(&self) -> [u8; 32] {
        self.0.public_key().as_ref().try_into().expect("a public key of Ed25519 has 32 bytes")
    }

    /// Signs a message.
    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).as_ref().try_into().expect("a signature of Ed25519 has 64 bytes")
    }
}

/// Returns the mode and the text of a file: those of one file, also if another one takes its name meanwhile.
fn read_file(path: &Path) -> io::Result<(u32, String)> {
    let file = regular_file::open(path)?;
    let mode = file.metadata()?.permissions().mode() & 0o7777;
    let mut text = String::new();
    file.take(secret::MAX_BYTES as u64).read_to_string(&mut text)?;
    Ok((mode, text))
}

/// The public key of a log, and the name that it signs for: the origin of the log. Written as
/// `NAME+HASH+BASE64`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PublicKey {
    name: String,
    bytes: [u8; 32],
}

impl PublicKey {
    /// Returns the name: the origin of the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the bytes.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// Returns the first bytes of the hash of name and key, which signatures carry to say whose they are.
    pub(crate) fn id(&self) -> [u8; 4] {
        let hash: [u8; 32] = Sha256::new()
            .chain_update(&self.name)
            .chain_update([b'\n', ED25519_TYPE])
            .chain_update(self.bytes)
            .finalize()
            .into();
        [hash[0], hash[1], hash[2], hash[3]]
    }

    /// Returns whether a signature is this key's.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.bytes).verify(message, signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encoded = BASE64_STANDARD.encode([&[ED25519_TYPE][..], &self.bytes].concat());
        write!(f, "{}+{}+{encoded}", self.name, hex(&self.id()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = BadPublicKey;

    fn from_str(text: &str) -> Result<Self, BadPublicKey> {
        // The Base64 may have a plus sign itself.
        let mut parts = text.trim().splitn(3, '+');
        let (Some(name), Some(id), Some(encoded)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(BadPublicKey);
        };
        let decoded = BASE64_STANDARD.decode(encoded).map_err(|_| BadPublicKey)?;
        let [ED25519_TYPE, bytes @ ..] = &*decoded else { return Err(BadPublicKey) };
        let bytes = bytes.try_into().map_err(|_| BadPublicKey)?;
        let key = Self { name: name.to_owned(), bytes };
        if is_name(name) && hex(&key.id()) == id { Ok(key) } else { Err(BadPublicKey) }
    }
}

/// Returns whether a text can be the name of a key.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 256
        && !text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '+')
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The key of the example in C2SP `signed-note`.
    const EXAMPLE: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";

    #[test]
    fn the_key_of_the_standard_is_read_and_written() {
        let key: PublicKey = EXAMPLE.parse().expect("a key");
        assert_eq!((key.name(), key.to_string().as_str()), ("example.com/foo", EXAMPLE));
        let example = "This is an example message.\n";
        let signature = "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=";
        let signature = BASE64_STANDARD.decode(signature).expect("Base64");
        assert_eq!(signature[..4], key.id());
        assert!(key.has_signed(example.as_bytes(), &signature[4..]));
        assert!(!key.has_signed(b"This is another message.\n", &signature[4..]));
    }

    #[test]
    fn a_key_with_another_hash_name_or_type_is_refused() {
        for text in [
            "",
            "example.com/foo",
            "example.com/bar+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
            "example.com/foo+530d903b+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
            "example.com/foo+530d903a+AukyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
            "example.com/foo+530d903a+Aeky",
        ] {
            assert_eq!(text.parse::<PublicKey>(), Err(BadPublicKey), "{text}");
        }
    }

    #[test]
    fn a_private_key_is_read_with_and_without_the_lines_of_pem_and_not_shown() {
        // RFC 8410, section 10.3.
        let body = "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC";
        let pem = format!("{PEM_BEGIN}\r\n{body}\r\n{PEM_END}\r\n");
        let expected = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";
        for text in [body, &pem] {
            let key = SigningKey::parse(text).expect("a key");
            assert_eq!(hex(&key.public_bytes()), expected);
            assert_eq!(format!("{key:?}"), "SigningKey(***)");
        }
        let (key, text) = SigningKey::generate().expect("random bytes");
        let again = SigningKey::parse(&text).expect("a key");
        assert_eq!(key.public_bytes(), again.public_bytes());
        assert!(matches!(SigningKey::parse("hunter2!"), Err(BadSigningKey::Form)));
        assert!(matches!(SigningKey::parse(&pem[..80]), Err(BadSigningKey::Form)));
        assert!(matches!(SigningKey::parse("AAAA"), Err(BadSigningKey::Algorithm)));
    }

    #[test]
    fn a_file_is_read_if_its_owner_alone_can_use_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key.pem");
        assert!(matches!(SigningKey::read(&path), Err(BadKeyFile::Unreadable { .. })));
        let (key, text) = SigningKey::generate().expect("random bytes");
        fs::write(&path, &text).expect("written");
        for mode in [0o600, 0o400] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("changed");
            let read = SigningKey::read(&path).expect("a key");
            assert_eq!(read.public_bytes(), key.public_bytes(), "{mode:o}");
        }
        for mode in [0o640, 0o604, 0o620, 0o602, 0o610] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("changed");
            let refused = SigningKey::read(&path).expect_err("refused");
            assert!(matches!(refused, BadKeyFile::Mode { mode: found, .. } if found == mode));
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
        fs::write(&path, "hunter2!").expect("written");
        let refused = SigningKey::read(&path).expect_err("refused");
        assert!(matches!(refused, BadKeyFile::Content { cause: BadSigningKey::Form, .. }));
        assert!(!format!("{refused} {refused:?}").contains("hunter2"));
        let device = directory.path().join("device");
        std::os::unix::fs::symlink("/dev/zero", &device).expect("a link");
        assert!(matches!(SigningKey::read(&device), Err(BadKeyFile::Unreadable { .. })));
    }
}
