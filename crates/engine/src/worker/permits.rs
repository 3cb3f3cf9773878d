//! Limits the jobs of one provider that run at the same time in this process.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits by provider, shared by all workers of the process.
#[derive(Clone, Debug, Default)]
pub struct ProviderPermits(BTreeMap<String, Arc<Semaphore>>);

/// Permission for one more job of a provider. Dropping it gives it back.
#[derive(Debug)]
pub struct ProviderPermit(
    #[expect(dead_code, reason = "held for its permit")] OwnedSemaphorePermit,
);

impl ProviderPermits {
    pub fn new(limits: impl IntoIterator<Item = (String, usize)>) -> Self {
        let limits = limits.into_iter();
        Self(
            limits
                .map(|(provider, most)| (provider, Arc::new(Semaphore::new(most))))
                .collect(),
        )
    }

    /// Acquires as many permits as are free, up to `most`. Returns `None` if the provider has no
    /// limit here.
    pub fn acquire(&self, provider: &str, most: u32) -> Option<Vec<ProviderPermit>> {
        let semaphore = self.0.get(provider)?;
        let mut permits = Vec::new();
        for _ in 0..most {
            match Arc::clone(semaphore).try_acquire_owned() {
                Ok(permit) => permits.push(ProviderPermit(permit)),
                Err(_) => break,
            }
        }
        Some(permits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_taken_and_given_back() {
        let permits = ProviderPermits::new([("claude".to_owned(), 2)]);
        let other = permits.clone();
        let count = |found: Option<Vec<ProviderPermit>>| found.map(|found| found.len());
        let taken = permits.acquire("claude", 1);
        assert_eq!(count(other.acquire("claude", 8)), Some(1));
        assert_eq!(count(other.acquire("codex", 8)), None);
        drop(taken);
        assert_eq!(count(other.acquire("claude", 8)), Some(2));
    }
}
