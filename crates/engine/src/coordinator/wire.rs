//! The worker protocol on the wire. This list of calls is complete: a worker cannot ask for
//! anything else.
//!
//! Every call refuses unknown fields: a worker of another version gets a clear error instead of a
//! call whose meaning was cut.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flow::event::Lease;
use flow::{Actor, EventKind, TicketId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Agent, Artefact, JobId, Pause, StoredBundle};

use super::{JobRequest, TaskReport};

/// Path on the server that receives the calls.
pub const PATH: &str = "/api/v1/worker";
/// Maximum body size: a bundle of the largest size in base64, plus the other fields. Base64 turns
/// three bytes into four.
pub const BODY_MAX: usize = store::BUNDLE_BYTES_MAX / 3 * 4 + (1 << 20);
/// Maximum body size of calls without bundles and files.
pub const WORDS_MAX: usize = 16 << 20;
/// Bytes of a file that the server keeps; the rest is cut.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// Maximum duration of a wait. It stays below the minute after which many proxies close a silent
/// connection.
pub const WAIT_MAX: Duration = Duration::from_secs(50);

/// One call of a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Call {
    // An empty struct and not a unit: all calls then have the same shape in JSON.
    Now {},
    Wait {
        request: JobRequest,
        most: Duration,
    },
    Claim {
        request: JobRequest,
    },
    Renew {
        job: JobId,
        fence: u64,
        extend: Option<Duration>,
    },
    Report(Box<EventReport>),
    Finish(Box<TaskReport>),
    Ticket {
        id: TicketId,
    },
    Attach(Attachment),
    Note(RunNote),
    Upload(Bundle),
    Download {
        key: String,
    },
    IssueToken(Box<RunTokenRequest>),
    RevokeToken {
        token: String,
    },
    PauseProvider {
        pause: Pause,
    },
    Heartbeat {
        agent: Agent,
    },
}

impl Call {
    /// Returns the name used in records.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Now {} => "now",
            Self::Wait { .. } => "wait",
            Self::Claim { .. } => "claim",
            Self::Renew { .. } => "renew",
            Self::Report(_) => "report",
            Self::Finish(_) => "finish",
            Self::Ticket { .. } => "ticket",
            Self::Attach(_) => "attach",
            Self::Note(_) => "note",
            Self::Upload(_) => "upload",
            Self::Download { .. } => "download",
            Self::IssueToken(_) => "issue_token",
            Self::RevokeToken { .. } => "revoke_token",
            Self::PauseProvider { .. } => "pause_provider",
            Self::Heartbeat { .. } => "heartbeat",
        }
    }

    /// Returns whether the request or the response may be large.
    pub fn is_heavy(&self) -> bool {
        matches!(
            self,
            Self::Upload(_) | Self::Download { .. } | Self::Attach(_)
        )
    }

    /// Returns the ticket that the call would change.
    pub fn ticket(&self) -> Option<&TicketId> {
        match self {
            Self::Report(report) => Some(&report.ticket),
            Self::Attach(attachment) => Some(&attachment.ticket),
            Self::Note(note) => Some(&note.ticket),
            Self::IssueToken(request) => Some(&request.ticket),
            Self::Claim { request } => request.ticket(),
            Self::Now {}
            | Self::Wait { .. }
            | Self::Renew { .. }
            | Self::Finish(_)
            | Self::Ticket { .. }
            | Self::Upload(_)
            | Self::Download { .. }
            | Self::RevokeToken { .. }
            | Self::PauseProvider { .. }
            | Self::Heartbeat { .. } => None,
        }
    }
}

/// Reason why a call failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallError {
    /// The caller lacks permission, or `flow` refused.
    Denied {
        why: String,
        #[serde(default)]
        no_judge: bool,
    },
    Store(store::Error),
}

/// An event that a worker reports. The server decides on its consequences.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventReport {
    pub ticket: TicketId,
    pub by: Actor,
    pub what: EventKind,
    pub artefacts: Vec<Artefact>,
}

/// A file of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    pub ticket: TicketId,
    pub lease: Lease,
    /// Path below the data directory.
    pub path: String,
    pub bytes: Base64Bytes,
}

/// A note about a run for the event log. It changes no ticket.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunNote {
    pub ticket: TicketId,
    pub lease: Lease,
    pub name: String,
    pub body: Value,
}

/// A token for one run of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunTokenRequest {
    pub id: String,
    pub hash: String,
    pub by: Actor,
    pub ticket: TicketId,
    pub lease: Lease,
    pub lasts_ms: u64,
}

/// A git bundle that is sent between repositories.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    pub key: String,
    pub tip: String,
    pub why: Option<String>,
    pub bytes: Option<Base64Bytes>,
}

impl From<StoredBundle> for Bundle {
    fn from(bundle: StoredBundle) -> Self {
        Self {
            key: bundle.key,
            tip: bundle.tip,
            why: bundle.why,
            bytes: bundle.bytes.map(Base64Bytes),
        }
    }
}

impl From<Bundle> for StoredBundle {
    fn from(bundle: Bundle) -> Self {
        Self {
            key: bundle.key,
            tip: bundle.tip,
            why: bundle.why,
            bytes: bundle.bytes.map(|bytes| bytes.0),
        }
    }
}

/// Bytes that are encoded as base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Base64Bytes(pub Vec<u8>);

impl From<Base64Bytes> for String {
    fn from(bytes: Base64Bytes) -> Self {
        BASE64.encode(bytes.0)
    }
}

impl TryFrom<String> for Base64Bytes {
    type Error = base64::DecodeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        BASE64.decode(text).map(Self)
    }
}
