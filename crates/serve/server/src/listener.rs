//! Accepting of connections at a listening socket. Start at [`listen`].

use crate::connection;
use crate::counts::Count;
use crate::settings::StartError;
use crate::shared::Shared;
use blkkin_sys::listen_tcp;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Pause after a failed `accept`, which is mostly due to a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Opens a listening socket at an address.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    let listen = || {
        let listener = listen_tcp(address)?;
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    };
    listen().map_err(|error| StartError::Listen { address, error })
}

/// Accepts connections until `stop` turns true, then waits until all its connections have ended.
/// Dropping the future closes the connections.
pub(crate) async fn listen(
    shared: Arc<Shared>,
    listener: TcpListener,
    mut stop: watch::Receiver<bool>,
) {
    let mut conversations = JoinSet::new();
    while !*stop.borrow_and_update() {
        let accepting = async {
            let socket = shared.connections.socket().await;
            (socket, listener.accept().await)
        };
        tokio::select! {
            _ = stop.changed() => break,
            Some(_) = conversations.join_next() => {}
            (socket, accepted) = accepting => match accepted {
                Ok((stream, peer)) => {
                    shared.counts.add(Count::Accepted);
                    if !shared.settings.trusts(peer.ip()) {
                        shared.counts.add(Count::DeniedNetwork);
                        continue;
                    }
                    let (Ok(slot) | Err(slot)) = shared
                        .connections
                        .admit()
                        .inspect(|slot| {
                            if slot.made_room {
                                shared.counts.add(Count::Evicted);
                            }
                        })
                        .inspect_err(|_| shared.counts.add(Count::NoSlot));
                    let serving = connection::serve(shared.clone(), stream, slot, stop.clone());
                    conversations.spawn(async move {
                        serving.await;
                        drop(socket);
                    });
                }
                Err(_) => {
                    shared.counts.add(Count::AcceptsFailed);
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    while conversations.join_next().await.is_some() {}
}
