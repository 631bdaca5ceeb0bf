//! Actions on their way: each runs to its end and leaves its line, also when whoever asked for it has left.

use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use holdfast_core::operate::ActError;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The actions that run. A listener drops the handler of a caller who left; what is under way here is not in a handler.
#[derive(Debug, Default)]
pub(crate) struct Acts(Mutex<JoinSet<()>>);

impl Acts {
    /// Runs an action in a task of its own, and says what became of it.
    ///
    /// `note` writes its line: once, whatever happens; of an action that is dropped on its way, that it was abandoned.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        note: impl FnOnce(&Result<T, ActError>) + Send + 'static,
        action: impl Future<Output = Result<T, ActError>> + Send + 'static,
    ) -> Result<T, ActError> {
        let (tell, told) = oneshot::channel();
        // Made here, so that there is a line also for a task that is dropped before it ran.
        let line = Line::new(note);
        self.with(|tasks| {
            while tasks.try_join_next().is_some() {}
            tasks.spawn(async move {
                let line = line;
                let done = action.await;
                line.write(&done);
                // Whoever left wants nothing.
                let _ = tell.send(done);
            });
        });
        told.await.unwrap_or(Err(ActError::Abandoned))
    }

    /// Waits for those that run, and drops what has not ended by then.
    pub(crate) async fn finish(&self, limit: Duration) {
        let mut tasks = self.with(std::mem::take);
        // Dropped with the set, they leave their lines.
        let _ = timeout(limit, async { while tasks.join_next().await.is_some() {} }).await;
        tasks.shutdown().await;
    }

    fn with<T>(&self, change: impl FnOnce(&mut JoinSet<()>) -> T) -> T {
        // No change stops half-way.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The line of an action, which is written when it is dropped at the latest.
struct Line<T, N: FnOnce(&Result<T, ActError>)>(Option<N>, PhantomData<fn() -> T>);

impl<T, N: FnOnce(&Result<T, ActError>)> Line<T, N> {
    fn new(note: N) -> Self {
        Self(Some(note), PhantomData)
    }

    fn write(mut self, done: &Result<T, ActError>) {
        if let Some(note) = self.0.take() {
            note(done);
        }
    }
}

impl<T, N: FnOnce(&Result<T, ActError>)> Drop for Line<T, N> {
    fn drop(&mut self) {
        if let Some(note) = self.0.take() {
            note(&Err(ActError::Abandoned));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use holdfast_testkit::eventually;
    use tokio::sync::Notify;

    use super::*;
    use crate::stage::SOON;

    #[tokio::test]
    async fn an_action_goes_on_without_its_caller_and_one_that_is_cut_off_says_so() {
        let acts = Arc::new(Acts::default());
        let (lines, written) = mpsc::channel();
        let (go, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut callers = JoinSet::new();
        for wait in [Arc::clone(&go), ended] {
            let (acts, lines) = (Arc::clone(&acts), lines.clone());
            let note = move |done: &Result<u8, ActError>| {
                let word = done.as_ref().err().map_or("done", ActError::word);
                lines.send(word).unwrap();
            };
            callers.spawn(async move {
                let action = async move {
                    wait.notified().await;
                    Ok(7)
                };
                acts.run(note, action).await
            });
        }
        eventually("both run", SOON, async || match acts.with(|tasks| tasks.len()) {
            2 => Ok(()),
            count => Err(count),
        })
        .await;
        callers.shutdown().await;
        go.notify_one();
        eventually("the first is noted", SOON, async || written.try_recv()).await;
        acts.finish(Duration::ZERO).await;
        assert_eq!(written.try_iter().collect::<Vec<_>>(), ["abandoned"]);
    }
}
