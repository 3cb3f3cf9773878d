//! Waits for an unreachable store, as long as workers do, and tells the listener.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Error, ProgressListener};
use crate::process::StopSignal;

/// Maximum time to wait for an unreachable store. A restart of a database or a server takes a
/// minute or two; after five a person should know.
const OUTAGE_MAX: Duration = Duration::from_secs(300);
/// Pause between two attempts.
const BETWEEN_TRIES: Duration = Duration::from_millis(500);

/// Start of the current outage, if the store is unreachable.
#[derive(Debug)]
pub struct Outage {
    since: Option<Instant>,
    most: Duration,
    listener: Option<Arc<dyn ProgressListener>>,
}

impl Outage {
    pub fn new(listener: Option<Arc<dyn ProgressListener>>) -> Self {
        Self {
            since: None,
            most: OUTAGE_MAX,
            listener,
        }
    }

    /// Ends the outage, because the store answered.
    pub fn is_over(&mut self) {
        // Only once per outage: the listener prints a line for a person.
        if self.since.take().is_some() {
            self.notify("the database is back; going on");
        }
    }

    /// Waits briefly if the store is unreachable. Returns any other error at once, and this one
    /// after five minutes or when `stop` is signalled.
    pub async fn wait(&mut self, error: Error, stop: &mut StopSignal) -> Result<(), Error> {
        let Error::Store(store_error) = &error else {
            return Err(error);
        };
        if !store_error.is_transient() {
            return Err(error);
        }
        // The first error of an outage starts the clock; later ones only continue it.
        let since = *self.since.get_or_insert_with(|| {
            let minutes = OUTAGE_MAX.as_secs() / 60;
            let text = format!("{store_error}; waiting up to {minutes} minutes, Ctrl-C stops");
            if let Some(listener) = &self.listener {
                listener.on_notice(&text);
            }
            Instant::now()
        });
        if since.elapsed() >= self.most {
            return Err(error);
        }
        // A shorter limit, as tests use it, still leaves room for ten attempts.
        let pause = BETWEEN_TRIES.min(self.most / 10);
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            () = stop.requested() => Err(error),
        }
    }

    fn notify(&self, text: &str) {
        if let Some(listener) = &self.listener {
            listener.on_notice(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> Error {
        Error::Store(store::Error::Unreachable("gone".to_owned()))
    }

    #[tokio::test]
    async fn an_outage_is_waited_out_for_its_time_and_no_longer() {
        let most = Duration::from_millis(100);
        let mut outage = Outage {
            most,
            ..Outage::new(None)
        };
        let began = Instant::now();
        while outage.wait(away(), &mut StopSignal::never()).await.is_ok() {}
        assert!(began.elapsed() >= most);
        outage.is_over();
        assert!(
            outage.wait(away(), &mut StopSignal::never()).await.is_ok(),
            "a new one"
        );
    }

    #[tokio::test]
    async fn other_errors_and_a_stop_come_back_at_once() {
        let began = Instant::now();
        let mut outage = Outage::new(None);
        let broken = Error::Broken("no".to_owned());
        assert!(outage.wait(broken, &mut StopSignal::never()).await.is_err());
        let gone = Error::Store(store::Error::Gone("no".to_owned()));
        assert!(outage.wait(gone, &mut StopSignal::never()).await.is_err());
        let (stopper, mut stop) = StopSignal::pair();
        stopper.stop();
        assert!(outage.wait(away(), &mut stop).await.is_err());
        assert!(began.elapsed() < BETWEEN_TRIES);
    }
}
