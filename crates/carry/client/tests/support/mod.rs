//! Stand-in for the node agent: listens on a temporary socket, and sends what a test requests.

#![allow(dead_code, unreachable_pub, missing_docs)]

use blkkin_control::{
    Answer, Decoder, Hello, Messages, Opening, Received, Reply, Request, Version, Welcome, encode,
};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// A stand-in for an agent, on a thread that ends when the stand-in is dropped.
pub struct StandIn {
    pub path: PathBuf,
    ends: Arc<AtomicBool>,
    requests: Arc<Mutex<Vec<Request>>>,
    thread: Option<JoinHandle<()>>,
}

impl StandIn {
    /// Starts a stand-in that calls `each` with each accepted connection, one after the other.
    pub fn of(mut each: impl FnMut(Conversation) + Send + 'static) -> StandIn {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("blkkin-stand-in-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).expect("to make a folder");
        let path = folder.join("agent.sock");
        let listener = UnixListener::bind(&path).expect("to listen");
        let (ends, requests) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (end, heard) = (ends.clone(), Arc::clone(&requests));
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if end.load(Ordering::Relaxed) {
                    break;
                }
                let stream = stream.expect("a connection");
                each(Conversation { stream, bytes: Vec::new(), request_log: Arc::clone(&heard) });
            }
        });
        StandIn { path, ends, requests, thread: Some(thread) }
    }

    /// Starts a stand-in that welcomes each client, and replies to each request with the items that
    /// `answer` returns.
    pub fn answering(mut answer: impl FnMut(&Request) -> Vec<Reply> + Send + 'static) -> StandIn {
        StandIn::of(move |mut conversation| {
            let Some((_, mut decoder)) = conversation.welcome() else { return };
            while let Some(request) = conversation.receive_request(&mut decoder) {
                for reply in answer(&request) {
                    conversation.send(&reply);
                }
            }
        })
    }

    /// Returns the requests that clients have sent since the last call.
    pub fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.requests.lock().expect("no panic"))
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // The socket must permit connections; a test may have removed its permissions, which only
        // root does not need.
        let open = std::fs::Permissions::from_mode(0o600);
        let _ = std::fs::set_permissions(&self.path, open);
        // This connection wakes the stand-in's thread, which then ends.
        let woken = UnixStream::connect(&self.path);
        if let Err(error) = woken
            && self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
        {
            assert!(thread::panicking(), "to end the stand-in: {error}");
            return;
        }
        let ended = self.thread.take().map(JoinHandle::join);
        let _ = std::fs::remove_dir_all(self.path.parent().expect("a folder"));
        if let Some(Err(panic)) = ended
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// The stand-in's end of a connection.
pub struct Conversation {
    stream: UnixStream,
    bytes: Vec<u8>,
    request_log: Arc<Mutex<Vec<Request>>>,
}

impl Conversation {
    pub fn send(&mut self, message: &impl Messages) {
        let mut bytes = Vec::new();
        encode(message, &mut bytes).expect("a message within limits");
        self.send_bytes(&bytes);
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        // The client may have closed the connection.
        let _ = self.stream.write_all(bytes);
    }

    /// Waits until the client closes the connection.
    pub fn wait(&mut self) {
        let _ = self.stream.read_to_end(&mut self.bytes);
    }

    pub fn welcome(&mut self) -> Option<(Hello, Decoder<Request>)> {
        self.welcome_as(Version::OURS)
    }

    pub fn welcome_as(&mut self, version: Version) -> Option<(Hello, Decoder<Request>)> {
        let mut decoder: Decoder<Opening> = Decoder::new();
        let Opening::Hello(hello) = self.receive(&mut decoder)?;
        self.send(&Answer::Welcome(Welcome { version, release: "0.9".into() }));
        Some((hello, decoder.followed_by()))
    }

    /// Receives the next request; returns `None` at the end of the connection.
    pub fn receive_request(&mut self, decoder: &mut Decoder<Request>) -> Option<Request> {
        let request = self.receive(decoder)?;
        self.request_log.lock().expect("no panic").push(request.clone());
        Some(request)
    }

    fn receive<M: Messages>(&mut self, decoder: &mut Decoder<M>) -> Option<M> {
        loop {
            if let Some(received) = decoder.take().expect("what makes sense") {
                let Received::Message { message, .. } = received else { panic!("unknown") };
                return Some(message);
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) | Err(_) => return None,
                Ok(size) => decoder.feed(&bytes[..size], []),
            }
        }
    }
}
