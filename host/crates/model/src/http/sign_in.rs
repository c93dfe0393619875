//! The interface of credentials: what adds one to a request.

use std::fmt;

use bytes::Bytes;
use futures_util::{
    FutureExt as _,
    future::{self, BoxFuture},
};
use http::{HeaderMap, request::Parts};

use super::HttpClient;
use crate::ModelError;

/// Adds a credential to requests.
pub(crate) trait SignIn: fmt::Debug + Send + Sync {
    /// Returns the headers of every request, if the credential is one of them. Then no request is signed.
    fn headers(&self) -> Option<&HeaderMap> {
        None
    }

    /// Signs a request in, unless the credential is among the headers of every request. Nothing of it changes afterwards.
    /// Fails if there is no credential.
    fn sign<'a>(
        &'a self,
        _client: &'a HttpClient,
        _head: &'a mut Parts,
        _body: &'a Bytes,
    ) -> BoxFuture<'a, Result<(), ModelError>> {
        future::ready(Ok(())).boxed()
    }
}
