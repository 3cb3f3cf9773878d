//! The words between a worker that is elsewhere and its server: every call that there is. What is not
//! among them cannot be asked for.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flow::event::Lease;
use flow::{Actor, Queue, TicketId, Time, Usage, What};
use serde::{Deserialize, Serialize};
use store::{
    Agent, Artefact, ClaimRequest, ClaimTarget, Ended, JobId, JobQuery, Page, Parcel, Pause,
    TicketQuery,
};

/// Where it is called.
pub const PATH: &str = "/api/v1/worker";
/// A parcel of the largest size, in the letters that it travels in, and some words around it.
pub const BODY_MAX: usize = store::PARCEL_BYTES_MAX / 3 * 4 + (1 << 20);
/// Everything but parcels and files is shorter.
pub const WORDS_MAX: usize = 16 << 20;
/// Of a longer file only so much is kept on the server.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// No wait is longer.
pub const WAIT_MAX: Duration = Duration::from_secs(50);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Call {
    Now {},
    Ticket {
        id: TicketId,
    },
    Tickets {
        query: TicketQuery,
        page: Page,
    },
    Jobs {
        query: JobQuery,
        page: Page,
    },
    Job {
        id: JobId,
    },
    JobByKey {
        key: String,
    },
    /// Whether anything is open in these queues, or in any.
    HasOpen {
        queues: Option<Vec<Queue>>,
    },
    Claim {
        request: ClaimRequest,
    },
    Finish {
        ended: Vec<Ended>,
    },
    Renew {
        job: JobId,
        fence: u64,
        lease: Duration,
    },
    Wait {
        request: ClaimRequest,
        most: Duration,
    },
    Commit(Box<Decided>),
    Keep(Kept),
    /// The worker has refused something by itself.
    Refuse(Refusal),
    Recall {
        key: String,
    },
    Spend(Spent),
    SpentSince {
        time: Time,
    },
    Pause {
        pause: Pause,
    },
    Pauses {},
    Statements {
        ticket: TicketId,
        lease: Lease,
        most: u32,
    },
    Rules {
        repository: String,
        most: u32,
    },
    Beat {
        agent: Agent,
    },
    Issue(Box<Pass>),
    /// Whether the caller's own token is good.
    Me {
        hash: String,
    },
    Withdraw {
        token: String,
    },
    PutParcel(Packed),
    Parcel {
        key: String,
    },
    WantParcel {
        key: String,
    },
}

impl Call {
    /// As it is called in records.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Now {} => "now",
            Self::Ticket { .. } => "ticket",
            Self::Tickets { .. } => "tickets",
            Self::Jobs { .. } => "jobs",
            Self::Job { .. } => "job",
            Self::JobByKey { .. } => "job_by_key",
            Self::HasOpen { .. } => "has_open",
            Self::Claim { .. } => "claim",
            Self::Finish { .. } => "finish",
            Self::Renew { .. } => "renew",
            Self::Wait { .. } => "wait",
            Self::Commit(_) => "commit",
            Self::Keep(_) => "keep",
            Self::Refuse(_) => "refuse",
            Self::Recall { .. } => "recall",
            Self::Spend(_) => "spend",
            Self::SpentSince { .. } => "spent_since",
            Self::Pause { .. } => "pause",
            Self::Pauses {} => "pauses",
            Self::Statements { .. } => "statements",
            Self::Rules { .. } => "rules",
            Self::Beat { .. } => "beat",
            Self::Issue(_) => "issue",
            Self::Me { .. } => "me",
            Self::Withdraw { .. } => "withdraw",
            Self::PutParcel(_) => "put_parcel",
            Self::Parcel { .. } => "parcel",
            Self::WantParcel { .. } => "want_parcel",
        }
    }

    /// It carries something that may be large, one way or the other.
    pub fn is_heavy(&self) -> bool {
        matches!(
            self,
            Self::PutParcel(_) | Self::Parcel { .. } | Self::Keep(_)
        )
    }

    /// The ticket that it would change.
    pub fn ticket(&self) -> Option<&TicketId> {
        match self {
            Self::Commit(decided) => Some(&decided.ticket),
            Self::Keep(kept) => Some(&kept.ticket),
            Self::Issue(pass) => Some(&pass.ticket),
            Self::Claim { request } => match &request.only {
                Some(ClaimTarget::Ticket(ticket)) => Some(ticket),
                Some(ClaimTarget::Job(_)) | None => None,
            },
            _ => None,
        }
    }
}

/// What happened, as the worker saw it. What follows from it is the server's to decide.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decided {
    pub ticket: TicketId,
    /// The version that the worker decided on.
    pub was: u64,
    pub by: Actor,
    pub what: What,
    pub artefacts: Vec<Artefact>,
}

/// A file of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    pub ticket: TicketId,
    pub lease: Lease,
    /// Below the data directory.
    pub path: String,
    pub bytes: Letters,
}

/// What a try of a task has cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spent {
    pub job: JobId,
    pub fence: u64,
    /// The fence that it ran under: that of an earlier holder where only its report was lost.
    pub run: u64,
    pub usage: Usage,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    pub ticket: Option<TicketId>,
    pub event: String,
    pub why: String,
}

/// A token for one run of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pass {
    pub id: String,
    pub hash: String,
    pub by: Actor,
    pub ticket: TicketId,
    pub lease: Lease,
    pub lasts_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packed {
    pub key: String,
    pub tip: String,
    pub why: Option<String>,
    pub bytes: Option<Letters>,
}

impl From<Parcel> for Packed {
    fn from(parcel: Parcel) -> Self {
        Self {
            key: parcel.key,
            tip: parcel.tip,
            why: parcel.why,
            bytes: parcel.bytes.map(Letters),
        }
    }
}

impl From<Packed> for Parcel {
    fn from(packed: Packed) -> Self {
        Self {
            key: packed.key,
            tip: packed.tip,
            why: packed.why,
            bytes: packed.bytes.map(|letters| letters.0),
        }
    }
}

/// Bytes that travel as letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Letters(pub Vec<u8>);

impl From<Letters> for String {
    fn from(letters: Letters) -> Self {
        BASE64.encode(letters.0)
    }
}

impl TryFrom<String> for Letters {
    type Error = base64::DecodeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        BASE64.decode(text).map(Self)
    }
}
