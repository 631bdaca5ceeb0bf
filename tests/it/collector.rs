//! A collector of traces: takes OTLP over HTTP, and keeps what it was sent.

use bytes::Bytes;
use holdfast_testkit::stand_in::{Options, Payload, Rule};
use holdfast_testkit::{StandIn, eventually};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use crate::fleet::SOON;

/// A collector that takes whatever comes, until it is scripted.
pub(crate) struct Collector(pub(crate) StandIn);

impl Collector {
    /// Starts one.
    pub(crate) async fn start() -> Self {
        let it = Self(StandIn::start(Options::default()).await.expect("a stand-in"));
        it.answers(Rule { body: Some(Payload(Bytes::new())), ..Rule::default() });
        it
    }

    /// Lets it answer every call so.
    pub(crate) fn answers(&self, rule: Rule) {
        self.0.script(vec![rule]).expect("a rule");
    }

    /// The section of the settings that names it.
    pub(crate) fn settings(&self) -> String {
        format!("[traces]\nendpoint = \"{}\"\n", self.0.url())
    }

    /// Every call's body.
    pub(crate) fn bodies(&self) -> Vec<Bytes> {
        self.0.arrivals().into_iter().map(|arrival| arrival.body).collect()
    }

    /// Every span that was taken, with the name of the service it is of.
    pub(crate) fn spans(&self) -> Vec<(String, Span)> {
        let mut spans = Vec::new();
        for arrival in self.0.arrivals() {
            assert_eq!((arrival.method.as_str(), arrival.path.as_str()), ("POST", "/v1/traces"));
            assert_eq!(arrival.headers["content-type"], "application/x-protobuf");
            let export = ExportTraceServiceRequest::decode(arrival.body).expect("an export");
            for of in export.resource_spans {
                let resource = of.resource.expect("a resource");
                let service = text(&resource.attributes, "service.name").expect("a name");
                let taken = of.scope_spans.into_iter().flat_map(|scope| scope.spans);
                spans.extend(taken.map(|span| (service.clone(), span)));
            }
        }
        spans
    }

    /// Waits until so many spans have come.
    pub(crate) async fn wait_for_spans(&self, wanted: usize) -> Vec<(String, Span)> {
        eventually(&format!("{wanted} spans come"), SOON, async || match self.spans() {
            spans if spans.len() >= wanted => Ok(spans),
            spans => Err(format!("{} so far", spans.len())),
        })
        .await
    }
}

/// An attribute that is a text, or a number as one.
pub(crate) fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        any_value::Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}
