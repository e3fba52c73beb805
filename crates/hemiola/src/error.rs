//! Error of any layer: one enum for programs, with a variant per layer.
//!
//! Functions of the layers return [`cluster::Error`](crate::cluster::Error), which carries the error
//! of an upper layer in a box. **Invariant:** the conversion into [`Error`] and back loses nothing:
//! neither kind and text nor fields and sources. An error can therefore pass through a callback of a
//! layer and come out as the same variant.

use crate::core::{ErrorKind, PeerLost, TransportError};
use crate::{array, cluster, collective, loops, net, schedule, strategy, tables, training};
use std::error::Error as StdError;
use std::fmt;

/// Result of a program.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a program, with the error of the layer that failed.
///
/// [`kind`](Self::kind) names the party that has to act: the user, the operator of the machines, or the
/// developers of Hemiola. `Debug` prints the same text as `Display`, because a `main` that returns an
/// error shows it that way.
///
/// ```
/// use hemiola::core::ErrorKind;
/// use hemiola::prelude::*;
///
/// let read = |pattern: &str| {
///     hemiola::standalone(2).run(|cluster| {
///         let values = cluster.read_lines(pattern, |line| match line.trim().parse::<f64>() {
///             Ok(value) => Ok(Some(([0], value))),
///             Err(problem) => Err(problem.to_string()),
///         })?;
///         Ok(values.materialize()?.len())
///     })
/// };
/// match read("*.no-such-ending") {
///     Err(hemiola::Error::Array(hemiola::array::Error::NoFiles { pattern })) => {
///         assert_eq!(pattern, "*.no-such-ending");
///     }
///     Err(hemiola::Error::Tables(error)) => panic!("there are no tables here: {error}"),
///     Err(error) if error.kind() == ErrorKind::External => panic!("try again: {error}"),
///     other => panic!("{other:?}"),
/// }
/// ```
///
/// Errors of the program itself become [`Program`](Self::Program): texts, boxed errors, and those of
/// parsing, conversion, formatting, I/O and environment variables in the standard library by `?`, any
/// other error by [`Error::program`].
///
/// ```
/// let failed = hemiola::standalone(1).run(|_| {
///     let port: u16 = "many".parse()?;
///     Ok(port)
/// });
/// let Err(hemiola::Error::Program(error)) = failed else { panic!("{failed:?}") };
/// assert!(error.is::<std::num::ParseIntError>());
///
/// # #[derive(Debug)]
/// # struct MyError;
/// # impl std::fmt::Display for MyError {
/// #     fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
/// #         formatter.write_str("mine")
/// #     }
/// # }
/// # impl std::error::Error for MyError {}
/// # fn my_function() -> Result<(), MyError> {
/// #     Err(MyError)
/// # }
/// let failed = hemiola::standalone(1).run(|_| Ok(my_function().map_err(hemiola::Error::program)?));
/// assert_eq!(failed.unwrap_err().to_string(), "mine");
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The peers could not form a job.
    #[error("cannot join the job: {0}")]
    Join(#[source] net::JoinError),
    /// The cluster failed: a lost peer, a deadline, mismatched calls, an invalid setting.
    #[error(transparent)]
    Cluster(cluster::Error),
    /// An array could not be built, read or saved.
    #[error(transparent)]
    Array(array::Error),
    /// A parallel loop failed.
    #[error(transparent)]
    Loops(loops::Error),
    /// A table of the parameter server failed.
    #[error(transparent)]
    Tables(tables::Error),
    /// A collective or gossip averaging failed.
    #[error(transparent)]
    Collective(collective::Error),
    /// A scheduled program failed.
    #[error(transparent)]
    Schedule(schedule::Error),
    /// A model, a cluster description or a strategy was rejected.
    #[error(transparent)]
    Strategy(strategy::Error),
    /// A training run could not be resumed.
    #[error(transparent)]
    Training(training::Error),
    /// A model could not be trained, evaluated, saved or loaded.
    #[cfg(feature = "models")]
    #[error(transparent)]
    Models(crate::models::Error),
    /// A trainer of a neural network could not be built.
    #[cfg(feature = "nn")]
    #[error(transparent)]
    Nn(crate::nn::Error),
    /// The synchronization of a model's variables failed.
    #[cfg(feature = "nn")]
    #[error(transparent)]
    Sync(crate::sync::Error),
    /// A simulation could not run.
    #[cfg(feature = "sim")]
    #[error(transparent)]
    Sim(crate::sim::SimError),
    /// The program itself failed.
    #[error(transparent)]
    Program(Box<dyn StdError + Send + Sync>),
}

impl Error {
    /// Wraps an error of the program, so that `?` can return it from [`run`](crate::run).
    pub fn program(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Program(error.into())
    }

    /// Returns the party that has to act on the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Join(error) => error.kind(),
            Self::Cluster(error) => error.kind(),
            Self::Array(error) => error.kind(),
            Self::Loops(error) => error.kind(),
            Self::Tables(error) => error.kind(),
            Self::Collective(error) => error.kind(),
            Self::Schedule(error) => error.kind(),
            #[cfg(feature = "nn")]
            Self::Sync(error) => error.kind(),
            #[cfg(feature = "models")]
            Self::Models(_) => ErrorKind::Usage,
            #[cfg(feature = "nn")]
            Self::Nn(_) => ErrorKind::Usage,
            #[cfg(feature = "sim")]
            Self::Sim(_) => ErrorKind::Usage,
            Self::Strategy(_) | Self::Training(_) | Self::Program(_) => ErrorKind::Usage,
        }
    }

    /// Returns the lost peer behind this error, if it is a loss.
    #[must_use]
    pub fn lost_peer(&self) -> Option<&PeerLost> {
        match self {
            Self::Cluster(error) => error.lost_peer(),
            _ => None,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl From<cluster::Error> for Error {
    fn from(error: cluster::Error) -> Self {
        match error {
            cluster::Error::Join(error) => Self::Join(error),
            cluster::Error::Layer { kind, source } => from_layer(kind, source),
            cluster::Error::Program(error) => Self::Program(error),
            other => Self::Cluster(other),
        }
    }
}

impl From<Error> for cluster::Error {
    fn from(error: Error) -> Self {
        let kind = error.kind();
        let source: Box<dyn StdError + Send + Sync> = match error {
            Error::Join(error) => return Self::Join(error),
            Error::Cluster(error) => return error,
            Error::Program(error) => return Self::Program(error),
            Error::Array(error) => Box::new(error),
            Error::Loops(error) => Box::new(error),
            Error::Tables(error) => Box::new(error),
            Error::Collective(error) => Box::new(error),
            Error::Schedule(error) => Box::new(error),
            Error::Strategy(error) => Box::new(error),
            Error::Training(error) => Box::new(error),
            #[cfg(feature = "models")]
            Error::Models(error) => Box::new(error),
            #[cfg(feature = "nn")]
            Error::Nn(error) => Box::new(error),
            #[cfg(feature = "nn")]
            Error::Sync(error) => Box::new(error),
            #[cfg(feature = "sim")]
            Error::Sim(error) => Box::new(error),
        };
        Self::Layer { kind, source }
    }
}

/// Implements the conversions from the errors of layers that a cluster error carries in a box.
macro_rules! layers {
    ($($(#[$condition:meta])? $variant:ident($error:ty),)*) => {
        /// Returns the variant of the layer whose error this is. The error of a layer that the
        /// facade does not know stays in its box.
        fn from_layer(kind: ErrorKind, source: Box<dyn StdError + Send + Sync>) -> Error {
            $(
                $(#[$condition])?
                let source = match source.downcast::<$error>() {
                    Ok(error) => return Error::$variant(*error),
                    Err(source) => source,
                };
            )*
            Error::Cluster(cluster::Error::Layer { kind, source })
        }

        $(
            $(#[$condition])?
            impl From<$error> for Error {
                fn from(error: $error) -> Self {
                    Self::$variant(error)
                }
            }
        )*
    };
}

layers! {
    Array(array::Error),
    Loops(loops::Error),
    Tables(tables::Error),
    Collective(collective::Error),
    Schedule(schedule::Error),
    Strategy(strategy::Error),
    Training(training::Error),
    #[cfg(feature = "models")]
    Models(crate::models::Error),
    #[cfg(feature = "nn")]
    Nn(crate::nn::Error),
    #[cfg(feature = "nn")]
    Sync(crate::sync::Error),
    #[cfg(feature = "sim")]
    Sim(crate::sim::SimError),
}

/// Implements the conversions that go by way of the cluster's error.
macro_rules! by_way_of_the_cluster {
    ($($error:ty),* $(,)?) => {
        $(
            impl From<$error> for Error {
                fn from(error: $error) -> Self {
                    cluster::Error::from(error).into()
                }
            }
        )*
    };
}

by_way_of_the_cluster! {
    PeerLost,
    TransportError,
    net::JoinError,
    net::TlsError,
    cluster::launch::LaunchError,
    cluster::rank_assignment::RankAssignmentError,
    std::io::Error,
    Box<dyn StdError + Send + Sync>,
    String,
    &str,
}

/// Implements the conversions from errors of the standard library that programs return.
macro_rules! of_programs {
    ($($error:ty),* $(,)?) => {
        $(
            impl From<$error> for Error {
                fn from(error: $error) -> Self {
                    Self::program(error)
                }
            }
        )*
    };
}

of_programs! {
    fmt::Error,
    std::array::TryFromSliceError,
    std::char::ParseCharError,
    std::env::VarError,
    std::ffi::NulError,
    std::net::AddrParseError,
    std::num::ParseFloatError,
    std::num::ParseIntError,
    std::num::TryFromIntError,
    std::str::ParseBoolError,
    std::str::Utf8Error,
    std::string::FromUtf8Error,
    std::time::SystemTimeError,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts an error of a layer into the facade's, back, and again.
    fn there_and_back(error: impl Into<cluster::Error>) -> Error {
        cluster::Error::from(Error::from(error.into())).into()
    }

    #[test]
    fn the_error_of_a_layer_keeps_its_variant_kind_and_text() {
        let stopped = tables::Error::Stopped { table: "w".into(), reason: "no room".into() };
        let error = there_and_back(stopped.clone());
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::External, stopped.to_string()));
        assert!(matches!(error, Error::Tables(found) if found == stopped));
        let missing = array::Error::NoFiles { pattern: "x".into() };
        assert!(matches!(there_and_back(missing.clone()), Error::Array(found) if found == missing));
    }

    #[test]
    fn the_error_of_an_unknown_layer_stays_in_its_box() {
        let source = Box::new(fmt::Error);
        let error = there_and_back(cluster::Error::Layer { kind: ErrorKind::Bug, source });
        assert_eq!(error.kind(), ErrorKind::Bug);
        let Error::Cluster(cluster::Error::Layer { source, .. }) = &error else { panic!("{error}") };
        assert!(source.is::<fmt::Error>());
    }

    #[test]
    fn the_error_is_small_enough_to_return_by_value() {
        assert!(size_of::<Error>() < 128, "{}", size_of::<Error>());
    }

    #[test]
    fn common_errors_of_the_standard_library_are_errors_of_the_program() {
        fn fails(number: &str, name: &[u8]) -> Result<()> {
            let _: u8 = u8::try_from(number.parse::<i64>()?)?;
            let _: f64 = std::str::from_utf8(name)?.parse()?;
            Ok(())
        }
        let text = |number: &str, name: &[u8]| match fails(number, name) {
            Err(Error::Program(error)) => error.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text("x", b""), "invalid digit found in string");
        assert_eq!(text("300", b""), "out of range integral type conversion attempted");
        assert_eq!(text("3", b"\xff"), "invalid utf-8 sequence of 1 bytes from index 0");
        assert_eq!(text("3", b"y"), "invalid float literal");
    }

    #[test]
    fn an_error_of_the_program_keeps_its_type() {
        let error = there_and_back(std::io::Error::from(std::io::ErrorKind::StorageFull));
        let Error::Program(source) = &error else { panic!("{error}") };
        assert!(source.is::<std::io::Error>());
    }
}
