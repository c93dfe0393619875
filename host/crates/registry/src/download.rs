//! Downloads from URLs.

use reqwest::{Method, StatusCode};
use url::Url;

use crate::{
    error::RegistryError,
    http::{HttpClient, OutgoingRequest, PlainHttp, host, read_bounded, refusal},
};

/// Files at the server of one URL.
pub struct Downloads {
    http: HttpClient,
}

impl Downloads {
    /// Creates a client of the server of a URL. Sends nothing.
    pub fn new(url: &Url, plain: PlainHttp) -> Result<Self, RegistryError> {
        Ok(Self { http: HttpClient::new(url, plain)? })
    }

    /// Gets a file; `None` if there is none. Fails if it has more than `limit` bytes.
    pub async fn get(&self, url: &Url, limit: u64) -> Result<Option<Vec<u8>>, RegistryError> {
        self.http.check(url)?;
        let response = self.http.send(OutgoingRequest::new(Method::GET, url.clone()), None).await?;
        let response = self.http.follow(url, response, None).await?;
        match response.status() {
            StatusCode::OK => {
                let what = format!("the file at {}", host(url));
                Ok(Some(read_bounded(url, response, &what, limit).await?))
            }
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(refusal(url, response, "the download").await),
        }
    }
}
