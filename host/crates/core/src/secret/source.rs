//! Sources of secrets. Errors name the variable or the file, and never hold its contents.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use tracing::warn;

use super::Secret;

/// The longest secret, in bytes. A key with its chain of certificates has some 10 KB, and redaction searches for each
/// secret in several encodings. A file may have any number.
pub const MAX_BYTES: usize = 64 << 10;
/// The shortest secret, in bytes. Redaction of a shorter value would match in ordinary text: three
/// characters of base64 occur by chance once in 260 KB.
pub const MIN_BYTES: usize = 4;

/// Source of a secret: `env:NAME` or `file:PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of the gateway's environment.
    Env(String),
    /// A file that holds only the secret.
    File(PathBuf),
}

/// Reason why a text is not a source. It does not hold the text, so a secret that an operator
/// writes there by mistake does not reach a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSource {
    /// The text begins with neither `env:` nor `file:`.
    #[error(
        "must have the form \"env:NAME\" or \"file:PATH\"; the secret itself is never written here"
    )]
    Form,
    /// The name of the variable is not valid.
    #[error(
        "the name after \"env:\" must have only letters, digits and underscores, and must not begin with a digit"
    )]
    Name,
    /// The path is empty.
    #[error("the path after \"file:\" is empty")]
    Path,
}

/// Reason why no secret can be read from a source.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The variable is not set, or its value is not text.
    #[error("{origin} is not set, or is not text")]
    NotSet {
        /// The variable.
        origin: SecretSource,
    },
    /// The file does not exist, is not a regular file, or cannot be read.
    #[error("{origin} cannot be read")]
    Unreadable {
        /// The file.
        origin: SecretSource,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// Every user of the machine can write the file.
    #[error("every user of this machine can write to {origin}; remove that permission (chmod o-w)")]
    WorldWritable {
        /// The file.
        origin: SecretSource,
    },
    /// The file is not UTF-8.
    #[error("{origin} is not UTF-8 text")]
    NotText {
        /// The file.
        origin: SecretSource,
    },
    /// The value is empty.
    #[error("{origin} is empty")]
    Empty {
        /// The source.
        origin: SecretSource,
    },
    /// The value is shorter than [`MIN_BYTES`].
    #[error("{origin} has fewer than {MIN_BYTES} bytes, which is too short to redact")]
    TooShort {
        /// The source.
        origin: SecretSource,
    },
    /// The value is longer than [`MAX_BYTES`].
    #[error("{origin} has more than {MAX_BYTES} bytes")]
    TooLong {
        /// The source.
        origin: SecretSource,
    },
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "the environment variable {name}"),
            Self::File(path) => write!(f, "the file {}", path.display()),
        }
    }
}

impl SecretSource {
    /// Parses `env:NAME` or `file:PATH`. A relative path is resolved against `base`.
    pub fn parse(text: &str, base: &Path) -> Result<Self, BadSource> {
        if let Some(name) = text.strip_prefix("env:") {
            let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let begins = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
            return if is_name && begins {
                Ok(Self::Env(name.to_owned()))
            } else {
                Err(BadSource::Name)
            };
        }
        match text.strip_prefix("file:") {
            Some("") => Err(BadSource::Path),
            Some(path) => Ok(Self::File(base.join(path))),
            None => Err(BadSource::Form),
        }
    }

    /// Reads the secret: the value that `env` returns for the variable, or the contents of the file
    /// without one final line end. Logs a warning if other users can access the file. Fails if
    /// every user can write it.
    ///
    /// Blocks on the disk, so it must not run on a worker thread of the runtime.
    pub fn read(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Secret, SourceError> {
        let value = match self {
            Self::Env(name) => {
                env(name).ok_or_else(|| SourceError::NotSet { origin: self.clone() })?
            }
            Self::File(path) => self.read_file(path)?,
        };
        match value.len() {
            0 => Err(SourceError::Empty { origin: self.clone() }),
            1..MIN_BYTES => Err(SourceError::TooShort { origin: self.clone() }),
            MIN_BYTES..=MAX_BYTES => Ok(Secret::new(value)),
            _ => Err(SourceError::TooLong { origin: self.clone() }),
        }
    }

    fn read_file(&self, path: &Path) -> Result<String, SourceError> {
        let mode = mode(path).map_err(|cause| self.unreadable(cause))?;
        if mode & 0o002 != 0 {
            return Err(SourceError::WorldWritable { origin: self.clone() });
        }
        if mode & 0o077 != 0 {
            warn!(path = %path.display(), mode = %format_args!("{:04o}", mode & 0o7777), "other users can use a secret's file");
        }
        let mut bytes = Vec::new();
        // The longest secret, two bytes of its line end, and one byte that shows that it is longer.
        let limit = MAX_BYTES as u64 + 3;
        File::open(path)
            .and_then(|file| file.take(limit).read_to_end(&mut bytes))
            .map_err(|cause| self.unreadable(cause))?;
        let mut text =
            String::from_utf8(bytes).map_err(|_| SourceError::NotText { origin: self.clone() })?;
        let end = text
            .strip_suffix('\n')
            .map_or(text.len(), |line| line.strip_suffix('\r').unwrap_or(line).len());
        text.truncate(end);
        Ok(text)
    }

    fn unreadable(&self, cause: io::Error) -> SourceError {
        SourceError::Unreadable { origin: self.clone(), cause }
    }
}

/// Returns the mode of a regular file. Fails for all other kinds of files, because opening one
/// could block forever.
fn mode(path: &Path) -> io::Result<u32> {
    let metadata = fs::metadata(path)?;
    if metadata.is_file() {
        Ok(metadata.permissions().mode())
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    const VALUE: &str = "correct horse battery";

    fn no_env(_: &str) -> Option<String> {
        None
    }

    /// Creates a file with these contents and mode, and returns it as a source.
    fn file(directory: &tempfile::TempDir, contents: impl AsRef<[u8]>, mode: u32) -> SecretSource {
        let path = directory.path().join("token");
        fs::write(&path, contents).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("changed");
        SecretSource::parse("file:token", directory.path()).expect("a source")
    }

    fn read(contents: impl AsRef<[u8]>) -> Result<Secret, SourceError> {
        let directory = tempfile::tempdir().expect("a directory");
        file(&directory, contents, 0o600).read(&no_env)
    }

    #[test]
    fn a_source_is_a_variable_or_a_file_relative_to_the_base() {
        let base = Path::new("/etc/airlock");
        assert_eq!(parsed(base, "env:GITHUB_TOKEN"), Ok(SecretSource::Env("GITHUB_TOKEN".into())));
        assert_eq!(
            parsed(base, "file:keys/github"),
            Ok(SecretSource::File("/etc/airlock/keys/github".into()))
        );
        assert_eq!(
            parsed(base, "file:/run/secrets/x"),
            Ok(SecretSource::File("/run/secrets/x".into()))
        );
        for text in ["env:", "env:1A", "env:A B", "env:A=B", "env:Ä"] {
            assert_eq!(parsed(base, text), Err(BadSource::Name), "{text}");
        }
        assert_eq!(parsed(base, "file:"), Err(BadSource::Path));
        for text in ["", "GITHUB_TOKEN", "env.GITHUB_TOKEN", "ENV:A", "vault:x", "hunter2hunter2"] {
            assert_eq!(parsed(base, text), Err(BadSource::Form), "{text}");
        }
    }

    fn parsed(base: &Path, text: &str) -> Result<SecretSource, BadSource> {
        SecretSource::parse(text, base)
    }

    #[test]
    fn a_variable_is_read_unchanged() {
        let source = SecretSource::parse("env:TOKEN", Path::new("")).expect("a source");
        assert_eq!(read_with(&source, Some("pass word\n")).expect("read").expose(), "pass word\n");
        assert_eq!(read_with(&source, Some("four")).expect("read").expose(), "four");
        insta::assert_snapshot!(read_with(&source, None).expect_err("refused"), @"the environment variable TOKEN is not set, or is not text");
        insta::assert_snapshot!(read_with(&source, Some("")).expect_err("refused"), @"the environment variable TOKEN is empty");
        insta::assert_snapshot!(read_with(&source, Some("abc")).expect_err("refused"), @"the environment variable TOKEN has fewer than 4 bytes, which is too short to redact");
        let long = "x".repeat(MAX_BYTES);
        assert_eq!(read_with(&source, Some(&long)).expect("read").expose(), long);
        assert!(matches!(
            read_with(&source, Some(&format!("{long}x"))),
            Err(SourceError::TooLong { .. })
        ));
    }

    fn read_with(source: &SecretSource, value: Option<&str>) -> Result<Secret, SourceError> {
        source.read(&|name| value.filter(|_| name == "TOKEN").map(str::to_owned))
    }

    #[test]
    fn a_file_is_read_without_one_final_line_end() {
        for (contents, value) in [
            (VALUE.to_owned(), VALUE.to_owned()),
            (format!("{VALUE}\n"), VALUE.to_owned()),
            (format!("{VALUE}\r\n"), VALUE.to_owned()),
            (format!("{VALUE}\n\n"), format!("{VALUE}\n")),
            (format!(" {VALUE}\r"), format!(" {VALUE}\r")),
        ] {
            assert_eq!(read(&contents).expect("read").expose(), value, "{contents:?}");
        }
        let longest = "x".repeat(MAX_BYTES);
        assert_eq!(read(format!("{longest}\r\n")).expect("read").expose(), longest);
        for contents in
            [format!("{longest}x"), format!("{longest}\n\n"), "x".repeat(10 * MAX_BYTES)]
        {
            assert!(matches!(read(contents), Err(SourceError::TooLong { .. })));
        }
        for contents in ["", "\n", "\r\n"] {
            assert!(matches!(read(contents), Err(SourceError::Empty { .. })), "{contents:?}");
        }
        assert!(matches!(read("abc\n"), Err(SourceError::TooShort { .. })));
        assert!(matches!(read(b"\xff\xfe\xfd\xfc"), Err(SourceError::NotText { .. })));
    }

    #[test]
    fn a_world_writable_file_is_refused_and_a_world_readable_one_is_read() {
        let directory = tempfile::tempdir().expect("a directory");
        for mode in [0o600, 0o400, 0o640, 0o644, 0o660] {
            assert_eq!(
                file(&directory, VALUE, mode).read(&no_env).expect("read").expose(),
                VALUE,
                "{mode:o}"
            );
        }
        for mode in [0o602, 0o646, 0o777] {
            let refused = file(&directory, VALUE, mode).read(&no_env);
            assert!(matches!(refused, Err(SourceError::WorldWritable { .. })), "{mode:o}");
        }
    }

    #[test]
    fn an_error_names_the_file_and_never_holds_the_value() {
        let directory = tempfile::tempdir().expect("a directory");
        for path in [".", "absent"] {
            let source =
                SecretSource::parse(&format!("file:{path}"), directory.path()).expect("a source");
            let error = source.read(&no_env).expect_err("refused");
            assert!(matches!(error, SourceError::Unreadable { .. }), "{error:?}");
            assert!(
                error.to_string().contains(&directory.path().join(path).display().to_string()),
                "{error}"
            );
        }
        let refused = file(&directory, VALUE, 0o666).read(&no_env).expect_err("refused");
        assert!(!format!("{refused} {refused:?}").contains(VALUE));
        assert!(!format!("{:?}", SecretSource::parse(VALUE, directory.path())).contains(VALUE));
    }
}
