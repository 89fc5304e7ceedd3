//! Takes connections. Start at [`listen`].

use crate::connection;
use crate::settings::StartError;
use crate::shared::{Count, Shared};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// After a connection could not be taken, which is mostly for want of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Opens a port.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|error| StartError::Listen { address, error })
}

/// Takes connections until `stop` says that it is enough, and waits for the last of them. Who drops this ends them all.
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
                    let (Ok(place) | Err(place)) = shared
                        .connections
                        .enter()
                        .inspect(|place| {
                            if place.made_room {
                                shared.counts.add(Count::MadeRoom);
                            }
                        })
                        .inspect_err(|_| shared.counts.add(Count::NoPlace));
                    let serving = connection::serve(shared.clone(), stream, place, stop.clone());
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
