//! Secret shared by the peers of a job, and proofs of knowing it.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Smallest number of bytes in a secret that a user gives. An impostor that is dialed gets a proof
/// with which it can test guesses offline, so a secret must be hard to guess.
pub const MIN_SECRET_BYTES: usize = 16;

/// Secret of a job. It never crosses the wire and is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// Number of bytes in a [`Proof`] and in a challenge.
pub(crate) const PROOF_BYTES: usize = 32;

/// HMAC-SHA-256 over the messages of a handshake.
pub(crate) type Proof = [u8; PROOF_BYTES];

impl Secret {
    /// Creates a secret from these bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Creates an absent secret: the peers must then exchange one in a file.
    #[must_use]
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns true if there is no secret.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of bytes in the secret.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Creates a printable secret: `bytes`, which must be random, in hexadecimal.
    #[must_use]
    pub fn from_random(bytes: [u8; PROOF_BYTES]) -> Self {
        Self(bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect())
    }

    /// Returns the secret itself, to be written where only its owner can read it.
    #[must_use]
    pub fn expose(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// Creates a proof that this peer knows the secret and has seen `parts`.
    pub(crate) fn prove(&self, parts: &[&[u8]]) -> Proof {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Checks a proof in constant time.
    pub(crate) fn verify(&self, parts: &[&[u8]], proof: &Proof) -> bool {
        self.mac(parts).verify_slice(proof).is_ok()
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        for part in parts {
            // The length prefix distinguishes ("ab", "c") from ("a", "bc").
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.is_none() { "Secret(none)" } else { "Secret(..)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_depend_on_secret_and_on_every_part() {
        let secret = Secret::new("s3cret");
        let proof = secret.prove(&[b"ab", b"c"]);
        assert!(secret.verify(&[b"ab", b"c"], &proof));
        assert!(!secret.verify(&[b"a", b"bc"], &proof));
        assert!(!Secret::new("other").verify(&[b"ab", b"c"], &proof));
    }

    #[test]
    fn debug_output_does_not_leak() {
        assert_eq!(format!("{:?}", Secret::new("s3cret")), "Secret(..)");
    }
}
