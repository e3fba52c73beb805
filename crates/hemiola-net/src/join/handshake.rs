//! Mutual challenge with the job secret, without a socket.
//!
//! ```text
//!  dialer                                   acceptor
//!    Hello { nonce a }            ────▶
//!                                 ◀────     Challenge { nonce b }
//!    Claim { intent, proof }      ────▶     proof  = HMAC(secret, "dialer",   job, a, b, intent)
//!                                 ◀────     Welcome { proof' }  or  Refused { why }
//!                                           proof' = HMAC(secret, "acceptor", job, a, b, intent)
//! ```
//! Both nonces are fresh, so an old conversation cannot be replayed; the role is part of the proof, so a proof cannot
//! be reflected; the intent is part of it, so nobody in between can change a rank. The dialer proves first: whoever
//! merely connects learns nothing.

use crate::secret::{PROOF_BYTES, Proof, Secret};
use hemiola_core::{JobId, Lane, Rank};
use serde::{Deserialize, Serialize};

/// A number used once.
pub(crate) type Nonce = [u8; PROOF_BYTES];

/// What a dialer wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Intent {
    /// To take part in the job.
    Join(Candidate),
    /// To be a lane between two peers that have joined.
    Link {
        /// The dialer's rank.
        rank: Rank,
        /// Which lane.
        lane: Lane,
    },
}

/// What a peer says of itself when it joins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Candidate {
    /// The rank it was given.
    pub(crate) rank: Rank,
    /// The size it was told.
    pub(crate) size: usize,
    /// How many of those it takes for dedicated servers.
    pub(crate) servers: usize,
    /// Where it listens.
    pub(crate) address: String,
    /// Its process, for people.
    pub(crate) process: u32,
}

/// Why someone may not join. Travels, so that both sides can say it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It does not know the secret.
    #[error("the job secret does not match: give every peer the same `HEMIOLA_SECRET`")]
    WrongSecret,
    /// It was told another number of peers.
    #[error("it expects a job of {theirs} peers, this job has {ours}")]
    WrongSize {
        /// The size of the job.
        ours: usize,
        /// The size it was told.
        theirs: usize,
    },
    /// It was told another number of dedicated servers.
    #[error(
        "it expects {theirs} of the peers to be dedicated servers, this job has {ours}: give every peer the same `HEMIOLA_SERVERS`"
    )]
    WrongServers {
        /// How many the job has.
        ours: usize,
        /// How many it was told.
        theirs: usize,
    },
    /// Its rank is not one of the job's.
    #[error("rank {rank} does not exist in a job of {size} peers")]
    NoSuchRank {
        /// The rank it was given.
        rank: Rank,
        /// The size of the job.
        size: usize,
    },
    /// Another peer has the rank.
    #[error("rank {rank} is taken by process {process} at {address}: two peers were given the same rank")]
    RankTaken {
        /// The rank both claim.
        rank: Rank,
        /// The process that has it.
        process: u32,
        /// Where that process is.
        address: String,
    },
    /// The job has begun.
    #[error("the job has begun: a peer cannot join late")]
    TooLate,
    /// It did not keep to the conversation.
    #[error("it did not follow the protocol: {reason}")]
    Protocol {
        /// What it did.
        reason: String,
    },
}

/// The messages of a handshake, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Handshake {
    Hello { nonce: Nonce },
    Challenge { nonce: Nonce },
    Claim { intent: Intent, proof: Proof },
    Welcome { proof: Proof },
    Refused(Refusal),
}

fn prove(secret: &Secret, role: &str, job: JobId, nonces: &[Nonce; 2], intent: &Intent) -> Proof {
    let intent = postcard::to_stdvec(intent).expect("an intent is plain data");
    secret.prove(&[role.as_bytes(), &job.number().to_le_bytes(), &nonces[0], &nonces[1], &intent])
}

fn verify(secret: &Secret, role: &str, job: JobId, nonces: &[Nonce; 2], intent: &Intent, proof: &Proof) -> bool {
    let intent = postcard::to_stdvec(intent).expect("an intent is plain data");
    secret.verify(&[role.as_bytes(), &job.number().to_le_bytes(), &nonces[0], &nonces[1], &intent], proof)
}

/// What an acceptor did instead of the next step: it may have refused us.
fn unexpected(message: &Handshake) -> Refusal {
    match message {
        Handshake::Refused(refusal) => refusal.clone(),
        other => out_of_turn(other),
    }
}

/// A step out of turn. Repeats nothing of what a stranger said.
fn out_of_turn(message: &Handshake) -> Refusal {
    let name = match message {
        Handshake::Hello { .. } => "hello",
        Handshake::Challenge { .. } => "challenge",
        Handshake::Claim { .. } => "claim",
        Handshake::Welcome { .. } => "welcome",
        Handshake::Refused(_) => "refusal",
    };
    Refusal::Protocol { reason: format!("it sent a {name} out of turn") }
}

/// The side that connects.
#[derive(Debug)]
pub(crate) struct Dialer {
    secret: Secret,
    job: JobId,
    nonces: [Nonce; 2],
    intent: Intent,
}

impl Dialer {
    /// Starts a handshake; `nonce` must be fresh.
    pub(crate) fn start(secret: Secret, job: JobId, intent: Intent, nonce: Nonce) -> (Self, Handshake) {
        (Self { secret, job, nonces: [nonce, [0; PROOF_BYTES]], intent }, Handshake::Hello { nonce })
    }

    /// Answers the challenge.
    pub(crate) fn challenged(&mut self, message: &Handshake) -> Result<Handshake, Refusal> {
        let Handshake::Challenge { nonce } = message else { return Err(unexpected(message)) };
        self.nonces[1] = *nonce;
        let proof = prove(&self.secret, "dialer", self.job, &self.nonces, &self.intent);
        Ok(Handshake::Claim { intent: self.intent.clone(), proof })
    }

    /// Hears the verdict, and checks that it comes from one who knows the secret.
    pub(crate) fn answered(&self, message: &Handshake) -> Result<(), Refusal> {
        let Handshake::Welcome { proof } = message else { return Err(unexpected(message)) };
        let genuine = verify(&self.secret, "acceptor", self.job, &self.nonces, &self.intent, proof);
        if genuine { Ok(()) } else { Err(Refusal::WrongSecret) }
    }
}

/// The side that is connected to.
#[derive(Debug)]
pub(crate) struct Acceptor {
    secret: Secret,
    job: JobId,
    nonces: [Nonce; 2],
}

impl Acceptor {
    /// Answers a hello; `nonce` must be fresh.
    pub(crate) fn start(
        secret: Secret,
        job: JobId,
        nonce: Nonce,
        hello: &Handshake,
    ) -> Result<(Self, Handshake), Refusal> {
        let Handshake::Hello { nonce: theirs } = hello else { return Err(out_of_turn(hello)) };
        Ok((Self { secret, job, nonces: [*theirs, nonce] }, Handshake::Challenge { nonce }))
    }

    /// Checks a claim. The caller decides whether to grant it; then [`welcome`](Self::welcome) tells the dialer.
    pub(crate) fn claimed(&self, message: Handshake) -> Result<Intent, Refusal> {
        let Handshake::Claim { intent, proof } = message else { return Err(out_of_turn(&message)) };
        if verify(&self.secret, "dialer", self.job, &self.nonces, &intent, &proof) {
            Ok(intent)
        } else {
            Err(Refusal::WrongSecret)
        }
    }

    /// The good answer, with our own proof.
    pub(crate) fn welcome(&self, intent: &Intent) -> Handshake {
        Handshake::Welcome { proof: prove(&self.secret, "acceptor", self.job, &self.nonces, intent) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId::new(5);

    fn intent() -> Intent {
        Intent::Link { rank: Rank::new(1), lane: Lane::Bulk }
    }

    fn converse(ours: &str, theirs: &str) -> (Result<Intent, Refusal>, Option<Result<(), Refusal>>) {
        let (mut dialer, hello) = Dialer::start(Secret::new(ours), JOB, intent(), [1; 32]);
        let (acceptor, challenge) = Acceptor::start(Secret::new(theirs), JOB, [2; 32], &hello).unwrap();
        let claim = dialer.challenged(&challenge).unwrap();
        let granted = acceptor.claimed(claim);
        let answer = granted.as_ref().ok().map(|intent| dialer.answered(&acceptor.welcome(intent)));
        (granted, answer)
    }

    #[test]
    fn those_who_share_the_secret_agree() {
        assert_eq!(converse("same", "same"), (Ok(intent()), Some(Ok(()))));
        assert_eq!(converse("mine", "yours"), (Err(Refusal::WrongSecret), None));
    }

    #[test]
    fn an_acceptor_without_the_secret_is_found_out() {
        let (mut dialer, hello) = Dialer::start(Secret::new("real"), JOB, intent(), [1; 32]);
        let (imposter, challenge) = Acceptor::start(Secret::new("guess"), JOB, [2; 32], &hello).unwrap();
        dialer.challenged(&challenge).unwrap();
        assert_eq!(dialer.answered(&imposter.welcome(&intent())), Err(Refusal::WrongSecret));
    }

    #[test]
    fn a_replayed_claim_fails_against_a_fresh_challenge() {
        let secret = Secret::new("s");
        let (mut dialer, hello) = Dialer::start(secret.clone(), JOB, intent(), [1; 32]);
        let (_, challenge) = Acceptor::start(secret.clone(), JOB, [2; 32], &hello).unwrap();
        let claim = dialer.challenged(&challenge).unwrap();
        let (later, _) = Acceptor::start(secret, JOB, [3; 32], &hello).unwrap();
        assert_eq!(later.claimed(claim), Err(Refusal::WrongSecret));
    }

    #[test]
    fn a_reflected_proof_or_changed_intent_fails() {
        let secret = Secret::new("s");
        let (mut dialer, hello) = Dialer::start(secret.clone(), JOB, intent(), [1; 32]);
        let (acceptor, challenge) = Acceptor::start(secret, JOB, [2; 32], &hello).unwrap();
        let Handshake::Claim { proof, .. } = dialer.challenged(&challenge).unwrap() else { unreachable!() };
        assert_eq!(dialer.answered(&Handshake::Welcome { proof }), Err(Refusal::WrongSecret));
        let other = Intent::Link { rank: Rank::new(2), lane: Lane::Bulk };
        assert_eq!(acceptor.claimed(Handshake::Claim { intent: other, proof }), Err(Refusal::WrongSecret));
    }

    #[test]
    fn steps_out_of_turn_are_refused() {
        let welcome = Handshake::Welcome { proof: [0; 32] };
        let refused = Acceptor::start(Secret::none(), JOB, [0; 32], &welcome).unwrap_err();
        assert_eq!(refused, Refusal::Protocol { reason: "it sent a welcome out of turn".into() });
    }
}
