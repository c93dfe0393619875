//! Errors of the crate `anyhow`, by their causes.

use std::io;

use super::{Error, ErrorKind, kind_of};
use crate::http::HttpError;
use crate::kv::KvError;

/// Keeps an [`Error`] of this crate that was wrapped, with its kind, code and parts. Otherwise
/// the kind is that of the first cause that has one. The message has all causes.
impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Self {
        let message = format!("{error:#}");
        let mut ours = error
            .chain()
            .find_map(known)
            .unwrap_or_else(|| Self::new(ErrorKind::Internal, String::new()));
        ours.0.message = message;
        ours
    }
}

/// Converts a cause that has a kind of its own.
fn known(cause: &(dyn std::error::Error + 'static)) -> Option<Error> {
    if let Some(error) = cause.downcast_ref::<Error>() {
        return Some(error.clone());
    }
    if let Some(error) = cause.downcast_ref::<HttpError>() {
        return Some(error.clone().into());
    }
    if let Some(error) = cause.downcast_ref::<KvError>() {
        return Some(error.clone().into());
    }
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return Some(Error::new(kind_of(error.kind()), ""));
    }
    let error = cause.downcast_ref::<serde_json::Error>()?;
    let kind = if error.line() == 0 { ErrorKind::Internal } else { ErrorKind::InvalidInput };
    Some(Error::new(kind, "").with_code("json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_anyhow_has_the_text_of_all_causes_and_the_kind_of_the_first_known_one() {
        use anyhow::Context as _;
        let wrapped = |error: anyhow::Error| Error::from(error.context("reading the table"));
        let io = wrapped(io::Error::from(io::ErrorKind::NotFound).into());
        assert_eq!(
            (io.kind(), io.message()),
            (ErrorKind::NotFound, "reading the table: entity not found")
        );
        let ours = wrapped(Error::conflict("changed").with_code("version").into());
        assert_eq!((ours.kind(), ours.code()), (ErrorKind::Conflict, Some("version")));
        assert_eq!(ours.message(), "reading the table: changed");
        let kv = wrapped(KvError::QuotaExceeded.into());
        assert_eq!((kv.kind(), kv.code()), (ErrorKind::TooLarge, Some("kv_quota_exceeded")));
        let nested = Err::<(), _>(anyhow::anyhow!("odd")).context("outer").unwrap_err();
        assert_eq!(Error::from(nested).kind(), ErrorKind::Internal);
    }
}
