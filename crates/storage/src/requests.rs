//! Requests on threads of their own, waited for by threads that may belong to another runtime.

use std::future::Future;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::error::StorageError;

/// Begins a request. Its result can be received once.
pub(crate) fn begin<T: Send + 'static>(
    request: impl Future<Output = Result<T, StorageError>> + Send + 'static,
) -> Receiver<Result<T, StorageError>> {
    let (sender, receiver) = sync_channel(1);
    match runtime() {
        Ok(runtime) => {
            runtime.spawn(async move {
                // Nobody waits for a chunk that was read ahead in vain.
                let _unwanted = sender.send(request.await);
            });
        }
        Err(reason) => {
            let _held = sender.send(Err(StorageError::Unavailable { reason: reason.clone() }));
        }
    }
    receiver
}

/// Waits for the result of a request.
pub(crate) fn end<T>(receiver: &Receiver<Result<T, StorageError>>) -> Result<T, StorageError> {
    let lost = || StorageError::Unavailable { reason: "the request was given up".into() };
    receiver.recv().unwrap_or_else(|_| Err(lost()))
}

/// Carries out a request.
pub(crate) fn wait<T: Send + 'static>(
    request: impl Future<Output = Result<T, StorageError>> + Send + 'static,
) -> Result<T, StorageError> {
    end(&begin(request))
}

/// Repeats a request whose answer is cut. What fails before it is answered was repeated by the client.
pub(crate) async fn repeated<T, F>(mut request: impl FnMut() -> F) -> Result<T, StorageError>
where
    F: Future<Output = Result<T, StorageError>>,
{
    let mut pause = PAUSE;
    for _ in 1..TRIES {
        match request().await {
            Err(error @ StorageError::Cut { .. }) => {
                tracing::debug!("a request is repeated: {error}");
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            other => return other,
        }
    }
    request().await
}

fn runtime() -> &'static Result<Runtime, String> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let built = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("storage")
            .enable_all()
            .build();
        built.map_err(|error| error.to_string())
    })
}

/// They wait for networks, and decrypt.
const THREADS: usize = 2;

const TRIES: usize = 4;
const PAUSE: Duration = Duration::from_millis(100);
