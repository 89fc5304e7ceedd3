//! Export over Scribe: each batch is a list of messages, one base64 message for each span, as the
//! first Zipkin clients sent them.

use crate::options::Options;
use crate::record::Record;
use crate::verdict::{Verdict, readable};
use blkkin_scribe::{Batch, Client, ClientError, ClientOptions, Entry, ResultCode, base64};

/// A lazily opened connection to a Scribe server.
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

    /// Sends a batch in a separate thread, because the client blocks. If the future is dropped,
    /// that thread ends by itself.
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
            Err(_) => Verdict::retry("the thread that sends has panicked"),
        }
    }
}

/// Sends a batch over the idle connection `kept`, or over a new connection if no connection is idle
/// or sending fails. Returns the connection for the next batch, and the verdict.
fn send(
    kept: Option<Client>,
    server: &(String, u16),
    options: ClientOptions,
    batch: &mut Batch,
) -> (Option<Client>, Verdict) {
    if let Some(mut client) = kept
        && let Ok(code) = client.log(batch)
    {
        return (Some(client), verdict(code));
    }
    let connected = Client::connect((server.0.as_str(), server.1), options);
    let sent = connected.and_then(|mut client| match client.log(batch) {
        // The server failed; the batch may be the cause.
        Err(ClientError::Exception(message)) => {
            Ok((client, Verdict::LimitedRetry { reason: readable(&message) }))
        }
        logged => logged.map(|code| (client, verdict(code))),
    });
    match sent {
        Ok((client, verdict)) => (Some(client), verdict),
        Err(error) => (None, Verdict::retry(readable(&error.to_string()))),
    }
}

fn verdict(code: ResultCode) -> Verdict {
    match code {
        ResultCode::Ok => Verdict::delivered(),
        ResultCode::TryLater => Verdict::retry("TRY_LATER"),
    }
}
