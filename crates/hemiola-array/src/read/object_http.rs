//! HTTP transport for object stores: a blocking client behind the asynchronous interface of
//! `object_store`.
//!
//! Every request completes when its future is first polled, on the polling thread, body included. A
//! reader has nothing else to do until its bytes arrive. **Decision:** the client that comes with
//! `object_store` was rejected: it resolves names on its own threads and brings a second TLS stack.
//!
//! **Invariants:** no thread is started; every wait for the other side has a timeout; a response
//! takes no more memory than [`MAX_RESPONSE_BYTES`]. Name resolution is the exception: the system's
//! resolver has its own timeout, and could only be interrupted from another thread.

use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use std::future::{Future, ready};
use std::io;
use std::pin::Pin;
use std::time::Duration;

/// Maximum size of a response: blocks are fetched in 8 MB, lists come in pages of a thousand.
const MAX_RESPONSE_BYTES: u64 = 64 << 20;
/// Timeout for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the response and for each read and write.
const IO_TIMEOUT: Duration = Duration::from_secs(30);

/// Factory of HTTP clients.
#[derive(Debug)]
pub(super) struct BlockingHttpConnector;

impl HttpConnector for BlockingHttpConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let plain = options.get_config_value(&ClientConfigKey::AllowHttp).as_deref() == Some("true");
        let config = ureq::Agent::config_builder()
            .https_only(!plain)
            .http_status_as_error(false)
            // WebDAV has its own methods.
            .allow_non_standard_methods(true)
            .user_agent(concat!("hemiola/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(IO_TIMEOUT))
            .timeout_per_read(Some(IO_TIMEOUT))
            .timeout_per_write(Some(IO_TIMEOUT))
            .build();
        Ok(HttpClient::new(BlockingHttpClient(config.new_agent())))
    }
}

#[derive(Debug)]
struct BlockingHttpClient(ureq::Agent);

impl HttpService for BlockingHttpClient {
    fn call<'a, 'f>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(ready(self.send(request).map_err(to_http_error)))
    }
}

impl BlockingHttpClient {
    fn send(&self, request: HttpRequest) -> Result<HttpResponse, ureq::Error> {
        let body = request.body().as_bytes().cloned().unwrap_or_default();
        let response = if body.is_empty() {
            self.0.run(request.map(|_| ()))?
        } else {
            self.0.run(request.map(|_| body.to_vec()))?
        };
        let (parts, mut body) = response.into_parts();
        let bytes = body.with_config().limit(MAX_RESPONSE_BYTES).read_to_vec()?;
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(bytes)))
    }
}

/// Classifies a failure; the class decides whether the request is retried.
fn to_http_error(error: ureq::Error) -> HttpError {
    let kind = match &error {
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::ConnectionFailed => HttpErrorKind::Connect,
        ureq::Error::Io(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => HttpErrorKind::Connect,
            io::ErrorKind::TimedOut => HttpErrorKind::Timeout,
            io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => HttpErrorKind::Interrupted,
            _ => HttpErrorKind::Unknown,
        },
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, error)
}
