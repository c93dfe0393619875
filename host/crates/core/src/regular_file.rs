//! Regular files of the configuration. A path may lead to anything, such as a pipe or a device.

use std::{fs::File, io, path::Path};

use rustix::fs::{Mode, OFlags};

/// Opens a file for reading. Fails if it is not a regular one. Does not wait for the other end of a pipe.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_regular_file_is_opened_and_a_pipe_a_device_and_a_directory_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        let missing = open(&path).expect_err("there is none");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        std::fs::write(&path, "text").expect("a file");
        let mut text = String::new();
        open(&path).and_then(|mut file| file.read_to_string(&mut text)).expect("it is read");
        assert_eq!(text, "text");
        // Nothing writes to it, so that a read would wait for ever.
        let pipe = directory.path().join("pipe");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, Mode::RUSR, 0).expect("a pipe");
        for path in [pipe.as_path(), Path::new("/dev/zero"), directory.path()] {
            let refused = open(path).expect_err("it is refused");
            assert_eq!(refused.to_string(), "it is not a regular file", "{}", path.display());
        }
    }
}
