//! Sends a batch to the destination and interprets its answer.

use crate::destination::Protocol;
use crate::error::Error;
use crate::options::Options;
use crate::record::Record;
use crate::scribe::Scribe;
use crate::verdict::Verdict;
use crate::{grpc, http};
use blkkin_http::{Connection, Peer, Tls};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::http::header::{HOST, HeaderValue, USER_AGENT};
use std::time::SystemTime;

/// Maximum size of a stored answer, in bytes. OpenTelemetry permits larger answers, but no useful
/// answer is as long.
const ANSWER_BYTES_MAX: usize = 256 << 10;

pub(crate) struct Client {
    options: Options,
    connection: Connection,
    scribe: Scribe,
}

impl Client {
    pub(crate) fn new(options: &Options) -> Result<Client, Error> {
        let destination = &options.destination;
        let is_http2 = destination.protocol == Protocol::Grpc;
        let tls = destination.is_tls.then(|| {
            Tls::new(&destination.host, options.ca.as_deref(), is_http2)
                .map_err(Error::Certificates)
        });
        let connection = Connection::new(Peer {
            host: destination.host.clone(),
            port: destination.port,
            tls: tls.transpose()?,
            is_http2,
            connect_timeout: options.connect_timeout,
            answer_timeout: options.answer_timeout,
            answer_bytes_max: ANSWER_BYTES_MAX,
        });
        let scribe = Scribe::new(options);
        Ok(Client { options: options.clone(), connection, scribe })
    }

    /// Sends a batch and interprets the answer. If the future is dropped, it is unknown whether the
    /// destination has accepted the batch.
    pub(crate) async fn send(&mut self, record: &Record) -> Verdict {
        let protocol = self.options.destination.protocol;
        if protocol == Protocol::Scribe {
            return self.scribe.send(record).await;
        }
        let options = &self.options;
        match self.connection.send(|| request(options, record)).await {
            Err(reason) => Verdict::retry(reason),
            Ok(answer) if protocol == Protocol::Grpc => grpc::verdict(&answer),
            Ok(answer) => http::verdict(&answer, record.format, SystemTime::now()),
        }
    }
}

fn request(options: &Options, record: &Record) -> Result<Request<Full<Bytes>>, String> {
    let destination = &options.destination;
    let mut request = match destination.protocol {
        Protocol::Http | Protocol::Scribe => http::request(destination, record),
        Protocol::Grpc => grpc::request(destination, record),
    }
    .map_err(|error| error.to_string())?;
    let headers = request.headers_mut();
    if destination.protocol == Protocol::Http {
        let host = HeaderValue::try_from(destination.authority());
        headers.insert(HOST, host.map_err(|error| error.to_string())?);
    }
    headers.insert(
        USER_AGENT,
        HeaderValue::from_static(concat!("blkkin/", env!("CARGO_PKG_VERSION"))),
    );
    for (name, value) in options.headers.iter() {
        headers.append(name, value.clone());
    }
    Ok(request)
}
