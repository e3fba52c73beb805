//! Certificates for TLS between peers. Both sides present one, signed by an authority that both
//! trust.
//!
//! TLS protects confidentiality and integrity of the traffic; the job secret still decides which
//! peers may join which job. Either all peers of a job use TLS or none does. Both sides check that
//! the certificate of the other is signed by the authority and made out to the name of the job.
//! Only TLS 1.3 is spoken, since both sides are of the same release.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme,
};
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

/// Verifier of the certificate of a connecting peer: signed by the authority, and made out to the
/// name of the job. The verifier of rustls checks the first alone, since clients usually have no
/// name.
#[derive(Debug)]
struct PeerCertificateVerifier {
    chain: Arc<dyn ClientCertVerifier>,
    name: ServerName<'static>,
}

impl ClientCertVerifier for PeerCertificateVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.chain.verify_client_cert(end_entity, intermediates, now)?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, &self.name)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// Certificate chain and key of a peer, and the authorities that it trusts.
#[derive(Debug)]
struct TlsMaterial {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    roots: Arc<RootCertStore>,
}

/// Certificate, key and trusted authority of a peer.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    material: Arc<TlsMaterial>,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    name: ServerName<'static>,
}

fn default_name() -> ServerName<'static> {
    ServerName::try_from(DEFAULT_TLS_NAME).expect("the default is a valid name")
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
        let name = default_name();
        Self::new(Arc::new(TlsMaterial { chain, key: private, roots: Arc::new(roots) }), name)
    }

    fn new(material: Arc<TlsMaterial>, name: ServerName<'static>) -> Result<Self, TlsError> {
        let invalid = |error: rustls::Error| TlsError::Invalid(error.to_string());
        let TlsMaterial { chain, key, roots } = &*material;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let signed = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| TlsError::Invalid(error.to_string()))?;
        let verifier = Arc::new(PeerCertificateVerifier { chain: signed, name: name.clone() });
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| {
                builder.with_client_cert_verifier(verifier).with_single_cert(chain.clone(), key.clone_key())
            })
            .map_err(invalid)?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| {
                builder.with_root_certificates(roots.clone()).with_client_auth_cert(chain.clone(), key.clone_key())
            })
            .map_err(invalid)?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server), name, material })
    }

    /// Sets the name to which certificates of peers must be issued, instead of `hemiola`.
    pub fn with_name(self, name: &str) -> Result<Self, TlsError> {
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| TlsError::Invalid(format!("`{name}` is not a valid name for a certificate")))?;
        Self::new(self.material, name)
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
