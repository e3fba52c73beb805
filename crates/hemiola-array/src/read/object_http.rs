//! How requests to object stores travel: a blocking HTTP client behind the asynchronous face that `object_store` asks for.
//!
//! Every request is done when its future is first polled, on the thread that polls, body and all. That is what a reader
//! wants, which has nothing else to do until its bytes are there. **Why not the client that `object_store` comes with:** it
//! resolves names on threads of its own and brings a second TLS stack.
//!
//! **Invariants:** no thread is started; every wait for the other side has a deadline; an answer takes no more memory than
//! [`LARGEST_ANSWER`]. Names are the exception: the system's resolver has its own deadline, and can only be left with a
//! thread.

use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use std::future::{Future, ready};
use std::io;
use std::pin::Pin;
use std::time::Duration;

/// No answer is larger: blocks are fetched in 8 MB, lists come in pages of a thousand.
const LARGEST_ANSWER: u64 = 64 << 20;
/// How long the other side may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long the other side may be silent.
const SILENCE: Duration = Duration::from_secs(30);

/// Makes clients.
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let plain = options.get_config_value(&ClientConfigKey::AllowHttp).as_deref() == Some("true");
        let config = ureq::Agent::config_builder()
            .https_only(!plain)
            .http_status_as_error(false)
            // WebDAV has methods of its own.
            .allow_non_standard_methods(true)
            .user_agent(concat!("hemiola/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .timeout_per_write(Some(SILENCE))
            .build();
        Ok(HttpClient::new(Client(config.new_agent())))
    }
}

#[derive(Debug)]
struct Client(ureq::Agent);

impl HttpService for Client {
    fn call<'a, 'f>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(ready(self.answer(request).map_err(explained)))
    }
}

impl Client {
    fn answer(&self, request: HttpRequest) -> Result<HttpResponse, ureq::Error> {
        let body = request.body().as_bytes().cloned().unwrap_or_default();
        let response = if body.is_empty() {
            self.0.run(request.map(|_| ()))?
        } else {
            self.0.run(request.map(|_| body.to_vec()))?
        };
        let (parts, mut body) = response.into_parts();
        let bytes = body.with_config().limit(LARGEST_ANSWER).read_to_vec()?;
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(bytes)))
    }
}

/// What kind of failure it was decides whether a request is repeated.
fn explained(error: ureq::Error) -> HttpError {
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
