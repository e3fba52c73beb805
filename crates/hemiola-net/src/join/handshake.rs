//! Handshake: mutual challenge with the job secret, without a socket.
//!
//! ```text
//!  client                                   server
//!    Hello { nonce a }            ────▶
//!                                 ◀────     Challenge { nonce b }
//!    Claim { intent, proof }      ────▶     proof  = HMAC(secret, "dialer",   job, a, b, intent, binding)
//!                                 ◀────     Welcome { proof' }  or  Refused { why }
//!                                           proof' = HMAC(secret, "acceptor", job, a, b, intent, binding)
//!         all later frames are under       session = HMAC(secret, "session",  job, a, b, intent, binding)
//! ```
//! Both nonces are fresh, so an old handshake cannot be replayed. The role is part of the proof, so
//! a proof cannot be reflected. The intent is part of it, so a man in the middle cannot change a
//! rank. The binding identifies the TLS session, if there is one, so that the ends of two sessions
//! cannot be joined by a relay. The session key never travels: a relay that passes the handshake on
//! gets nothing it could read or change frames with.
//!
//! The job is part of every proof and is never sent: a connection learns nothing about the job
//! before it has proven the secret. The client proves first, so that a mere connection reveals
//! nothing. An impostor that is dialed gets one proof, which it may use to test guesses of the
//! secret at its leisure. That is why a secret has a minimum length
//! ([`MIN_SECRET_BYTES`](crate::MIN_SECRET_BYTES)) and should be random.

use crate::frame_authentication::SessionKeys;
use crate::secret::{PROOF_BYTES, Proof, Secret};
use hemiola_core::{JobId, Lane, Rank, printable};
use serde::{Deserialize, Serialize};

/// Random number that is used once.
pub(crate) type Nonce = [u8; PROOF_BYTES];

/// Intent of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ConnectionIntent {
    /// Join the job as a new peer.
    Join(JoinRequest),
    /// Open a lane between two peers that have joined.
    Connect {
        /// Rank of the client.
        rank: Rank,
        /// Lane of the connection.
        lane: Lane,
    },
}

/// Description of a peer that wants to join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JoinRequest {
    /// Rank that it was assigned.
    pub(crate) rank: Rank,
    /// Job size that it was given.
    pub(crate) size: usize,
    /// Number of dedicated servers that it was given.
    pub(crate) servers: usize,
    /// Address at which it listens.
    pub(crate) address: String,
    /// Process id, for error messages.
    pub(crate) process: u32,
}

/// Reason why a connection is refused. Sent to the other side, so that both can report it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum JoinRefusal {
    /// The proof does not match.
    #[error("the job secret or the job does not match: give every peer the same `HEMIOLA_SECRET` and `HEMIOLA_JOB`")]
    WrongSecret,
    /// The peer was given another number of peers.
    #[error("it expects a job of {theirs} peers, this job has {ours}")]
    WrongSize {
        /// Number of peers in the job.
        ours: usize,
        /// Number of peers that it was given.
        theirs: usize,
    },
    /// The peer was given another number of dedicated servers.
    #[error(
        "it expects {theirs} of the peers to be dedicated servers, this job has {ours}: give every peer the same `HEMIOLA_SERVERS`"
    )]
    WrongServers {
        /// Number of servers in the job.
        ours: usize,
        /// Number of servers that it was given.
        theirs: usize,
    },
    /// The rank is outside of the job.
    #[error("rank {rank} does not exist in a job of {size} peers")]
    NoSuchRank {
        /// Rank that it was given.
        rank: Rank,
        /// Number of peers in the job.
        size: usize,
    },
    /// Another peer has the rank.
    #[error("rank {rank} is taken by process {process} at {}: two peers were given the same rank", printable(address))]
    RankTaken {
        /// Rank that both claim.
        rank: Rank,
        /// Process id of the peer that has it.
        process: u32,
        /// Address of the peer that has it.
        address: String,
    },
    /// The job has already started.
    #[error("the job has already started: a peer cannot join late")]
    TooLate,
    /// The peer violated the protocol.
    #[error("it did not follow the protocol: {}", printable(reason))]
    Protocol {
        /// Description of the violation.
        reason: String,
    },
}

/// Messages of a handshake, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HandshakeMessage {
    Hello { nonce: Nonce },
    Challenge { nonce: Nonce },
    Claim { intent: ConnectionIntent, proof: Proof },
    Welcome { proof: Proof },
    Refused(JoinRefusal),
}

/// Values that both sides of a handshake have seen.
#[derive(Debug)]
struct Transcript {
    job: JobId,
    /// Nonces of the client and the server.
    nonces: [Nonce; 2],
    /// Value that identifies the TLS session; empty without TLS.
    binding: Vec<u8>,
}

impl Transcript {
    /// Calls `compute` with the parts of the message that a proof for `role` is computed over.
    fn with_parts<T>(&self, role: &str, intent: &ConnectionIntent, compute: impl FnOnce(&[&[u8]]) -> T) -> T {
        let intent = postcard::to_stdvec(intent).expect("an intent is plain data");
        let job = self.job.number().to_le_bytes();
        compute(&[role.as_bytes(), &job, &self.nonces[0], &self.nonces[1], &intent, &self.binding])
    }

    fn prove(&self, secret: &Secret, role: &str, intent: &ConnectionIntent) -> Proof {
        self.with_parts(role, intent, |parts| secret.prove(parts))
    }

    fn verify(&self, secret: &Secret, role: &str, intent: &ConnectionIntent, proof: &Proof) -> bool {
        self.with_parts(role, intent, |parts| secret.verify(parts, proof))
    }

    fn session_keys(&self, secret: &Secret, intent: &ConnectionIntent) -> SessionKeys {
        SessionKeys::expand(&self.prove(secret, "session", intent))
    }
}

/// Returns the refusal for an unexpected message of the server, which may itself be a refusal.
fn unexpected(message: &HandshakeMessage) -> JoinRefusal {
    match message {
        HandshakeMessage::Refused(refusal) => refusal.clone(),
        other => out_of_turn(other),
    }
}

/// Returns the refusal for a message out of turn. Repeats nothing of what an unauthenticated
/// connection sent.
fn out_of_turn(message: &HandshakeMessage) -> JoinRefusal {
    let name = match message {
        HandshakeMessage::Hello { .. } => "hello",
        HandshakeMessage::Challenge { .. } => "challenge",
        HandshakeMessage::Claim { .. } => "claim",
        HandshakeMessage::Welcome { .. } => "welcome",
        HandshakeMessage::Refused(_) => "refusal",
    };
    JoinRefusal::Protocol { reason: format!("it sent a {name} out of turn") }
}

/// Client side of a handshake.
#[derive(Debug)]
pub(crate) struct ClientHandshake {
    secret: Secret,
    transcript: Transcript,
    intent: ConnectionIntent,
}

impl ClientHandshake {
    /// Starts a handshake; `nonce` must be fresh.
    pub(crate) fn start(
        secret: Secret,
        job: JobId,
        intent: ConnectionIntent,
        nonce: Nonce,
    ) -> (Self, HandshakeMessage) {
        let transcript = Transcript { job, nonces: [nonce, [0; PROOF_BYTES]], binding: Vec::new() };
        (Self { secret, transcript, intent }, HandshakeMessage::Hello { nonce })
    }

    /// Answers the challenge of the server, on a connection with this TLS session.
    pub(crate) fn answer_challenge(
        &mut self,
        message: &HandshakeMessage,
        binding: Vec<u8>,
    ) -> Result<HandshakeMessage, JoinRefusal> {
        let HandshakeMessage::Challenge { nonce } = message else { return Err(unexpected(message)) };
        self.transcript.nonces[1] = *nonce;
        self.transcript.binding = binding;
        let proof = self.transcript.prove(&self.secret, "dialer", &self.intent);
        Ok(HandshakeMessage::Claim { intent: self.intent.clone(), proof })
    }

    /// Checks the final answer, including the proof that the server knows the secret. Returns the
    /// keys of all later frames.
    pub(crate) fn verify_welcome(&self, message: &HandshakeMessage) -> Result<SessionKeys, JoinRefusal> {
        let HandshakeMessage::Welcome { proof } = message else { return Err(unexpected(message)) };
        if self.transcript.verify(&self.secret, "acceptor", &self.intent, proof) {
            Ok(self.transcript.session_keys(&self.secret, &self.intent))
        } else {
            Err(JoinRefusal::WrongSecret)
        }
    }
}

/// Server side of a handshake.
#[derive(Debug)]
pub(crate) struct ServerHandshake {
    secret: Secret,
    transcript: Transcript,
}

impl ServerHandshake {
    /// Answers a hello on a connection with this TLS session; `nonce` must be fresh.
    pub(crate) fn start(
        secret: Secret,
        job: JobId,
        nonce: Nonce,
        hello: &HandshakeMessage,
        binding: Vec<u8>,
    ) -> Result<(Self, HandshakeMessage), JoinRefusal> {
        let HandshakeMessage::Hello { nonce: theirs } = hello else { return Err(out_of_turn(hello)) };
        let transcript = Transcript { job, nonces: [*theirs, nonce], binding };
        Ok((Self { secret, transcript }, HandshakeMessage::Challenge { nonce }))
    }

    /// Checks the claim of a client. The caller decides whether to grant it;
    /// [`welcome`](Self::welcome) then informs the client.
    pub(crate) fn verify_claim(&self, message: HandshakeMessage) -> Result<ConnectionIntent, JoinRefusal> {
        let HandshakeMessage::Claim { intent, proof } = message else { return Err(out_of_turn(&message)) };
        if self.transcript.verify(&self.secret, "dialer", &intent, &proof) {
            Ok(intent)
        } else {
            Err(JoinRefusal::WrongSecret)
        }
    }

    /// Creates the welcome message, with the proof of the server, and the keys of all later frames.
    pub(crate) fn welcome(&self, intent: &ConnectionIntent) -> (HandshakeMessage, SessionKeys) {
        let proof = self.transcript.prove(&self.secret, "acceptor", intent);
        (HandshakeMessage::Welcome { proof }, self.transcript.session_keys(&self.secret, intent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId::new(5);

    fn intent() -> ConnectionIntent {
        ConnectionIntent::Connect { rank: Rank::new(1), lane: Lane::Bulk }
    }

    fn run_handshake(
        ours: &str,
        theirs: &str,
    ) -> (Result<ConnectionIntent, JoinRefusal>, Option<Result<(), JoinRefusal>>) {
        run_relayed(ours, theirs, [b"", b""])
    }

    /// Runs a handshake whose sides see different TLS sessions.
    fn run_relayed(
        ours: &str,
        theirs: &str,
        bindings: [&[u8]; 2],
    ) -> (Result<ConnectionIntent, JoinRefusal>, Option<Result<(), JoinRefusal>>) {
        let (mut client, hello) = ClientHandshake::start(Secret::new(ours), JOB, intent(), [1; 32]);
        let (server, challenge) =
            ServerHandshake::start(Secret::new(theirs), JOB, [2; 32], &hello, bindings[1].to_vec()).unwrap();
        let claim = client.answer_challenge(&challenge, bindings[0].to_vec()).unwrap();
        let granted = server.verify_claim(claim);
        let answer = granted.as_ref().ok().map(|intent| {
            let (welcome, server_keys) = server.welcome(intent);
            client.verify_welcome(&welcome).map(|keys| assert_eq!(keys, server_keys))
        });
        (granted, answer)
    }

    #[test]
    fn a_relay_between_two_tls_sessions_is_noticed() {
        assert_eq!(run_relayed("same", "same", [b"one", b"one"]), (Ok(intent()), Some(Ok(()))));
        assert_eq!(run_relayed("same", "same", [b"one", b"two"]), (Err(JoinRefusal::WrongSecret), None));
    }

    #[test]
    fn session_keys_depend_on_the_secret_and_on_everything_that_was_said() {
        let keys = |secret: &str, job, nonces: [u8; 2], rank, binding: &[u8]| {
            let nonces = nonces.map(|nonce| [nonce; 32]);
            let intent = ConnectionIntent::Connect { rank: Rank::new(rank), lane: Lane::Bulk };
            let transcript = Transcript { job: JobId::new(job), nonces, binding: binding.to_vec() };
            transcript.session_keys(&Secret::new(secret), &intent)
        };
        let genuine = keys("s", 1, [1, 2], 1, b"x");
        assert_ne!(genuine.dialer, genuine.acceptor);
        let others = [
            keys("t", 1, [1, 2], 1, b"x"),
            keys("s", 2, [1, 2], 1, b"x"),
            keys("s", 1, [3, 2], 1, b"x"),
            keys("s", 1, [1, 3], 1, b"x"),
            keys("s", 1, [1, 2], 2, b"x"),
            keys("s", 1, [1, 2], 1, b"y"),
        ];
        for other in others {
            assert!(other.dialer != genuine.dialer && other.acceptor != genuine.acceptor);
        }
    }

    #[test]
    fn escapes_in_a_refusal_reach_no_terminal() {
        let refusal = JoinRefusal::Protocol { reason: "\u{1b}]0;owned\u{7}\r\n\u{9b}2J".into() };
        assert!(!refusal.to_string().contains(char::is_control), "{refusal:?}");
    }

    #[test]
    fn peers_with_equal_secrets_agree() {
        assert_eq!(run_handshake("same", "same"), (Ok(intent()), Some(Ok(()))));
        assert_eq!(run_handshake("mine", "yours"), (Err(JoinRefusal::WrongSecret), None));
    }

    #[test]
    fn a_server_without_the_secret_is_detected() {
        let (mut client, hello) = ClientHandshake::start(Secret::new("real"), JOB, intent(), [1; 32]);
        let (impostor, challenge) =
            ServerHandshake::start(Secret::new("guess"), JOB, [2; 32], &hello, Vec::new()).unwrap();
        client.answer_challenge(&challenge, Vec::new()).unwrap();
        assert_eq!(client.verify_welcome(&impostor.welcome(&intent()).0), Err(JoinRefusal::WrongSecret));
    }

    #[test]
    fn a_replayed_claim_fails_against_a_fresh_challenge() {
        let secret = Secret::new("s");
        let (mut client, hello) = ClientHandshake::start(secret.clone(), JOB, intent(), [1; 32]);
        let (_, challenge) = ServerHandshake::start(secret.clone(), JOB, [2; 32], &hello, Vec::new()).unwrap();
        let claim = client.answer_challenge(&challenge, Vec::new()).unwrap();
        let (later, _) = ServerHandshake::start(secret, JOB, [3; 32], &hello, Vec::new()).unwrap();
        assert_eq!(later.verify_claim(claim), Err(JoinRefusal::WrongSecret));
    }

    #[test]
    fn a_reflected_proof_or_changed_intent_fails() {
        let secret = Secret::new("s");
        let (mut client, hello) = ClientHandshake::start(secret.clone(), JOB, intent(), [1; 32]);
        let (server, challenge) = ServerHandshake::start(secret, JOB, [2; 32], &hello, Vec::new()).unwrap();
        let HandshakeMessage::Claim { proof, .. } = client.answer_challenge(&challenge, Vec::new()).unwrap() else {
            unreachable!()
        };
        assert_eq!(client.verify_welcome(&HandshakeMessage::Welcome { proof }), Err(JoinRefusal::WrongSecret));
        let other = ConnectionIntent::Connect { rank: Rank::new(2), lane: Lane::Bulk };
        assert_eq!(
            server.verify_claim(HandshakeMessage::Claim { intent: other, proof }),
            Err(JoinRefusal::WrongSecret)
        );
    }

    #[test]
    fn steps_out_of_turn_are_refused() {
        let welcome = HandshakeMessage::Welcome { proof: [0; 32] };
        let refused = ServerHandshake::start(Secret::none(), JOB, [0; 32], &welcome, Vec::new()).unwrap_err();
        assert_eq!(refused, JoinRefusal::Protocol { reason: "it sent a welcome out of turn".into() });
    }
}
