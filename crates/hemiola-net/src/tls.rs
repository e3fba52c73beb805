//! Certificates for TLS between peers. Both sides present one, signed by an authority that both
//! trust.
//!
//! TLS protects confidentiality and integrity of the traffic; the job secret still decides which
//! peers may join which job. Either all peers of a job use TLS or none does.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name to which the certificate of a peer must be issued, unless [`TlsConfig::with_name`] sets
/// another.
pub const DEFAULT_TLS_NAME: &str = "hemiola";

/// Error of the TLS set-up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file cannot be read, or holds no PEM of the right kind.
    #[error("cannot read {content} from `{}`: {reason}", path.display())]
    File {
        /// Expected content of the file.
        content: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error text of the operating system or the parser.
        reason: String,
    },
    /// Certificate, key and authority do not match.
    #[error("cannot use the certificates: {0}")]
    Invalid(String),
}

/// Certificate, key and trusted authority of a peer.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    name: ServerName<'static>,
}

impl TlsConfig {
    /// Reads the certificate chain and key of this peer, and the authority that signs all peers of
    /// the job, from PEM files.
    pub fn from_files(certificate: &Path, key: &Path, authority: &Path) -> Result<Self, TlsError> {
        let read = |content, path: &Path| {
            std::fs::read(path).map_err(|error| TlsError::File {
                content,
                path: path.into(),
                reason: error.to_string(),
            })
        };
        let no_pem = |content, path: &Path| {
            let path = path.to_path_buf();
            move |error: rustls::pki_types::pem::Error| TlsError::File { content, path, reason: error.to_string() }
        };
        let chain = CertificateDer::pem_slice_iter(&read("a certificate", certificate)?)
            .collect::<Result<Vec<_>, _>>()
            .map_err(no_pem("a certificate", certificate))?;
        let key_bytes = read("a private key", key)?;
        let private = PrivateKeyDer::from_pem_slice(&key_bytes).map_err(no_pem("a private key", key))?;
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(&read("an authority", authority)?) {
            let root = root.map_err(no_pem("an authority", authority))?;
            roots.add(root).map_err(|error| TlsError::Invalid(error.to_string()))?;
        }
        Self::new(chain, private, roots)
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        roots: RootCertStore,
    ) -> Result<Self, TlsError> {
        let invalid = |error: rustls::Error| TlsError::Invalid(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = Arc::new(roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| TlsError::Invalid(error.to_string()))?;
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder.with_client_cert_verifier(verifier).with_single_cert(chain.clone(), key.clone_key())
            })
            .map_err(invalid)?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_root_certificates(roots).with_client_auth_cert(chain, key))
            .map_err(invalid)?;
        let name = ServerName::try_from(DEFAULT_TLS_NAME).expect("the default is a valid name");
        Ok(Self { client: Arc::new(client), server: Arc::new(server), name })
    }

    /// Sets the name to which certificates of peers must be issued, instead of `hemiola`.
    pub fn with_name(mut self, name: &str) -> Result<Self, TlsError> {
        self.name = ServerName::try_from(name.to_owned())
            .map_err(|_| TlsError::Invalid(format!("`{name}` is not a valid name for a certificate")))?;
        Ok(self)
    }

    pub(crate) fn dial(&self) -> Result<Connection, TlsError> {
        ClientConnection::new(self.client.clone(), self.name.clone())
            .map(Connection::from)
            .map_err(|error| TlsError::Invalid(error.to_string()))
    }

    pub(crate) fn accept(&self) -> Result<Connection, TlsError> {
        ServerConnection::new(self.server.clone())
            .map(Connection::from)
            .map_err(|error| TlsError::Invalid(error.to_string()))
    }
}
