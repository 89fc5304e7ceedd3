//! Batches by Scribe: a list of messages each, one for each span, in base64, as Zipkin's first senders did.

use crate::options::Options;
use crate::record::Record;
use crate::verdict::{Verdict, readable};
use blkkin_scribe::{Batch, Client, ClientError, ClientOptions, Entry, ResultCode, base64};

/// A connection to a server, if there is one, and how to make one.
pub(crate) struct Scribe {
    host: String,
    port: u16,
    category: String,
    options: ClientOptions,
    client: Option<Client>,
}

impl Scribe {
    pub(crate) fn new(options: &Options) -> Scribe {
        let destination = &options.destination;
        Scribe {
            host: destination.host.clone(),
            port: destination.port,
            category: destination.category().to_owned(),
            options: ClientOptions {
                connect_timeout: options.connect_timeout,
                timeout: options.answer_timeout,
                ..ClientOptions::default()
            },
            client: None,
        }
    }

    /// Sends a batch. The client blocks, so it has a thread meanwhile; if the future is dropped, that ends by itself.
    pub(crate) async fn send(&mut self, record: &Record) -> Verdict {
        let mut batch = Batch::default();
        let mut text = String::new();
        for message in record.messages() {
            text.clear();
            base64::encode(message, &mut text);
            batch.push(Entry { category: self.category.as_bytes(), message: text.as_bytes() });
        }
        let (kept, options) = (self.client.take(), self.options.clone());
        let server = (self.host.clone(), self.port);
        let sent =
            tokio::task::spawn_blocking(move || send(kept, &server, options, &mut batch)).await;
        match sent {
            Ok((client, verdict)) => {
                self.client = client;
                verdict
            }
            Err(_) => Verdict::later("the thread that sends has panicked"),
        }
    }
}

/// By the connection that was kept, or, as it may have been closed meanwhile, by a new one.
fn send(
    kept: Option<Client>,
    server: &(String, u16),
    options: ClientOptions,
    batch: &mut Batch,
) -> (Option<Client>, Verdict) {
    if let Some(mut client) = kept
        && let Ok(code) = client.log(batch)
    {
        return (Some(client), judge(code));
    }
    let connected = Client::connect((server.0.as_str(), server.1), options);
    let sent = connected.and_then(|mut client| match client.log(batch) {
        // The server has failed, which may be the batch's fault.
        Err(ClientError::Exception(message)) => {
            Ok((client, Verdict::Perhaps { reason: readable(&message) }))
        }
        logged => logged.map(|code| (client, judge(code))),
    });
    match sent {
        Ok((client, verdict)) => (Some(client), verdict),
        Err(error) => (None, Verdict::later(readable(&error.to_string()))),
    }
}

fn judge(code: ResultCode) -> Verdict {
    match code {
        ResultCode::Ok => Verdict::delivered(),
        ResultCode::TryLater => Verdict::later("TRY_LATER"),
    }
}
