//! Handshake: mutual challenge with the job secret, without a socket.
//!
//! ```text
//!  client                                   server
//!    Hello { nonce a }            ────▶
//!                                 ◀────     Challenge { nonce b }
//!    Claim { intent, proof }      ────▶     proof  = HMAC(secret, "dialer",   job, a, b, intent)
//!                                 ◀────     Welcome { proof' }  or  Refused { why }
//!                                           proof' = HMAC(secret, "acceptor", job, a, b, intent)
//! ```
//! Both nonces are fresh, so an old handshake cannot be replayed. The role is part of the proof, so
//! a proof cannot be reflected. The intent is part of it, so a man in the middle cannot change a
//! rank. The client proves first: a mere connection reveals nothing.

use crate::secret::{PROOF_BYTES, Proof, Secret};
use hemiola_core::{JobId, Lane, Rank};
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
    /// The secret does not match.
    #[error("the job secret does not match: give every peer the same `HEMIOLA_SECRET`")]
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
    #[error("rank {rank} is taken by process {process} at {address}: two peers were given the same rank")]
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
    #[error("it did not follow the protocol: {reason}")]
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

fn prove(secret: &Secret, role: &str, job: JobId, nonces: &[Nonce; 2], intent: &ConnectionIntent) -> Proof {
    let intent = postcard::to_stdvec(intent).expect("an intent is plain data");
    secret.prove(&[role.as_bytes(), &job.number().to_le_bytes(), &nonces[0], &nonces[1], &intent])
}

fn verify(
    secret: &Secret,
    role: &str,
    job: JobId,
    nonces: &[Nonce; 2],
    intent: &ConnectionIntent,
    proof: &Proof,
) -> bool {
    let intent = postcard::to_stdvec(intent).expect("an intent is plain data");
    secret.verify(&[role.as_bytes(), &job.number().to_le_bytes(), &nonces[0], &nonces[1], &intent], proof)
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
    job: JobId,
    nonces: [Nonce; 2],
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
        (Self { secret, job, nonces: [nonce, [0; PROOF_BYTES]], intent }, HandshakeMessage::Hello { nonce })
    }

    /// Answers the challenge of the server.
    pub(crate) fn answer_challenge(&mut self, message: &HandshakeMessage) -> Result<HandshakeMessage, JoinRefusal> {
        let HandshakeMessage::Challenge { nonce } = message else { return Err(unexpected(message)) };
        self.nonces[1] = *nonce;
        let proof = prove(&self.secret, "dialer", self.job, &self.nonces, &self.intent);
        Ok(HandshakeMessage::Claim { intent: self.intent.clone(), proof })
    }

    /// Checks the final answer, including the proof that the server knows the secret.
    pub(crate) fn verify_welcome(&self, message: &HandshakeMessage) -> Result<(), JoinRefusal> {
        let HandshakeMessage::Welcome { proof } = message else { return Err(unexpected(message)) };
        let genuine = verify(&self.secret, "acceptor", self.job, &self.nonces, &self.intent, proof);
        if genuine { Ok(()) } else { Err(JoinRefusal::WrongSecret) }
    }
}

/// Server side of a handshake.
#[derive(Debug)]
pub(crate) struct ServerHandshake {
    secret: Secret,
    job: JobId,
    nonces: [Nonce; 2],
}

impl ServerHandshake {
    /// Answers a hello; `nonce` must be fresh.
    pub(crate) fn start(
        secret: Secret,
        job: JobId,
        nonce: Nonce,
        hello: &HandshakeMessage,
    ) -> Result<(Self, HandshakeMessage), JoinRefusal> {
        let HandshakeMessage::Hello { nonce: theirs } = hello else { return Err(out_of_turn(hello)) };
        Ok((Self { secret, job, nonces: [*theirs, nonce] }, HandshakeMessage::Challenge { nonce }))
    }

    /// Checks the claim of a client. The caller decides whether to grant it;
    /// [`welcome`](Self::welcome) then informs the client.
    pub(crate) fn verify_claim(&self, message: HandshakeMessage) -> Result<ConnectionIntent, JoinRefusal> {
        let HandshakeMessage::Claim { intent, proof } = message else { return Err(out_of_turn(&message)) };
        if verify(&self.secret, "dialer", self.job, &self.nonces, &intent, &proof) {
            Ok(intent)
        } else {
            Err(JoinRefusal::WrongSecret)
        }
    }

    /// Creates the welcome message, with the proof of the server.
    pub(crate) fn welcome(&self, intent: &ConnectionIntent) -> HandshakeMessage {
        HandshakeMessage::Welcome { proof: prove(&self.secret, "acceptor", self.job, &self.nonces, intent) }
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
        let (mut client, hello) = ClientHandshake::start(Secret::new(ours), JOB, intent(), [1; 32]);
        let (server, challenge) = ServerHandshake::start(Secret::new(theirs), JOB, [2; 32], &hello).unwrap();
        let claim = client.answer_challenge(&challenge).unwrap();
        let granted = server.verify_claim(claim);
        let answer = granted.as_ref().ok().map(|intent| client.verify_welcome(&server.welcome(intent)));
        (granted, answer)
    }

    #[test]
    fn peers_with_equal_secrets_agree() {
        assert_eq!(run_handshake("same", "same"), (Ok(intent()), Some(Ok(()))));
        assert_eq!(run_handshake("mine", "yours"), (Err(JoinRefusal::WrongSecret), None));
    }

    #[test]
    fn a_server_without_the_secret_is_detected() {
        let (mut client, hello) = ClientHandshake::start(Secret::new("real"), JOB, intent(), [1; 32]);
        let (impostor, challenge) = ServerHandshake::start(Secret::new("guess"), JOB, [2; 32], &hello).unwrap();
        client.answer_challenge(&challenge).unwrap();
        assert_eq!(client.verify_welcome(&impostor.welcome(&intent())), Err(JoinRefusal::WrongSecret));
    }

    #[test]
    fn a_replayed_claim_fails_against_a_fresh_challenge() {
        let secret = Secret::new("s");
        let (mut client, hello) = ClientHandshake::start(secret.clone(), JOB, intent(), [1; 32]);
        let (_, challenge) = ServerHandshake::start(secret.clone(), JOB, [2; 32], &hello).unwrap();
        let claim = client.answer_challenge(&challenge).unwrap();
        let (later, _) = ServerHandshake::start(secret, JOB, [3; 32], &hello).unwrap();
        assert_eq!(later.verify_claim(claim), Err(JoinRefusal::WrongSecret));
    }

    #[test]
    fn a_reflected_proof_or_changed_intent_fails() {
        let secret = Secret::new("s");
        let (mut client, hello) = ClientHandshake::start(secret.clone(), JOB, intent(), [1; 32]);
        let (server, challenge) = ServerHandshake::start(secret, JOB, [2; 32], &hello).unwrap();
        let HandshakeMessage::Claim { proof, .. } = client.answer_challenge(&challenge).unwrap() else {
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
        let refused = ServerHandshake::start(Secret::none(), JOB, [0; 32], &welcome).unwrap_err();
        assert_eq!(refused, JoinRefusal::Protocol { reason: "it sent a welcome out of turn".into() });
    }
}
