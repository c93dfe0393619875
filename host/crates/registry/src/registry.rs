//! Pulls and pushes one artifact of a registry.

use bytes::Bytes;
use reqwest::{Method, Response, StatusCode, header::HeaderValue};
use url::Url;

use crate::{
    credential::Credential,
    digest::Digest,
    error::RegistryError,
    http::{HttpClient, OutgoingRequest, PlainHttp, host, location, read_bounded, refusal},
    manifest::{self, Descriptor, MANIFEST, MAX_MANIFEST_BYTES, Manifest},
    reference::{ArtifactVersion, Reference},
    token::SignIn,
};

/// Header with the digest of a manifest.
const CONTENT_DIGEST: &str = "docker-content-digest";
/// Media type of a blob that is sent.
const BLOB: &str = "application/octet-stream";

/// The registry of one artifact.
pub struct Registry {
    http: HttpClient,
    /// URL of the artifact's name in the API, with `/` at its end.
    base: Url,
    reference: Reference,
    credential: Option<Credential>,
    /// Authorization that the registry has asked for.
    authorization: Option<HeaderValue>,
    scope: String,
}

/// An artifact that was pulled.
#[derive(Debug)]
pub struct PulledArtifact {
    /// Digest of its manifest.
    pub digest: Digest,
    /// The component.
    pub component: Vec<u8>,
    /// The text of its signature.
    pub signature: Option<String>,
}

/// An artifact to push.
#[derive(Debug, Clone, Copy)]
pub struct Artifact<'a> {
    /// The component.
    pub component: &'a [u8],
    /// Names of what it imports.
    pub imports: &'a [String],
    /// Names of what it exports.
    pub exports: &'a [String],
    /// The text of its signature.
    pub signature: Option<&'a str>,
}

impl Registry {
    /// Creates the client of the registry that has an artifact. Sends nothing.
    pub fn new(
        reference: Reference,
        credential: Option<Credential>,
        plain: PlainHttp,
    ) -> Result<Self, RegistryError> {
        let is_plain = reference.is_loopback() || plain == PlainHttp::Anywhere;
        let scheme = if is_plain { "http" } else { "https" };
        let text = format!("{scheme}://{}/v2/{}/", reference.authority(), reference.name());
        let base = Url::parse(&text).map_err(|_| RegistryError::Address(text))?;
        let http = HttpClient::new(&base, plain)?;
        let scope = format!("repository:{}:pull", reference.name());
        Ok(Self { http, base, reference, credential, authorization: None, scope })
    }

    /// Pulls the artifact. Fails if it is not one component, if that has more than `limit` bytes, or if
    /// anything is not what its digest says.
    pub async fn pull(&mut self, limit: u64) -> Result<PulledArtifact, RegistryError> {
        let (manifest, digest) = self.manifest().await?;
        let component = manifest.component(limit)?;
        let signature = manifest.signature().map(str::to_owned);
        Ok(PulledArtifact { component: self.blob(component).await?, digest, signature })
    }

    /// Pushes an artifact. Returns the digest of its manifest. Content that the registry has already is not
    /// sent again.
    pub async fn push(&mut self, artifact: &Artifact<'_>) -> Result<Digest, RegistryError> {
        self.scope = format!("repository:{}:pull,push", self.reference.name());
        let Artifact { component, imports, exports, signature } = *artifact;
        let config = manifest::config(component, imports, exports);
        let manifest = Manifest::new(component, &config, signature);
        self.upload(&manifest.config.digest, config).await?;
        for layer in &manifest.layers {
            self.upload(&layer.digest, component.to_vec()).await?;
        }
        let json = manifest.to_json();
        let digest = Digest::compute(&json);
        let version = match self.reference.version() {
            ArtifactVersion::Tag(tag) => tag.clone(),
            ArtifactVersion::Digest(_) => digest.to_string(),
        };
        let url = self.url(&format!("manifests/{version}"))?;
        let put = OutgoingRequest {
            body: Some((MANIFEST, Bytes::from(json))),
            ..OutgoingRequest::new(Method::PUT, url.clone())
        };
        let response = self.send(put).await?;
        expect(&url, response, StatusCode::CREATED, "the manifest").await?;
        Ok(digest)
    }

    /// Returns the manifest with its digest, which is that of the bytes that were sent.
    async fn manifest(&mut self) -> Result<(Manifest, Digest), RegistryError> {
        let version = match self.reference.version() {
            ArtifactVersion::Tag(tag) => tag.clone(),
            ArtifactVersion::Digest(digest) => digest.to_string(),
        };
        let url = self.url(&format!("manifests/{version}"))?;
        let get = OutgoingRequest {
            accept: Some(MANIFEST),
            ..OutgoingRequest::new(Method::GET, url.clone())
        };
        let response = self.send(get).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Err(RegistryError::Missing(self.reference.to_string()));
        }
        let response = expect(&url, response, StatusCode::OK, "the manifest").await?;
        let stated = response.headers().get(CONTENT_DIGEST).and_then(|value| value.to_str().ok());
        let stated: Option<Digest> = stated.and_then(|text| text.parse().ok());
        let json = read_bounded(&url, response, "the manifest", MAX_MANIFEST_BYTES).await?;
        let found = Digest::compute(&json);
        let named = match self.reference.version() {
            ArtifactVersion::Digest(digest) => Some(digest.clone()),
            ArtifactVersion::Tag(_) => stated,
        };
        if let Some(expected) = named.filter(|named| *named != found) {
            return Err(RegistryError::OtherContent { what: "the manifest", expected, found });
        }
        Ok((Manifest::parse(&json)?, found))
    }

    /// Returns the content of a blob.
    async fn blob(&mut self, blob: &Descriptor) -> Result<Vec<u8>, RegistryError> {
        let url = self.url(&format!("blobs/{}", blob.digest))?;
        let response = self.send(OutgoingRequest::new(Method::GET, url.clone())).await?;
        // Many registries keep blobs at another service.
        let response = self.http.follow(&url, response, self.authorization.as_ref()).await?;
        let response = expect(&url, response, StatusCode::OK, "the component").await?;
        let content = read_bounded(&url, response, "the component", blob.size).await?;
        let found = Digest::compute(&content);
        if found != blob.digest {
            let expected = blob.digest.clone();
            return Err(RegistryError::OtherContent { what: "the component", expected, found });
        }
        Ok(content)
    }

    /// Sends a blob that the registry does not have.
    async fn upload(&mut self, digest: &Digest, content: Vec<u8>) -> Result<(), RegistryError> {
        let url = self.url(&format!("blobs/{digest}"))?;
        let present = self.send(OutgoingRequest::new(Method::HEAD, url)).await?;
        if present.status() == StatusCode::OK {
            return Ok(());
        }
        let url = self.url("blobs/uploads/")?;
        let begun = self.send(OutgoingRequest::new(Method::POST, url.clone())).await?;
        let begun = expect(&url, begun, StatusCode::ACCEPTED, "the upload").await?;
        let mut place = location(&url, &begun)?;
        if place.origin() != url.origin() {
            // The content and the credential are for this registry alone.
            let reason = format!("uploads go to {}, another server", host(&place));
            return Err(RegistryError::Redirect { host: host(&url), reason });
        }
        place.query_pairs_mut().append_pair("digest", digest.as_str());
        let put = OutgoingRequest {
            body: Some((BLOB, Bytes::from(content))),
            ..OutgoingRequest::new(Method::PUT, place.clone())
        };
        let response = self.send(put).await?;
        expect(&place, response, StatusCode::CREATED, "the upload").await?;
        Ok(())
    }

    /// Sends a request to the registry. If it asks for credentials, signs in and sends the request again.
    async fn send(&mut self, request: OutgoingRequest) -> Result<Response, RegistryError> {
        let again = request.clone();
        let first = self.http.send(request, self.authorization.as_ref()).await?;
        if first.status() != StatusCode::UNAUTHORIZED {
            return Ok(first);
        }
        let sign_in = SignIn {
            http: &self.http,
            registry: &self.base,
            credential: self.credential.as_ref(),
            scope: &self.scope,
        };
        let authorization = sign_in.authorization(first.headers()).await?;
        let second = self.http.send(again, Some(&authorization)).await?;
        self.authorization = Some(authorization);
        Ok(second)
    }

    fn url(&self, path: &str) -> Result<Url, RegistryError> {
        // A digest has a colon, so that a path that begins with it would be a URL of its own.
        let joined = self.base.join(&format!("./{path}"));
        joined.map_err(|_| RegistryError::Address(path.to_owned()))
    }
}

/// Returns the response if it has a status; else the error with the message of the server.
async fn expect(
    from: &Url,
    response: Response,
    status: StatusCode,
    what: &str,
) -> Result<Response, RegistryError> {
    if response.status() == status {
        return Ok(response);
    }
    Err(refusal(from, response, what).await)
}

#[cfg(test)]
mod tests;
