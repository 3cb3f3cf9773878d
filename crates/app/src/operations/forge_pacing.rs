//! One queue for each host and token, for the whole fleet: writes to a forge go out one at a time
//! and at the pace that its limits permit, whichever server sends them. The schedule is in the
//! store. It also counts the calls of a client, for the budget of the poller.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use engine::log::LogErr;
use flow::Time;
use forge::rate::{WriteSchedule, limit_wait};
use forge::{ForgeTransport, WireFailure, WireRequest, WireResponse};
use store::{ForgeState, Store};

/// Attempts to write the schedule against other servers.
const TRIES: usize = 20;
/// Longest wait for a slot. A caller that would wait longer tries later.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// Counts the calls of a client, and keeps the hourly limit that the forge reports.
#[derive(Debug, Default)]
pub struct CallMeter {
    calls: AtomicU64,
    limit: AtomicU64,
}

impl CallMeter {
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns the number of calls an hour that the forge permits, if it said so.
    pub fn limit(&self) -> Option<u64> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    fn record(&self, response: &WireResponse) {
        let header = response
            .header("x-ratelimit-limit")
            .or_else(|| response.header("ratelimit-limit"));
        if let Some(limit) = header.and_then(|text| text.trim().parse().ok()) {
            self.limit.store(limit, Ordering::Relaxed);
        }
        // An unchanged list does not count against the limit.
        if response.status != 304 {
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A transport that waits for its turn before each write.
#[derive(Debug)]
pub struct PacedTransport {
    pub inner: Arc<dyn ForgeTransport>,
    pub store: Arc<dyn Store>,
    pub clock: fn() -> Time,
    /// Name of the schedule: the host, and a hash of the token.
    pub name: String,
    pub meter: Arc<CallMeter>,
}

impl PacedTransport {
    /// Takes the next slot of the schedule, and returns how long to wait for it.
    async fn take_slot(&self) -> Result<Duration, store::Error> {
        for _ in 0..TRIES {
            let state = self.store.forge_state(&self.name).await?;
            let now = (self.clock)().0;
            let mut schedule: WriteSchedule =
                serde_json::from_value(state.body.clone()).unwrap_or_default();
            let wait = schedule.reserve(now, WAIT_MAX);
            if wait > WAIT_MAX {
                return Ok(wait);
            }
            let body = serde_json::to_value(&schedule)?;
            if self
                .store
                .put_forge_state(ForgeState { body, ..state })
                .await?
            {
                return Ok(wait);
            }
        }
        // Others write all the time: their pace is ours.
        Ok(Duration::from_secs(1))
    }
}

impl PacedTransport {
    /// Stops the writes of the whole fleet for the time that the forge asks for.
    async fn obey_limit(&self, response: &WireResponse) -> Result<(), store::Error> {
        let now = (self.clock)().0;
        let text = String::from_utf8_lossy(&response.body);
        let header = |name: &str| response.header(name);
        let Some(wait) = limit_wait(response.status, header, &text, now / 1000) else {
            return Ok(());
        };
        for _ in 0..TRIES {
            let state = self.store.forge_state(&self.name).await?;
            let mut schedule: WriteSchedule =
                serde_json::from_value(state.body.clone()).unwrap_or_default();
            schedule.pause(now, wait);
            let body = serde_json::to_value(&schedule)?;
            if self
                .store
                .put_forge_state(ForgeState { body, ..state })
                .await?
            {
                break;
            }
        }
        Ok(())
    }
}

/// Answers as the forge would, so that a caller plans the wait as for a limit of the forge itself.
fn limited(wait: Duration) -> WireResponse {
    let seconds = wait.as_secs().max(1).to_string();
    WireResponse {
        status: 429,
        headers: vec![("retry-after".to_owned(), seconds)],
        body: Vec::new(),
    }
}

#[async_trait]
impl ForgeTransport for PacedTransport {
    async fn exchange(&self, request: &WireRequest) -> Result<WireResponse, WireFailure> {
        if request.is_write {
            let wait = self.take_slot().await.map_err(|error| WireFailure {
                why: error.to_string(),
                unsent: true,
            })?;
            if wait > WAIT_MAX {
                return Ok(limited(wait));
            }
            tokio::time::sleep(wait).await;
        }
        let response = self.inner.exchange(request).await?;
        self.meter.record(&response);
        let obeyed = self.obey_limit(&response).await;
        obeyed.log_err("remember the limit of a forge");
        Ok(response)
    }
}
